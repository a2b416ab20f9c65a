"""Connections to the tools of an arm, which all answer alike (SPEC EVA-1).

Most arms are an MCP server of the library, with a client of the SDK in the same process; `native` is a conversation
whose provider loads tools late, and `code` a session for programs, which see stubs and call by `invoke`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from attrs import define, field
from mcp import Client, MCPError

from toolfold import Session, ToolfoldError, events, identifiers, invoke, prompt_section, stubs
from toolfold.spi import RequestView, frozen, listed
from toolfold_adapters.inprocess import Conversation, Native
from toolfold_adapters.tokens import approximate_tokens

FIND = "find_tools"


@frozen
class ToolAnswer:
    """What a call answered, as text, and whether it is an error."""

    text: str
    is_error: bool = False


class ArmLink(Protocol):
    """A connection to tools: `Served` over MCP, `InProcess` in a conversation, `Programs` for programs."""

    instructions: str

    async def definitions(self) -> list[dict[str, Any]]:
        """Return the tools that a model reads now, with `name`, `description` and `inputSchema`."""
        ...

    def tokens(self, shown: Iterable[Mapping[str, Any]]) -> int:
        """Return about how many tokens a model reads of these tools."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
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

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Return the answer; an error of the protocol is one."""
        if self.changes:
            self._listed = None
        try:
            result = await self.client.call_tool(name, dict(arguments))
        except MCPError as error:
            return ToolAnswer(error.message, True)
        return ToolAnswer(_text(result.content), bool(result.is_error))


@define
class InProcess:
    """A conversation whose provider loads tools late: what was announced is read from then on."""

    conversation: Conversation
    provider: Native
    instructions: str = field(init=False)
    _announced: set[str] = field(factory=set[str])
    _listed: list[dict[str, Any]] | None = None
    _namespaces: int = 0

    def __attrs_post_init__(self) -> None:
        self.instructions = self.conversation.system_prompt()

    async def definitions(self) -> list[dict[str, Any]]:
        """Return the declarations that are not deferred, and those that were announced."""
        if self._listed is None:
            declared = self.conversation.tools()
            self._listed = [
                {
                    "name": one.get("name", FIND),  # OpenAI's tool search has no name
                    "description": one.get("description", ""),
                    "inputSchema": one.get("input_schema", one.get("parameters")),
                }
                for one in _functions(declared)
                if not one.get("defer_loading") or one["name"] in self._announced
            ]
            namespaces = (one for one in declared if one.get("type") == "namespace")
            self._namespaces = sum(approximate_tokens(f"{one['name']}: {one['description']}") for one in namespaces)
        return self._listed

    def tokens(self, shown: Iterable[Mapping[str, Any]]) -> int:
        """Return those of the definitions, and of the names and descriptions of namespaces."""
        return sum(map(approximate_tokens, shown)) + self._namespaces

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Return the answer as the provider is sent it; OpenAI's has no mark of an error, so that is traced."""
        succeeded = False

        def notice(event: object) -> None:
            nonlocal succeeded
            succeeded |= isinstance(event, events.Answered) and not event.is_error

        end = self.conversation.session.tools.trace(notice)
        items = await self.conversation.answers([_written(self.provider, name, arguments)])
        end()
        self._listed = None
        self._announced |= {name for item in items for name in _announced(item)}
        return ToolAnswer("\n".join(filter(None, map(_answered, items))), not succeeded)


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

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Return what a program gets for a call."""
        try:
            value = await invoke(self.session, name, arguments, view=self.view)
        except ToolfoldError as error:
            return ToolAnswer(str(error), True)
        return ToolAnswer(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _text(content: Iterable[Any]) -> str:
    return "\n".join(getattr(block, "text", "") for block in content)


# -- the forms of providers: what a model writes, is declared and is answered -----------------------------------------


def _written(provider: Native, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if provider == "anthropic":
        return {"type": "tool_use", "id": "call", "name": name, "input": dict(arguments)}
    if name == FIND:
        return {"type": "tool_search_call", "call_id": "call", "arguments": dict(arguments), "execution": "client"}
    return {"type": "function_call", "call_id": "call", "name": name, "arguments": json.dumps(arguments)}


def _functions(declared: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for one in declared:
        yield from one["tools"] if one.get("type") == "namespace" else (one,)


def _announced(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tools that an answer announces: those that Anthropic's refers to, and those that OpenAI's declares."""
    yield from (part["tool_name"] for part in item.get("content", ()) if "tool_name" in part)
    yield from (one["name"] for one in _functions(item.get("tools", ())))


def _answered(item: Mapping[str, Any]) -> str:
    """Return what a model reads of an answer beside definitions; OpenAI's tool search answers with these alone."""
    given = item.get("output", item.get("content", ()))
    if isinstance(given, str):
        return given
    found = [f"- {name}" for name in _announced(item)] if item["type"] == "tool_search_output" else []
    return "\n".join([*(part["text"] for part in given if "text" in part), *found])
