"""The events of a tool set, which is one stream on two levels.

The events of transitions say what became of each, and of the sessions. Those of calls say besides what was asked and
answered: in sum for whoever counts (`Called`, `Refused`, `Listed`), and as it happens for whoever traces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from attrs import field

from .._catalog.catalog import Catalog
from .._catalog.components import Component, Kind, Profile
from .._snapshot import Change, Snapshot
from .._values import frozen
from .._view.calling import ToolResult
from ..errors import HookFailed
from ..machine import Plan, TransitionRequest


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
    """The owner of the tool set announced that lists changed, after registrations (SPEC NTF-3).

    `concerns` returns whether it is for sessions of a profile, or of none.
    """

    kinds: frozenset[str]
    concerns: Callable[[Profile | None], bool] = field(default=lambda _: True, eq=False, repr=False)


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


Reason = tuple[Literal["transition", "start", "restore", "close", "hold"], TransitionRequest | None]
"""Why a step was made, and the groups that were asked for or were stored; to `hold` is to take over a record."""


@frozen
class Planning:
    """What a step planned.

    Attributes:
        before: The state that it planned in.
        version: The version of the record then; 0 where there is none.
        inherited: The groups whose hooks do not run here.
        plan: The plan; `None` if the request was refused.
    """

    before: Snapshot
    version: int
    inherited: tuple[str, ...]
    plan: Plan | None = None


@frozen
class Stepped:
    """A step of a session ended, whether it changed anything or not.

    Attributes:
        session: The name of the session.
        what: Why it was made.
        request: The groups that were asked for, or, to `restore`, those that were stored.
        force: Whether failing `on_deactivate` hooks were only recorded.
        events: The outcomes of its effects, in their order; see `toolfold.machine.step`.
        plans: What was planned, the last plan last.
        ended: The state that it ended in.
        after: The state of the session from now on.
        version: The version of its record; `None` if it has none.
        is_shared: Whether other processes may have the session, too.
        is_interrupted: Whether its caller was cancelled during a hook.
        error: What is raised, if it is.
    """

    session: str
    what: str
    request: TransitionRequest | None
    force: bool
    events: tuple[str, ...]
    plans: tuple[Planning, ...]
    ended: str
    after: Snapshot
    version: int | None
    is_shared: bool
    is_interrupted: bool
    error: BaseException | None


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


class Called(NamedTuple):
    """A call of a tool ended. One is made for each call that is counted, and a tuple is made in half the time.

    Attributes:
        session: The name of the session.
        component: The tool.
        request: What the adapter received the call as, if anything.
        seconds: How long it took.
        result: The result; `None` if it was cancelled, or the tool refused it in a way of the protocol.
    """

    session: str
    component: Component
    request: Any
    seconds: float
    result: ToolResult | None


@frozen
class Refused:
    """A call found no tool that can be called; `why` is the reason (SPEC EXP-1)."""

    session: str
    why: str


@frozen
class Listed:
    """A list was answered with `items`; `session` is empty if it was not that of a session.

    `catalog` is set for a page of a list, which `begins` the list or continues it, and `ends` it or does not. A list
    `leads` a conversation unless what a model is sent first stays the same whatever is listed.
    """

    session: str
    kind: Kind
    items: tuple[Component, ...]
    catalog: Catalog | None = field(default=None, eq=False, repr=False)
    begins: bool = field(default=True, eq=False, repr=False)
    ends: bool = field(default=True, eq=False, repr=False)
    leads: bool = field(default=True, eq=False, repr=False)


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


Count = Called | Refused | Listed | Stepped
Trace = Requested | Planned | HookBegan | HookEnded | ListChanged | Listed | Answered | Ended

TRANSITIONS: tuple[type[Event], ...] = get_args(Event)
"""The events of transitions and sessions."""
TRACED: tuple[type[Event | Trace], ...] = (*TRANSITIONS, *get_args(Trace))
"""With those of calls as they happen."""
