"""The stream of the events of a tool set: plain functions are given those that they listen to; `events.py` has all.

None can change the outcome: what one raises is logged and goes no further. An event that nobody listens to is not made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any

from .._usercode import guarded, is_failure
from ..machine import Plan, TransitionRequest
from ..machine.step import HookCall
from .events import (
    TRANSITIONS,
    Answered,
    Asked,
    Count,
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
UNTRACED = nullcontext()


class Observers:
    """The stream of the events of one tool set, and who listens to it, in the order in which they came.

    Attributes:
        clock: The time in seconds of those that measure calls, if there are any.
        listeners: Who listens to events of a kind; of one that is not in it, none are made.
        is_traced: Whether anybody listens to requests as they happen.
    """

    def __init__(self) -> None:
        self.clock: Callable[[], float] | None = None
        self.is_traced = False
        self.listeners: dict[type[Event | Count | Trace], tuple[Callable[[Any], None], ...]] = {}
        self._numbers = count(1)

    def add(
        self, listener: Callable[[Any], None], kinds: Iterable[type[Event | Count | Trace]] = TRANSITIONS
    ) -> Callable[[], None]:
        """Have a listener called with each event of some kinds; return a function that ends that."""
        added = tuple(kinds)
        for kind in added:
            self.listeners[kind] = (*self.listeners.get(kind, ()), listener)
        self.is_traced = Requested in self.listeners
        return partial(self._remove, listener, added)

    def _remove(self, listener: Callable[[Any], None], kinds: Iterable[type[Event | Count | Trace]]) -> None:
        for kind in kinds:
            left = list(self.listeners[kind])
            left.remove(listener)
            self.listeners[kind] = tuple(left)
            if not left:
                del self.listeners[kind]
        self.is_traced = Requested in self.listeners

    def notify(self, event: Event | Count | Trace) -> None:
        """Pass an event to all that listen to its kind; what they raise is logged."""
        for listener in self.listeners.get(type(event), ()):
            try:
                listener(event)
            except BaseException as error:
                if not is_failure(error):
                    raise
                log.exception("an observer raised on %s", type(event).__name__)

    @property
    def request(self) -> int | None:
        """The number of the request that is being handled, if tracers were notified of it."""
        observers, number = _within.get()
        return number if observers is self else None

    def requested(
        self, session: str, what: Asked, name: str = "", request: TransitionRequest | None = None, force: bool = False
    ) -> AbstractContextManager[None]:
        """Return a context manager for a request; tracers are notified of its beginning and end."""
        return self._requested(session, what, name, request, force) if self.is_traced else UNTRACED

    def planned(self, session: str, plan: Plan) -> None:
        """Notify tracers of the plan of a transition."""
        if self.is_traced:
            self.notify(Planned(session, self.request, *plan.paths))

    def answered(self, session: str, is_error: bool) -> None:
        """Notify tracers that a call has a result."""
        if self.is_traced:
            self.notify(Answered(session, self.request, is_error))

    def list_changed(self, session: str, kinds: frozenset[str], listeners: Sequence[Listener]) -> None:
        """Notify tracers, and the listeners of a session, that lists of some kinds have changed (SPEC NTF-1, NTF-2)."""

        def failed(error: BaseException) -> None:
            log.exception("session %s: a listener could not be notified of a change", session)
            self.notify(NotificationFailed(session, error))

        if ListChanged in self.listeners:
            self.notify(ListChanged(session, kinds, len(listeners)))
        for listener in listeners:
            guarded(partial(listener, kinds), failed)

    @contextmanager
    def _requested(
        self, session: str, what: Asked, name: str, request: TransitionRequest | None, force: bool
    ) -> Generator[None]:
        number = next(self._numbers)
        outer = _within.get()
        self.notify(Requested(session, number, self.request, what, name, request, force))
        _within.set((self, number))
        try:
            with self._ending(lambda error: Ended(session, number, error)):
                yield
        finally:
            _within.set(outer)  # not by a token: a generator that is given up may be closed in another context

    @contextmanager
    def hook(self, session: str, call: HookCall) -> Generator[None]:
        """Notify tracers of the beginning and the end of a hook."""
        number = self.request
        self.notify(HookBegan(session, number, call.group.path, call.phase, call.undoes))
        with self._ending(lambda error: HookEnded(session, number, error)):
            yield

    @contextmanager
    def _ending(self, event: Callable[[BaseException | None], Trace]) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            self.notify(event(error))
            raise
        self.notify(event(None))
