"""Making a history shorter, and the system that it runs on smaller, while the same mismatch still shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from attrs import define, evolve

from .driver import Operation, Setup, Tool

SHRINKING = 1000
"""How many operations may be spent on one history."""


@define
class Budget:
    """How many operations may still be performed."""

    left: int = SHRINKING

    def spend(self, operations: int) -> bool:
        """Return whether so many operations may be performed, which are counted."""
        self.left -= operations
        return self.left >= 0


def minimal(
    setup: Setup,
    history: Sequence[Operation],
    candidate: Sequence[Operation] | None,
    shows: Callable[[Setup, Sequence[Operation]], bool],
    configurable: bool,
) -> tuple[Setup, list[Operation]]:
    """Return a small system and a short history on it that shows what `history` shows on `setup`.

    A smaller system may do with fewer operations, and a shorter history with a smaller system: both are tried in turn
    until nothing more can be left out.

    Args:
        setup: The system.
        history: The operations; the last one stays.
        candidate: A history that is tried first, as a guess.
        shows: Whether a history on a system still shows it.
        configurable: Whether other systems can be configured; one that an operation brings along is not changed.
    """
    budget = Budget()
    short = shortened(history, candidate, partial(shows, setup), budget)
    while configurable and not any("setup" in operation.arguments for operation in short):
        smaller = reduced(setup, short, partial(_on, shows, short), budget)
        if smaller == setup:
            break
        setup, before = smaller, short
        short = shortened(short, None, partial(shows, setup), budget)
        if short == before:
            break
    return setup, short


def _on(shows: Callable[[Setup, Sequence[Operation]], bool], history: Sequence[Operation], setup: Setup) -> bool:
    return shows(setup, history)


def shortened(
    history: Sequence[Operation],
    candidate: Sequence[Operation] | None,
    shows: Callable[[Sequence[Operation]], bool],
    budget: Budget,
) -> list[Operation]:
    """Return a short history that still shows what `history` shows: first a guess, then by leaving out operations.

    This is delta debugging on the list of operations, the last of which stays, and then on the groups that a
    transition names, until nothing more can be left out.
    """
    best = list(history)
    if candidate is not None and len(candidate) < len(best) and shows(candidate):
        best = list(candidate)
    size = max(1, (len(best) - 1) // 2)
    while tries := [tried for tried in _shorter(best, size) if tried != best]:
        smaller = None
        for tried in tries:
            if not budget.spend(len(tried)):
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
    """Yield a history without some consecutive operations, and in the end without some group of a transition."""
    for place in range(0, len(history) - 1, size):
        yield [*history[:place], *history[min(place + size, len(history) - 1) :]]
    for place, operation in enumerate(history if size == 1 else ()):
        for name in ("activate", "deactivate") if operation.verb == "transition" else ():
            named: tuple[str, ...] = operation.arguments[name]
            for path in named:
                fewer = {**operation.arguments, name: tuple(other for other in named if other != path)}
                yield [*history[:place], evolve(operation, arguments=fewer), *history[place + 1 :]]


def reduced(setup: Setup, history: Sequence[Operation], shows: Callable[[Setup], bool], budget: Budget) -> Setup:
    """Return a small system on which a history still shows what it shows on `setup`.

    Groups, hooks, exclusions and tools are left out one after another.
    """
    for part in _parts(setup, history):
        smaller = part(setup)
        if smaller == setup:
            continue
        if not budget.spend(len(history) + 1):
            break
        if shows(smaller):
            setup = smaller
    return setup


def _parts(setup: Setup, history: Sequence[Operation]) -> Iterator[Callable[[Setup], Setup]]:
    """Yield functions that leave out a part of a system, those that leave out most first."""
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
