"""`ToolSet`: registration and sessions, the face that most users see (SPEC 3, 11).

It owns the catalog, which `Registration` builds, and the open sessions, and decides nothing about state or
availability.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, Never, Protocol, Unpack

from .._catalog.catalog import ListBudget
from .._catalog.components import Component, GroupSpec, Kind, Profile, kinds_of
from .._catalog.loader import Loader
from .._catalog.rules import StateReader
from .._display import Displayed
from .._extras import entry_point
from .._names import ToWire
from .._quota import Limit
from .._session.events import ListsAnnounced
from .._session.observers import Observer, Observers, Tracer
from .._session.pool import SessionPool
from .._session.runtime import Runtime
from .._session.session import Session
from .._session.state import read
from .._session.store import Store
from .._session.stored_sessions import SessionKind, StoredSessions
from .._snapshot import Snapshot
from .._usercode import on_loop
from .._view.listing import GroupInfo, Page
from .._view.results import ToolResult
from .._view.search import Ranker
from .._view.visibility import RequestView
from ..errors import ConfigError
from ..machine import paths_of
from . import settings, toolkits
from .builder import Builder
from .control import ControlName, ControlStyle, ControlVisibility
from .options import ToolOptions
from .registration import Registration
from .settings import Evict, Settings

LIMIT = Limit(10_000, 1_000)
"""How many sessions a store may have, by default."""
LIFETIME = 24 * 3600.0
"""Seconds for which a session is stored without use, by default: its user may come back tomorrow."""


class PathLike(Protocol):
    """A path of any library; the core imports none."""

    def __fspath__(self) -> str:
        """Return the path as a text."""
        ...


class ToolSet(Registration, Displayed):
    """The tools, groups and sessions of one server.

    Args:
        name: Its name, by which cursors of another tool set are recognised.
        control: How groups are opened: `"per_group"`, `"none"`, `"open_group"` (with `close_group`),
            `"load_tool_group"`, `"expand_tools"`, or a `Loader` (SPEC CTL-3).
        control_visibility: `"always"`, or `"relevant"` to list a control tool only while it can do something.
        page_size: The greatest number of items in a page of a list; `None` for one page.
        on_hidden: `"opaque"`, or `"hint"` to name the group to open first, and what opens it, when something of an
            inactive group is asked for (SPEC CALL-1).
        state: Supplies `view.state` to predicates and counts; called at most once for each request (SPEC MOD-3).
        max_active: The greatest number of active groups in a session (SPEC ACT-10).
        evict: `"oldest"` to make room for a new group by closing the longest-active one, `"idlest"` by closing the one
            whose tools were used least recently; `None` to refuse.
        list_budget: How long the list of a session may be, in tokens; `None` for no limit (SPEC FND-3).
        run_in_thread: Whether handlers and hooks that are plain functions run in worker threads, so that they delay no
            other request. They may then run concurrently: guard what they share. Otherwise they run on the event loop,
            and must be quick. Each registration can override it.
        structured_output: Whether the return annotations of typed handlers describe structured results; each
            registration can override it. An output schema makes the list longer.
        hook_timeout: Seconds that a hook may take (SPEC HOOK-6, SAF-5), 30 by default; `None` for no limit.
        max_sessions: The greatest number of open sessions (SPEC SES-4).
        when_full: `"refuse"` a new session, or `"end_idlest"` to end the one that was used least recently, among those
            of the same caller where callers are known.
        idle_timeout: Seconds without a request after which `end_idle_sessions` ends a session (SPEC SES-3).
        clock: Returns the time in seconds, such as `time.monotonic`; needed for `idle_timeout`.
        search: What `find_tools` ranks tools with, such as `toolfold_adapters.search.bm25`; `None` to have no such tool
            (SPEC FND-1).

    Raises:
        ConfigError: A setting is wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        control: ControlName | Loader = "per_group",
        control_visibility: ControlVisibility = "always",
        page_size: int | None = None,
        on_hidden: Literal["opaque", "hint"] = "opaque",
        state: StateReader | None = None,
        max_active: int | None = None,
        evict: Evict | None = None,
        list_budget: ListBudget | None = None,
        run_in_thread: bool = True,
        structured_output: bool = True,
        hook_timeout: float | None = 30.0,
        max_sessions: int | None = None,
        when_full: Literal["refuse", "end_idlest"] = "refuse",
        idle_timeout: float | None = None,
        clock: Callable[[], float] | None = None,
        search: Ranker | None = None,
        **unknown: Never,
    ) -> None:
        settings.check_known(unknown, ToolSet.__init__.__kwdefaults__ or ())
        settings.check_text(name=name)
        settings.check_choice(("opaque", "hint"), on_hidden=on_hidden)
        settings.check_choice(("refuse", "end_idlest"), when_full=when_full)
        settings.check_choice((None, "oldest", "idlest"), evict=evict)
        settings.check_choice((True, False), run_in_thread=run_in_thread, structured_output=structured_output)
        settings.check_counts(page_size=page_size, max_active=max_active, max_sessions=max_sessions)
        settings.check_seconds(hook_timeout=hook_timeout, idle_timeout=idle_timeout)
        settings.check_functions(state=state, clock=clock)
        settings.check_budget(list_budget=list_budget)
        settings.check_functions("a ranker, such as toolfold_adapters.search.bm25", search=search)
        if evict is not None and max_active is None and list_budget is None:
            raise ConfigError(f"evict={evict!r} says what makes room under a limit: set max_active or list_budget too.")
        style = ControlStyle.of(control, control_visibility)
        self.observers = Observers()
        builder = Builder(name, Settings(style, max_active, evict, list_budget, search))
        pool = SessionPool[Session](Limit(max_sessions, None, when_full), idle_timeout, clock, self.observers)
        super().__init__(builder, pool, run_in_thread=run_in_thread, structured_output=structured_output)
        self.name = name
        self.runtime = Runtime(
            self, builder.catalogs, self.observers, pool, hook_timeout, page_size, on_hidden == "hint", state
        )
        self._default: Session | None = None

    def adopt_settings(self, other: ToolSet) -> None:
        """Open groups, list, hint, bound sessions and search as `other` does from now on (SPEC REG-7).

        These are the settings `control`, `control_visibility`, `page_size`, `on_hidden`, `max_active`, `evict`,
        `list_budget` and `search`. Open sessions continue and see the new control tools with their next request; what
        they have active beyond a new limit stays active.

        Raises:
            DuplicateName: A new control tool has the name of a tool; nothing has changed.
        """
        self._builder.adopt_settings(other._builder)
        self.runtime.page_size, self.runtime.hints = other.runtime.page_size, other.runtime.hints

    def __repr__(self) -> str:
        own = sum(tool.control is None for tool in self.catalog.tools.values())
        return f"<ToolSet {self.name!r}: {own} tools in {len(self.catalog.groups)} groups>"

    # -- toolkits -----------------------------------------------------------------------------------------------------

    @on_loop
    def include(self, declared: Any, *, name: str | None = None, **options: Unpack[ToolOptions]) -> None:
        """Register all that a toolkit declares, or nothing of it (SPEC KIT-4, KIT-7, REG-1).

        Args:
            declared: An instance of a class, or a module, whose functions are marked with `@tool`, `@prompt`,
                `@resource`, `@resource_template` and `@group`; see `toolkit`. An instance of a class that is
                itself marked with `@group` becomes a group; what anything else declares is registered at root. A single
                marked function will do as well.
            name: The name of the tool, if one tool is all that is declared.
            options: Options of `register` for all tools, such as `category`, `hidden` or `visible`; they go over what
                the marks and the toolkit say. `group` is the group to put everything below. Options of a single tool,
                such as `description`, are refused unless one tool is all that is declared (SPEC KIT-8).

        Raises:
            InvalidDefinition: Two functions would be the same tool, or an option or definition is wrong.
            InvalidName, DuplicateName, GroupNotFound: As in `register`.
        """
        with self._builder.all_or_nothing():
            toolkits.include(self, declared, {"name": name, **options})

    def include_skill(self, folder: str | PathLike) -> tuple[GroupSpec, ...]:
        """Register a skill as a group, or each of those in a folder, and return the groups (SPEC SKL-2, REG-1).

        A skill is a folder with a `SKILL.md`. Its front matter names and describes the group, and the text after it is
        the group's instructions. The tools that it allows can be called while the group is open, as well as while their
        own groups are; so register them before. One that is missing is reported by a `ToolfoldWarning`. The files of
        the folder are resources, `skill://NAME/PATH`, but for those whose names begin with a dot: they are listed while
        the group is open, and can be read at any time. Over MCP they are skills of the extension
        `io.modelcontextprotocol/skills`, too. It needs the extra `cli`.

        Args:
            folder: A folder with a `SKILL.md`, or one of such folders.

        Raises:
            ManifestError: There is no skill, or what it says is wrong; nothing was registered.
            DuplicateName: A group or a resource is called so; nothing was registered.
            MissingExtra: The extra is not installed.
        """
        groups: tuple[GroupSpec, ...] = entry_point("toolfold.include_skill", "cli")(self, folder)
        return groups

    # -- views --------------------------------------------------------------------------------------------------------

    @property
    def page_size(self) -> int | None:
        """The greatest number of items in a page of a list."""
        return self.runtime.page_size

    @property
    def hook_timeout(self) -> float | None:
        """Seconds that a hook may take; `None` for no limit (SPEC HOOK-6)."""
        return self.runtime.hook_timeout

    def view_of(self, snapshot: Snapshot, to_wire: ToWire = str) -> RequestView:
        """Return a view of a snapshot for one request, whose caller knows tools by `to_wire` (SPEC VIS-3)."""
        return self.runtime.view_of(snapshot, to_wire)

    def page(
        self,
        view: RequestView,
        kind: Kind,
        cursor: str | None = None,
        extra: tuple[Component, ...] = (),
        session: str = "",
    ) -> Page:
        """Return a page of what a view lists, for observers that of a session; raises `InvalidCursor` (SPEC LST-1).

        `extra` is what an adapter lists beside the catalog's own.
        """
        return self.runtime.page(view, kind, cursor, extra, session)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Have `observer(event)` called after each event of this tool set; returns a function that ends that."""
        return self.observers.add(observer)

    def trace(self, tracer: Tracer) -> Callable[[], None]:
        """Have `tracer(event)` called with each event, and with each request, plan and hook as it happens.

        Returns a function that ends that. The events are in `toolfold.spi.events`.
        """
        return self.observers.add_tracer(tracer)

    # -- sessions -----------------------------------------------------------------------------------------------------

    def open_session(
        self,
        profile: str | Profile | None = None,
        active: Iterable[str] = (),
        *,
        identity: str | None = None,
        caller: str | None = None,
    ) -> Session:
        """Return a new session, to be opened by `async with` or by `await session.start()`.

        Args:
            profile: A registered profile's name, or a profile; its active groups are opened first (SPEC PRO-1).
            active: More groups, or one, to open at the start, in one transition with the profile's.
            identity: What the session is called in logs and events; numbered otherwise.
            caller: Whose it is, where that is known: it ends no other caller's session to make room (SPEC SES-4).

        Raises:
            ConfigError: There is no such profile.
        """
        chosen = self.profile(profile)
        start = (*(chosen.active if chosen else ()), *paths_of(active))
        name = identity or self.runtime.new_identity()
        return Session(self.runtime, name, chosen, dict.fromkeys(start), caller)

    def restore_session(
        self, data: Any, profile: str | Profile | None = None, *, identity: str | None = None
    ) -> Session:
        """Return a new session in a state that `Session.dump` gave, to be opened as one of `open_session` is.

        Against the same catalog the state is equal (SPEC PER-1). What another catalog does not allow is in `discarded`
        of the session: unknown groups, groups without active parents, all but the first of an exclusion set (SPEC
        PER-2), and groups that are transient by now (SPEC PER-4).

        Opening it sets the groups up anew: their `on_activate` hooks run as those of one transition (SPEC HOOK-1), and
        can read the facts. If one fails, what had succeeded is undone, and the session is closed.

        Args:
            data: The result of `dump`, perhaps after a round trip through JSON.
            profile: A profile in place of the one that the dumped session was opened under.
            identity: What the session is called in logs and events; numbered otherwise.

        Raises:
            HandleInvalid: The data is damaged, or of another tool set; nothing was opened.
            ConfigError: There is no such profile.
        """
        saved = read(self.name, data)
        chosen = self.profile(saved.profile if profile is None else profile)
        return Session(self.runtime, identity or self.runtime.new_identity(), chosen, saved)

    @asynccontextmanager
    async def stored_sessions(
        self, store: Store, *, lifetime: float = LIFETIME, limit: Limit = LIMIT
    ) -> AsyncGenerator[StoredSessions]:
        """Yield the sessions of a program that are in a store, for conversations that outlive it (SPEC STO-1).

        `async with stored.open("chat-42") as session` continues a session where the last process left it. The hooks of
        a step run under a lease; a step whose process dies is undone by the next one. That also happens in the
        background, where expired sessions are ended (SPEC STO-2, STO-3). Servers have stored sessions of their own.

        Args:
            store: Where they are.
            lifetime: Seconds without use after which a session ends.
            limit: How many there may be in all and per caller (SPEC STO-7).
        """
        stored = StoredSessions(self.runtime, store, SessionKind("session", "stored sessions", limit, lifetime))
        async with stored.running():
            yield stored

    @asynccontextmanager
    async def request_session(
        self,
        snapshot: Snapshot,
        profile: Profile | None = None,
        owner: Session | None = None,
        caller: str | None = None,
    ) -> AsyncGenerator[Session]:
        """Open a session in the state `snapshot` for the duration of one request of a protocol without sessions.

        While it lasts, changes of the catalog reach it (SPEC REG-3, REG-5), but it is not counted, and observers are
        not notified of it. The groups that are active in `snapshot` are inherited: the `owner` has run their hooks, if
        they have any, and closes them. What the request opened beside them is closed at its end, unless
        `pool.admit(session)` has made it a session that outlives the request.
        """
        session = Session(self.runtime, self.runtime.new_identity("request-"), profile, (), caller)
        session.begin(snapshot, owner)
        self.pool.begin_request(session)
        try:
            yield session
        finally:
            await self.pool.end_request(session)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The open sessions, the least recently used first where sessions are bounded or time out."""
        return self.pool.sessions

    @on_loop
    def notify_list_changed(self, kinds: Kind | Iterable[Kind] = "tool") -> None:
        """Notify every open session's listeners that lists changed, after registrations at run time (SPEC NTF-3).

        Call it also after a change of the application state that predicates and modes read: no notification is sent
        otherwise, although the next list shows it. A change of counts is not a change of the list (SPEC MOD-2): clients
        see it when they next list; call this to make them do so.

        Args:
            kinds: Which lists: one of `"tool"`, `"prompt"`, `"resource"` and `"resource_template"`, or several.

        Raises:
            ConfigError: There is no such kind.
        """
        changed = kinds_of(kinds)
        for session in self.pool.live:
            session.notify(changed)
        self.observers.notify(ListsAnnounced(changed))

    async def end_idle_sessions(self) -> int:
        """End the sessions without a request for `idle_timeout` seconds; return how many (SPEC SES-3)."""
        return await self.pool.end_idle()

    # -- serving ------------------------------------------------------------------------------------------------------

    def run(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str | None = None,
        port: int | None = None,
        path: str | None = None,
        profile: str | Profile | None = None,
        active: Iterable[str] = (),
    ) -> None:
        """Serve over MCP until the client leaves or the process is asked to end: the last line of a script (DEL-10).

        It needs the extra `mcp`. In a program with an event loop of its own, await `toolfold_adapters.mcp.serve`, which
        has more options. `toolfold serve` takes the script as its TARGET if the call is under
        `if __name__ == "__main__"`.

        Args:
            transport: `"stdio"`, or `"http"` for streamable HTTP.
            host: The address to bind over HTTP; 127.0.0.1 unless given.
            port: The port to bind; 8000 unless given, 0 for any free one.
            path: The path of the endpoint; `/mcp` unless given.
            profile: The profile that sessions are opened under (SPEC PRO-1).
            active: Further groups, or one, that sessions start with.

        Raises:
            ConfigError: A setting is wrong, the address can't be bound, or an event loop is running.
            MissingExtra: The extra is not installed.
        """
        bound = {"host": host, "port": port, "path": path}
        entry_point("toolfold.run", "mcp")(self, transport, bound, profile=profile, active=paths_of(active))

    # -- the default session ------------------------------------------------------------------------------------------

    @property
    def default_session(self) -> Session:
        """The session that the methods below work on, opened when it is first needed."""
        default = self._default
        return default if default is not None and default.is_open else self._open_default()

    @on_loop
    def _open_default(self) -> Session:
        default = self._default
        if default is None or not default.is_open:
            default = self._default = Session(self.runtime, f"{self.name}-default", None, ())
            default.begin()
            self.pool.add(default, persistent=True)
        return default

    async def activate_group(self, path: str) -> bool:
        """Activate a group of the default session; see `Session.activate`."""
        return await self.default_session.activate(path)

    async def deactivate_group(self, path: str, *, force: bool = False) -> bool:
        """Deactivate a group of the default session; see `Session.deactivate`."""
        return await self.default_session.deactivate(path, force=force)

    def is_group_active(self, path: str) -> bool:
        """Return whether a group is active in the default session."""
        return self.default_session.is_active(path)

    def list_groups(self) -> tuple[GroupInfo, ...]:
        """Return the groups of the default session; see `Session.list_groups`."""
        return self.default_session.list_groups()

    def list_tools(self, cursor: str | None = None) -> Page:
        """Return a page of the default session's tools; see `Session.list_tools`."""
        return self.default_session.list_tools(cursor)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call a tool in the default session; see `Session.call`."""
        return await self.default_session.call(name, arguments)


def success_of(tool: str) -> str:
    """Return the event that a group can open on: a call of `tool` that was no error (SPEC SES-6)."""
    return tool
