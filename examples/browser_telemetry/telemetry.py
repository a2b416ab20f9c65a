"""The reports of a page: bounded buffers, which drop the oldest entry when full."""

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import frozen

from .events import Action, Console, Event, Frame, Request, Socket, Vitals

CAPACITY = 1000
"""How many entries each buffer has room for."""


@frozen
class Counts:
    """The numbers of entries in the buffers at one moment: the state that a request reads."""

    errors: int
    logs: int
    network: int
    websocket_events: int
    websocket_status: int
    actions: int
    vitals: int
    api: int

    @property
    def summarised(self) -> int:
        """The number of entries that a summary covers."""
        return self.logs + self.actions + self.network + self.vitals

    @property
    def changes(self) -> int:
        """The number of all entries."""
        return self.summarised + self.websocket_events + self.websocket_status


class Telemetry:
    """The buffers of one page. `on_change` is called when a mode gets its first data, or loses its last.

    Errors and logs can be observed without data, so they count only for the mode that sums up all of it.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._start(capacity)

    def _start(self, capacity: int) -> None:
        self.capacity = capacity
        self.console: deque[Console] = deque(maxlen=capacity)
        self.requests: deque[Request] = deque(maxlen=capacity)
        self.frames: deque[Frame] = deque(maxlen=capacity)
        self.actions: deque[Action] = deque(maxlen=capacity)
        self.vitals: deque[Vitals] = deque(maxlen=capacity)
        self.sockets: dict[str, Socket] = {}
        self.endpoints: dict[str, int] = {}
        self._errors = 0

    def record(self, *events: Event) -> None:
        """Record events, in this order."""
        before = self._filled()
        for event in events:
            self._add(event)
        if self._filled() != before:
            self.on_change()

    def _add(self, event: Event) -> None:
        match event:
            case Console():
                evicted = self.console[0] if len(self.console) == self.capacity else None
                self._errors += (event.level == "error") - (evicted is not None and evicted.level == "error")
                self.console.append(event)
            case Request():
                self.requests.append(event)
                self._bounded(self.endpoints, f"{event.method} {event.path}", event.at)
            case Socket():
                self._bounded(self.sockets, event.url, event)
            case Frame():
                self.frames.append(event)
            case Action():
                self.actions.append(event)
            case Vitals():
                self.vitals.append(event)

    def counts(self) -> Counts:
        """Return the current numbers of entries."""
        return Counts(
            errors=self._errors,
            logs=len(self.console),
            network=len(self.requests),
            websocket_events=len(self.frames),
            websocket_status=len(self.sockets),
            actions=len(self.actions),
            vitals=len(self.vitals),
            api=len(self.endpoints),
        )

    def clear(self, capacity: int | None = None) -> None:
        """Empty all buffers, and set their capacity if one is given."""
        was_empty = not any(self._filled())
        self._start(capacity or self.capacity)
        if not was_empty:
            self.on_change()

    def _bounded(self, held: dict[str, Any], key: str, value: Any) -> None:
        held.pop(key, None)
        held[key] = value
        while len(held) > self.capacity:
            del held[next(iter(held))]

    def _filled(self) -> tuple[bool, ...]:
        counts = self.counts()
        held = (self.requests, self.frames, self.sockets, self.actions, self.vitals, self.endpoints)
        return bool(counts.summarised), *map(bool, held)
