"""Late tools of Anthropic's Messages API: `defer_loading`, and `tool_reference` blocks in tool results (SPEC INT-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from toolfold import Component, ToolResult

from .formats import Definition, definition, text_of, without_schemas
from .messages import Answered, ToolCall


@frozen
class AnthropicTools:
    """Declares and announces tools; `to_wire` maps their names to those that the model knows."""

    to_wire: Callable[[str], str]

    def declarations(
        self, first: Sequence[Component], later: Sequence[Component], gone: Sequence[str], groups: Mapping[str, str]
    ) -> list[Definition]:
        """Return the declarations of tools; the API refuses messages that refer to one that is not declared."""
        unknown = [{"name": name, "input_schema": {"type": "object"}} for name in gone]
        deferred = [*map(self._definition, later), *unknown]
        return [*map(self._definition, first), *({**one, "defer_loading": True} for one in deferred)]

    def call(self, call: ToolCall) -> tuple[str, Any]:
        """Return the wire name and the arguments of a call."""
        _, name, arguments = call
        return name, arguments

    def answers(self, calls: Iterable[Answered], groups: Mapping[str, str]) -> list[Definition]:
        """Return the content of the user message that answers calls: a `tool_result` block for each."""
        return [self._tool_result(identity, result, new) for (identity, _, _), result, new in calls]

    def _tool_result(self, identity: str, result: ToolResult, news: Sequence[Component]) -> Definition:
        block = {"type": "tool_result", "tool_use_id": identity}
        if result.is_error:  # with which the API takes only texts
            return {**block, "is_error": True, "content": [{"type": "text", "text": text_of(result) or "It failed."}]}
        given = [_block(one) for one in without_schemas(result, self.to_wire, news)]
        references = [{"type": "tool_reference", "tool_name": self.to_wire(component.name)} for component in news]
        return {**block, "content": [*given, *references]}

    def _definition(self, component: Component) -> Definition:
        return definition(component, "anthropic", self.to_wire)


def _block(block: Mapping[str, Any]) -> Definition:
    match block:
        case {"type": "image", "data": data, "mimeType": kind}:
            return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
        case _:
            return {"type": "text", "text": text_of(ToolResult((block,)))}
