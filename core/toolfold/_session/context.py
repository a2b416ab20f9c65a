"""What handlers and hooks are given of the session that they run in (SPEC CALL-5, HOOK-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from .._catalog.rules import View
from .._limits import escaped
from .._names import ToWire
from .._snapshot import Snapshot
from .._values import frozen
from .._view.calling import EmptySlot, Progress, no_progress
from .._view.visibility import RequestView

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")


@frozen(eq=False)
class Context:
    """What a handler is given beside its arguments.

    `session` is the session of the call, `name` the full name of the tool. `view` is what the call was checked against,
    with its one reading of the application state; the next request sees what the handler changes. What it does
    through this context belongs to the same request (SPEC MOD-3). `request` is what the adapter received the call as,
    or `None`; `to_wire` maps a tool's name to the caller's.

    A plain function that runs in a worker thread may use it from there. It calls what is async by
    `anyio.from_thread.run(context.activate, "a")`.

    SPEC CALL-5.
    """

    session: Session
    name: str
    request_view: RequestView
    request: Any = None
    _progress: Progress = no_progress

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the call was checked against."""
        return self.request_view.snapshot

    @property
    def view(self) -> View:
        """What the call was checked against, with its one reading of the application state.

        SPEC MOD-3.
        """
        return self.request_view.seen

    @property
    def to_wire(self) -> ToWire:
        """Maps a tool's name to the one that the caller knows.

        SPEC NAM-6.
        """
        return self.request_view.to_wire

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts, as of now."""
        return self.session.facts

    def set_fact(self, name: str, value: Any) -> None:
        """Set a fact of the session.

        SPEC SES-5.
        """
        self.session.set_fact(name, value, view=self.request_view)

    def is_group_active(self, path: str) -> bool:
        """Return whether the group is active now."""
        return self.session.is_active(path)

    async def activate(self, path: str) -> bool:
        """Activate a group of the session; see `Session.activate`."""
        return bool(await self.session.transition(activate=(path,), view=self.request_view))

    async def deactivate(self, path: str) -> bool:
        """Deactivate a group of the session; see `Session.deactivate`."""
        return bool(await self.session.transition(deactivate=(path,), view=self.request_view))

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the call to its caller; does nothing if the caller did not ask for it."""
        await self._progress(progress, total, message if message is None else escaped(message))


@frozen(eq=False)
class HookContext:
    """What a hook is given, if it takes an argument: the session, the group, and the phase.

    A hook can read its session, and ask other sessions for changes, but not its own: `ReentrantTransition` (SPEC
    HOOK-7). One that is a plain function runs in a worker thread and calls what is async by `anyio.from_thread.run`.

    `fence` is the token of the lease under which the hook of a session in a store runs: greater than that of any lease
    that the session had before. A process that is paused within a hook for longer than its lease goes on too late, when
    another one has undone that hook. So an outside system that stores the greatest token it has seen for `session.id`,
    and refuses what comes with a smaller one, is never changed late (SPEC STO-2). It is `None` without a store, and in
    a `resume` hook, which changes nothing but its own process.
    """

    session: Session
    group: str
    phase: str
    undoes: str | None = None
    fence: int | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts."""
        return self.session.facts


class Slot(Generic[T]):
    """Where a group's hook puts what it opened for a session, and the group's tools find it.

        database = Slot[Connection]("database")

        def open_database(hook: HookContext) -> None:
            database.fill(hook, connect("shop.db"))

        def close_database(hook: HookContext) -> None:
            database.empty(hook).close()

        tools.register_group("orders", on_activate=open_database, on_deactivate=close_database)

        @tools.tool(group="orders")
        def count(context: Context) -> int:
            return database.of(context).execute("select count(*) from orders").fetchone()[0]

    Each session has a value of its own; one that inherits the group from another session uses that one's. It is kept in
    this process alone: give a group of stored sessions a `resume` hook that fills the slot again, and let the hook that
    closes it pass over the `LookupError` of a slot that a process has left empty which ended while it opened the group.

    SPEC HOOK-1, CALL-5.

    Args:
        name: What is in it, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._values: WeakKeyDictionary[Session, T] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"Slot({self.name!r})"

    def fill(self, hook: HookContext, value: T) -> None:
        """Put a value into the slot of the hook's session."""
        self._values[hook.session] = value

    def empty(self, hook: HookContext) -> T:
        """Take the value out of the slot of the hook's session, and return it; `LookupError` if there is none."""
        if hook.session not in self._values:
            raise EmptySlot(
                f"{self._is_empty(hook.session)} A process that ended left nothing to close: let the "
                "hook that closes it pass over this LookupError, such as by contextlib.suppress."
            )
        return self._values.pop(hook.session)

    def of(self, context: Context | HookContext) -> T:
        """Return the value for the context's session; raises `LookupError` if no hook has filled the slot."""
        for session in (context.session, context.session.owner):
            if session is not None and session in self._values:
                return self._values[session]
        raise EmptySlot(
            f"{self._is_empty(context.session)} Fill it in on_activate of the group whose tools use it, and in resume "
            "if sessions are stored.",
            _to_reopen(context) if isinstance(context, Context) else None,
        )

    def _is_empty(self, session: Session) -> str:
        return f"The slot {self.name!r} of session {session.id!r} is empty: no hook has filled it in this process."


def _to_reopen(context: Context) -> str | None:
    """Return the innermost group of a tool that has a hook which no `resume` hook repeats in another process."""
    catalog, tool = context.snapshot.catalog, context.snapshot.catalog.tools.get(context.name)
    is_stored = (context.session.owner or context.session).state.journal is not None
    path = tool.group if is_stored and tool is not None else None
    while path is not None:
        group = catalog.group(path)
        if group.on_activate is not None and group.resume is None:
            return path
        path = group.parent
    return None
