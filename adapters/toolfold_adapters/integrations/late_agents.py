"""What OpenAI's API is sent where the runner of the OpenAI Agents SDK knows another form of it (SPEC INT-3).

The SDK declares deferred functions, namespaces, and a tool search that its caller performs, but its runner refuses the
calls of such a search. So a model of the SDK is wrapped. To the runner a tool search is a call of the tool that opens
groups, or finds tools; to the API the answer to that call is the output of the search.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from copy import copy
from inspect import signature
from typing import Any

from attrs import define, field

from toolfold import ConfigError, ToolResult
from toolfold.spi import extras_named

from ..inprocess import Conversation
from ..inprocess.formats import Definition

with extras_named():
    from agents import Tool, ToolSearchTool, tool_namespace
    from agents.items import ModelResponse, TResponseStreamEvent
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall


@define
class Exchange:
    """The calls and the answers of one conversation, as the API has them, by the ids of the calls."""

    conversation: Conversation
    _declared: list[Definition] = field(factory=list[Definition])
    _offered: frozenset[str] = frozenset()
    _calls: dict[str, Definition] = field(factory=dict[str, Definition])
    _answers: dict[str, list[Definition]] = field(factory=dict[str, list[Definition]])

    def definitions(self) -> list[Definition]:
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

    async def get_response(self, *given: Any, **options: Any) -> ModelResponse:  # noqa: D102
        response = await self._model.get_response(**self._request(given, options))
        response.output = [self._exchange().read(item) for item in response.output]
        return response

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[TResponseStreamEvent]:  # noqa: D102
        async for event in self._model.stream_response(**self._request(given, options)):
            if event.type == "response.output_item.done":
                event.item = self._exchange().read(event.item)
            elif event.type == "response.completed":
                event.response.output = [self._exchange().read(item) for item in event.response.output]
            yield event

    async def close(self) -> None:  # noqa: D102
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:  # noqa: D102
        return self._model.get_retry_advice(request)

    def _request(self, given: Iterable[Any], options: Mapping[str, Any]) -> dict[str, Any]:
        exchange, names = self._exchange(), [*signature(Model.get_response).parameters][1:]
        request = {**dict(zip(names, given, strict=False)), **options}
        if not isinstance(request["input"], str):
            request["input"] = [one for item in request["input"] for one in exchange.sent(item)]
        return {**request, "tools": exchange.declared(request["tools"])}
