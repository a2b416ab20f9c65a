"""The async shell around the machine: one holder's state, its steps and its listeners (SPEC 5, 10, 11).

A step is planned by `machine.plan`, taken by `Steps`, and committed here by swapping one reference; only then are
observers and listeners told. Reads take the reference as it is and never wait. Nothing here decides a state or an
availability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from . import dispatch
from .catalog import Catalog, Kind, Profile, Spec, kinds_of
from .dispatch import Context, Progress, ToolResult, no_progress
from .errors import (
    InvalidDefinition,
    SessionClosed,
    ToolfoldError,
    ToolNotFound,
)
from .listing import GroupInfo, Page, changes, group_infos, listed, page_of
from .machine import Plan, TransitionRequest, close, plan
from .modes import narrowed
from .names import Spelling, is_text
from .observe import (
    Change,
    Committed,
    EventRefused,
    HooksFailed,
    NotificationFailed,
    log,
)
from .persist import Saved, dumped, is_fact
from .resources import matching
from .snapshot import Snapshot
from .steps import MakePlan, Steps
from .transaction import Transaction
from .usercode import is_failure, on_loop
from .visibility import View, available

if TYPE_CHECKING:
    from .toolset import ToolSet

Listener = Callable[[frozenset[str]], None]

_NOT_OPENED = "was not opened; use `async with tools.open_session() as session`, or `await session.start()`"


class Session:
    """One holder's activation state. Made by `ToolSet.open_session`; use it with `async with`."""

    __slots__ = (
        "__weakref__",
        "_dropped",
        "_inherited",
        "_listeners",
        "_owner",
        "_profile",
        "_snapshot",
        "_start",
        "_status",
        "_steps",
        "_tools",
        "caller",
        "id",
    )

    def __init__(
        self,
        tools: ToolSet,
        identity: str,
        profile: Profile | None,
        start: Iterable[str] | Saved,
        caller: str | None = None,
    ) -> None:
        self.id = identity
        self.caller = caller
        self._tools = tools
        self._profile = profile
        self._start = start if isinstance(start, Saved) else tuple(start)
        self._status: Literal["new", "open", "closed"] = "new"
        self._snapshot = Snapshot.of(tools.catalog_under(profile))
        self._dropped = start.dropped(self._snapshot.catalog) if isinstance(start, Saved) else ()
        self._steps = Steps(tools.observers)
        self._inherited: tuple[str, ...] = ()
        self._owner: Session | None = None
        self._listeners: tuple[Listener, ...] = ()

    # -- life ---------------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # a type checker refuses `with` because there is no such method

        def __enter__(self) -> NoReturn:
            raise SessionClosed(self.id, _NOT_OPENED)

        def __exit__(self, *_: object) -> None:
            """Be there, so that `with` gets as far as to the message above."""

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
            self._snapshot = snapshot.moved_to(self.catalog)
            self._inherited = self._snapshot.active
            self._owner = owner

    async def close(self) -> None:
        """End the session: tear down its active groups, all of them, whatever fails (SPEC HOOK-9, SES-3).

        It is not given up when the caller is cancelled: the cancellation goes on once the session is closed.

        Raises:
            ExceptionGroup: Of `HookFailed`, one for each hook that failed; the session is closed all the same.
        """
        failures: tuple[Exception, ...] = ()
        async with self._steps.turn(self.id, "close"):
            if self._status == "closed":
                return
            try:
                if self._status == "open":
                    told = bool(self._listeners)  # a connection may go on with another session
                    end = partial(close, keep=self._inherited)
                    failures = (await self._carry_out(end, force=True, compare=told, shielded=True)).failures
            finally:  # a cancellation that came meanwhile is raised here, with all hooks attempted
                self._status = "closed"
                self._listeners = ()
                self._tools.pool.discard(self)
        if failures:
            raise ExceptionGroup(f"Session {self.id!r} is closed, but hooks failed", list(failures))

    async def set_up(self, paths: Iterable[str]) -> None:
        """Activate the groups that the session begins with, before anything is listed; raises as `transition` does.

        Nobody has had a list that could differ, so the application state is not read for one (SPEC MOD-3).
        """
        request = TransitionRequest(paths)
        await self._begin_with(lambda configuration: plan(configuration, request))

    @property
    def tools(self) -> ToolSet:
        """The tool set whose session this is."""
        return self._tools

    @property
    def inherited(self) -> tuple[str, ...]:
        """The active groups that another session has set up and closes: their hooks don't run here.

        One that is closed here is inherited no longer: opening it again runs its hooks.
        """
        return self._inherited

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
        return not owner.is_open or not all(map(owner.snapshot.is_active, self._inherited))

    def holder(self, path: str) -> Session:
        """Return the session in which a group's hooks run: this one, or the owner that it inherits the group from.

        What a hook keeps by `context.session`, a tool of the group finds by `context.session.holder(path)`, also where
        a server opens the group for everybody (SPEC DEL-4, HOOK-1).
        """
        return self._owner if self._owner is not None and path in self._inherited else self

    @property
    def is_open(self) -> bool:
        """Whether the session takes requests."""
        return self._status == "open"

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The present state, in the newest catalog (SPEC REG-7)."""
        catalog = self._tools.catalog_under(self._profile)
        return self._snapshot if self._snapshot.catalog is catalog else self._moved_to(catalog)

    @on_loop
    def _moved_to(self, catalog: Catalog) -> Snapshot:
        return self._snapshot.moved_to(catalog)

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
        return self._snapshot.facts

    @property
    def dropped(self) -> tuple[str, ...]:
        """The groups that a restored state had and that this catalog does not allow (SPEC PER-2)."""
        return self._dropped

    def dump(self) -> dict[str, Any]:
        """Return the state as a small JSON value, for `ToolSet.restore_session` (SPEC PER-1).

        Transient groups are left out with what is in them (SPEC PER-4). Raises `SessionClosed`.
        """
        self._check_open()
        return dumped(self._tools.name, self._profile.name if self._profile else None, self.snapshot)

    def is_active(self, path: str) -> bool:
        """Return whether the group is active, or raise `GroupNotFound`."""
        configuration = self.snapshot.configuration
        return bool(configuration.active >> configuration.forest.number(path) & 1)

    def view(self, request: View | None = None) -> View:
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

    def list(self, kind: Kind, cursor: str | None = None, extra: tuple[Spec, ...] = (), spell: Spelling = str) -> Page:
        """Return a page of what is listed of a kind, and of `extra` beside it; see `list_tools` (SPEC REG-9).

        `spell` gives the names that the list is in order of.
        """
        self._check_open()
        self._tools.pool.touch(self)
        return page_of(self.view(), kind, cursor, self._tools.page_size, extra, spell)

    def listed_names(self) -> tuple[str, ...]:
        """Return the names of all tools that are listed now."""
        return tuple(spec.name for spec in listed(self.view(), "tool"))

    # -- calling ------------------------------------------------------------------------------------------------------

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        request: Any = None,
        spell: Spelling = str,
        view: View | None = None,
    ) -> ToolResult:
        """Call a tool and return its result (SPEC 9).

        Args:
            name: The full name of the tool.
            arguments: Its arguments, as JSON values.
            progress: Is told how far the call has come.
            request: Whatever the call came from, for the handler's context.
            spell: Gives tools' names in results as the caller knows them.
            view: What the call is checked against, if there is more to this request than the call (SPEC MOD-3).

        Raises:
            ToolNotFound: The tool is unknown or not available (SPEC CALL-1).
            ProtocolError: The handler asked for an error of the protocol.
        """
        with self._tools.observers.requested(self.id, "tool", name):
            spec, view = self._find("tool", name, spell, view)
            context = Context(self, name, view, request, spell, progress or no_progress)
            result = await dispatch.run(narrowed(spec, view), arguments, context)
            self._tools.observers.answered(self.id, result.is_error)
            if not result.is_error and result.needs is None and name in view.snapshot.catalog.opened_by:
                with self._tools.observers.requested(self.id, "success", name):
                    await self._open_on(name, view)
            return result

    async def fetch(
        self,
        kind: Kind,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        request: Any = None,
        spell: Spelling = str,
    ) -> Any:
        """Return what the handler of a prompt, resource or resource template answers (SPEC REG-9).

        `spell` gives tools' names as the caller knows them.

        Raises:
            ToolNotFound: It is unknown or not available.
            InvalidArguments: The arguments do not fit.
            ToolError: The handler told the caller what went wrong, or failed in another way (SPEC CALL-3).
            ProtocolError: The handler asked for an error of the protocol.
        """
        return await self._fetch(kind, name, arguments, request, spell, lambda answer: answer)

    async def read(self, uri: str, request: Any = None, spell: Spelling = str) -> Any:
        """Return the contents of the resource at `uri`, its own or an instance of a template (SPEC REG-9).

        `spell` gives tools' names as the caller knows them.

        Raises `ToolNotFound` if no available resource has that URI, and else as `fetch` does.
        """
        with self._tools.observers.requested(self.id, "resource", uri):
            self._check_open()
            self._tools.pool.touch(self)
            view = self.view()
            spec, arguments = self._resource(uri, view, spell)
            to_contents = partial(dispatch.to_contents, uri, spec.definition.get("mimeType"))
            return await dispatch.fetch(spec, arguments, Context(self, spec.name, view, request, spell), to_contents)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, request: Any = None, spell: Spelling = str
    ) -> Any:
        """Return the messages of a prompt, in the form of the MCP specification (SPEC REG-9); raises as `fetch`."""
        return await self._fetch("prompt", name, arguments, request, spell, dispatch.to_prompt)

    async def _fetch(
        self,
        kind: Kind,
        name: str,
        arguments: Mapping[str, Any] | None,
        request: Any,
        spell: Spelling,
        to_answer: Callable[[Any], Any],
    ) -> Any:
        with self._tools.observers.requested(self.id, kind, name):
            spec, view = self._find(kind, name, spell)
            return await dispatch.fetch(spec, arguments, Context(self, spec.name, view, request, spell), to_answer)

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

        With `force` it completes although `on_deactivate` hooks fail; observers are told which (SPEC HOOK-8). Raises
        as `activate` does.
        """
        return bool(await self.transition(deactivate=(path,), force=force))

    async def transition(
        self,
        activate: Iterable[str] = (),
        deactivate: Iterable[str] = (),
        *,
        force: bool = False,
        view: View | None = None,
    ) -> Change:
        """Deactivate and activate groups as one atomic step; return what changed (SPEC ACT-9).

        `view` is that of the request that the step is part of, if there is one (SPEC MOD-3).

        Raises as `activate` does, and `ExclusionConflict` if two groups to activate exclude one another.
        """
        request = TransitionRequest(activate, deactivate)
        async with self._steps.turn(self.id, "transition", request, force):
            self._check_open()
            self._tools.pool.touch(self)
            return await self._carry_out(lambda configuration: plan(configuration, request), force, view)

    @on_loop
    def set_fact(self, name: str, value: Any, *, view: View | None = None) -> None:
        """Set a fact: JSON's scalars, or tuples of them (SPEC SES-5). Predicates see it from the next request on.

        `view` is that of the request that this is part of, if there is one (SPEC MOD-3).

        Raises:
            InvalidDefinition: The value is not an immutable JSON value.
            ReentrantTransition: Asked by a hook of this session.
        """
        with self._tools.observers.requested(self.id, "set_fact", name):
            self._check_open()
            self._steps.refuse_reentry(self.id)
            if not is_text(name) or not is_fact(value):
                raise InvalidDefinition(
                    str(name), "a fact is None, a bool, a finite number, a text, or a tuple of such"
                )
            self._tools.pool.touch(self)
            before = self.view(view)
            self._snapshot = before.snapshot.with_facts({**before.snapshot.facts, name: value})
            self._tell_listeners(changes(before, before.of(self._snapshot)))

    @on_loop
    def on_list_changed(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(kinds)` called once after each committed change of this session's lists (SPEC NTF-1, NTF-2).

        It is a plain function that returns at once; `kinds` names the lists, such as `{"tool"}`. What it raises is
        logged. Returns a function that takes the listener away.
        """
        self._listeners = (*self._listeners, listener)

        @on_loop
        def remove() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return remove

    @on_loop
    def notify(self, kinds: Kind | Iterable[Kind] = "tool") -> None:
        """Tell this session's listeners that lists changed, for changes of the catalog (SPEC NTF-3).

        Raises `ConfigError` as `ToolSet.notify_list_changed` does.
        """
        self._tell_listeners(kinds_of(kinds))

    # -- within -------------------------------------------------------------------------------------------------------

    async def _restore(self, saved: Saved) -> None:
        """Take up a state; hooks run, since the world that they set up may be gone."""
        self._snapshot = self.snapshot.with_facts(saved.facts)
        await self._begin_with(lambda _: saved.plan(self.catalog))
        self._dropped = saved.dropped(self.catalog)

    async def _begin_with(self, make_plan: MakePlan) -> None:
        async with self._steps.turn(self.id, "start"):
            await self._carry_out(make_plan, force=False, compare=False)

    def _check_open(self) -> None:
        if self._status == "new":
            raise SessionClosed(self.id, _NOT_OPENED)
        if self._status != "open":
            raise SessionClosed(self.id)

    def _find(self, kind: Kind, name: str, spell: Spelling, view: View | None = None) -> tuple[Spec, View]:
        """Return what is called by that name, and the view in which it is available (SPEC CALL-4)."""
        self._check_open()
        self._tools.pool.touch(self)
        view = view or self.view()
        spec = view.snapshot.catalog.shelves[kind].by_name.get(name)
        if spec is None or not available(spec, view):
            raise ToolNotFound(name, self._tools.hint(spec, view, spell), kind.replace("_", " "))
        return spec, view

    def _resource(self, uri: str, view: View, spell: Spelling) -> tuple[Spec, Mapping[str, str]]:
        """Return the resource that is available at a URI, or a template with the values of its variables."""
        catalog = view.snapshot.catalog
        missed = resource = catalog.shelves["resource"].by_name.get(uri)
        if resource is not None and available(resource, view):
            return resource, {}
        for template, values in matching(catalog, uri):
            if available(template, view):
                return template, values
            missed = missed or template
        raise ToolNotFound(uri, self._tools.hint(missed, view, spell), "resource")

    async def _carry_out(
        self,
        make_plan: MakePlan,
        force: bool,
        view: View | None = None,
        *,
        compare: bool = True,
        shielded: bool = False,
    ) -> Change:
        timeout = self._tools.hook_timeout
        commit = partial(self._commit, view, compare)
        return await self._steps.carry_out(self, make_plan, commit, timeout=timeout, force=force, shielded=shielded)

    def _commit(self, view: View | None, compare: bool, planned: Plan, transaction: Transaction) -> Change:
        before = self.view(view)
        transaction.commit()
        self._snapshot = before.snapshot.at(planned.after)
        if self._inherited:
            self._inherited = tuple(filter(self._snapshot.is_active, self._inherited))
        lists = changes(before, before.of(self._snapshot)) if compare else frozenset[str]()
        change = Change(*planned.paths, lists, tuple(transaction.failures))
        self._tools.observers.tell(Committed(self.id, change))
        if change.failures:
            self._tools.observers.tell(HooksFailed(self.id, change.failures))
        self._tell_listeners(change.lists)
        return change

    def _tell_listeners(self, kinds: frozenset[str]) -> None:
        if not kinds:
            return
        self._tools.observers.list_changed(self.id, kinds, len(self._listeners))
        for listener in self._listeners:
            try:
                listener(kinds)
            except BaseException as error:
                if not is_failure(error):
                    raise
                log.exception("session %s: a listener could not be told of a change", self.id)
                self._tools.observers.tell(NotificationFailed(self.id, error))

    async def _open_on(self, tool: str, view: View) -> None:
        for path in view.snapshot.catalog.opened_by[tool]:
            try:
                await self.transition(activate=(path,), view=view)
            except ToolfoldError as error:
                log.warning("session %s: %s could not open group %s: %s", self.id, tool, path, error)
                self._tools.observers.tell(EventRefused(self.id, tool, error))
