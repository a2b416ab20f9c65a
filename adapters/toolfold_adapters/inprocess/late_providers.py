"""Late tools in the terms of each provider (SPEC INT-3).

Anthropic's Messages API has `defer_loading`, and `tool_reference` blocks in tool results. OpenAI's Responses API has a
`tool_search` that the caller performs, and namespaces. By a beta of Anthropic's, and in Kimi's Chat Completions API,
system messages in the middle of a conversation change what tools there are; they follow the answers to calls.

There a group that the model may open is a namespace of deferred functions: the model sees its name and its
description. The tool that opens groups, or rather the one that finds tools if there is one, is the tool search, whose
output has the definitions of tools that can be called now. Tools that became available in another way are announced by
an `additional_tools` item.

A function in a namespace has its full name nevertheless, so the name in a call is enough to find the tool.

`declarations` is given the tools that are declared in full, those that are deferred, and the names of those that are
unknown by now. `answers` is given calls with the tools that the answer to each announces; in messages after the
answers, `added` are announced, and `removed`, wire names, withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from toolfold import Catalog, Component, ToolResult
from toolfold.spi import frozen, table

from .formats import Answered, ProviderDefinition, ToolCall, definition, read_arguments, text_of, text_of_block


@frozen
class AnthropicTools:
    """Declares and announces tools.

    Attributes:
        to_wire: Maps the names of tools to those that the model knows.
        in_messages: Whether messages of the system announce and withdraw them; else answers refer to them.
    """

    to_wire: Callable[[str], str]
    in_messages: bool = False

    @property
    def withdraws(self) -> bool:
        """Whether tools can be withdrawn."""
        return self.in_messages

    def declarations(
        self, first: Sequence[Component], later: Sequence[Component], gone: Sequence[str]
    ) -> list[ProviderDefinition]:
        """Return the declarations of tools; the API refuses messages that refer to one that is not declared."""
        unknown = [{"name": name, "input_schema": {"type": "object"}} for name in gone]
        deferred = [*map(self._definition, later), *unknown]
        return [*map(self._definition, first), *({**one, "defer_loading": True} for one in deferred)]

    def answers(
        self, calls: Iterable[Answered], added: Sequence[Component], removed: Sequence[str]
    ) -> list[ProviderDefinition]:
        """Return the content of the user message that answers calls: a `tool_result` block for each.

        With messages of the system, return that of the user and that of the system, in this order: the API takes the
        latter after one of the user, and before one of the model or at the end.
        """
        results = [self._tool_result(*call) for call in calls]
        if not self.in_messages:
            return results
        names = [("tool_removal", name) for name in removed]
        names += [("tool_addition", self.to_wire(component.name)) for component in added]
        changes = [{"type": kind, "tool": {"type": "tool_reference", "name": name}} for kind, name in names]
        messages = [("user", results), ("system", changes)]
        return [{"role": role, "content": content} for role, content in messages if content]

    def _tool_result(self, call: ToolCall, result: ToolResult, news: Sequence[Component]) -> ProviderDefinition:
        block = {"type": "tool_result", "tool_use_id": call[0]}
        if result.is_error:  # with which the API takes only texts
            return {**block, "is_error": True, "content": [{"type": "text", "text": text_of(result) or "It failed."}]}
        given = [_block(one) for one in result.content]
        names = [self.to_wire(component.name) for component in news if not self.in_messages]
        return {**block, "content": [*given, *({"type": "tool_reference", "tool_name": name} for name in names)]}

    def _definition(self, component: Component) -> ProviderDefinition:
        return definition(component, "anthropic", self.to_wire)


@frozen
class KimiTools:
    """Declares tools in the shape of Chat Completions, those that are announced in system messages alone."""

    to_wire: Callable[[str], str]
    in_messages: bool = True
    withdraws: bool = False

    def declarations(
        self, first: Sequence[Component], later: Sequence[Component], gone: Sequence[str]
    ) -> list[ProviderDefinition]:
        """Return the declarations of what is listed from the start."""
        return self._functions(first)

    def answers(
        self, calls: Iterable[Answered], added: Sequence[Component], removed: Sequence[str]
    ) -> list[ProviderDefinition]:
        """Return messages: one of a tool for each call, and one of the system with the definitions of what is new.

        The latter has no content, not even an empty one, or the API refuses it.
        """
        answers = [{"role": "tool", "tool_call_id": call[0], "content": text_of(result)} for call, result, _ in calls]
        return [*answers, *([{"role": "system", "tools": self._functions(added)}] if added else [])]

    def _functions(self, components: Iterable[Component]) -> list[ProviderDefinition]:
        return [definition(component, "openai", self.to_wire) for component in components]


def _block(block: Mapping[str, Any]) -> ProviderDefinition:
    match block:
        case {"type": "image", "data": data, "mimeType": kind}:
            return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
        case _:
            return {"type": "text", "text": text_of_block(block)}


def search_tool(catalog: Catalog) -> Component | None:
    """Return the tool that is the tool search: the one that finds tools, or else the one that opens groups."""
    by_role = {component.control[0]: component for component in catalog.tools.values() if component.control}
    return by_role.get("find") or by_role.get("load")


@frozen
class OpenAITools:
    """Declares and announces tools.

    Attributes:
        to_wire: Maps the names of tools to those that the model knows.
        search: The tool that is the tool search.
        groups: The descriptions of the groups that the model may know of, by path.
    """

    to_wire: Callable[[str], str]
    search: Component
    groups: Mapping[str, str]
    in_messages: bool = False
    withdraws: bool = False

    def declarations(
        self, first: Sequence[Component], later: Sequence[Component], gone: Sequence[str]
    ) -> list[ProviderDefinition]:
        """Return the declarations of tools; those of no namespace are not declared before they are announced."""
        given = [self._function(component) for component in first if component.name != self.search.name]
        search = next((component for component in first if component.name == self.search.name), self.search)
        deferred = self._grouped((one for one in later if one.group in self.groups), deferred=True)
        return [*given, *deferred, _declaration(search)]

    def searched(self, arguments: Any) -> tuple[str, Any]:
        """Return the wire name and the arguments of a tool search, which opens the groups of what it finds."""
        given = read_arguments(arguments)
        if given is not None and self._finds:
            given = {**given, "open": True}
        return self.to_wire(self.search.name), arguments if given is None else given

    def answers(
        self, calls: Iterable[Answered], added: Sequence[Component], removed: Sequence[str]
    ) -> list[ProviderDefinition]:
        """Return the input items that answer calls, and an item with the tools that no tool search announces."""
        answers: list[ProviderDefinition] = []
        remarks: list[ProviderDefinition] = []
        additional: dict[str, Component] = {}
        for (identity, name, _), result, new in calls:
            if name:
                answers.append(_output(identity, result))
                additional |= {component.name: component for component in new}
                continue
            answers.append(self._search_output(identity, new))
            if not new or _displaces(result):  # the output itself has no place for a text
                remarks.append({"type": "message", "role": "developer", "content": text_of(result)})
        tools = self._grouped(additional.values(), deferred=False)
        more: list[ProviderDefinition] = (
            [{"type": "additional_tools", "role": "developer", "tools": tools}] if tools else []
        )
        return [*answers, *more, *remarks]

    @property
    def _finds(self) -> bool:
        return self.search.control is not None and self.search.control[0] == "find"

    def _search_output(self, identity: str, new: Sequence[Component]) -> ProviderDefinition:
        return {
            "type": "tool_search_output",
            "call_id": identity,
            "execution": "client",
            "status": "completed",
            "tools": self._grouped(new, deferred=True),
        }

    def _grouped(self, components: Iterable[Component], *, deferred: bool) -> list[ProviderDefinition]:
        """Return the functions of tools, those of a known group in its namespace."""
        namespaces: dict[str, ProviderDefinition] = {}
        ungrouped: list[ProviderDefinition] = []
        for component in components:
            function = {**self._function(component), **({"defer_loading": True} if deferred else {})}
            if (path := component.group) is None or path not in self.groups:
                ungrouped.append(function)
                continue
            name, about = self.to_wire(path), self.groups[path]
            empty: ProviderDefinition = {"type": "namespace", "name": name, "description": about, "tools": []}
            namespaces.setdefault(name, empty)["tools"].append(function)
        return [*namespaces.values(), *ungrouped]

    def _function(self, component: Component) -> ProviderDefinition:
        return definition(component, "openai_responses", self.to_wire)


def _declaration(search: Component) -> ProviderDefinition:
    schema = dict(search.input_schema)
    schema["properties"] = {name: one for name, one in schema["properties"].items() if name != "open"}
    return {"type": "tool_search", "execution": "client", "description": search.description, "parameters": schema}


def _displaces(result: ToolResult) -> bool:
    return bool((table(result.structured) or {}).get("displaced"))


def _output(identity: str, result: ToolResult) -> ProviderDefinition:
    content = [_part(block) for block in result.content]
    plain = all(part["type"] == "input_text" for part in content)
    return {"type": "function_call_output", "call_id": identity, "output": text_of(result) if plain else content}


def _part(block: Mapping[str, Any]) -> ProviderDefinition:
    match block:
        case {"type": "image", "data": data, "mimeType": kind}:
            return {"type": "input_image", "detail": "auto", "image_url": f"data:{kind};base64,{data}"}
        case _:
            return {"type": "input_text", "text": text_of_block(block)}
