"""What a tool set tells those who watch it: values, handed to plain functions after the fact.

An observer can't change the outcome: whatever it raises is logged and goes no further.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from attrs import frozen

log = logging.getLogger("toolfold")


@frozen
class Change:
    """What one committed step did.

    `activated` and `deactivated` name groups in canonical order. `lists` holds the kinds of lists that now differ
    (`"tool"`, `"prompt"`, `"resource"`, `"resource_template"`). `failures` are the hooks that failed under `force`.
    """

    activated: tuple[str, ...] = ()
    deactivated: tuple[str, ...] = ()
    lists: frozenset[str] = frozenset()
    failures: tuple[Exception, ...] = ()

    @property
    def list_changed(self) -> bool:
        """Whether the list of tools that the session is given has changed."""
        return "tool" in self.lists

    def __bool__(self) -> bool:
        return bool(self.activated or self.deactivated)


@frozen
class Committed:
    """A step of a session was committed."""

    session: str
    change: Change


@frozen
class RolledBack:
    """A hook failed, so a step of a session was given up; its state is the one before."""

    session: str
    error: Exception


@frozen
class HooksFailed:
    """Hooks failed in a step that went on all the same: forced, or the end of a session."""

    session: str
    failures: tuple[Exception, ...]


@frozen
class PredicateFailed:
    """A visibility predicate raised, so what it guards is unavailable; told once for each name (SPEC VIS-4).

    For a predicate or count of one mode of a composite tool, `mode` is its name; it is told once for each mode.
    """

    kind: str
    name: str
    error: Exception
    mode: str | None = None


@frozen
class NotificationFailed:
    """A committed step could not be told to a listener of its session (SPEC NTF-2)."""

    session: str
    error: Exception


@frozen
class EventRefused:
    """A group that an event should have opened could not be opened (SPEC SES-6)."""

    session: str
    event: str
    error: Exception


@frozen
class SessionOpened:
    """A session began."""

    session: str


@frozen
class SessionEnded:
    """A session ended."""

    session: str


@frozen
class ListsAnnounced:
    """The owner of the tool set said that lists changed, after registrations (SPEC NTF-3)."""

    kinds: frozenset[str]


Event = (
    Committed
    | RolledBack
    | HooksFailed
    | PredicateFailed
    | NotificationFailed
    | EventRefused
    | SessionOpened
    | SessionEnded
    | ListsAnnounced
)
Observer = Callable[[Event], None]


class Observers:
    """The observers of one tool set, in the order in which they came."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []

    def add(self, observer: Observer) -> Callable[[], None]:
        """Add an observer and return a function that takes it away again."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def tell(self, event: Event) -> None:
        """Hand `event` to every observer."""
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception:
                log.exception("an observer raised on %s", type(event).__name__)
