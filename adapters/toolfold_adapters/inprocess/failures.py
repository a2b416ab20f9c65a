"""Which calls of a history failed, also in messages that do not mark errors (SPEC GRP-6).

An answer is compared with the texts with which the library refuses a call. These are made by the same code as for the
model, with placeholders for names, so a changed wording needs no change here. Any other answer is no evidence of a
failure: whoever stores the messages may have shortened or removed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from toolfold import (
    Catalog,
    GroupNotFound,
    HookFailed,
    InvalidArguments,
    ParentInactive,
    QuotaExceeded,
    ReentrantTransition,
    ToolNotFound,
)
from toolfold.spi import internal_error, misfit, refused

from .messages import PastCall, unreadable_arguments
from .turn import Call

_PLACEHOLDER = "\N{SYMBOL FOR NULL}"


def has_failed(past: PastCall, call: Call, name: str, catalog: Catalog) -> bool:
    """Return whether a past call failed, by the mark of its answer or else by its text.

    Args:
        past: The call in the messages.
        call: The same call in terms of the catalog.
        name: The name by which the model knows its tool.
        catalog: The current catalog.
    """
    if past.marked is not None:
        return past.marked
    if past.found is not None:  # a search that loads a group returns its tools
        return not past.found and any(
            _has_tools(path, catalog) for request in call.requests(catalog) for path in request.activate
        )
    texts = [*_refusals_of(name), *(_refusals_of_control(call, catalog) if call.is_control(catalog) else ())]
    return any(_reads_as(past.text, text) for text in texts)


def _has_tools(path: str, catalog: Catalog) -> bool:
    """Return whether a group has tools that are certainly listed."""
    return any(component.group == path and component.hidden is False for component in catalog.tools.values())


def _refusals_of(name: str) -> Iterator[str]:
    """Yield the texts with which a call of any tool is refused."""
    yield str(ToolNotFound(name))
    yield str(InvalidArguments(name, {_PLACEHOLDER: _PLACEHOLDER}))
    for result in (unreadable_arguments(name), internal_error(name), misfit(name, _PLACEHOLDER)):
        yield result.text


def _refusals_of_control(call: Call, catalog: Catalog) -> Iterator[str]:
    """Yield the texts with which a call of a control tool is refused."""
    yield from _refused_transitions()
    loader = catalog.tools[call.name].loader
    if loader is not None and call.arguments is not None:
        yield from loader.refusals(str(call.arguments.get(loader.argument)), _PLACEHOLDER, _PLACEHOLDER)


@cache
def _refused_transitions() -> tuple[str, ...]:
    errors = (QuotaExceeded(_PLACEHOLDER, cast("Any", _PLACEHOLDER), _PLACEHOLDER), ReentrantTransition(_PLACEHOLDER))
    open_ended = [
        str(GroupNotFound(_PLACEHOLDER)),
        *(refused(HookFailed(_PLACEHOLDER, phase)) for phase in ("on_activate", "on_deactivate")),
    ]
    # the text after the name depends on the groups that exist, and on the reason
    locked = refused(ParentInactive(_PLACEHOLDER, _PLACEHOLDER), _PLACEHOLDER)
    return locked, *map(refused, errors), *(text[: text.rindex(_PLACEHOLDER) + 1] for text in open_ended)


def _reads_as(text: str, made: str) -> bool:
    """Return whether a text begins like one made with placeholders, whatever stands in their place."""
    beginning, *rest = made.split(_PLACEHOLDER)
    if not made.replace(_PLACEHOLDER, "").strip() or not text.startswith(beginning):
        return False
    at = len(beginning)
    for literal in rest:
        at = text.find(literal, at)
        if at < 0:
            return False
        at += len(literal)
    return True
