"""`ToolfoldToolset`: the tools of a tool set in an agent of pydantic-ai (SPEC INT-2).

Each run has a conversation of its own. Before each step the agent lists the tools that are open by then, and the state
after each call is in the metadata of its return part, so a run that continues a message history has its groups.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from copy import copy
from typing import Any, Self

from toolfold import Profile, Session, ToolResult, ToolSet
from toolfold.spi import extras_named, table

from ..inprocess import Conversation
from ..inprocess.formats import ProviderDefinition
from .frameworks import ConversationSource, Media, failure, metadata, parts, require

with extras_named():
    import pydantic_ai

    require("pydantic-ai", pydantic_ai.__version__, "2.68", "pydantic-ai")
    from pydantic_ai import AbstractToolset, BinaryContent, ModelRetry, RunContext, ToolDefinition, ToolFailed
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import InstructionPart, ToolAvailabilityDeltaPart, ToolReturn
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

__all__ = ["ToolfoldToolset"]

# the core checks arguments against the schema of the tool, and says what is wrong with them
_AN_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


class ToolfoldToolset(AbstractToolset[AgentDepsT]):
    """A tool set as a toolset of pydantic-ai: `Agent(model, toolsets=[ToolfoldToolset(tools)])`.

    Each run has a session of its own. The groups that are open at its end are open in the next run that is given its
    messages as `message_history`; take these from a store of the application, not from its clients. A handler finds the
    `RunContext` of the agent, and so its dependencies, in `context.request`.

    Wrong arguments are a `ModelRetry`, and any other failure of a tool is a `ToolFailed`. The metadata of a definition
    has the `annotations` and the `meta` of the tool, as with pydantic-ai's own MCP toolset, for what wraps a toolset:
    `approval_required`, `filtered`, `prefixed` and so on work as with any other.

    SPEC INT-2.

    Args:
        tools: The tool set, or an open session for a run to use, such as one in a store, or a fork for a sub-agent:
            `async with context.session.fork() as session: await agent.run(task, toolsets=[ToolfoldToolset(session)])`.
        profile: The profile of the sessions.
        active: The groups that a conversation starts with, or one.
        id: The id of the toolset among those of the agent.
        include_instructions: Whether the agent's instructions end with the list of groups (SPEC GRP-5).
        native: Whether what a model was given stays declared when its group closes; calls of it are refused as ever.
            pydantic-ai announces what opens in mid-conversation to providers that can do so, and takes announcements
            of what is no longer declared out of the messages, which a provider's cache does not outlive (SPEC INT-3).

    Raises:
        ConfigError: There is no such profile, or a name has no wire name (SPEC NAM-6).
        ToolfoldError: A group can't be active at the start.
    """

    def __init__(
        self,
        tools: ToolSet | Session,
        *,
        profile: str | Profile | None = None,
        active: str | Iterable[str] = (),
        id: str | None = None,
        include_instructions: bool = False,
        native: bool = False,
    ) -> None:
        self._source = ConversationSource.of(tools, profile, active)
        self._id = id
        self._native = native
        self._given: dict[str, ProviderDefinition] = {}
        self._include_instructions = include_instructions
        self._of_run: Conversation | None = None

    @property
    def id(self) -> str | None:
        """The id that was given."""
        return self._id

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{type(self).__name__} {self._id or self._source.name!r}"

    @property
    def tool_name_conflict_hint(self) -> str:
        """What to do about a tool whose name another toolset has, too."""
        return "Register one of them under another name, or wrap the toolset: ToolfoldToolset(tools).prefixed('name')."

    @property
    def conversation(self) -> Conversation:
        """The conversation of the run that this toolset is of; raises `UserError` outside of a run."""
        if self._of_run is None:
            raise UserError("A ToolfoldToolset has a conversation within a run of an agent only.")
        return self._of_run

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Self:
        """Return the toolset of one run, with the groups that its message history has opened.

        SPEC GRP-6.
        """
        run = copy(self)
        run._of_run = conversation = self._source.conversation(ctx.messages)
        parts = (part for message in ctx.messages for part in message.parts)
        announced = (name for part in parts if isinstance(part, ToolAvailabilityDeltaPart) for name in part.tools_added)
        found = {name: conversation.definition(name) for name in announced}
        run._given = {name: definition for name, definition in found.items() if definition is not None}
        return run

    async def __aenter__(self) -> Self:
        if self._of_run is not None:
            await self._of_run.start()
        return self

    async def __aexit__(self, *args: Any) -> None:
        if self._of_run is not None:
            await self._of_run.close()

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> InstructionPart | None:
        """Return the list of groups, which stays the same for the whole run, if that was asked for."""
        section = self.conversation.system_prompt() if self._include_instructions else ""
        return InstructionPart(content=section) if section else None

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools that are open now, by the names that the model knows."""
        conversation = self.conversation
        tools: dict[str, ToolsetTool[AgentDepsT]] = {}
        listed = {definition["name"]: definition for definition in conversation.tools()}
        self._given = {**self._given, **listed} if self._native else listed
        for given in self._given.values():
            component = conversation.component(given["name"])
            definition = ToolDefinition(
                name=given["name"],
                description=given.get("description"),
                parameters_json_schema=given["inputSchema"],
                return_schema=given.get("outputSchema"),
                sequential=component is not None and component.control is not None,
                metadata={"annotations": given.get("annotations"), "meta": given.get("_meta")},
            )
            tools[definition.name] = ToolsetTool(
                toolset=self, tool_def=definition, max_retries=ctx.max_retries, args_validator=_AN_OBJECT
            )
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> ToolReturn:
        """Return the result of a call with the state after it; raises `ModelRetry` and `ToolFailed`."""
        result = await self.conversation.call(name, tool_args, request=ctx)
        if (problem := failure(name, result)) is not None:
            raise ModelRetry(problem) if result.about is not None else ToolFailed(problem)
        try:
            value = _value(result)
        except ValueError as error:
            raise ToolFailed(f"{name} failed: its answer has data that is not base64.") from error
        return ToolReturn(value, metadata=metadata(self.conversation, result))


def _value(result: ToolResult) -> Any:
    """Return structured content if all else is text, which then says the same, and otherwise the parts of the content.

    `{"result": …}`, which wraps what is no object, is unwrapped, as in pydantic-ai's own MCP toolset. Raises
    `ValueError` if a part is not base64.
    """
    made = [_content(part) for part in parts(result)]
    if result.structured is not None and result.about is None and all(isinstance(part, str) for part in made):
        found = table(result.structured)
        return found["result"] if found is not None and found.keys() == {"result"} else result.structured
    return made[0] if len(made) == 1 else made or None


def _content(part: str | Media) -> str | BinaryContent:
    if isinstance(part, str):
        return part
    return BinaryContent.narrow_type(BinaryContent(data=base64.b64decode(part.data), media_type=part.mime_type))
