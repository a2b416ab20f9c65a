"""A session: the activation state of one client or conversation, to read, call and change (SPEC 5, 9, 10, 11).

Its `Executor` holds the state and changes it. Reads take the present state and never wait. Nothing here decides a
state or an availability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from attrs import frozen

from .._catalog.catalog import Catalog
from .._catalog.components import Component, Kind, Profile, kinds_of
from .._names import ToWire, is_text
from .._snapshot import Change, Snapshot
from .._usercode import on_loop
from .._view.context import CallContext, Progress, no_progress
from .._view.listing import GroupInfo, Page, group_infos, listed, page_of
from .._view.visibility import RequestView
from ..errors import InvalidDefinition, SessionClosed
from ..machine import TransitionRequest, close, plan
from .calls import Calls, Host
from .executor import Executor, Planner
from .persistence import Saved, dumped, is_fact

Listener = Callable[[frozenset[str]], None]

_NOT_OPENED = "was not opened; use `async with tools.open_session() as session`, or `await session.start()`"


class Session(Calls):
    """The activation state of one client or conversation. Made by `ToolSet.open_session`; use it with `async with`."""

    __slots__ = (
        "__weakref__",
        "_discarded",
        "_executor",
        "_owner",
        "_start",
        "_status",
        "_tools",
        "caller",
        "id",
    )

    def __init__(
        self,
        tools: Host,
        identity: str,
        profile: Profile | None,
        start: Iterable[str] | Saved,
        caller: str | None = None,
    ) -> None:
        self.id = identity
        self.caller = caller
        self._tools = tools
        self._start = start if isinstance(start, Saved) else tuple(start)
        self._status: Literal["new", "open", "closed"] = "new"
        self._executor = Executor(identity, tools, profile)
        self._discarded = start.discarded(self.catalog) if isinstance(start, Saved) else ()
        self._owner: Session | None = None

    # -- life cycle ---------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # a type checker refuses `with` because there is no such method

        def __enter__(self) -> NoReturn:
            raise SessionClosed(self.id, _NOT_OPENED)

        def __exit__(self, *_: object) -> None:
            """Exist, so that `with` reaches the message above."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> Self:
        """Open the session, with its profile's and its own groups active, or its restored state, and return it.

        Raises:
            QuotaExceeded: Too many sessions are open (SPEC SES-4).
            ToolfoldError: A group to start with can't be activated; the session is closed then.
        """
        if self._status == "new":
            await self._tools.pool.admit(self)
            self._status = "open"
            try:
                if isinstance(self._start, Saved):
                    await self._restore(self._start)
                elif self._start:
                    await self.set_up(self._start)
            except BaseException:
                await self.close()
                raise
        return self

    def begin(self, snapshot: Snapshot | None = None, owner: Session | None = None) -> None:
        """Open the session at once, without hooks, in the state `snapshot`, or with no groups active.

        The groups that are active in `snapshot` are inherited: another session, the `owner`, has set up those that have
        hooks, and closes them.
        """
        self._status = "open"
        if snapshot is not None:
            self._executor.begin(snapshot)
            self._owner = owner

    async def close(self) -> None:
        """End the session: tear down its active groups, all of them, whatever fails (SPEC HOOK-9, SES-3).

        It is not abandoned when the caller is cancelled: the cancellation is raised once the session is closed.

        Raises:
            ExceptionGroup: Of `HookFailed`, one for each hook that failed; the session is closed all the same.
        """
        failures: tuple[Exception, ...] = ()
        async with self._executor.queued("close"):
            if self._status == "closed":
                return
            try:
                if self._status == "open":
                    end = partial(close, keep=self.inherited)
                    compare = self._executor.has_listeners
                    change = await self._executor.execute(
                        end, partial(HookContext, self), force=True, compare=compare, shielded=True
                    )
                    failures = change.failures
            finally:  # a cancellation that came meanwhile is raised here, with all hooks attempted
                self._status = "closed"
                self._executor.silence()
                self._tools.pool.discard(self)
        if failures:
            raise ExceptionGroup(f"Session {self.id!r} is closed, but hooks failed", list(failures))

    async def set_up(self, paths: Iterable[str]) -> None:
        """Activate the groups that the session begins with, before anything is listed; raises as `transition` does.

        No list was given out that could differ, so the application state is not read for one (SPEC MOD-3).
        """
        await self._begin_with(partial(plan, request=TransitionRequest(paths)))

    @property
    def tools(self) -> Any:
        """The `ToolSet` whose session this is, a type of a later layer."""
        return self._tools

    @property
    def inherited(self) -> tuple[str, ...]:
        """The active groups that another session has set up and closes: their hooks don't run here.

        One that is closed here is inherited no longer: opening it again runs its hooks.
        """
        return self._executor.inherited

    @property
    def owner(self) -> Session | None:
        """The session that runs the hooks of the inherited groups, if there is one."""
        return self._owner

    @property
    def is_orphaned(self) -> bool:
        """Whether a group that this session inherits is no longer open in its owner, so that its hooks are undone."""
        owner = self._owner
        if owner is None:
            return False
        return not owner.is_open or not all(map(owner.snapshot.is_active, self.inherited))

    def holder(self, path: str) -> Session:
        """Return the session in which a group's hooks run: this one, or the owner that it inherits the group from.

        What a hook stores by `context.session`, a tool of the group finds by `context.session.holder(path)`, also where
        a server opens the group for everybody (SPEC DEL-4, HOOK-1).
        """
        return self._owner if self._owner is not None and path in self.inherited else self

    @property
    def is_open(self) -> bool:
        """Whether the session takes requests."""
        return self._status == "open"

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The present state, in the newest catalog (SPEC REG-7)."""
        return self._executor.snapshot

    @property
    def catalog(self) -> Catalog:
        """The catalog as this session knows it."""
        return self.snapshot.catalog

    @property
    def has_hooks(self) -> bool:
        """Whether any transition of this session runs a hook."""
        return self.catalog.has_hooks

    @property
    def active(self) -> tuple[str, ...]:
        """The active groups, in canonical order."""
        return self.snapshot.active

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts, read-only."""
        return self.snapshot.facts

    @property
    def discarded(self) -> tuple[str, ...]:
        """The groups that a restored state had and that this catalog does not allow (SPEC PER-2)."""
        return self._discarded

    def dump(self) -> dict[str, Any]:
        """Return the state as a small JSON value, for `ToolSet.restore_session` (SPEC PER-1).

        Transient groups are left out with what is in them (SPEC PER-4). Raises `SessionClosed`.
        """
        self._check_open()
        return dumped(self._tools.name, self._executor.profile.name if self._executor.profile else None, self.snapshot)

    @on_loop
    def fork(self, *, identity: str | None = None) -> Session:
        """Return a new session in the state that this one has now, for a sub-agent (SPEC SES-7).

        Open it like one of `ToolSet.open_session`. It has the groups, the facts, the profile and the
        caller of this one. Opening it runs the hooks of its groups, as for any session that begins with groups; from
        now on neither session sees what the other does.

        Args:
            identity: The session's name in logs and events; numbered otherwise.

        Raises:
            SessionClosed: This session has ended.
        """
        self._check_open()
        now = self.snapshot
        state = Saved(tuple(now.configuration.oldest_first), now.facts, with_transient=True)
        return Session(self._tools, identity or self._tools.new_identity(), self._executor.profile, state, self.caller)

    def is_active(self, path: str) -> bool:
        """Return whether the group is active, or raise `GroupNotFound`."""
        configuration = self.snapshot.configuration
        return bool(configuration.active >> configuration.forest.number(path) & 1)

    def view(self, request: RequestView | None = None) -> RequestView:
        """Return the view of one request: the present snapshot and one reading of the application state.

        With `request`, a view of the same request, the reading is that one's (SPEC MOD-3).
        """
        return self._tools.view_of(self.snapshot) if request is None else request.of(self.snapshot)

    def list_groups(self) -> tuple[GroupInfo, ...]:
        """Return all groups with their states, in canonical order (SPEC LST-4)."""
        self._check_open()
        self._tools.pool.touch(self)
        return group_infos(self.snapshot)

    def list_tools(self, cursor: str | None = None) -> Page:
        """Return a page of the tools that are listed now (SPEC LST-1, LST-2); raises `InvalidCursor`."""
        return self.list("tool", cursor)

    def list(
        self, kind: Kind, cursor: str | None = None, extra: tuple[Component, ...] = (), to_wire: ToWire = str
    ) -> Page:
        """Return a page of what is listed of a kind, and of `extra` beside it; see `list_tools` (SPEC REG-9).

        `to_wire` maps names to those by which the list is ordered.
        """
        self._check_open()
        self._tools.pool.touch(self)
        return page_of(self.view(), kind, cursor, self._tools.page_size, extra, to_wire)

    def listed_names(self) -> tuple[str, ...]:
        """Return the names of all tools that are listed now."""
        return tuple(component.name for component in listed(self.view(), "tool"))

    # -- changing -----------------------------------------------------------------------------------------------------

    async def activate(self, path: str) -> bool:
        """Activate a group; return whether anything changed (SPEC ACT-1 to ACT-4).

        Raises:
            GroupNotFound, ParentInactive, QuotaExceeded: It can't be activated; nothing has changed.
            HookFailed: A hook failed; nothing has changed (SPEC HOOK-4).
            ReentrantTransition: Asked by a hook of this session (SPEC HOOK-7).
            SessionClosed: The session has ended.
        """
        return bool(await self.transition(activate=(path,)))

    async def deactivate(self, path: str, *, force: bool = False) -> bool:
        """Deactivate a group and everything below it; return whether anything changed (SPEC ACT-5).

        With `force` it completes although `on_deactivate` hooks fail; observers are notified of them (SPEC HOOK-8).
        Raises as `activate` does.
        """
        return bool(await self.transition(deactivate=(path,), force=force))

    async def transition(
        self,
        activate: Iterable[str] = (),
        deactivate: Iterable[str] = (),
        *,
        force: bool = False,
        view: RequestView | None = None,
    ) -> Change:
        """Deactivate and activate groups as one atomic transition; return what changed (SPEC ACT-9).

        `view` is that of the request that the transition is part of, if there is one (SPEC MOD-3).

        Raises as `activate` does, and `ExclusionConflict` if two groups to activate exclude one another.
        """
        request = TransitionRequest(activate, deactivate)
        async with self._executor.queued("transition", request, force):
            self._check_open()
            self._tools.pool.touch(self)
            planner = partial(plan, request=request)
            return await self._executor.execute(planner, partial(HookContext, self), force=force, view=view)

    @on_loop
    def set_fact(self, name: str, value: Any, *, view: RequestView | None = None) -> None:
        """Set a fact: JSON's scalars, or tuples of them (SPEC SES-5). Predicates see it from the next request on.

        `view` is that of the request that this is part of, if there is one (SPEC MOD-3).

        Raises:
            InvalidDefinition: The value is not an immutable JSON value.
            ReentrantTransition: Asked by a hook of this session.
        """
        with self._tools.observers.requested(self.id, "set_fact", name):
            self._check_open()
            self._executor.refuse_reentry()
            if not is_text(name) or not is_fact(value):
                raise InvalidDefinition(
                    str(name), "a fact is None, a bool, a finite number, a text, or a tuple of such"
                )
            self._tools.pool.touch(self)
            before = self.view(view)
            self._executor.change_facts({**before.snapshot.facts, name: value}, before)

    def on_list_changed(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(kinds)` called once after each committed change of this session's lists (SPEC NTF-1, NTF-2).

        It is a plain function that returns at once; `kinds` names the lists, such as `{"tool"}`. What it raises is
        logged. Returns a function that removes the listener.
        """
        return self._executor.listen(listener)

    @on_loop
    def notify(self, kinds: Kind | Iterable[Kind] = "tool") -> None:
        """Notify this session's listeners that lists changed, for changes of the catalog (SPEC NTF-3).

        Raises `ConfigError` as `ToolSet.notify_list_changed` does.
        """
        self._executor.notify(kinds_of(kinds))

    # -- internals ----------------------------------------------------------------------------------------------------

    async def _restore(self, saved: Saved) -> None:
        """Restore a state; hooks run, since what they set up may be gone."""
        self._executor.change_facts(saved.facts)
        await self._begin_with(lambda _: saved.plan(self.catalog))
        self._discarded = saved.discarded(self.catalog)

    async def _begin_with(self, planner: Planner) -> None:
        async with self._executor.queued("start"):
            await self._executor.execute(planner, partial(HookContext, self), compare=False)

    def _check_open(self) -> None:
        if self._status == "new":
            raise SessionClosed(self.id, _NOT_OPENED)
        if self._status != "open":
            raise SessionClosed(self.id)

    def _view_of_request(self, view: RequestView | None = None) -> RequestView:
        self._check_open()
        self._tools.pool.touch(self)
        return view or self.view()

    def _use(self, paths: Iterable[str]) -> None:
        self._executor.use(paths)

    def _context(
        self, name: str, view: RequestView, request: Any, to_wire: ToWire, progress: Progress = no_progress
    ) -> Context:
        return Context(self, name, view, request, to_wire, progress)


class Context(CallContext):
    """What a handler is given beside its arguments (SPEC CALL-5).

    `session` is the session of the call, `name` the full name of the tool. `view` is what the call was checked against,
    with its one reading of the application state; the next request sees what the handler changes. What it does
    through this context belongs to the same request (SPEC MOD-3). `request` is what the adapter received the call as,
    or `None`; `to_wire` maps a tool's name to the caller's.

    A plain function that runs in a worker thread may use it from there. It calls what is async by
    `anyio.from_thread.run(context.activate, "a")`.
    """

    __slots__ = ()
    session: Session


@frozen(eq=False)
class HookContext:
    """What a hook is given, if it takes an argument: the session, the group, and the phase.

    A hook can read its session, and ask other sessions for changes, but not its own: `ReentrantTransition` (SPEC
    HOOK-7). One that is a plain function runs in a worker thread and calls what is async by `anyio.from_thread.run`.
    """

    session: Session
    group: str
    phase: str
    undoes: str | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts."""
        return self.session.facts
