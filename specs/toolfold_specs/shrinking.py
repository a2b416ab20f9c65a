"""Making a history shorter, and the system that it is on smaller, while it still shows what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from attrs import evolve

from .driver import Operation, Setup, Tool

SHRINKING = 1000
"""How many operations may be spent on shortening one history."""


def shortened(
    history: Sequence[Operation],
    candidate: Sequence[Operation] | None,
    shows: Callable[[Sequence[Operation]], bool],
    budget: int = SHRINKING,
) -> list[Operation]:
    """Return a short history that still shows what `history` shows: first a guess, then leaving out what can be.

    Delta debugging on the list of operations, the last of which always stays, and then on the groups that a transition
    names, until nothing more can be left out; `budget` bounds the operations performed.
    """
    best = list(history)
    if candidate is not None and len(candidate) < len(best) and shows(candidate):
        best = list(candidate)
    size = max(1, (len(best) - 1) // 2)
    while tries := [tried for tried in _shorter(best, size) if tried != best]:
        smaller = None
        for tried in tries:
            budget -= len(tried)
            if budget < 0:
                return best
            if shows(tried):
                smaller = tried
                break
        if smaller is not None:
            best = smaller
        elif size == 1:
            break
        else:
            size //= 2
    return best


def _shorter(history: Sequence[Operation], size: int) -> Iterator[list[Operation]]:
    """Yield a history without some operations in a row, and in the end without some group of a transition."""
    for place in range(0, len(history) - 1, size):
        yield [*history[:place], *history[min(place + size, len(history) - 1) :]]
    for place, operation in enumerate(history if size == 1 else ()):
        for name in ("activate", "deactivate") if operation.verb == "transition" else ():
            named: tuple[str, ...] = operation.arguments[name]
            for path in named:
                fewer = {**operation.arguments, name: tuple(other for other in named if other != path)}
                yield [*history[:place], evolve(operation, arguments=fewer), *history[place + 1 :]]


def reduced(
    setup: Setup, history: Sequence[Operation], shows: Callable[[Setup], bool], budget: int = SHRINKING
) -> Setup:
    """Return a small system on which a history still shows what it shows on `setup`.

    What can be left out is, group by group, tool by tool and so on; `budget` bounds the operations performed.
    """
    for part in _parts(setup, history):
        smaller = part(setup)
        if smaller == setup:
            continue
        budget -= len(history) + 1
        if budget < 0:
            break
        if shows(smaller):
            setup = smaller
    return setup


def _parts(setup: Setup, history: Sequence[Operation]) -> Iterator[Callable[[Setup], Setup]]:
    """Yield ways to leave out a part of a system, those that leave out the most first."""
    asked = {path for operation in history for path in _groups_of(operation)}
    idle = {path for path in setup.paths if not any(f"{other}.".startswith(f"{path}.") for other in asked)}
    yield lambda now: now.without(idle)
    yield lambda now: evolve(now, tools=())
    yield lambda now: evolve(now, exclusions=())
    yield lambda now: evolve(now, groups=[evolve(group, hooks=()) for group in now.groups])
    yield lambda now: evolve(
        now, page_size=None, max_active=None, evict_oldest=False, pinned=(), relevant_controls=False
    )
    for path in reversed(setup.paths):
        yield partial(_without_subtree, path)
        yield partial(_without_hooks, path)
    for members in setup.exclusions:
        yield partial(_without_exclusion, members)
    for tool in setup.tools:
        yield partial(_without_tool, tool)


def _without_subtree(path: str, setup: Setup) -> Setup:
    return setup.without([other for other in setup.paths if f"{other}.".startswith(f"{path}.")])


def _without_hooks(path: str, setup: Setup) -> Setup:
    return evolve(setup, groups=[evolve(group, hooks=()) if group.path == path else group for group in setup.groups])


def _without_exclusion(members: tuple[str, ...], setup: Setup) -> Setup:
    return evolve(setup, exclusions=[one for one in setup.exclusions if one != members])


def _without_tool(tool: Tool, setup: Setup) -> Setup:
    return evolve(setup, tools=[one for one in setup.tools if one != tool])


def _groups_of(operation: Operation) -> Iterator[str]:
    for value in operation.arguments.values():
        yield from value if isinstance(value, tuple) else [value] if isinstance(value, str) else []
