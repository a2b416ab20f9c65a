"""The shapes of providers' APIs: what a model reads of tools, and calls and answers in messages (SPEC AGT-3, GRP-6).

`None` is the shape of the MCP specification, `"anthropic"` that of the Messages API, `"openai"` that of the Chat
Completions API, which many others speak too, and `"openai_responses"` that of the Responses API. Messages may be those
of these APIs; those of pydantic-ai or LangChain, or the items of a run of the OpenAI Agents SDK. They may be mappings
or the objects of the official packages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, Literal, cast

from attrs import evolve, field
from pydantic import BaseModel

from toolfold import Component, ConfigError, InvalidDefinition, ToolResult
from toolfold.spi import frozen, plain_json, quoted, table

from .schemas import RULES, accepted

Format = Literal["anthropic", "openai", "openai_responses"]
ProviderDefinition = dict[str, Any]


def definition(component: Component, format: Format | None, to_wire: Callable[[str], str]) -> ProviderDefinition:
    """Return a tool's definition in a provider's shape, with a schema that it takes.

    Raises `ConfigError` for an unknown format.
    """
    if format not in _SHAPES:
        known = ", ".join(repr(known) for known in _SHAPES)
        raise ConfigError(f"There is no format {format!r} for tools; the formats are {known}.")
    rendered = component.render(to_wire)
    if format is not None:
        rendered = {**rendered, "inputSchema": accepted(rendered.get("inputSchema", {}), RULES[format])}
    return _SHAPES[format](rendered)


def _function(rendered: ProviderDefinition, schema: str = "parameters") -> ProviderDefinition:
    described = {"description": rendered["description"]} if rendered.get("description") else {}
    return {"name": rendered["name"], **described, schema: dict(rendered.get("inputSchema", {}))}


_SHAPES: Mapping[str | None, Callable[[ProviderDefinition], ProviderDefinition]] = {
    None: lambda rendered: rendered,
    "anthropic": lambda rendered: _function(rendered, "input_schema"),
    "openai": lambda rendered: {"type": "function", "function": _function(rendered)},
    # strict mode supports only a part of JSON Schema, and the API enables it by default
    "openai_responses": lambda rendered: {"type": "function", **_function(rendered), "strict": False},
}


def text_of(result: ToolResult) -> str:
    """Return the content of a result as text."""
    return "\n".join(map(text_of_block, result.content))


def text_of_block(block: Mapping[str, Any]) -> str:
    """Return a block of content as text, that which it has or else the block as JSON."""
    text = block.get("text")
    return text if isinstance(text, str) else json.dumps(block, ensure_ascii=False)


def without_schemas(result: ToolResult, to_wire: Callable[[str], str], announced: Sequence[Component]) -> ToolResult:
    """Return a result whose content names tools without their schemas.

    Of those that are announced beside it, whose definitions the model reads there, it has only the names.
    """
    if result.about is None or result.is_error or not result.about.tools:
        return result
    known = {component.name for component in announced}
    return evolve(result, content=({"type": "text", "text": result.about.listing(to_wire, known)},))


# -- calls in messages, and their answers ------------------------------------------------------------------------------

MODEL_ROLES = frozenset({"assistant", "ai", "model"})
OTHER_TYPES = frozenset({"human", "system"})
"""What LangChain has in place of the roles of those who are not the model."""
STATE = "toolfold"
"""The key under which the metadata of an answer may have the state after its call, the result of `dump`."""

ToolCall = tuple[str, str, Any]
"""The identity, the name and the arguments of a call; the name is empty for a tool search."""
Answered = tuple[ToolCall, ToolResult, Sequence[Component]]
"""A call, its result without schemas, and the tools that the answer announces."""


@frozen
class PastCall:
    """A call in the messages of a conversation, and its answer.

    Attributes:
        name: The tool, as the model calls it; empty for a tool search, which means the loader.
        arguments: A mapping or JSON text, as it was written.
        text: The texts of the answer, joined by line breaks.
        marked: Whether the message marks the answer as an error; `None` if it has no such mark.
        found: For a tool search, the names of the tools in the answer.
        state: The state after the call, where the metadata of the answer has it.
    """

    name: str
    arguments: Any
    text: str = ""
    marked: bool | None = None
    found: tuple[str, ...] | None = None
    state: Mapping[str, Any] | None = field(default=None, repr=False)


def calls_of(output: Iterable[Any]) -> list[ToolCall]:
    """Return the calls in what a model wrote."""
    return [call for part in _parts(output) if (call := _call(part)) is not None]


def turns_of(messages: Iterable[Any]) -> list[list[PastCall]]:
    """Return the calls that were answered, turn by turn, as they were written.

    A turn is the calls of a model between two answers. A call without an answer is taken not to have run.
    """
    turns: list[dict[int, PastCall]] = []
    waiting: dict[str, list[tuple[dict[int, PastCall], int, str, Any]]] = {}
    between = True
    for place, part in enumerate(_parts(messages)):
        if (call := _call(part)) is not None:
            identity, name, arguments = call
            if between:
                turns.append({})
            waiting.setdefault(identity, []).append((turns[-1], place, name, arguments))
            between = False
        elif (answer := _answer(part)) is not None:
            identity, outcome = answer
            if asked := waiting.get(identity):
                turn, at, name, arguments = asked.pop(0)
                turn[at] = evolve(outcome, name=name, arguments=arguments)
            between = True
    return [[turn[place] for place in sorted(turn)] for turn in turns if turn]


def referred_to(messages: Iterable[Any]) -> Iterator[tuple[str, bool]]:
    """Yield the names of the tools that answers and changes refer to, and whether they are withdrawn."""
    for part in _parts(messages):
        kind, tool = part.get("type"), _table(part.get("tool")) or {}
        if kind in ("tool_addition", "tool_removal") and isinstance(name := tool.get("name"), str):
            yield name, kind == "tool_removal"
        for block in _tables(part.get("content")) if kind in ("tool_result", "tool") else ():
            if block.get("type") == "tool_reference" and isinstance(name := block.get("tool_name"), str):
                yield name, False
        for one in _tables(part.get("tools")) if part.get("role") == "system" else ():
            if isinstance(name := (_table(one.get("function")) or {}).get("name"), str):
                yield name, False


def _call(part: Mapping[str, Any]) -> tuple[str, str, Any] | None:
    """Return the identity, name and arguments of a call."""
    match part:
        case {"type": "tool_use", "id": str(identity), "name": str(name), "input": arguments}:
            return identity, name, arguments
        case {"type": "function_call", "call_id": str(identity), "name": str(name), "arguments": arguments}:
            return identity, name, arguments
        case {"type": "tool_search_call", "call_id": str(identity), "arguments": arguments}:
            return identity, "", arguments
        case {"part_kind": "tool-call", "tool_call_id": str(identity), "tool_name": str(name), "args": arguments}:
            return identity, name, {} if arguments is None else arguments
        case {"type": "tool_call", "id": str(identity), "name": str(name), "args": arguments}:
            return identity, name, arguments
        case {"id": str(identity), "function": function}:
            match _table(function):
                case {"name": str(name), "arguments": arguments}:
                    return identity, name, arguments
                case _:
                    return None
        case _:
            return None


def _answer(part: Mapping[str, Any]) -> tuple[str, PastCall] | None:
    """Return the identity of a call, and what its answer says of it."""
    match part:
        case {"type": "tool_result", "tool_use_id": str(identity)}:
            marked = part.get("is_error")
            return identity, _answered(part.get("content"), marked if isinstance(marked, bool) else None)
        case {"type": "function_call_output", "call_id": str(identity)}:
            return identity, _answered(part.get("output"), state=part.get(STATE))
        case {"type": "tool_search_output", "call_id": str(identity)}:
            return identity, _answered(None, found=tuple(_functions(part.get("tools"))))
        case {"part_kind": "tool-return", "tool_call_id": str(identity)}:
            failed = part.get("outcome", "success") != "success" or None  # success is what it says by default
            return identity, _answered(part.get("content"), failed, state=_state(part.get("metadata")))
        case {"part_kind": "retry-prompt", "tool_call_id": str(identity)}:
            return identity, _answered(part.get("content"), failed=True)
        case {"type": "tool", "tool_call_id": str(identity)}:
            failed = part.get("status") == "error" or None
            return identity, _answered(part.get("content"), failed, state=_state(part.get("artifact")))
        case {"role": "tool", "tool_call_id": str(identity)}:
            return identity, _answered(part.get("content"))
        case _:
            return None


def _answered(
    content: Any, failed: bool | None = None, found: tuple[str, ...] | None = None, state: Any = None
) -> PastCall:
    return PastCall("", None, _text(content), failed, found, _table(state))


def _state(metadata: Any) -> Any:
    return (_table(metadata) or {}).get(STATE)


def _functions(tools: Any) -> Iterator[str]:
    """Yield the names of functions, those in namespaces included."""
    for tool in _tables(tools):
        for function in _tables(tool.get("tools")) if tool.get("type") == "namespace" else (tool,):
            if isinstance(name := function.get("name"), str):
                yield name


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in _tables(content)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _parts(messages: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield messages, and the blocks and calls within them, in order; calls of models alone (SPEC SAF-6)."""
    for message in _tables(list(messages)):
        if (item := _table(message.get("raw_item"))) is not None:  # an item of a run, with data that is not sent
            yield {**item, STATE: _state(message.get("custom_data"))}
            continue
        of_model = message.get("role", "assistant") in MODEL_ROLES and message.get("type") not in OTHER_TYPES
        # LangChain has a call of Anthropic's model in both
        keys = ("parts", "tool_calls" if message.get("tool_calls") else "content")
        for part in (message, *chain.from_iterable(_tables(message.get(key)) for key in keys)):
            if of_model or _call(part) is None:
                yield part


def _tables(values: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the values of a list that are mappings or objects of a package."""
    for value in cast("Iterable[Any]", values) if isinstance(values, list | tuple) else ():
        if (found := _table(value)) is not None:
            yield found


def _table(value: Any) -> Mapping[str, Any] | None:
    # only the object itself: its contents come from a model and may be nested without limit
    if isinstance(value, BaseModel):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def read_arguments(arguments: Any) -> dict[str, Any] | None:
    """Return a call's arguments, given as a mapping or as JSON text, as plain JSON data.

    Returns `None` if they are not a JSON object, are nested too deeply, or contain what UTF-8 can't encode.
    """
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
        return table(plain_json("arguments", given, "value")) if isinstance(given, Mapping) else None
    except (ValueError, RecursionError, InvalidDefinition):
        return None


def unreadable_arguments(name: str) -> ToolResult:
    """Return the answer to a call of `name` whose arguments can't be read."""
    text = f"The arguments of {quoted(name)} are not a JSON object; call it again with one."
    return ToolResult.of_text(text, is_error=True)
