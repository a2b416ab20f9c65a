"""The life of a connection to an upstream, as data: states, events, and what follows from which (SPEC GWY-3, GWY-4).

`TRANSITIONS` is the program. `after` looks an event up in it and keeps the books: how often in a row it went wrong, and
when it may be tried again. Nothing here knows processes, clocks or tasks: times are given, in seconds of any clock.

A connection starts when it is used. One that fails, or is lost, waits, the longer the more often in a row that
happened; then it starts again, at the next use or when its time has come, whichever is first. One that was up long
enough may start again at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from attrs import evolve, frozen

from toolfold import ToolfoldError


class State(Enum):
    """What a connection is doing."""

    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    BACKING_OFF = "backing off"
    STOPPING = "stopping"


class Event(Enum):
    """What happens to a connection."""

    USE = "use"
    STARTED = "started"
    FAILED = "failed"
    LOST = "lost"
    DUE = "due"
    STOP = "stop"
    STOPPED = "stopped"


TRANSITIONS: Mapping[tuple[State, Event], State] = MappingProxyType(
    {
        (State.IDLE, Event.USE): State.STARTING,
        (State.IDLE, Event.STOP): State.IDLE,
        (State.STARTING, Event.USE): State.STARTING,
        (State.STARTING, Event.STARTED): State.READY,
        (State.STARTING, Event.FAILED): State.BACKING_OFF,
        (State.STARTING, Event.STOP): State.STOPPING,
        (State.READY, Event.USE): State.READY,
        (State.READY, Event.LOST): State.BACKING_OFF,
        (State.READY, Event.STOP): State.STOPPING,
        (State.BACKING_OFF, Event.USE): State.STARTING,  # once it is due; before that the use is refused
        (State.BACKING_OFF, Event.DUE): State.STARTING,
        (State.BACKING_OFF, Event.STOP): State.IDLE,
        (State.STOPPING, Event.STOP): State.STOPPING,
        (State.STOPPING, Event.STARTED): State.STOPPING,
        (State.STOPPING, Event.FAILED): State.IDLE,
        (State.STOPPING, Event.LOST): State.IDLE,
        (State.STOPPING, Event.STOPPED): State.IDLE,
    }
)


class NotNow(ToolfoldError):
    """A connection can't do what is asked in its state."""


@frozen
class Backoff:
    """How long to wait after failures in a row, in seconds: `first`, then twice as long each time, up to `most`.

    A connection that was up for `steady` seconds before it was lost has not failed at all: it may start again at once.
    """

    first: float = 0.5
    most: float = 60.0
    steady: float = 5.0

    def delay(self, failures: int) -> float:
        """Return the wait after so many failures in a row."""
        return min(self.first * 2 ** min(failures - 1, 30), self.most) if failures else 0.0


@frozen
class Life:
    """Where a connection stands.

    Attributes:
        state: Its state.
        since: When it came into that state.
        failures: How often in a row it failed to start, or was lost soon after.
        due: When it may start again, where it backs off.
        reason: Why it failed or was lost: a clause for its operator.
        lost: Whether it was lost; else it did not start.
    """

    state: State = State.IDLE
    since: float = 0.0
    failures: int = 0
    due: float = 0.0
    reason: str = ""
    lost: bool = False


def after(life: Life, event: Event, now: float, backoff: Backoff, reason: str = "") -> Life:
    """Return where a connection stands after an event; `reason` says why it failed or was lost.

    Raises:
        NotNow: The event is not one of its state, or it is used before it is due.
    """
    state = TRANSITIONS.get((life.state, event))
    if state is None:
        raise NotNow(f"A connection that is {life.state.value} can't take the event {event.value!r}.")
    if life.state is State.BACKING_OFF and state is State.STARTING and now < life.due:
        raise NotNow(f"It is tried again in {life.due - now:.1f} seconds.")
    if state is life.state:
        return life
    if state is State.BACKING_OFF:
        steady = event is Event.LOST and now - life.since >= backoff.steady
        failures = 0 if steady else life.failures + 1
        due = now + backoff.delay(failures)
        return Life(state, now, failures, due, reason, lost=event is Event.LOST)
    if state is State.IDLE:
        return Life(state, now)
    return evolve(life, state=state, since=now)
