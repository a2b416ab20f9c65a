"""`ToolSet`: registration and sessions (SPEC 3, 11).

It decides nothing: its `Registration` checks and collects what is registered, and the sessions change the state.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, Literal, Never, Protocol, TypeVar, Unpack, overload

from .._catalog.catalog import Catalog, ListBudget
from .._catalog.components import Component, Group, Kind, Profile, WithheldBy, kinds_of, words
from .._catalog.loader import Loader
from .._catalog.rules import StateReader
from .._extras import Displayed, entry_point
from .._names import qualified_name
from .._session.events import TRACED, TRANSITIONS, Event, ListsAnnounced, SessionOpened
from .._session.observers import Observer, Observers, Tracer
from .._session.runtime import Runtime
from .._session.session import Session
from .._session.state import Saved
from .._session.store import Store
from .._session.stored import StoredSessions
from .._session.upkeep import Limit, OpenSessions, SessionKind
from .._session.usage import Label, Usage, Who
from .._snapshot import GroupInfo, Snapshot
from .._usercode import on_loop
from .._view.calling import ToolResult
from .._view.listing import Page
from .._view.search import Ranker
from ..errors import ConfigError, ExclusionConflict, warn
from ..machine import paths_of
from . import decorators, removal, toolkits
from .catalog_tool import OPTIONS as CATALOG_OPTIONS
from .catalog_tool import CatalogTool
from .control import ControlName, ControlStyle, ControlVisibility
from .options import GroupOptions, PromptOptions, ResourceOptions, ToolOptions, check_settings
from .registration import Evict, Registration, Settings

F = TypeVar("F", bound=Callable[..., Any])

LIMIT = Limit(10_000, 1_000)
"""How many sessions a store may have, by default."""
LIFETIME = 24 * 3600.0
"""Seconds for which a session is stored without use, by default: its user may come back tomorrow."""


class PathLike(Protocol):
    """A path of any library; the core imports none."""

    def __fspath__(self) -> str:
        """Return the path as a text."""
        ...


class ToolSet(Displayed):
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

    qualified_name = staticmethod(qualified_name)

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
        check_settings(locals(), unknown)
        if evict is not None and max_active is None and list_budget is None:
            raise ConfigError(f"evict={evict!r} says what makes room under a limit: set max_active or list_budget too.")
        style = ControlStyle.of(control, control_visibility)
        self.observers = Observers()
        self._usage: Usage | None = None
        defaults = {"run_in_thread": run_in_thread}
        tool_defaults = {} if structured_output else {"structured_output": False}
        catalog_settings = Settings(style, max_active, evict, list_budget, search)
        self._registration = Registration(name, catalog_settings, defaults, tool_defaults)
        self.pool = OpenSessions(Limit(max_sessions, None, when_full), idle_timeout, clock, self.observers)
        self.name = name
        self.runtime = Runtime(
            self._registration.catalogs,
            self.observers,
            hook_timeout,
            page_size,
            on_hidden == "hint",
            state,
        )
        self.runtime.pool, self.runtime.tools = self.pool, self

    def adopt_settings(self, other: ToolSet) -> None:
        """Open groups, list, hint, bound sessions and search as `other` does from now on.

        These are the settings `control`, `control_visibility`, `page_size`, `on_hidden`, `max_active`, `evict`,
        `list_budget` and `search`. Open sessions continue and see the new control tools with their next request; what
        they have active beyond a new limit stays active.

        SPEC REG-7.

        Raises:
            DuplicateName: A new control tool has the name of a tool; nothing has changed.
        """
        self._registration.adopt_settings(other._registration)
        self.runtime.page_size, self.runtime.hints = other.runtime.page_size, other.runtime.hints

    def __repr__(self) -> str:
        own = sum(tool.control is None for tool in self.catalog.tools.values())
        return f"<ToolSet {self.name!r}: {own} tools in {len(self.catalog.groups)} groups>"

    # -- groups -------------------------------------------------------------------------------------------------------

    def register_group(
        self, name: str, description: str = "", *, parent: str | None = None, **options: Unpack[GroupOptions]
    ) -> Group:
        """Register a group and return it.

        SPEC REG-2.

        Args:
            name: A segment, with `parent` as its place, or a full path.
            description: What the model reads about the group.
            parent: The path of an existing group.
            options: Hooks and more; see `GroupOptions`.

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        return self._registration.add_group(name, parent, description, options)

    def update_group(
        self,
        path: str,
        description: str,
        *,
        instructions: str = "",
        title: str | None = None,
        pinned: bool = False,
        show_deactivator: bool = True,
    ) -> Group:
        """Change the texts of a group, whether it is pinned and whether clients can close it, and return it.

        Sessions have it open as before, or from now on if it is pinned now.

        Raises:
            GroupNotFound, InvalidDefinition, ExclusionConflict: Nothing has changed.
        """
        return self._registration.update_group(
            path,
            description=description,
            instructions=instructions,
            title=title,
            pinned=pinned,
            show_deactivator=show_deactivator,
        )

    @on_loop
    def register_exclusion(self, *groups: str) -> None:
        """Register groups of which at most one may be active.

        SPEC REG-3.

        Raises:
            GroupNotFound: A group does not exist.
            ExclusionConflict: Fewer than two groups, one contains another, or an open session has two of them active.
        """
        members = self._registration.exclusion(groups)
        for session in self.pool.live:
            active = [path for path in session.active if path in members]
            if len(active) > 1:
                raise ExclusionConflict(
                    active,
                    f"Session {session.id!r} has {active[0]!r} and {active[1]!r} active; deactivate one of them first.",
                    session.id,
                )
        self._registration.add_exclusion(members)

    def unregister_exclusion(self, *groups: str) -> bool:
        """Remove an exclusion set, and return whether there was one of these groups.

        SPEC REG-7.
        """
        return self._registration.remove_exclusion(frozenset(groups))

    def unregister_profile(self, name: str) -> Profile | None:
        """Remove a profile and return it, or `None` if there was none; sessions that it began go on under it."""
        return self._registration.remove_profile(name)

    def withhold(
        self, tools: Mapping[str, tuple[WithheldBy, str]], admits: Callable[[str, Profile], bool] | None = None
    ) -> None:
        """Replace the reasons why known tools are not registered, for `explain`.

        Args:
            tools: For each name the reason, and a sentence on it; a name that ends with `*` stands for all that begin
                like it.
            admits: Returns whether sessions under a profile know of a name; without it, all do.
        """
        self._registration.withhold(tools, admits)

    def register_profile(self, profile: Profile) -> Profile:
        """Register a profile for sessions to be opened under.

        SPEC PRO-1.
        """
        self._registration.add_profile(profile)
        return profile

    def unregister_group(self, path: str) -> Coroutine[Any, Any, Group]:
        """Close a group in every session, then remove it with everything below it; await it for the group.

        Sessions of requests under way are among them. While no session has it open, it is removed at once: then only
        the group itself is awaited.

        SPEC REG-5.

        Raises:
            GroupNotFound: There is no such group, also where it is not awaited.
            HookFailed: A session could not close the group; nothing was removed.
        """
        return removal.removed(self._registration, self.pool, path)

    # -- tools and the rest -------------------------------------------------------------------------------------------

    def register(self, name: str, handler: Callable[..., Any], **options: Unpack[ToolOptions]) -> Component:
        """Register a tool and return its component.

        If the handler is marked with `@tool`, all that its mark says holds here too, but for its name and for what the
        options say otherwise (SPEC KIT-8).

        SPEC NAM-2, REG-6.

        Args:
            name: The base name, or the full name of a tool in a group.
            handler: With `input` or `input_schema`, a function of nothing, the arguments, or arguments and `Context`;
                without, a function whose annotated parameters describe the arguments. Sync or async.
            options: The description, the group, schemas and more; see `ToolOptions`.

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        return self._registration.add("tool", name, handler, options)

    @overload
    def tool(self, function: F, /, *, name: str | None = None, **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, name: str, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    @overload
    def tool(self, /, *, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, target: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a tool and return it unchanged: `@tools.tool`, or with options.

        Its name is the option `name`, else that of its mark, else the function's. The other options, what a mark means,
        and what is raised are as in `register`.

        SPEC KIT-1, KIT-8.
        """
        return decorators.decorator(target, {"name": name, **options}, self._registering("tool"))

    def _registering(self, kind: Kind, uri: str | None = None) -> Callable[[Any, Mapping[str, Any]], Any]:
        """Return what registers a function, under its name unless there is a URI, and returns it unchanged."""

        def register(function: Any, options: Mapping[str, Any]) -> Any:
            name = decorators.name_of(function, options.get("name"))
            self._registration.add(kind, uri or name, function, {**options, "name": name if uri else None})
            return function

        return register

    def register_catalog_tool(
        self, name: str = "catalog", *, everything: bool = False, **options: Unpack[ToolOptions]
    ) -> Component:
        """Register a tool that shows what can be used, listed or hidden, with full definitions; return its component.

        It takes `type`, `query`, `category` and `include_hidden`, and answers with one key for each requested section:
        `tools` (those that open and close groups, and itself, among them), `prompts`, `resources`,
        `resource_templates`. Only what is available in the caller's snapshot is included (SPEC CAT-1, CAT-2).

        Args:
            name: What it is called.
            everything: Also show what is not available, such as tools of closed groups and of predicates that do not
                hold. Whoever can call the catalog tool then knows of them; calling them is as before.
            options: Options of `register`, such as `hidden=True` to keep it out of lists, `group` or `description`.

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        return self.register(name, CatalogTool(everything), **(CATALOG_OPTIONS | options))

    def register_prompt(self, name: str, handler: Callable[..., Any], **options: Unpack[PromptOptions]) -> Component:
        """Register a prompt and return its component.

        The handler's annotated parameters describe the arguments, each of which is given as a text. With the option
        `arguments` (names, or mappings with `name`, `description` and `required`), it takes nothing, the arguments, or
        arguments and `Context`. It answers with a text or a list of messages. The options are in `PromptOptions`. The
        rest, and what is raised, is as in `register`.

        SPEC REG-9.
        """
        return self._registration.add("prompt", name, handler, options)

    @overload
    def prompt(self, function: F, /, *, name: str | None = None, **options: Unpack[PromptOptions]) -> F: ...
    @overload
    def prompt(self, name: str, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    @overload
    def prompt(self, /, *, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, target: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a prompt and return it unchanged: `@tools.prompt`, or with options; see `tool`."""
        return decorators.decorator(target, {"name": name, **options}, self._registering("prompt"))

    def register_resource(self, uri: str, handler: Callable[..., Any], **options: Unpack[ResourceOptions]) -> Component:
        """Register a resource and return its component.

        The handler takes nothing, or what is annotated as `Context`, and answers with a text, bytes, or contents in the
        form of the MCP specification. The options are in `ResourceOptions`. The rest, and what is raised, is as in
        `register`.

        SPEC REG-9.
        """
        return self._registration.add("resource", uri, handler, options)

    def register_resource_template(
        self, uri_template: str, handler: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> Component:
        """Register a resource template such as `file:///{path}` and return its component; see `register_resource`.

        The handler's annotated parameters have the names of the template's variables. If it has none, it takes nothing,
        the variables as one mapping, or these and `Context`.
        """
        return self._registration.add("resource_template", uri_template, handler, options)

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource and return it unchanged: `@tools.resource("notes://today")`.

        Its name is the option `name`, else that of its mark, else the function's; see `register_resource`.
        """
        return decorators.of_uri("resource", uri, options, self._registering("resource", uri))

    def resource_template(self, uri_template: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource template and return it unchanged; see `resource`."""
        registering = self._registering("resource_template", uri_template)
        return decorators.of_uri("resource_template", uri_template, options, registering)

    def unregister(self, name: str, kind: Kind = "tool") -> Component | None:
        """Remove a tool, or something of another kind, and return it.

        Returns `None`, with a warning, if nothing of that name was registered.

        SPEC REG-5.
        """
        found = self._registration.remove_component(kind, name)
        if found is None:
            warn(f"Nothing was unregistered: no {words(kind)} {name!r} was registered, by its full name.")
        return found

    def adopt(self, component: Component) -> Component:
        """Register what another tool set made of a definition, and return it.

        So much that it takes long can be registered there first, also in another thread, and then here at once.

        SPEC REG-1, SAF-1.

        Raises:
            DuplicateName: Something else has its name or URI.
            GroupNotFound: This tool set has no group of the path of its group.
        """
        return self._registration.adopt(component)

    @on_loop
    def include(self, declared: Any, *, name: str | None = None, **options: Unpack[ToolOptions]) -> None:
        """Register all that a toolkit declares, or nothing of it.

        SPEC KIT-4, KIT-7, REG-1.

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
        with self._registration.all_or_nothing():
            toolkits.include(self._registration, declared, {"name": name, **options})

    def share_tool(self, name: str, group: str) -> Component:
        """Have a tool of one group available while another is open, too, and return its component.

        Its name and its own group stay; a tool that is always available stays so.

        SPEC SKL-2.

        Raises:
            ToolNotFound, GroupNotFound: There is no such tool or group; nothing has changed.
        """
        return self._registration.share_tool(name, group)

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """Return a context manager that undoes what was registered within it if it raises.

        SPEC REG-1.
        """
        return self._registration.all_or_nothing()

    def guard_names(
        self,
        guard: Callable[[str], None],
        release: Callable[[str], None] = lambda _: None,
        control: Callable[[str], None] | None = None,
    ) -> None:
        """Have `guard(name)` called with the name of every tool, now and before each registration.

        What it raises refuses the registration. `release(name)` is called when a name is free again, and `control`,
        if it is given, instead of `guard` for the tools that open or close a group.

        SPEC NAM-6.
        """
        self._registration.guard_names(guard, release, control or guard)

    # -- the catalog --------------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The present catalog."""
        return self._registration.catalogs.present

    def profile(self, profile: str | Profile | None) -> Profile | None:
        """Return a registered profile by its name, or raise `ConfigError`; a profile or `None` is returned unchanged.

        One that was registered is returned without the groups that were unregistered since (SPEC REG-5).
        """
        catalog = self.catalog
        profiles = catalog.profiles
        if isinstance(profile, Profile):
            now = profiles.get(profile.name)
            gone = profile.named - catalog.index.keys()
            return profile if now is None or now != profile.without(gone) else now
        if profile is None:
            return None
        if profile not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            raise ConfigError(f"There is no profile {profile!r}; the profiles are: {known}.")
        return profiles[profile]

    def groups(self) -> tuple[Group, ...]:
        """Return all groups as they were registered, in canonical order; see also `list_groups`.

        SPEC GRP-4.
        """
        return self.catalog.groups

    def core_tools(self) -> tuple[Component, ...]:
        """Return the tools of no group, hidden ones and a loader among them, in order of name.

        SPEC GRP-4.
        """
        return tuple(component for _, component in sorted(self.catalog.tools.items()) if component.group is None)

    def group_tools(self, path: str) -> tuple[Component, ...]:
        """Return the tools directly in a group, hidden ones among them, in order of name.

        Control tools are left out. It is empty if there is no such group.

        SPEC GRP-4.
        """
        tools = sorted(self.catalog.tools.items())
        return tuple(component for _, component in tools if component.group == path and component.control is None)

    def include_skill(self, folder: str | PathLike) -> tuple[Group, ...]:
        """Register a skill as a group, or each of those in a folder, and return the groups.

        A skill is a folder with a `SKILL.md`. Its front matter names and describes the group, and the text after it is
        the group's instructions. The tools that it allows can be called while the group is open, as well as while their
        own groups are; so register them before. One that is missing is reported by a `ToolfoldWarning`. The files of
        the folder are resources, `skill://NAME/PATH`, but for those whose names begin with a dot: they are listed while
        the group is open, and can be read at any time. Over MCP they are skills of the extension
        `io.modelcontextprotocol/skills`, too. It needs the extra `cli`.

        SPEC SKL-2, REG-1.

        Args:
            folder: A folder with a `SKILL.md`, or one of such folders.

        Raises:
            ManifestError: There is no skill, or what it says is wrong; nothing was registered.
            DuplicateName: A group or a resource is called so; nothing was registered.
            MissingExtra: The extra is not installed.
        """
        groups: tuple[Group, ...] = entry_point("toolfold.include_skill", "cli")(self, folder)
        return groups

    # -- events -------------------------------------------------------------------------------------------------------

    def observe(self, observer: Observer, kinds: Iterable[type[Event]] = TRANSITIONS) -> Callable[[], None]:
        """Have `observer(event)` called after each event of this tool set, or of some kinds of them.

        Returns a function that ends that.
        """
        return self.observers.add(observer, kinds)

    def trace(self, tracer: Tracer) -> Callable[[], None]:
        """Have `tracer(event)` called with each event, and with each request, plan and hook as it happens.

        Returns a function that ends that. The events are in `toolfold.events`.
        """
        return self.observers.add(tracer, TRACED)

    # -- sessions -----------------------------------------------------------------------------------------------------

    def count_usage(self, clock: Callable[[], float], label: Label | None = None, who: Who | None = None) -> Usage:
        """Return the counters of what is used, which count from now on, or have since this was called first.

        Servers of MCP count by themselves. Neither arguments nor results are recorded.

        SPEC EXP-3.

        Args:
            clock: Returns the time in seconds, such as `time.perf_counter`.
            label: Returns the client and the era of a request, given what the call was received as. The last one that
                was given is used.
            who: Returns who made a request, by name, for the counters of callers; likewise.
        """
        if self._usage is None:
            self._usage = Usage(self.name, label, who)
            for session in self.sessions:
                self._usage.follow(session.id)
            self.observers.clock = clock
            self._usage.listen(self.observers)
            return self._usage
        self._usage.label, self._usage.who = label or self._usage.label, who or self._usage.who
        return self._usage

    @property
    def usage(self) -> Usage | None:
        """The counters of what is used, with the tools and groups that there are now, if use is counted."""
        if self._usage is not None:
            self._usage.know(self.catalog)
        return self._usage

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
        saved = Saved.read(self.name, data)
        chosen = self.profile(saved.profile if profile is None else profile)
        return Session(self.runtime, identity or self.runtime.new_identity(), chosen, saved)

    @asynccontextmanager
    async def stored_sessions(
        self, store: Store, *, lifetime: float = LIFETIME, limit: Limit = LIMIT
    ) -> AsyncGenerator[StoredSessions]:
        """Yield the sessions of a program that are in a store, for conversations that outlive it.

        `async with stored.open("chat-42") as session` continues a session where the last process left it. The hooks of
        a transition run under a lease; a transition whose process dies is undone by the next one. That also happens in
        the background, where expired sessions are ended (SPEC STO-2, STO-3). Servers have stored sessions of their own.

        SPEC STO-1.

        Args:
            store: Where they are.
            lifetime: Seconds without use after which a session ends.
            limit: How many there may be in all and per caller (SPEC STO-7).
        """
        stored = StoredSessions(self, store, SessionKind("session", "stored sessions", limit, lifetime))
        async with stored.running():
            yield stored

    def request_session(
        self,
        snapshot: Snapshot,
        profile: Profile | None = None,
        owner: Session | None = None,
        caller: str | None = None,
        *,
        among: StoredSessions | None = None,
        name: str = "",
    ) -> AbstractAsyncContextManager[Session]:
        """Return a session in the state `snapshot` that is open during one request of a protocol without sessions.

        While it lasts, changes of the catalog reach it (SPEC REG-3, REG-5), but it is not counted, and observers are
        not notified of it. The groups that are active in `snapshot` are inherited: the `owner` has run their hooks, if
        they have any, and closes them. What the request opened beside them is closed at its end, unless the session is
        to outlive it by then: `among.ensure(session)` says so of one that is stored under `name`, `pool.admit(session)`
        of any other.
        """
        if among is None:
            session = Session(self.runtime, self.runtime.new_identity("request-"), profile, snapshot, caller, owner)
        else:
            session = among.draft(name, profile, caller, snapshot=snapshot, owner=owner, what="request-")
        return self.pool.passing(session)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The open sessions, the least recently used first where sessions are bounded or time out."""
        return self.pool.sessions

    @on_loop
    def notify_list_changed(
        self, kinds: Kind | Iterable[Kind] = "tool", *, concerns: Callable[[Profile | None], bool] = lambda _: True
    ) -> None:
        """Notify open sessions' listeners that lists changed, after registrations at run time.

        Call it also after a change of the application state that predicates and modes read: no notification is sent
        otherwise, although the next list shows it. A change of counts is not a change of the list (SPEC MOD-2): clients
        see it when they next list; call this to make them do so.

        SPEC NTF-3.

        Args:
            kinds: Which lists: one of `"tool"`, `"prompt"`, `"resource"` and `"resource_template"`, or several.
            concerns: Returns whether sessions of a profile are notified, or with `None` those without one; all are,
                unless it is given.

        Raises:
            ConfigError: There is no such kind.
        """
        changed = kinds_of(kinds)
        for session in self.pool.live:
            if concerns(session.profile):
                session.notify(changed)
        self.observers.notify(ListsAnnounced(changed, concerns))

    async def end_idle_sessions(self) -> int:
        """End the sessions without a request for `idle_timeout` seconds; return how many.

        SPEC SES-3.
        """
        return await self.pool.upkeep.sweep()

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
        """Serve over MCP until the client leaves or the process is asked to end: the last line of a script.

        It needs the extra `mcp`. In a program with an event loop of its own, await `toolfold_adapters.mcp.serve`, which
        has more options. `toolfold serve` takes the script as its TARGET if the call is under
        `if __name__ == "__main__"`.

        SPEC DEL-10.

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
        return self.pool.default or self._open_default()

    @on_loop
    def _open_default(self) -> Session:
        if (default := self.pool.default) is None:
            default = self.pool.default = Session(self.runtime, f"{self.name}-default", None, None)
            self.observers.notify(SessionOpened(default.id))
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
    """Return the event that a group can open on: a call of `tool` that was no error.

    SPEC SES-6.
    """
    return tool
