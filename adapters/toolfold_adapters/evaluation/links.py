"""Connections to the tools of an arm, which all answer alike (SPEC EVA-1).

Most arms are an MCP server of the library, with a client of the SDK in the same process; `native` is a conversation
whose provider loads tools late, and `code` a session for programs, which see stubs and call through one door.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from attrs import define, field, frozen
from mcp import Client, MCPError

from toolfold import Session, ToolfoldError, identifiers, invoke, prompt_section, stubs
from toolfold.spi import RequestView, listed
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.tokens import approximate_tokens


@frozen
class Answer:
    """What a call answered, as text, and whether it is an error."""

    text: str
    is_error: bool = False


class Link(Protocol):
    """A connection to tools: `Served` over MCP, `InProcess` in a conversation, `Programs` for programs."""

    instructions: str

    async def definitions(self) -> list[dict[str, Any]]:
        """Return the tools that a model is shown now, with `name`, `description` and `inputSchema`."""
        ...

    def tokens(self, shown: Iterable[Mapping[str, Any]]) -> int:
        """Return about how many tokens a model reads of the tools that it is shown."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Return the answer to a call."""
        ...


@define
class Served:
    """An MCP client; where `changes`, it lists again after each call."""

    client: Client
    changes: bool
    instructions: str = field(init=False)
    _listed: list[dict[str, Any]] | None = None

    def __attrs_post_init__(self) -> None:
        self.instructions = self.client.instructions or ""

    async def definitions(self) -> list[dict[str, Any]]:
        """Return the list, which stays the same for a host that lists once."""
        if self._listed is None:
            found = (await self.client.list_tools()).tools
            self._listed = [
                {"name": tool.name, "description": tool.description or "", "inputSchema": tool.input_schema}
                for tool in found
            ]
        return self._listed

    def tokens(self, shown: Iterable[Mapping[str, Any]]) -> int:
        """Return those of the definitions."""
        return sum(map(approximate_tokens, shown))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Return the answer; an error of the protocol is one."""
        if self.changes:
            self._listed = None
        try:
            result = await self.client.call_tool(name, dict(arguments))
        except MCPError as error:
            return Answer(error.message, True)
        return Answer(_text(result.content), bool(result.is_error))


@define
class InProcess:
    """A conversation whose provider loads tools late: what was announced is shown from then on."""

    conversation: Conversation
    instructions: str = field(init=False)
    _announced: set[str] = field(factory=set[str])

    def __attrs_post_init__(self) -> None:
        self.instructions = self.conversation.system_prompt()

    async def definitions(self) -> list[dict[str, Any]]:
        """Return the declarations that are not deferred, and those that were announced."""
        return [
            {"name": one["name"], "description": one.get("description", ""), "inputSchema": one["input_schema"]}
            for one in self.conversation.tools()
            if not one.get("defer_loading") or one["name"] in self._announced
        ]

    def tokens(self, shown: Iterable[Mapping[str, Any]]) -> int:
        """Return those of the definitions."""
        return sum(map(approximate_tokens, shown))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Return the answer as the provider is sent it."""
        block = {"type": "tool_use", "id": "call", "name": name, "input": dict(arguments)}
        (answer,) = await self.conversation.answers([block])
        content: list[dict[str, Any]] = answer["content"]
        self._announced |= {one["tool_name"] for one in content if one["type"] == "tool_reference"}
        return Answer("\n".join(one.get("text", "") for one in content), bool(answer.get("is_error")))


@define
class Programs:
    """A session for programs, in which tools have the names that stubs give them."""

    session: Session
    instructions: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.instructions = prompt_section(self.session)

    @property
    def view(self) -> RequestView:
        """What can be called now."""
        return self.session.view(to_wire=self.to_wire)

    def to_wire(self, name: str) -> str:
        """Return the name of a tool in stubs."""
        return identifiers(self.session.catalog).get(name, name)

    async def definitions(self) -> list[dict[str, Any]]:
        """Return what the stubs declare."""
        return [component.render(self.to_wire) for component in listed(self.view, "tool")]

    def tokens(self, shown: Iterable[Mapping[str, Any]]) -> int:
        """Return those of the stubs."""
        return approximate_tokens(stubs(self.view))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Return what a program gets for a call."""
        try:
            value = await invoke(self.session, name, arguments, view=self.view)
        except ToolfoldError as error:
            return Answer(str(error), True)
        return Answer(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _text(content: Iterable[Any]) -> str:
    return "\n".join(getattr(block, "text", "") for block in content)
