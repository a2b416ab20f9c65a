"""Observers and tracers of a tool set: plain functions that are given its events, which `events.py` has.

Observers get outcomes, after the fact. Tracers also get how each came about: who asked, what was
planned, and every hook as it begins and ends. Neither can change the outcome: what they raise is logged and goes no
further. Without tracers, nothing is made for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any

from .._usercode import guarded
from ..machine import Plan, TransitionRequest
from .events import (
    Answered,
    Asked,
    Ended,
    Event,
    HookBegan,
    HookEnded,
    ListChanged,
    NotificationFailed,
    Planned,
    Requested,
    Trace,
)

log = logging.getLogger("toolfold")

Listener = Callable[[frozenset[str]], None]
Observer = Callable[[Event], None]
Tracer = Callable[[Event | Trace], None]

_within: ContextVar[tuple[Observers | None, int | None]] = ContextVar("toolfold_within", default=(None, None))
_UNTRACED = nullcontext()


class Observers:
    """The observers and the tracers of one tool set, in the order in which they came."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self.tracers: list[Tracer] = []
        self._numbers = count(1)

    def add(self, observer: Observer) -> Callable[[], None]:
        """Add an observer and return a function that removes it."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def add_tracer(self, tracer: Tracer) -> Callable[[], None]:
        """Add a tracer and return a function that removes it."""
        self.tracers.append(tracer)
        return lambda: self.tracers.remove(tracer)

    @property
    def request(self) -> int | None:
        """The number of the request that is being handled, if tracers were notified of it."""
        observers, number = _within.get()
        return number if observers is self else None

    def notify(self, event: Event) -> None:
        """Pass `event` to every observer and tracer."""
        for observer in tuple(self._observers):
            _hand(event, observer)
        self.trace(event)

    def trace(self, event: Event | Trace) -> None:
        """Pass `event` to every tracer."""
        for tracer in tuple(self.tracers):
            _hand(event, tracer)

    def requested(
        self, session: str, what: Asked, name: str = "", request: TransitionRequest | None = None, force: bool = False
    ) -> AbstractContextManager[None]:
        """Return a context manager for a request; tracers are notified of its beginning and end."""
        return self._requested(session, what, name, request, force) if self.tracers else _UNTRACED

    def hook(self, session: str, group: str, phase: str, undoes: str | None) -> AbstractContextManager[None]:
        """Return a context manager for a hook; tracers are notified of its beginning and end."""
        return self._hook(session, group, phase, undoes) if self.tracers else _UNTRACED

    def planned(self, session: str, plan: Plan) -> None:
        """Notify tracers of the plan of a transition."""
        if self.tracers:
            self.trace(Planned(session, self.request, *plan.paths))

    def answered(self, session: str, is_error: bool) -> None:
        """Notify tracers that a call has a result."""
        if self.tracers:
            self.trace(Answered(session, self.request, is_error))

    def list_changed(self, session: str, kinds: frozenset[str], listeners: Sequence[Listener]) -> None:
        """Notify tracers, and the listeners of a session, that lists of some kinds have changed (SPEC NTF-1, NTF-2)."""

        def failed(error: BaseException) -> None:
            log.exception("session %s: a listener could not be notified of a change", session)
            self.notify(NotificationFailed(session, error))

        if self.tracers:
            self.trace(ListChanged(session, kinds, len(listeners)))
        for listener in listeners:
            guarded(partial(listener, kinds), failed)

    @contextmanager
    def _requested(
        self, session: str, what: Asked, name: str, request: TransitionRequest | None, force: bool
    ) -> Generator[None]:
        number = next(self._numbers)
        outer = _within.get()
        self.trace(Requested(session, number, self.request, what, name, request, force))
        _within.set((self, number))
        try:
            with self._ending(lambda error: Ended(session, number, error)):
                yield
        finally:
            _within.set(outer)  # not by a token: a generator that is given up may be closed in another context

    @contextmanager
    def _hook(self, session: str, group: str, phase: str, undoes: str | None) -> Generator[None]:
        number = self.request
        self.trace(HookBegan(session, number, group, phase, undoes))
        with self._ending(lambda error: HookEnded(session, number, error)):
            yield

    @contextmanager
    def _ending(self, event: Callable[[BaseException | None], Trace]) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            self.trace(event(error))
            raise
        self.trace(event(None))


def _hand(event: Event | Trace, to: Callable[[Any], None]) -> None:
    guarded(partial(to, event), lambda _: log.exception("an observer raised on %s", type(event).__name__))
