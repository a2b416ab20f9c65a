"""Which calls of a history failed, also where the shape of its messages has no mark of errors (SPEC GRP-6).

The texts with which the library refuses a call are made here by what makes them for the model, with a stand-in for the
names in them, and an answer is compared with those; so another wording needs no change here. An answer that reads
otherwise is no evidence of a failure: whoever keeps the messages may have shortened or removed it.
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

from .arguments import unreadable_arguments
from .messages import PastCall
from .turn import Call

_PLACEHOLDER = "\N{SYMBOL FOR NULL}"


def has_failed(past: PastCall, call: Call, name: str, catalog: Catalog) -> bool:
    """Return whether a call of the past failed: as its answer is marked, or else as it reads.

    Args:
        past: The call as the messages have it.
        call: The same in the catalog's terms.
        name: Its tool as the model knows it.
        catalog: The present catalog.
    """
    if past.marked is not None:
        return past.marked
    if past.found is not None:  # a search that loads a group returns its tools
        return not past.found and any(
            _has_tools(path, catalog) for request in call.requests(catalog) for path in request.activate
        )
    texts = [*_refusals_of(name), *(_refused_steps(call, catalog) if call.is_control(catalog) else ())]
    return any(_reads_as(past.text, text) for text in texts)


def _has_tools(path: str, catalog: Catalog) -> bool:
    """Return whether a group has tools that are listed for sure."""
    return any(component.group == path and component.hidden is False for component in catalog.tools.values())


def _refusals_of(name: str) -> Iterator[str]:
    """Give the texts that a call of any tool is refused with."""
    yield str(ToolNotFound(name))
    yield str(InvalidArguments(name, {_PLACEHOLDER: _PLACEHOLDER}))
    for result in (unreadable_arguments(name), internal_error(name), misfit(name, _PLACEHOLDER)):
        yield result.text


def _refused_steps(call: Call, catalog: Catalog) -> Iterator[str]:
    """Give the texts that a call of a control tool is refused with."""
    yield from _refused_by_groups()
    loader = catalog.tools[call.name].loader
    if loader is not None and call.arguments is not None:
        yield from loader.refusals(str(call.arguments.get(loader.argument)), _PLACEHOLDER, _PLACEHOLDER)


@cache
def _refused_by_groups() -> tuple[str, ...]:
    errors = (QuotaExceeded(_PLACEHOLDER, cast("Any", _PLACEHOLDER), _PLACEHOLDER), ReentrantTransition(_PLACEHOLDER))
    open_ended = [
        str(GroupNotFound(_PLACEHOLDER)),
        *(refused(HookFailed(_PLACEHOLDER, phase)) for phase in ("on_activate", "on_deactivate")),
    ]
    # what follows the name depends there on the groups that there are, and on the reason
    locked = refused(ParentInactive(_PLACEHOLDER, _PLACEHOLDER), _PLACEHOLDER)
    return locked, *map(refused, errors), *(text[: text.rindex(_PLACEHOLDER) + 1] for text in open_ended)


def _reads_as(text: str, made: str) -> bool:
    """Return whether a text begins as one that was made with stand-ins, whatever is in their place."""
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
