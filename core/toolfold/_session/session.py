"""A session: the activation state of one client or conversation, to read, call and change (SPEC 5, 9, 10, 11).

Its `State` is the one thing that changes; `perform` changes the groups in it. Reads take the present state and never
wait. Nothing here decides a state or an availability.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from attrs import define

from .._catalog.catalog import Catalog
from .._catalog.components import Component, Kind, Profile, kinds_of
from .._catalog.rules import required_groups
from .._extras import Displayed
from .._names import ToWire
from .._snapshot import Change, GroupInfo, Snapshot
from .._usercode import on_loop
from .._view import calling
from .._view.calling import Progress, ToolResult, no_progress
from .._view.listing import Page, changes
from .._view.visibility import RequestView, restrict
from ..errors import InvalidArguments, SessionClosed, StoreUnavailable, ToolError, ToolfoldError, ToolNotFound
from ..machine import TransitionRequest, use
from .context import Context
from .events import Called, EventRefused, SessionEnded
from .journal import Journal
from .observers import UNTRACED, Listener, log
from .perform import Queue, begin, changing, end, hold, notify, refuse_reentry, transition, unless_busy
from .runtime import Runtime
from .state import Saved, with_fact
from .store import UNCERTAIN

if TYPE_CHECKING:
    from .._toolset.toolset import ToolSet


_NOT_OPENED = "was not opened; use `async with tools.open_session() as session`, or `await session.start()`"


@define(eq=False, weakref_slot=False)
class State:
    """What is so of a session at present; `perform` changes it, and `Session` what needs no plan.

    Attributes:
        now: The state that was committed last, in the catalog of that time.
        status: Whether the session is still to be opened, open, or closed.
        inherited: The active groups that another session has set up and closes: their hooks don't run here.
        listeners: Who is to be notified of its lists.
        journal: Records the changes, where the session is in a store.
        queue: The queue of changes; there is none, which would cost memory, while there are no changes.
    """

    now: Snapshot
    status: Literal["new", "open", "closed"]
    inherited: tuple[str, ...] = ()
    listeners: tuple[Listener, ...] = ()
    journal: Journal | None = None
    queue: Queue | None = None

    @property
    def stored(self) -> Journal:
        """The journal of a session that is in a store."""
        assert self.journal is not None
        return self.journal

    def refusal(self, session: str) -> SessionClosed:
        """Return why a session of this name, which is not open, takes no requests."""
        return SessionClosed(session, _NOT_OPENED) if self.status == "new" else SessionClosed(session)


class Session(Displayed):
    """The activation state of one client or conversation. Made by `ToolSet.open_session`; use it with `async with`.

    Attributes:
        runtime: What it shares with the other sessions of its tool set.
        id: Its name in logs and events; the key of its record, if it is in a store.
        caller: Whose it is, where that is known.
        owner: The session that runs the hooks of the inherited groups, if there is one.
        profile: The profile that it was opened with, if there is one.
        state: What is so of it at present, for the modules of this package.
    """

    __slots__ = ("__weakref__", "_discarded", "_start", "caller", "id", "owner", "profile", "runtime", "state")

    def __init__(
        self,
        runtime: Runtime,
        identity: str,
        profile: Profile | None,
        start: Iterable[str] | Saved | Snapshot | None,
        caller: str | None = None,
        owner: Session | None = None,
    ) -> None:
        """Make a session that `start` opens with some groups, or in a saved state; or one that is open at once.

        That is one with no groups active, for `None`; or one in the state of a snapshot, whose active groups are
        inherited: another session, the `owner`, has set up those that have hooks, and closes them.
        """
        self.id = identity
        self.caller = caller
        self.owner = owner
        self.runtime = runtime
        self.profile = profile
        self._start: Iterable[str] | Saved = ()
        self._discarded: tuple[str, ...] = ()
        catalog = runtime.catalogs.under(profile)
        if isinstance(start, Snapshot):
            now = start.moved_to(catalog)
            self.state = State(now, "open", now.active)
            return
        self.state = State(Snapshot.of(catalog), "open" if start is None else "new")
        if isinstance(start, Saved):
            self._start, self._discarded = start, start.restored(catalog)[1]
        elif start is not None:
            self._start = tuple(start)

    def __repr__(self) -> str:
        opened = self.state.status if not self.is_open else f"open, {', '.join(self.active) or 'no group'} active"
        return f"<{type(self).__name__} {self.id!r}: {opened}>"

    # -- life cycle ---------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # pragma: no branch - a type checker refuses `with` because there is no such method

        def __enter__(self) -> NoReturn:
            raise self.state.refusal(self.id)

        def __exit__(self, *_: object) -> None:
            """Exist, so that `with` reaches the message above."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> Self:
        """Open the session, with its profile's and its own groups active, or its restored state, and return it.

        Raises:
            QuotaExceeded: Too many sessions are open (SPEC SES-4).
            ToolfoldError: A group to start with can't be activated; the session is closed then.
        """
        if self.state.status == "new":
            start = self._start
            await self.runtime.pool.admit(self)
            self.state.status, self._start = "open", ()  # which is not needed any more
            try:
                if isinstance(start, Saved):  # hooks run, since what they set up may be gone
                    self._change_facts(start.facts)
                    stored = TransitionRequest(start.active)
                    await begin(self, lambda _: start.plan(self.catalog), ("restore", stored))
                    self._discarded = start.restored(self.catalog)[1]
                elif start:
                    await self.set_up(start)
            except BaseException:
                await self.close()
                raise
        return self

    async def close(self) -> None:
        """End the session: tear down its active groups, all of them, whatever fails.

        It is not abandoned when the caller is cancelled: the cancellation is raised once the session is closed.

        SPEC HOOK-9, SES-3.

        Raises:
            ExceptionGroup: Of `HookFailed`, one for each hook that failed; the session is closed all the same.
            StoreError: The session is in a store, which can't be used: its record stays, and a sweep ends it.
        """
        failures: tuple[Exception, ...] = ()
        async with changing(self, "close"):
            if self.state.status == "closed":
                return
            try:
                if self.is_open:
                    failures = await end(self)
                    if self.is_stored and not self.state.stored.is_local:
                        self.runtime.observers.notify(SessionEnded(self.id))
            finally:  # a cancellation that came meanwhile is raised here, with all hooks attempted
                self.runtime.pool.forget(self)
        if failures:
            raise ExceptionGroup(f"Session {self.id!r} is closed, but hooks failed", list(failures))

    @asynccontextmanager
    async def request(self) -> AsyncGenerator[None]:
        """Run the block as one request; a session in a store is read before it and stored after it.

        Raises:
            SessionClosed: The session has ended.
            StoreError: The session is in a store, which can't be used.
            HookFailed: The session is in a store, and a `resume` hook failed.
        """
        self._check_open()
        journal = self.state.journal
        if journal is not None and await journal.find(journal.key) is not self:
            raise SessionClosed(self.id)
        async with self.storing():
            yield

    @property
    def tools(self) -> ToolSet:
        """The tool set whose session it is."""
        return self.runtime.tools

    def owner_of(self, path: str) -> Session:
        """Return the session in which a group's hooks run: this one, or the owner that it inherits the group from.

        A tool of the group finds what a hook stored under `context.session` under `context.session.owner_of(path)`,
        also where a server opens the group for everybody (SPEC DEL-4, HOOK-1).
        """
        return self.owner if self.owner is not None and path in self.state.inherited else self

    @property
    def is_open(self) -> bool:
        """Whether the session takes requests."""
        return self.state.status == "open"

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The present state, in the newest catalog.

        SPEC REG-7.
        """
        now = self.state.now
        if self.profile is None and now.catalog is self.runtime.catalogs.newest:
            return now
        return self._in_newest_catalog()

    @on_loop
    def _in_newest_catalog(self) -> Snapshot:
        return self.state.now.moved_to(self.runtime.catalogs.under(self.profile))

    @property
    def catalog(self) -> Catalog:
        """The catalog as this session knows it."""
        return self.snapshot.catalog

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
        """The groups that a restored state had and that this catalog does not allow.

        SPEC PER-2.
        """
        return self._discarded if (journal := self.state.journal) is None else journal.discarded

    def dump(self) -> dict[str, Any]:
        """Return the state as a small JSON value, for `ToolSet.restore_session`.

        Transient groups are left out with what is in them (SPEC PER-4). Raises `SessionClosed`.

        SPEC PER-1.
        """
        self._check_open()
        return Saved.dumped(self.runtime.name, self.profile, self.snapshot)

    @on_loop
    def fork(self, *, identity: str | None = None) -> Session:
        """Return a new session in the state that this one has now, for a sub-agent.

        Open it like one of `ToolSet.open_session`. It has the groups, the facts, the profile and the caller of this
        one. Opening it runs the hooks of its groups, as for any session that begins with groups. From then on, neither
        session sees what the other does.

        SPEC SES-7.

        Args:
            identity: The session's name in logs and events; numbered otherwise.

        Raises:
            SessionClosed: This session has ended.
        """
        self._check_open()
        now = self.snapshot
        state = Saved(now.configuration.oldest_first, now.facts, with_transient=True)
        return Session(self.runtime, identity or self.runtime.new_identity(), self.profile, state, self.caller)

    def is_active(self, path: str) -> bool:
        """Return whether the group is active, or raise `GroupNotFound`."""
        configuration = self.snapshot.configuration
        return bool(configuration.active >> configuration.forest.number(path) & 1)

    def view(self, request: RequestView | None = None, to_wire: ToWire = str) -> RequestView:
        """Return the view of one request: the present snapshot and one reading of the application state.

        `to_wire` maps tools' names to those that the caller knows. With `request`, another view of the same request, it
        shares that one's reading and names (SPEC MOD-3).
        """
        return self.runtime.view_of(self.snapshot, to_wire) if request is None else request.of(self.snapshot)

    def list_groups(self) -> tuple[GroupInfo, ...]:
        """Return all groups with their states, in canonical order.

        SPEC LST-4.
        """
        return self._view_of_request().snapshot.groups

    def list_tools(self, cursor: str | None = None) -> Page:
        """Return a page of the tools that are listed now; raises `InvalidCursor`.

        SPEC LST-1, LST-2.
        """
        return self.list("tool", cursor)

    def list(self, kind: Kind, cursor: str | None = None) -> Page:
        """Return a page of the components of a kind that are listed; see `list_tools`.

        SPEC REG-9.
        """
        return self.runtime.page(self._view_of_request(), kind, cursor, session=self.id)

    # -- calling ------------------------------------------------------------------------------------------------------

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        request: Any = None,
        view: RequestView | None = None,
    ) -> ToolResult:
        """Call a tool and return its result.

        Args:
            name: The full name of the tool.
            arguments: Its arguments, as JSON values.
            progress: Receives the progress of the call.
            request: What the adapter received the call as, for the handler's context.
            view: What the call is checked against, with the caller's names of tools: see `view` (SPEC MOD-3, NAM-6).

        Raises:
            ToolNotFound: The tool is unknown or not available (SPEC CALL-1).
            ProtocolError: The handler asked for an error of the protocol.
        """
        observers = self.runtime.observers
        with observers.requested(self.id, "tool", name) if observers.is_traced else UNTRACED:
            began = 0.0 if (clock := observers.clock) is None else clock()
            view = self._view_of_request(view)
            catalog = view.snapshot.catalog
            component = self._found(name, view)
            if catalog.evict_by_use:  # (SPEC FND-3)
                now = self.snapshot
                self.state.now = now.at(use(now.configuration, required_groups(component.rule)))
            context = Context(self, name, view, request, progress or no_progress)
            outcome: ToolResult | None = None
            offered, known_as = restrict(component, view), view.to_wire(name)
            try:
                outcome = result = await calling.fetch(offered, arguments, context, calling.to_result, known_as)
            except (InvalidArguments, ToolError) as error:
                outcome = result = calling.error_result(offered, error)
            finally:
                if clock is not None:
                    observers.notify(Called(self.id, component, request, clock() - began, outcome))
            if observers.is_traced:
                observers.answered(self.id, result.is_error)
            if not result.is_error and result.needs is None and name in catalog.opened_by:
                with observers.requested(self.id, "success", name):
                    opened = await self._open_on(name, context)
                    return result.with_text(catalog.instructions(opened))
            return result

    def _found(self, name: str, view: RequestView) -> Component:
        """Return the tool of a name, or raise `ToolNotFound`, which is counted by its reason (SPEC EXP-1, EXP-3)."""
        try:
            return calling.find("tool", name, view, hints=self.runtime.hints)
        except ToolNotFound:
            self.runtime.refused(self.id, name, view)
            raise

    async def _open_on(self, tool: str, context: Context) -> tuple[str, ...]:
        """Open the groups that open on the success of a tool, and return them (SPEC SES-6)."""
        opened: tuple[str, ...] = ()
        for path in context.snapshot.catalog.opened_by[tool]:
            try:
                opened += (await self.transition(activate=(path,), view=context.request_view)).activated
            except ToolfoldError as error:
                log.warning("session %s: %s could not open group %s: %s", self.id, tool, path, error)
                self.runtime.observers.notify(EventRefused(self.id, tool, error))
        return opened

    async def read(self, uri: str, request: Any = None, view: RequestView | None = None) -> Any:
        """Return the contents of the resource at `uri`, its own or an instance of a template.

        `view` is that of the request, if there is one.

        Raises `ToolNotFound` if no available resource has that URI, and else as `get_prompt` does.

        SPEC REG-9.
        """
        with self.runtime.observers.requested(self.id, "resource", uri):
            view = self._view_of_request(view)
            component, arguments = calling.find_resource(uri, view, hints=self.runtime.hints)
            to_contents = partial(calling.to_contents, uri, component.definition.get("mimeType"))
            return await calling.fetch(component, arguments, Context(self, component.name, view, request), to_contents)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        request: Any = None,
        view: RequestView | None = None,
    ) -> Any:
        """Return the messages of a prompt, in the form of the MCP specification.

        `view` is that of the request, if there is one.

        SPEC REG-9.

        Raises:
            ToolNotFound: It is unknown or not available.
            InvalidArguments: The arguments do not fit.
            ToolError: The handler raised it for the caller, or failed in another way (SPEC CALL-3).
            ProtocolError: The handler asked for an error of the protocol.
        """
        with self.runtime.observers.requested(self.id, "prompt", name):
            view = self._view_of_request(view)
            component = calling.find("prompt", name, view, hints=self.runtime.hints)
            return await calling.fetch(component, arguments, Context(self, name, view, request), calling.to_prompt)

    # -- changing -----------------------------------------------------------------------------------------------------

    async def activate(self, path: str) -> bool:
        """Activate a group; return whether anything changed.

        SPEC ACT-1 to ACT-4.

        Raises:
            GroupNotFound, ParentInactive, QuotaExceeded: It can't be activated; nothing has changed.
            HookFailed: A hook failed; nothing has changed (SPEC HOOK-4).
            ReentrantTransition: Asked by a hook of this session (SPEC HOOK-7).
            SessionClosed: The session has ended.
        """
        return bool(await self.transition(activate=(path,)))

    async def deactivate(self, path: str, *, force: bool = False) -> bool:
        """Deactivate a group and everything below it; return whether anything changed.

        With `force` it completes although `on_deactivate` hooks fail; observers are notified of them (SPEC HOOK-8).
        Raises as `activate` does.

        SPEC ACT-5.
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
        """Deactivate and activate groups as one atomic transition; return what changed.

        `view` is that of the request that the transition is part of, if there is one (SPEC MOD-3).

        Raises as `activate` does, and `ExclusionConflict` if two groups to activate exclude one another.

        SPEC ACT-9.
        """
        if self.runtime.pool.is_ordered:
            self.runtime.pool.touch(self)
        return await transition(self, TransitionRequest(activate, deactivate), force=force, view=view)

    @on_loop
    def set_fact(self, name: str, value: Any, *, view: RequestView | None = None) -> None:
        """Set a fact: one of JSON's scalars, or a tuple of them. Predicates see it from the next request.

        `view` is that of the request that this is part of, if there is one (SPEC MOD-3).

        SPEC SES-5.

        Raises:
            InvalidDefinition: The value is not an immutable JSON value.
            QuotaExceeded: The session has too many facts, or the value is too long (SPEC STO-7).
            ReentrantTransition: Asked by a hook of this session.
        """
        with self.runtime.observers.requested(self.id, "set_fact", name):
            self._use()
            refuse_reentry(self)
            before = self.view(view)
            self._change_facts(with_fact(before.snapshot.facts, name, value))
            notify(self, changes(before, before.of(self.state.now)))

    def _change_facts(self, facts: Mapping[str, Any]) -> None:
        before = self.snapshot
        if (journal := self.state.journal) is not None:
            journal.set_facts(before.facts, facts)
        self.state.now = before.with_facts(facts)

    @on_loop
    def on_list_changed(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(kinds)` called once after each committed change of this session's lists.

        It is a plain function that returns at once; `kinds` names the lists, such as `{"tool"}`. What it raises is
        logged. Returns a function that removes the listener.

        SPEC NTF-1, NTF-2.
        """
        state = self.state
        state.listeners = (*state.listeners, listener)

        @on_loop
        def remove() -> None:
            state.listeners = tuple(other for other in state.listeners if other is not listener)

        return remove

    @on_loop
    def notify(self, kinds: Kind | Iterable[Kind] = "tool") -> None:
        """Notify this session's listeners that lists changed, for changes of the catalog.

        Raises `ConfigError` as `ToolSet.notify_list_changed` does.

        SPEC NTF-3.
        """
        changed = kinds_of(kinds)
        notify(self, changed)
        if (journal := self.state.journal) is not None and journal.client is not None:
            journal.client(changed)

    # -- for hosts ----------------------------------------------------------------------------------------------------

    @property
    def oldest_first(self) -> tuple[str, ...]:
        """The active groups, the longest-active first where that is known, else in canonical order."""
        now, journal = self.snapshot, self.state.journal
        return now.configuration.oldest_first if journal is None else now.in_order(journal.content.active)

    @property
    def is_stored(self) -> bool:
        """Whether a store has the session."""
        return (journal := self.state.journal) is not None and bool(journal.version)

    @property
    def is_away(self) -> bool:
        """Whether the state is the one that was known last, since the store did not answer.

        SPEC STO-5.
        """
        return (journal := self.state.journal) is not None and journal.is_away

    @property
    def about(self) -> Any:
        """What the host has recorded of a session in a store with it."""
        return self.state.stored.content.about

    async def set_up(self, paths: Iterable[str]) -> None:
        """Activate the groups that the session begins with, before anything is listed; raises as `activate` does."""
        request = TransitionRequest(paths)
        await begin(self, partial(Snapshot.plan, request=request), ("start", request))

    @asynccontextmanager
    async def storing(self) -> AsyncGenerator[None]:
        """Run the block as one request: what it changed is stored at its end, if the session is in a store.

        It raises `StoreError`. The caller has found the session in its store; see `request`.
        """
        journal = self.state.journal
        abandoned = 0 if journal is None else journal.abandoned
        try:
            yield
        finally:
            await self.flush(abandoned)

    async def flush(self, abandoned: int | None = None) -> None:
        """Store the facts that were set since the last request, if the session is in a store; raises `StoreError`.

        If that can't be done now, they stay set, and are stored with the next request, unless the record has changed
        since a save of them was not answered: it is unknown whether they were stored, though they may have been given
        out. Such facts count from the time when the journal had `abandoned` of them; from now on, unless given.
        """
        if (journal := self.state.journal) is None or not self.is_open:
            return
        abandoned = journal.abandoned if abandoned is None else abandoned
        if journal.facts:
            async with changing(self, "set_fact"), journal.step():
                try:
                    while journal.facts and not await journal.write(self.snapshot):
                        await hold(self)
                except StoreUnavailable as error:
                    raise StoreUnavailable(UNCERTAIN) from error
        if journal.abandoned != abandoned:
            raise StoreUnavailable(UNCERTAIN)

    def follow(self, notify: Callable[[frozenset[str]], None]) -> None:
        """Have the client of a session in a store notified of changes that are to reach it alone."""
        self.state.stored.client = notify

    async def claim(self) -> tuple[frozenset[str], ...]:
        """Return the kinds of lists, for each transition, of which only the caller is to notify the client.

        There are none if another process was faster, or while another request changes the session: that one claims what
        there is at its end.

        SPEC NTF-1.
        """
        journal = self.state.stored
        if not journal.content.pending:
            return ()
        with unless_busy(self) as alone:
            return await journal.claim(self.snapshot) if alone else ()

    # -- internals ----------------------------------------------------------------------------------------------------

    def _use(self) -> None:
        """Record that the session, which must be open, was used now."""
        self._check_open()
        if self.runtime.pool.is_ordered:
            self.runtime.pool.touch(self)

    def _check_open(self) -> None:
        if self.state.status != "open":
            raise self.state.refusal(self.id)

    def _view_of_request(self, view: RequestView | None = None) -> RequestView:
        self._use()
        return view or self.runtime.view_of(self.snapshot)
