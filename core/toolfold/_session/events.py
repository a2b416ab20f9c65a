"""The events of a tool set: what observers are given after the fact, and what tracers are given besides."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .._catalog.components import Component, Kind
from .._snapshot import Change
from ..errors import HookFailed
from ..machine import TransitionRequest


@frozen
class Committed:
    """A transition of a session was committed."""

    session: str
    change: Change


@frozen
class RolledBack:
    """A hook failed or was cancelled, so a transition of a session was given up; its state is the one before.

    The error's `__cause__` is what the hook raised; its `compensation`, what failed while earlier hooks were undone.
    """

    session: str
    error: HookFailed


@frozen
class HooksFailed:
    """Hooks failed in a transition that went on: forced, the end of a session, or undone to be planned again."""

    session: str
    failures: tuple[BaseException, ...]


@frozen
class PredicateFailed:
    """A visibility predicate raised, so what it guards is unavailable; reported once for each name (SPEC VIS-4).

    For a predicate or count of one mode of a composite tool, `mode` is its name; it is reported once for each mode.
    """

    kind: str
    name: str
    error: BaseException
    mode: str | None = None


@frozen
class NotificationFailed:
    """A listener of a session failed when it was notified of a change (SPEC NTF-2)."""

    session: str
    error: BaseException


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
    """The owner of the tool set announced that lists changed, after registrations (SPEC NTF-3)."""

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

Asked = Literal[
    "tool", "prompt", "resource", "resource_template", "start", "transition", "close", "set_fact", "success"
]
"""What a session can be asked for: something of a kind by its name, a transition, a fact by its name, or, internally,
to open what opens on the success of a tool."""


@frozen
class Requested:
    """A session was asked for something.

    `number` is unique among the requests of the tool set. `by` is the request whose handler or hook asked, if it
    was one. `name` is that of a tool, prompt, resource or fact; `request` and `force` are those of a transition.
    """

    session: str
    number: int
    by: int | None
    what: Asked
    name: str = ""
    request: TransitionRequest | None = None
    force: bool = False


@frozen
class Planned:
    """A transition was planned: groups in canonical order. Comes again if it is planned again."""

    session: str
    number: int | None
    activated: tuple[str, ...]
    deactivated: tuple[str, ...]


@frozen
class HookBegan:
    """A hook runs for the transition of the request `number`; `undoes` names the phase that a compensation undoes."""

    session: str
    number: int | None
    group: str
    phase: str
    undoes: str | None


@frozen
class HookEnded:
    """The hook that began last in this transition ended; `error` is what it raised, cancellation included."""

    session: str
    number: int | None
    error: BaseException | None


@frozen
class ListChanged:
    """Lists of a session changed, of which its listeners are notified now."""

    session: str
    kinds: frozenset[str]
    listeners: int


@frozen
class Listed:
    """A list was answered with `items`; `session` is empty if it was not that of a session."""

    session: str
    kind: Kind
    items: tuple[Component, ...]


@frozen
class Answered:
    """A call has a result; groups that open on its success do so after this."""

    session: str
    number: int | None
    is_error: bool


@frozen
class Ended:
    """A request ended; `error` is what it raised, cancellation included."""

    session: str
    number: int
    error: BaseException | None


Trace = Requested | Planned | HookBegan | HookEnded | ListChanged | Listed | Answered | Ended
