"""What a model reads of a conversation, as its host sends it in each delivery: tools, instructions, messages."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import anyio.lowlevel
from attrs import define, field
from mcp import Client
from mcp.client import IncomingMessage

from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import HANDLE_META
from toolfold_specs.prefixes import CALL_TOOL, IN_PROCESS, LEGACY, MODERN, NATIVE, Prefix


class Host(Protocol):
    """One conversation of a host."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Have a tool called as the model wrote it, and the answer put after the messages."""
        ...

    async def prefix(self) -> Prefix:
        """Return what the model reads next."""
        ...


Open: TypeAlias = Callable[[ToolSet], AbstractAsyncContextManager[Host]]
"""Opens a conversation with a tool set."""


@define(eq=False)
class OverMcp:
    """A host over MCP.

    Attributes:
        client: Its client.
        notices: How many notices of a changed list have come, in a list.
        relists: Whether it lists again when it is notified; otherwise it lists once.
        modern: Whether it carries handles, and lists each time.
    """

    client: Client
    notices: list[str]
    relists: bool
    modern: bool
    handle: str = ""
    tools: list[Any] = field(factory=list[Any])
    messages: list[Any] = field(factory=list[Any])

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Call a tool; what is not listed is called by `call_tool`."""
        await self.prefix()
        known = {tool["name"] for tool in self.tools}
        own = {"handle": self.handle} if self.handle else {}
        if name in known:
            written = (name, {**arguments, **(own if name.endswith("_group") else {})})
        else:
            written = ("call_tool", {"name": name, "arguments": dict(arguments), **own})
        result = await self.client.call_tool(*written)
        await anyio.lowlevel.checkpoint()
        self.handle = str((result.meta or {}).get(HANDLE_META) or self.handle)
        texts = [getattr(block, "text", "") for block in result.content]
        self.messages += [{"call": written}, {"answer": texts}]

    async def prefix(self) -> Prefix:
        """Return the list, as this host has it, and the messages."""
        if self.modern or not self.tools or (self.relists and self.notices):
            self.notices.clear()
            listed = await self.client.list_tools(cache_mode="bypass")
            self.tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
        return Prefix(self.tools, [self.client.instructions or ""], self.messages)


@define(eq=False)
class InProcess:
    """An agent's own loop with a `Conversation`."""

    conversation: Conversation
    native: bool
    messages: list[Any] = field(factory=list[Any])

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Execute a call."""
        written = {"type": "tool_use", "id": f"{len(self.messages)}", "name": name, "input": dict(arguments)}
        if self.native:
            answers: Any = await self.conversation.answers([written])
        else:
            answers = [list(result.content) for result in await self.conversation.execute([(name, arguments)])]
        self.messages += [written, answers]

    async def prefix(self) -> Prefix:
        """Return the declarations or definitions, the prompt and the messages."""
        tools = self.conversation.tools(None if self.native else "anthropic")
        return Prefix(tools, [self.conversation.system_prompt("You are an agent.")], self.messages)


@asynccontextmanager
async def _over_mcp(tools: ToolSet, era: str, *, relists: bool) -> AsyncGenerator[Host]:
    notices: list[str] = []

    async def note(message: IncomingMessage) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            notices.append("changed")

    server = build_server(tools, separator="__", handle_key="a key that is as long as it has to be")
    async with Client(server, mode=era, message_handler=note) as client:
        yield OverMcp(client, notices, relists, modern=era != "legacy")


@asynccontextmanager
async def _in_process(tools: ToolSet, *, native: bool) -> AsyncGenerator[Host]:
    async with Conversation(tools, separator="__", native="anthropic" if native else None) as conversation:
        yield InProcess(conversation, native)


HOSTS: Mapping[str, Open] = {
    LEGACY: lambda tools: _over_mcp(tools, "legacy", relists=True),
    MODERN: lambda tools: _over_mcp(tools, "2026-07-28", relists=False),
    CALL_TOOL: lambda tools: _over_mcp(tools, "legacy", relists=False),
    NATIVE: lambda tools: _in_process(tools, native=True),
    IN_PROCESS: lambda tools: _in_process(tools, native=False),
}
"""How a conversation begins in each delivery of the table."""


def text_of(prefix: Prefix) -> str:
    """Return a conversation as JSON, for whoever reads a failure."""
    return json.dumps([prefix.tools, prefix.instructions, prefix.messages], indent=1)
