"""Visibility rules, their algebra, and the read-only view: the only place where availability is decided (SPEC VIS).

A rule is a value. `holds(rule, view)` says whether it is true of one snapshot; `available(component, view)` adds what
happens when a predicate raises, and that a composite tool needs a mode; `modes_of` says which it has, `restrict` and
`render` what callers and lists are given of it.
Listing and calling both ask these two and nothing else (SPEC VIS-7). `is_hidden(component, view)` says what lists leave
out although it is available, and no call asks it (SPEC VIS-6).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from attrs import evolve

from .._catalog.components import Component
from .._catalog.modes import restricted
from .._catalog.rules import Always, Both, Either, GroupActive, Not, Predicate, StateReader, View, Visibility, When
from .._memo import Memo
from .._names import ToWire
from .._schema.arguments import Arguments
from .._snapshot import Snapshot
from .._usercode import guarded

T = TypeVar("T")

FailureReport = Callable[[Component, BaseException, str | None], None]


class RequestView:
    """The view of one request: one snapshot, and one reading of the application state.

    SPEC VIS-3, MOD-3.

    Args:
        snapshot: What everything in the request is a function of.
        read_state: Reads the application state.
        report: Called when a predicate raises.
        to_wire: Maps a tool's name to the one that the request's caller knows, as `WireNames.to_wire` (SPEC NAM-6).
    """

    __slots__ = ("_modes", "_read", "_report", "_seen", "snapshot", "to_wire")

    def __init__(
        self,
        snapshot: Snapshot,
        read_state: StateReader | None = None,
        report: FailureReport | None = None,
        to_wire: ToWire = str,
    ) -> None:
        self.snapshot = snapshot
        self.to_wire = to_wire
        self._read = read_state
        self._seen: View | None = None
        self._report = report
        self._modes: dict[Component, tuple[str, ...]] = {}

    @property
    def seen(self) -> View:
        """What predicates, counts and handlers see of it."""
        if self._seen is None:
            self._seen = View(self.snapshot, self.snapshot.facts, self.snapshot.configuration, self._read)
        return self._seen

    def of(self, snapshot: Snapshot) -> RequestView:
        """Return a view of another snapshot, with this one's names and reading of the application state."""
        return RequestView(snapshot, lambda: self.seen.state, self._report, self.to_wire)

    def modes_of(self, component: Component) -> tuple[str, ...]:
        """Return the available modes of a composite tool in declared order, decided once for this view.

        SPEC MOD-1.
        """
        component = component.origin or component
        found = self._modes.get(component)
        if found is None:
            modes = component.modes.modes.items() if component.modes is not None else ()
            found = tuple(name for name, mode in modes if self._has_mode(component, name, mode.available))
            self._modes[component] = found
        return found

    def _has_mode(self, component: Component, name: str, predicate: Predicate | None) -> bool:
        if predicate is None:
            return True
        return self.ask(component, lambda: _truth(predicate(self.seen)), otherwise=False, mode=name)

    def ask(self, component: Component, question: Callable[[], T], otherwise: T, mode: str | None = None) -> T:
        """Return what predicates or counts of a component answer, or of one of its modes; else report their failure.

        Then the answer is `otherwise` (SPEC VIS-4).
        """

        def failed(error: BaseException) -> T:
            if self._report is not None:
                self._report(component, error, mode)
            return otherwise

        return guarded(question, failed)


def available(component: Component, view: RequestView) -> bool:
    """Return whether `component` is available in the view's snapshot: listed unless hidden, and callable.

    A composite tool is not while none of its modes is (SPEC MOD-1).

    SPEC VIS-5.
    """
    if component.is_settled:  # it has no predicate
        return holds(component.rule, view)
    is_available = view.ask(component, lambda: holds(component.rule, view), otherwise=False)
    return is_available and (component.modes is None or bool(view.modes_of(component)))


def is_hidden(component: Component, view: RequestView) -> bool:
    """Return whether lists leave `component` out in the view's snapshot, available or not.

    A rule that can't be decided, because its predicate raises, hides (SPEC VIS-4).

    SPEC VIS-6.
    """
    if isinstance(hidden := component.hidden, bool):
        return hidden
    return view.ask(component, lambda: holds(hidden, view), otherwise=True)


def is_listed(component: Component, view: RequestView) -> bool:
    """Return whether lists have `component` in the view's snapshot: it is available and not hidden (SPEC VIS-6)."""
    return available(component, view) and not is_hidden(component, view)


def only_listed(components: Iterable[Component], view: RequestView) -> list[Component]:
    """Return those of some components that lists have in the view's snapshot."""
    return [component for component in components if is_listed(component, view)]


def holds(rule: Visibility, view: RequestView) -> bool:
    """Return whether `rule` is true of `view`; raises what a predicate raises (SPEC VIS-2)."""
    match rule:
        case Always():
            return True
        case GroupActive(path):
            return view.snapshot.is_active(path)
        case When(predicate):
            return _truth(predicate(view.seen))
        case Both(left, right):
            return holds(left, view) and holds(right, view)
        case Either(left, right):
            return holds(left, view) or holds(right, view)
        case Not(inner):
            return not holds(inner, view)
        case _:
            raise TypeError(f"{rule!r} is not a visibility rule")


def _truth(answer: Any) -> bool:
    if answer is True or answer is False:
        return answer
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError("the predicate answered with an awaitable; predicates must answer at once")
    return bool(answer)


# -- composite tools --------------------------------------------------------------------------------------------------


_RESTRICTED = Memo[tuple[str, ...], Arguments](most=256)
"""The restricted arguments of a tool: those of all subsets of eight modes."""


def restrict(component: Component, view: RequestView) -> Component:
    """Return `component` as it can be called in `view`: other modes are no values of its parameter (SPEC MOD-4)."""
    component = component.origin or component
    if component.modes is None or component.arguments is None:
        return component
    names = view.modes_of(component)
    if len(names) == len(component.modes.modes):
        return component
    narrow = partial(restricted, component.name, component.arguments, component.modes.parameter, names)
    found = _RESTRICTED.of(component.arguments.memo, names, narrow)
    return evolve(
        component, definition={**component.definition, "inputSchema": found.schema}, arguments=found, origin=component
    )


def render(component: Component, view: RequestView) -> Component:
    """Return a component as `view` shows it: with its available modes and their counts (SPEC MOD-1, MOD-2).

    Anything but a composite tool is returned unchanged.
    """
    component = component.origin or component
    offered = restrict(component, view)
    if component.modes is None or not component.modes.counted:
        return offered
    names = view.modes_of(component)
    counts = {name: count for name in names if (count := _count(component, name, view)) is not None}
    meta = {**component.definition.get("_meta", {}), "available_modes": list(names), "data_counts": counts}
    return evolve(offered, definition={**offered.definition, "_meta": meta}, origin=component)


def _count(component: Component, name: str, view: RequestView) -> int | None:
    """Return how much there is for a mode, or `None` if it doesn't say; a count that fails affects nothing else."""
    count = component.modes.modes[name].count if component.modes is not None else None
    return None if count is None else view.ask(component, lambda: _number(count(view.seen)), otherwise=None, mode=name)


def _number(value: Any) -> int | None:
    """Return what a count answered, or raise `TypeError`."""
    if inspect.iscoroutine(value):
        value.close()
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"the count answered with a {type(value).__name__}, and must answer with an int")
    return int(value)
