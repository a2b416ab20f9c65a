"""Plans: the result of a request in a configuration, as runs of the table (SPEC ACT-1 to ACT-10).

The table decides the states of groups. This module says what a request is, in which order its events are sent, and what
refuses it as a whole. A plan is a value; all functions here are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import field

from .._values import frozen
from ..errors import ExclusionConflict, ParentInactive
from .compiled import Run
from .forest import Configuration, Forest, bits, paths_of
from .interpreter import Interpreter
from .table import RegionEvent


@frozen
class TransitionRequest:
    """A request: groups to deactivate, then groups to activate, as one transition.

    SPEC ACT-9.
    """

    activate: tuple[str, ...] = field(default=(), converter=paths_of)
    deactivate: tuple[str, ...] = field(default=(), converter=paths_of)


@frozen
class Plan:
    """The result of a request: the configuration after it, and the groups whose state it changes, as bit sets."""

    before: Configuration
    after: Configuration
    activated: int
    deactivated: int

    @property
    def paths(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The groups that are activated and those that are deactivated, each in canonical order."""
        forest = self.before.forest
        return forest.named(self.activated), forest.named(self.deactivated) if self.deactivated else ()

    @property
    def changes(self) -> bool:
        """Whether anything changes."""
        return bool(self.activated | self.deactivated)


Running = Run | Interpreter
Runner = Callable[[Configuration], Running]


def plan(configuration: Configuration, request: TransitionRequest, run_of: Runner = Run) -> Plan:
    """Return the plan of a request: deactivations first, then activations, ancestors before descendants.

    Args:
        configuration: What the request is made in.
        request: What is asked for.
        run_of: What runs the table.

    Raises:
        GroupNotFound: A group does not exist.
        ParentInactive: A group to activate has an inactive ancestor.
        ExclusionConflict: Two groups to activate exclude one another.
    """
    if not isinstance(request, TransitionRequest):  # pyright: ignore[reportUnnecessaryIsInstance] - not all is typed
        raise TypeError(f"A plan is made of a TransitionRequest(activate=[…], deactivate=[…]), not of {request!r}.")
    forest, run, wanted = configuration.forest, run_of(configuration), 0
    for number in _numbers(forest, request.deactivate):
        run.send(RegionEvent.DEACTIVATE, number)
    for number in _numbers(forest, request.activate):
        run.send(RegionEvent.ACTIVATE, number)
        if run.refused:
            missing = next(iter(bits(forest.ancestors[number] & ~run.active)), number)
            raise ParentInactive(forest.paths[number], forest.paths[missing])
        wanted |= 1 << number
        if displaced := wanted & ~run.active:
            raise _conflict(forest, number, displaced)
    return _result(configuration, run)


def close(configuration: Configuration, keep: Iterable[str] = (), run_of: Runner = Run) -> Plan:
    """Return the plan that deactivates every group but those in `keep`: the end of a session.

    SPEC HOOK-9.
    """
    forest, run = configuration.forest, run_of(configuration)
    excepted = forest.mask(path for path in keep if path in forest.index)
    for number in reversed(bits(configuration.active & ~excepted)):
        run.send(RegionEvent.DEACTIVATE, number)
    return _result(configuration, run)


def restore(forest: Forest, paths: Iterable[str], run_of: Runner = Run) -> Plan:
    """Return the plan from no active group to what a forest allows of a stored state.

    Groups that do not exist are discarded, then those without active parents, then, of an exclusion set, all but the
    first in canonical order.

    SPEC PER-2.

    Args:
        forest: Where the state is restored.
        paths: The groups that were active, the longest-active first where that matters.
        run_of: What runs the table.
    """
    before = Configuration.initial(forest)
    run = run_of(before)
    known = [forest.index[path] for path in dict.fromkeys(paths) if path in forest.index]
    for number in sorted(known):
        run.send(RegionEvent.RESTORE, number)
    return _result(before, run, known)


def use(configuration: Configuration, paths: Iterable[str]) -> Configuration:
    """Return the configuration after some groups were used, where the forest is ordered.

    They, and the groups that they are in, are now the last in the order. No region changes its state, so no event of
    the table is sent. Groups that are not active, or do not exist, are passed over.

    SPEC FND-3.
    """
    forest, used = configuration.forest, 0
    if not forest.ordered:
        return configuration
    for number in (forest.index[path] for path in paths if path in forest.index):
        used |= forest.ancestors[number] | 1 << number
    used &= configuration.active
    return _reordered(configuration, (*(one for one in configuration.order if not used >> one & 1), *bits(used)))


def catch_up(plan: Plan, now: Configuration) -> Configuration:
    """Return where a plan leads if groups were used since it was made, so that the session is in `now`.

    SPEC FND-3.
    """
    return plan.after if now is plan.before else _reordered(plan.after, (*now.order, *bits(plan.activated)))


def _reordered(configuration: Configuration, order: Iterable[int]) -> Configuration:
    """Return the configuration with its active groups in another order, the oldest first."""
    active = configuration.active
    known = tuple(number for number in dict.fromkeys(order) if active >> number & 1)
    return Configuration.of(configuration.forest, active, configuration.locked, known)


def _numbers(forest: Forest, paths: tuple[str, ...]) -> list[int]:
    return sorted(map(forest.number, paths))


def _result(before: Configuration, run: Running, oldest_first: Iterable[int] = ()) -> Plan:
    assert not run.refused, "only an activation is refused"
    if not run.set_up and not run.torn_down:
        return Plan(before, before, 0, 0)
    order: tuple[int, ...] = ()
    if before.forest.ordered:
        known = dict.fromkeys((*before.order, *oldest_first, *bits(run.set_up)))
        order = tuple(number for number in known if run.active >> number & 1)
    after = Configuration.of(before.forest, run.active, run.locked, order)
    return Plan(before, after, run.set_up, run.torn_down)


def _conflict(forest: Forest, number: int, displaced: int) -> ExclusionConflict:
    activated, other = forest.paths[number], forest.paths[bits(displaced)[0]]
    return ExclusionConflict(
        (other, activated),
        f"{activated!r} and {other!r} can't be open together, so one transition can't have both: leave one out.",
    )
