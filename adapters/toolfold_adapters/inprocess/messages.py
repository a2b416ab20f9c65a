"""The calls in the messages of a conversation, and their answers, in the shapes of providers (SPEC GRP-6).

The messages may be those of Anthropic's Messages API, of OpenAI's Chat Completions API, or the items of its Responses
API, as mappings or as the objects of the official packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from attrs import frozen
from pydantic import BaseModel


@frozen
class PastCall:
    """A call in the messages of a conversation, and its answer.

    Attributes:
        name: The tool, as the model calls it; empty for a tool search, which means the loader.
        arguments: A mapping or JSON text, as it was written.
        text: The texts of the answer, joined by line breaks.
        marked: Whether the message marks the answer as an error; `None` if it has no such mark.
        found: For a tool search, whether the answer has any tools.
    """

    name: str
    arguments: Any
    text: str = ""
    marked: bool | None = None
    found: bool | None = None


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
                turn[at] = PastCall(name, arguments, *outcome)
            between = True
    return [[turn[place] for place in sorted(turn)] for turn in turns if turn]


def _call(part: Mapping[str, Any]) -> tuple[str, str, Any] | None:
    """Return the identity, name and arguments of a call."""
    match part:
        case {"type": "tool_use", "id": str(identity), "name": str(name), "input": arguments}:
            return identity, name, arguments
        case {"type": "function_call", "call_id": str(identity), "name": str(name), "arguments": arguments}:
            return identity, name, arguments
        case {"type": "tool_search_call", "call_id": str(identity), "arguments": arguments}:
            return identity, "", arguments
        case {"id": str(identity), "function": function}:
            match _table(function):
                case {"name": str(name), "arguments": arguments}:
                    return identity, name, arguments
                case _:
                    return None
        case _:
            return None


def _answer(part: Mapping[str, Any]) -> tuple[str, tuple[str, bool | None, bool | None]] | None:
    """Return the identity of a call, and the `text`, `marked` and `found` of its answer."""
    match part:
        case {"type": "tool_result", "tool_use_id": str(identity)}:
            marked = part.get("is_error")
            return identity, (_text(part.get("content")), marked if isinstance(marked, bool) else None, None)
        case {"type": "function_call_output", "call_id": str(identity)}:
            return identity, (_text(part.get("output")), None, None)
        case {"type": "tool_search_output", "call_id": str(identity)}:
            return identity, ("", None, bool(part.get("tools")))
        case {"role": "tool", "tool_call_id": str(identity)}:
            return identity, (_text(part.get("content")), None, None)
        case _:
            return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in _tables(content)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _parts(messages: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield messages, and the blocks and calls within them, in order."""
    for message in _tables(list(messages)):
        yield message
        for key in ("content", "tool_calls"):
            yield from _tables(message.get(key))


def _tables(values: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the values of a list that are mappings or models."""
    for value in cast("Iterable[Any]", values) if isinstance(values, list | tuple) else ():
        if (found := _table(value)) is not None:
            yield found


def _table(value: Any) -> Mapping[str, Any] | None:
    # only the object itself: its contents come from a model and may be nested without limit
    found: Any = dict(value) if isinstance(value, BaseModel) else value
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None
