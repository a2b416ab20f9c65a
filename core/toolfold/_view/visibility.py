"""Visibility rules, their algebra, and the read-only view: the only place where availability is decided (SPEC VIS).

A rule is a value. `holds(rule, view)` says whether it is true of one snapshot; `available(spec, view)` adds what
happens when a predicate raises, and that a composite tool needs a mode; `View.modes_of(spec)` says which it has.
Listing and calling both ask these two and nothing else (SPEC VIS-7). `is_hidden(spec, view)` says what lists leave out
although it is available, and no call asks it (SPEC VIS-6).

Two facts about a rule are worked out once, when a catalog is compiled, for lists to cost what they return (SPEC LST-5):
`anchors(rule)`, groups without which the rule can't hold, and `is_static(rule)`, whether it depends on the active
groups alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._catalog.components import Spec
from .._catalog.rules import Always, Both, Either, Group, Not, Predicate, Visibility, When
from .._snapshot import Snapshot
from .._usercode import is_failure

StateReader = Callable[[], Any]
FailureReport = Callable[[Spec, BaseException, str | None], None]


class RequestView:
    """The view of one request: one snapshot, and one reading of the application state (SPEC VIS-3, MOD-3)."""

    __slots__ = ("_modes", "_read", "_reading", "_report", "_snapshot")

    def __init__(
        self, snapshot: Snapshot, read_state: StateReader | None = None, report: FailureReport | None = None
    ) -> None:
        self._snapshot = snapshot
        self._read = read_state
        self._reading: tuple[Any, BaseException | None] | None = None
        self._report = report
        self._modes: dict[Spec, tuple[str, ...]] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that everything in this request is a function of."""
        return self._snapshot

    @property
    def active(self) -> tuple[str, ...]:
        """The active groups, in canonical order."""
        return self._snapshot.active

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts (SPEC SES-5)."""
        return self._snapshot.facts

    def is_group_active(self, name: str) -> bool:
        """Return whether the group is active; an unknown one is not."""
        return self._snapshot.is_active(name)

    @property
    def state(self) -> Any:
        """The application state, read at most once for this request; `None` without a supplier."""
        if self._reading is None:
            try:
                self._reading = (self._read() if self._read is not None else None, None)
            except BaseException as error:
                if not is_failure(error):
                    raise
                self._reading = (None, error)
        value, failure = self._reading
        if failure is not None:
            raise failure
        return value

    def of(self, snapshot: Snapshot) -> RequestView:
        """Return a view of another snapshot that shares this one's reading of the application state."""
        return RequestView(snapshot, lambda: self.state, self._report)

    def modes_of(self, spec: Spec) -> tuple[str, ...]:
        """Return the available modes of a composite tool in declared order, decided once for this view (SPEC MOD-1)."""
        spec = spec.origin or spec
        found = self._modes.get(spec)
        if found is None:
            modes = spec.modes.modes.items() if spec.modes is not None else ()
            found = tuple(name for name, mode in modes if _mode_available(spec, name, mode.available, self))
            self._modes[spec] = found
        return found

    def predicate_failed(self, spec: Spec, error: BaseException, mode: str | None = None) -> None:
        """Report that a predicate of `spec` raised, or of one of its modes."""
        if self._report is not None:
            self._report(spec, error, mode)


def available(spec: Spec, view: RequestView) -> bool:
    """Return whether `spec` is available in the view's snapshot: listed unless hidden, and callable (SPEC VIS-5).

    A composite tool is not while none of its modes is (SPEC MOD-1).
    """
    try:
        return holds(spec.rule, view) and (spec.modes is None or bool(view.modes_of(spec)))
    except BaseException as error:
        if not is_failure(error):
            raise
        view.predicate_failed(spec, error)
        return False


def is_hidden(spec: Spec, view: RequestView) -> bool:
    """Return whether lists leave `spec` out in the view's snapshot, available or not (SPEC VIS-6).

    A rule that can't be decided, because its predicate raises, hides (SPEC VIS-4).
    """
    if isinstance(spec.hidden, bool):
        return spec.hidden
    try:
        return holds(spec.hidden, view)
    except Exception as error:
        view.predicate_failed(spec, error)
        return True


def is_listed(spec: Spec, view: RequestView) -> bool:
    """Return whether lists have `spec` in the view's snapshot: it is available and not hidden (SPEC VIS-6)."""
    return available(spec, view) and not is_hidden(spec, view)


def only_listed(specs: Iterable[Spec], view: RequestView) -> list[Spec]:
    """Return those of some components that lists have in the view's snapshot."""
    return [spec for spec in specs if is_listed(spec, view)]


def _mode_available(spec: Spec, name: str, predicate: Predicate | None, view: RequestView) -> bool:
    try:
        return predicate is None or _truth(predicate(view))
    except BaseException as error:
        if not is_failure(error):
            raise
        view.predicate_failed(spec, error, name)
        return False


def holds(rule: Visibility, view: RequestView) -> bool:
    """Return whether `rule` is true of `view`; whatever a predicate raises comes out (SPEC VIS-2)."""
    match rule:
        case Always():
            return True
        case Group(path):
            return view.is_group_active(path)
        case When(predicate):
            return _truth(predicate(view))
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
