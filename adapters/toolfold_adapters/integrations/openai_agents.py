"""`ToolfoldToolset`: the tools of a tool set in an agent of the OpenAI Agents SDK (SPEC INT-2).

That SDK asks `mcp_servers` for their tools before each step, so this is one of them, in process and without a protocol.
The state after each call is in the `custom_data` of its output item, from where a later conversation restores it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextvars import ContextVar
from copy import copy
from inspect import signature
from typing import Any, Literal, Self, TypedDict, Unpack

from attrs import define, field

from toolfold import ConfigError, Profile, Session, ToolResult, ToolSet
from toolfold.spi import extras_named

from ..inprocess import Conversation
from ..inprocess.formats import STATE, ProviderDefinition
from .frameworks import ConversationSource, failure, metadata, require

with extras_named():
    import agents

    require("openai-agents", agents.__version__, "0.24", "openai-agents")
    from agents import (
        AgentBase,
        RunContextWrapper,
        Tool,
        ToolInputGuardrail,
        ToolOutputGuardrail,
        ToolSearchTool,
        UserError,
        tool_namespace,
    )
    from agents.items import ModelResponse, TResponseStreamEvent
    from agents.mcp import MCPServer, MCPToolCustomDataContext, MCPToolMetaContext
    from agents.mcp.server import RequireApprovalSetting
    from agents.models.interface import Model
    from agents.tool import ToolErrorFunction
    from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult
    from mcp.types import Tool as MCPTool
    from openai.types.responses import ResponseFunctionToolCall

__all__ = ["ServerOptions", "ToolfoldToolset"]

_caller: ContextVar[RunContextWrapper[Any] | None] = ContextVar("toolfold_agents_run", default=None)
"""The run context of a call: the SDK passes it to the function for a call's metadata, and not to the call."""


class ServerOptions(TypedDict, total=False):
    """The options of every `MCPServer` of the SDK that concern calls: see there."""

    use_structured_content: bool
    require_approval: RequireApprovalSetting
    failure_error_function: ToolErrorFunction | None
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None


class ToolfoldToolset(MCPServer):
    """A tool set as a server of the OpenAI Agents SDK, for one conversation.

    Use it like the SDK's own servers: `async with ToolfoldToolset(tools) as toolset`, and
    `Agent(..., mcp_servers=[toolset])`. Its groups stay open from run to run, as long as it is connected; for another
    conversation, connect another one. A conversation that goes on in another process is given its history: the
    `new_items` of its runs, which have its exact state, or the items of the SDK's session, whose calls are replayed.

    A handler finds the `RunContextWrapper` of the run in `context.request`. A call that fails is answered with the
    reason, as by the SDK's own servers. A model may call a tool whose group has closed since. The SDK ends the run
    then, unless it has `RunConfig(tool_not_found_behavior="return_error_to_model")`.

    SPEC INT-2.

    Args:
        tools: The tool set, or an open session, such as one in a store, or a fork for a sub-agent:
            `async with context.session.fork() as session, ToolfoldToolset(session) as toolset`.
        history: Items of earlier runs of the conversation.
        profile: The profile of the session.
        active: The groups that the conversation starts with, or one.
        native: `"openai"` for models of OpenAI's Responses API: all tools are declared once, those of groups deferred
            in namespaces, and answers announce what opens, so a provider's cache outlives every step (SPEC INT-3).
            Give the agent its model as `toolset.model(OpenAIResponsesModel(...))`.
        options: Those of every server of the SDK, such as `require_approval`.

    Raises:
        ConfigError: There is no such profile, or a name has no wire name (SPEC NAM-6).
        ToolfoldError: A group can't be active at the start.
    """

    def __init__(
        self,
        tools: ToolSet | Session,
        *,
        history: Iterable[Any] = (),
        profile: str | Profile | None = None,
        active: str | Iterable[str] = (),
        native: Literal["openai"] | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(custom_data_extractor=_state, tool_meta_resolver=_remember_caller, **options)
        self._source = ConversationSource.of(tools, profile, active, native)
        self._history = list(history)
        self._exchange: Exchange | None = None

    @property
    def name(self) -> str:
        """The name of the tool set."""
        return self._source.name

    @property
    def conversation(self) -> Conversation:
        """The conversation; raises `UserError` while the toolset is not connected."""
        return self._connected().conversation

    def _connected(self) -> Exchange:
        if self._exchange is None:
            raise UserError(f"The toolset {self.name!r} is not connected: use it with `async with`.")
        return self._exchange

    async def connect(self) -> None:
        """Begin the conversation, unless it has begun. Raises as `Conversation.start` does."""
        if self._exchange is None:
            conversation = self._source.conversation(self._history)
            if self._source.native is not None and self._history:  # what is open by now is declared in full
                state = {key: value for key, value in conversation.dump().items() if key != "native"}
                conversation = self._source.restored(state)
            self._exchange = Exchange(await conversation.start())

    async def cleanup(self) -> None:
        """End the conversation. Raises as `Session.close` does."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.conversation.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()

    def model(self, model: Model) -> Model:
        """Return a model that declares all tools once, for agents with this toolset; raises `ConfigError`."""
        if self._source.native is None:
            raise ConfigError('A model declares all tools once with ToolfoldToolset(tools, native="openai") only.')
        return LateModel(model, self._connected)

    async def list_tools(
        self, run_context: RunContextWrapper[Any] | None = None, agent: AgentBase[Any] | None = None
    ) -> list[MCPTool]:
        """Return the tools that can be called; raises `ConfigError` if the agent has a tool of the same name."""
        conversation = self.conversation
        self._source.check_names((tool.name for tool in agent.tools) if agent else (), conversation)
        given = conversation.tools() if self._source.native is None else self._connected().definitions()
        return [MCPTool.model_validate(definition) for definition in given]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> CallToolResult:
        """Return the result of a call, with the state after it in its metadata."""
        result = await self.conversation.call(tool_name, arguments or {}, request=_caller.get())
        self._connected().answered(getattr(_caller.get(), "tool_call_id", ""), result)
        made = _answer(tool_name, result)
        return CallToolResult.model_validate({**made, "_meta": metadata(self.conversation, result)})

    async def list_prompts(self) -> ListPromptsResult:
        """Return the prompts that are available now."""
        prompts = self.conversation.session.list("prompt").items
        return ListPromptsResult.model_validate({"prompts": [dict(prompt.definition) for prompt in prompts]})

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        """Return the messages of a prompt; raises as `Session.get_prompt` does."""
        return GetPromptResult.model_validate(await self.conversation.session.get_prompt(name, arguments))


def _answer(name: str, result: ToolResult) -> dict[str, Any]:
    """Return a result in the form of the MCP specification, in which structured content is an object."""
    if (problem := failure(name, result)) is not None:
        return {"content": [{"type": "text", "text": problem}], "isError": True}
    structured = result.structured
    if structured is not None and not isinstance(structured, dict):
        structured = {"result": structured}
    return {"content": [dict(block) for block in result.content], "structuredContent": structured}


def _remember_caller(context: MCPToolMetaContext) -> None:
    _caller.set(context.run_context)


def _state(context: MCPToolCustomDataContext) -> dict[str, Any]:
    """Return what is stored with the output item of a call: the state after it."""
    return {STATE: (context.result_meta or {}).get(STATE)}


# -- late tools --------------------------------------------------------------------------------------------------------

# The SDK declares deferred functions, namespaces, and a tool search that its caller performs, but its runner refuses
# the calls of such a search. So a model of the SDK is wrapped. To the runner a tool search is a call of the tool that
# opens groups, or finds tools; to the API the answer to that call is the output of the search (SPEC INT-3).


@define
class Exchange:
    """The calls and the answers of one conversation, as the API has them, by the ids of the calls."""

    conversation: Conversation
    _declared: list[ProviderDefinition] = field(factory=list[ProviderDefinition])
    _offered: frozenset[str] = frozenset()
    _calls: dict[str, ProviderDefinition] = field(factory=dict[str, ProviderDefinition])
    _answers: dict[str, list[ProviderDefinition]] = field(factory=dict[str, list[ProviderDefinition]])

    def definitions(self) -> list[ProviderDefinition]:
        """Return the tools that the runner has to know: those that are declared, and those that are open."""
        self._declared = self.conversation.tools()
        functions = [one for tool in self._declared for one in tool.get("tools", [tool]) if "name" in one]
        named = {one["name"]: one for one in [*self.conversation.tools("openai_responses"), *functions]}
        self._offered = frozenset(named)
        unregistered = {name: {**one, "inputSchema": one["parameters"]} for name, one in named.items()}
        return [self.conversation.definition(name) or one for name, one in unregistered.items()]

    def declared(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return what a model declares for what the runner knows; raises `ConfigError` if that lacks tools."""
        own: dict[str, Any] = {tool.name: tool for tool in tools if tool.name in self._offered}
        if not own or self._offered - own.keys():
            raise ConfigError("The agent of this model needs the toolset among its mcp_servers, under unchanged names.")
        given = [tool for tool in tools if tool.name not in own]
        for one in self._declared:
            if one["type"] == "tool_search":
                given.append(ToolSearchTool(one["description"], "client", one["parameters"]))
            elif one["type"] == "namespace":
                deferred = [copy(own[function["name"]]) for function in one["tools"]]
                for tool in deferred:
                    tool.defer_loading = True
                given += tool_namespace(name=one["name"], description=one["description"], tools=deferred)
            else:
                given.append(own[one["name"]])
        return given

    def sent(self, item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the input for an item: a call as it was written, and an answer with what it announces."""
        answers = self._answers.get(str(item.get("call_id")), [])
        if answers and item["type"] == "function_call":
            return [self._calls[item["call_id"]]]
        return [*(answers[:1] if answers and answers[0]["type"] == "tool_search_output" else [item]), *answers[1:]]

    def read(self, item: Any) -> Any:
        """Return what the runner is given of something that the model wrote."""
        written = item.model_dump(exclude_unset=True)
        name, arguments = next(iter(self.conversation.calls([written])), ("", ""))
        if name not in self._offered:
            return item
        self._calls[item.call_id] = written
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return ResponseFunctionToolCall(
            type="function_call", id=item.id, call_id=item.call_id, name=name, arguments=text, status=item.status
        )

    def answered(self, call_id: str, result: ToolResult) -> None:
        """Note the answer to a call, if `read` has given it to the runner."""
        if call_id in self._calls:
            self._answers[call_id] = self.conversation.answer(self._calls[call_id], result)


@define
class LateModel(Model):
    """A model whose API is given all tools of a conversation once; its other methods are those of the model."""

    _model: Model
    _exchange: Callable[[], Exchange]

    async def get_response(self, *given: Any, **options: Any) -> ModelResponse:
        response = await self._model.get_response(**self._request(given, options))
        response.output = [self._exchange().read(item) for item in response.output]
        return response

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[TResponseStreamEvent]:
        async for event in self._model.stream_response(**self._request(given, options)):
            if event.type == "response.output_item.done":
                event.item = self._exchange().read(event.item)
            elif event.type == "response.completed":
                event.response.output = [self._exchange().read(item) for item in event.response.output]
            yield event

    async def close(self) -> None:
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        return self._model.get_retry_advice(request)

    def _request(self, given: Iterable[Any], options: Mapping[str, Any]) -> dict[str, Any]:
        exchange, names = self._exchange(), [*signature(Model.get_response).parameters][1:]
        request = {**dict(zip(names, given, strict=False)), **options}
        if not isinstance(request["input"], str):
            request["input"] = [one for item in request["input"] for one in exchange.sent(item)]
        return {**request, "tools": exchange.declared(request["tools"])}
