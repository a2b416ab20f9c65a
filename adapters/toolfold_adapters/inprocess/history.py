"""Which groups a conversation had loaded, by its messages (SPEC GRP-6).

The messages may be those of Anthropic's Messages API, of OpenAI's Chat Completions API, or the items of its Responses
API, as mappings or as the objects of the official packages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from attrs import frozen
from pydantic_core import to_jsonable_python

from toolfold import Catalog, Snapshot, ToolfoldError, TransitionRequest
from toolfold.names import Spelling
from toolfold.schema import table


@frozen
class PastCall:
    """A call that was answered, and whether the answer is marked as an error."""

    name: str
    arguments: Mapping[str, Any]
    failed: bool


def replayed(messages: Iterable[Any], snapshot: Snapshot, meant: Spelling) -> Iterator[Snapshot]:
    """Give the states that the calls of a history led to from `snapshot`, one after the other.

    A call that failed, or that is refused by now, leads nowhere. `meant` gives the catalog's names for the model's.
    """
    for past in past_calls(messages):
        step = None if past.failed else step_of(snapshot.catalog, meant(past.name), past.arguments)
        if step is not None:
            try:
                snapshot = snapshot.after(step)
            except ToolfoldError:
                continue
            yield snapshot


def step_of(catalog: Catalog, name: str, arguments: Mapping[str, Any]) -> TransitionRequest | None:
    """Return the step that a successful call takes, if it is of a tool that opens or closes groups."""
    spec = catalog.tools.get(name)
    if spec is None:
        return None
    if spec.control is None:
        return TransitionRequest(activate=catalog.opened_by[name]) if name in catalog.opened_by else None
    role, path = spec.control
    if role == "load":
        path = str(next(iter(arguments.values()), ""))
    return TransitionRequest(deactivate=(path,)) if role == "deactivate" else TransitionRequest(activate=(path,))


def past_calls(messages: Iterable[Any]) -> list[PastCall]:
    """Return the calls that were answered, in the order of the calls.

    A call without an answer was never carried out, as far as the history tells. OpenAI's messages have no mark of
    errors, so their calls all count as successful.
    """
    asked: list[tuple[str, str, Any]] = []
    failed: dict[str, bool] = {}
    for part in _parts(to_jsonable_python(list(messages))):
        match part:
            case {"type": "tool_use", "id": str(identity), "name": str(name), "input": arguments}:
                asked.append((identity, name, arguments))
            case {"type": "function_call", "call_id": str(identity), "name": str(name), "arguments": arguments}:
                asked.append((identity, name, arguments))
            case {"id": str(identity), "function": {"name": str(name), "arguments": arguments}}:
                asked.append((identity, name, arguments))
            case {"type": "tool_result", "tool_use_id": str(identity), **rest}:
                failed[identity] = bool(rest.get("is_error"))
            case {"type": "function_call_output", "call_id": str(identity)}:
                failed[identity] = False
            case {"role": "tool", "tool_call_id": str(identity)}:
                failed[identity] = False
            case _:
                pass
    return [
        PastCall(name, read_arguments(arguments) or {}, failed[identity])
        for identity, name, arguments in asked
        if identity in failed
    ]


def read_arguments(arguments: Any) -> dict[str, Any] | None:
    """Return a call's arguments, given as a mapping or as JSON text; `None` if they are no JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return None
    return dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else None


def _parts(messages: list[Any]) -> Iterator[Any]:
    """Give messages, and the blocks and calls within them, in order."""
    for message in messages:
        yield message
        for key in ("content", "tool_calls"):
            within: Any = (table(message) or {}).get(key)
            yield from within if isinstance(within, list) else ()
