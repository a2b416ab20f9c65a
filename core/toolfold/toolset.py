"""`ToolSet`: registration and dispatch, the face that most users see (SPEC 3, 11).

It owns the draft of the catalog and the live sessions, and decides nothing about state or availability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from itertools import count
from typing import Any, Literal, TypeVar, Unpack
from weakref import WeakKeyDictionary

from . import declare
from .catalog import Catalog, GroupSpec, Hook, Kind, Profile, Spec
from .catalog_tool import OPTIONS as CATALOG_OPTIONS
from .catalog_tool import CatalogTool
from .control import ControlStyle, Loader
from .dispatch import ToolResult
from .draft import Draft
from .errors import ConfigError, ExclusionConflict, SessionClosed
from .listing import GroupInfo, Page
from .modes import Modes
from .names import canonical_key, qualified_name
from .observe import ListsAnnounced, Observer, Observers, PredicateFailed, Tracer, log
from .persist import read
from .pool import SessionPool
from .session import Session
from .snapshot import Snapshot
from .specs import ResourceOptions, prompt_spec, resource_spec, tool_spec
from .visibility import StateReader, View, Visibility, anchors

F = TypeVar("F", bound=Callable[..., Any])


class ToolSet:
    """The tools, groups and sessions of one server.

    Args:
        name: What it is called; cursors of another tool set are told apart by it.
        control: How groups are opened: `"per_group"`, `"none"`, `"load_tool_group"`, `"expand_tools"`, or a `Loader`.
        control_visibility: `"always"`, or `"relevant"` to list a control tool only while it can do something.
        page_size: The greatest number of items in a page of a list; `None` for one page.
        on_hidden: `"opaque"`, or `"hint"` to name the group to activate when a tool of an inactive group is called.
        state: Supplies `view.state` to predicates and counts; called at most once for each request (SPEC MOD-3).
        max_active: The greatest number of active groups in a session (SPEC ACT-10).
        evict: `"oldest"` to make room for a new group by closing the longest-active one; `None` to refuse.
        hook_timeout: Seconds that a hook may take (SPEC HOOK-6); `None` for ever.
        max_sessions: The greatest number of open sessions (SPEC SES-4).
        when_full: `"refuse"` a new session, or `"end_idlest"` to end the one that was used least recently.
        idle_timeout: Seconds without a request after which `end_idle_sessions` ends a session (SPEC SES-3).
        clock: Tells the time in seconds, such as `time.monotonic`; needed for `idle_timeout`.

    Raises:
        ConfigError: A setting is wrong.
    """

    qualified_name = staticmethod(qualified_name)

    def __init__(
        self,
        name: str,
        *,
        control: str | Loader = "per_group",
        control_visibility: str = "always",
        page_size: int | None = None,
        on_hidden: str = "opaque",
        state: StateReader | None = None,
        max_active: int | None = None,
        evict: Literal["oldest"] | None = None,
        hook_timeout: float | None = None,
        max_sessions: int | None = None,
        when_full: str = "refuse",
        idle_timeout: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        _check_choice("on_hidden", on_hidden, ("opaque", "hint"))
        _check_choice("when_full", when_full, ("refuse", "end_idlest"))
        _check_choice("evict", evict, (None, "oldest"))
        for setting, value in {"page_size": page_size, "max_active": max_active, "max_sessions": max_sessions}.items():
            if value is not None and value < 1:
                raise ConfigError(f"{setting} must be at least 1, not {value}.")
        self.name = name
        self.page_size = page_size
        self.hook_timeout = hook_timeout
        self.observers = Observers()
        self._on_hidden = on_hidden
        self._state = state
        self._draft = Draft(name, ControlStyle.of(control, control_visibility), max_active, evict == "oldest")
        self._restricted: WeakKeyDictionary[Profile, tuple[Catalog, Catalog]] = WeakKeyDictionary()
        self.pool = SessionPool(max_sessions, when_full == "end_idlest", idle_timeout, clock, self.observers)
        self._identities = count(1)
        self._default: Session | None = None
        self._reported: WeakKeyDictionary[Spec, set[str | None]] = WeakKeyDictionary()

    # -- groups -------------------------------------------------------------------------------------------------------

    def register_group(
        self,
        name: str,
        description: str = "",
        *,
        parent: str | None = None,
        title: str | None = None,
        on_activate: Hook | None = None,
        on_deactivate: Hook | None = None,
        on_rollback: Hook | Literal[False] | None = None,
        show_deactivator: bool = True,
        controls: bool | None = None,
        pinned: bool = False,
        opens_on: str | None = None,
        transient: bool = False,
    ) -> GroupSpec:
        """Register a group and return it (SPEC REG-2).

        Args:
            name: A segment, with `parent` as its place, or a full path.
            description: What the model is told about the group.
            parent: The path of an existing group.
            title: The name that people see; the segment otherwise.
            on_activate: Runs before the group is activated; sync or async, with no argument or a `HookContext`.
            on_deactivate: Runs before it is deactivated.
            on_rollback: Undoes one of the two in place of the other; `False` for nothing to undo (SPEC HOOK-5).
            show_deactivator: Whether there is a tool that closes the group (SPEC CTL-1).
            controls: Whether clients can open and close it; by default, unless it `opens_on` an event.
            pinned: Whether a quota spares it (SPEC ACT-10).
            opens_on: A tool whose success opens the group: `success_of("observe")` (SPEC SES-6).
            transient: Whether its state is left out when a session is stored (SPEC PER-4).

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        options = {
            "description": description,
            "title": title,
            "on_activate": declare.hook(on_activate),
            "on_deactivate": declare.hook(on_deactivate),
            "on_rollback": declare.hook(on_rollback) if on_rollback else on_rollback,
            "show_deactivator": show_deactivator,
            "controls": opens_on is None if controls is None else controls,
            "pinned": pinned,
            "opens_on": opens_on,
            "transient": transient,
        }
        return self._draft.add_group(name, parent, options)

    def register_exclusion(self, *groups: str) -> None:
        """Register groups of which at most one may be active (SPEC REG-3).

        Raises:
            GroupNotFound: A group does not exist.
            ExclusionConflict: Fewer than two groups, one contains another, or an open session has two of them active.
        """
        members = self._draft.exclusion(groups)
        for session in self.pool.sessions:
            active = [path for path in session.active if path in members]
            if len(active) > 1:
                raise ExclusionConflict(
                    active,
                    f"Session {session.id!r} has {active[0]!r} and {active[1]!r} active; deactivate one of them first.",
                    session.id,
                )
        self._draft.add_exclusion(members)

    def register_profile(self, profile: Profile) -> Profile:
        """Register a profile for sessions to be opened under (SPEC PRO-1)."""
        self._draft.add_profile(profile)
        return profile

    async def unregister_group(self, path: str) -> GroupSpec:
        """Close a group in every session, then remove it with everything below it; return it (SPEC REG-5).

        Raises:
            GroupNotFound: There is no such group.
            HookFailed: A session could not close the group; nothing was removed.
        """
        self._draft.known(path)
        while holders := [session for session in self.pool.sessions if session.snapshot.is_active(path)]:
            for session in holders:
                with suppress(SessionClosed):  # it ended meanwhile, hooks included
                    await session.deactivate(path)
        return self._draft.remove_group(path)

    # -- tools and the rest -------------------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        handler: Callable[..., Any],
        *,
        description: str | None = None,
        input: Any = None,
        output: Any = None,
        input_schema: Any = None,
        output_schema: Any = None,
        check_output: bool = True,
        title: str | None = None,
        group: str | None = None,
        flat: bool = False,
        visibility: Visibility | None = None,
        hidden: bool = False,
        category: str | None = None,
        tags: Iterable[str] = (),
        annotations: Mapping[str, Any] | None = None,
        icons: Iterable[Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        modes: Modes | None = None,
    ) -> Spec:
        """Register a tool and return its spec (SPEC NAM-2, REG-6).

        Args:
            name: The base name, or the full name of a tool in a group.
            handler: With `input` or `input_schema`, a function of nothing, the arguments, or arguments and `Context`;
                without, a function whose annotated parameters describe the arguments. Sync or async.
            description: What the model is told; the handler's docstring otherwise (SPEC KIT-1).
            input: The arguments: a field specification (see `toolfold.fields`), a JSON Schema mapping whose root is an
                object, or one as a JSON text (SPEC KIT-3).
            output: The structured result, in the same forms.
            input_schema: The arguments as JSON Schema, mapping or text; never taken for a field specification.
            output_schema: The structured result as JSON Schema.
            check_output: Whether a result that does not fit the output schema becomes an error (SPEC KIT-6); turn it
                off for a handler that passes on what others answer.
            title: The name that people see.
            group: The group that the tool belongs to; root otherwise.
            flat: Keep the name unqualified although the tool is in a group (SPEC NAM-5).
            visibility: A rule in place of the group's (SPEC VIS-2).
            hidden: Never list it; it can be called while available (SPEC VIS-6).
            category: A label, shown as `_meta.category` (SPEC KIT-5).
            tags: Labels for programs; not shown to clients.
            annotations: Hints such as `{"readOnlyHint": True}`.
            icons: Icons in the form of the MCP specification.
            meta: More for `_meta`.
            modes: The modes of a composite tool, of which clients are shown the available ones (SPEC MOD-1).

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        options = {
            "description": description,
            "input": input,
            "output": output,
            "input_schema": input_schema,
            "output_schema": output_schema,
            "check_output": check_output,
            "title": title,
            "hidden": hidden,
            "category": category,
            "tags": tags,
            "annotations": annotations,
            "icons": icons,
            "meta": meta,
            "modes": modes,
        }
        return self._draft.add_spec(tool_spec(self._draft.place(name, group, flat, visibility), handler, options))

    def tool(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Return a decorator that registers a function as a tool and returns it as it is (SPEC KIT-1).

        `name` is the function's name unless given; `options` are those of `register`, and `always=True` for a tool of
        a group that is always visible (SPEC KIT-7).
        """

        def decorate(function: F) -> F:
            self.register(name or declare.name_of(function), function, **declare.resolved(options))
            return function

        return decorate

    def include(self, declared: Any, *, group: str | None = None, **options: Any) -> None:
        """Register all that a toolkit declares, or nothing of it (SPEC KIT-4, KIT-7, REG-1).

        Args:
            declared: An instance of a class, or a module, whose functions are marked with `@tool`, `@prompt`,
                `@resource`, `@resource_template` and `@group`; see `toolfold.declare`. An instance of a class that is
                itself marked with `@group` becomes a group; what anything else declares is registered at root.
            group: The group to put everything below.
            options: Options of `register` for all tools, such as `category`, `hidden` or `visible`; they go over what
                the marks and the toolkit say. What fits one tool alone, such as `name`, is refused.

        Raises:
            InvalidDefinition: Two functions would be the same tool, or an option or definition is wrong.
            InvalidName, DuplicateName, GroupNotFound: As in `register`.
        """
        with self._draft.all_or_nothing():
            declare.include(self, declared, group, options)

    def register_catalog_tool(self, name: str = "catalog", *, everything: bool = False, **options: Any) -> Spec:
        """Register a tool that shows what can be used, listed or hidden, with full definitions; return its spec.

        It takes `type`, `query`, `category` and `include_hidden`, and answers with one key for each requested section:
        `tools` (those that open and close groups, and itself, among them), `prompts`, `resources`,
        `resource_templates`. Only what is available in the caller's snapshot is shown (SPEC CAT-1, CAT-2).

        Args:
            name: What it is called.
            everything: Also show what is not available, such as tools of inactive groups and of predicates that do not
                hold. Whoever can call the catalog tool then knows of them; calling them is as before.
            options: Options of `register`, such as `hidden=True` to keep it out of lists, `group` or `description`.

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        return self.register(name, CatalogTool(everything), **{**CATALOG_OPTIONS, **options})

    def register_prompt(
        self,
        name: str,
        handler: Callable[..., Any],
        *,
        description: str | None = None,
        title: str | None = None,
        arguments: Iterable[Any] = (),
        group: str | None = None,
        flat: bool = False,
        visibility: Visibility | None = None,
        hidden: bool = False,
        icons: Iterable[Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Spec:
        """Register a prompt and return its spec (SPEC REG-9).

        `arguments` are names, or mappings with `name`, `description` and `required`. The handler takes nothing, the
        arguments, or arguments and `Context`, and answers with a text or a list of messages. The rest, and what is
        raised, is as in `register`.
        """
        options = {
            "description": description,
            "title": title,
            "arguments": arguments,
            "hidden": hidden,
            "icons": icons,
            "meta": meta,
        }
        place = self._draft.place(name, group, flat, visibility, "prompt")
        return self._draft.add_spec(prompt_spec(place, handler, options))

    def register_resource(
        self,
        uri: str,
        handler: Callable[..., Any],
        *,
        group: str | None = None,
        visibility: Visibility | None = None,
        **options: Unpack[ResourceOptions],
    ) -> Spec:
        """Register a resource and return its spec (SPEC REG-9).

        The handler takes nothing, and answers with a text, bytes, or contents in the form of the MCP specification.
        What is raised is as in `register`.
        """
        place = self._draft.place("resource", group, True, visibility, "resource")
        return self._draft.add_spec(resource_spec("resource", uri, place, handler, options))

    def register_resource_template(
        self,
        uri_template: str,
        handler: Callable[..., Any],
        *,
        group: str | None = None,
        visibility: Visibility | None = None,
        **options: Unpack[ResourceOptions],
    ) -> Spec:
        """Register a resource template such as `file:///{path}` and return its spec; see `register_resource`.

        The handler is given the variables of the template as its arguments.
        """
        place = self._draft.place("resource", group, True, visibility, "resource_template")
        return self._draft.add_spec(resource_spec("resource_template", uri_template, place, handler, options))

    def unregister(self, name: str, kind: Kind = "tool") -> Spec | None:
        """Remove a tool, or something of another kind, and return its spec; `None` if there was none (SPEC REG-5)."""
        return self._draft.remove_spec(kind, name)

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """Return a context manager that takes back what was registered within it if an error comes out (SPEC REG-1)."""
        return self._draft.all_or_nothing()

    def guard_names(self, guard: Callable[[str], None], release: Callable[[str], None] = lambda _: None) -> None:
        """Have `guard(name)` called with the name of every tool, now and before each registration (SPEC NAM-6).

        What it raises refuses the registration. `release(name)` is called when a name is free again.
        """
        self._draft.guard_names(guard, release)

    # -- the catalog --------------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The catalog as it is now."""
        return self._draft.freeze()

    def catalog_under(self, profile: Profile | None) -> Catalog:
        """Return the catalog as a session under `profile` knows it (SPEC PRO-1)."""
        catalog = self._draft.freeze()
        if profile is None:
            return catalog
        source, restricted = self._restricted.get(profile, (None, None))
        if source is not catalog or restricted is None:
            restricted = catalog.under(profile)
            self._restricted[profile] = (catalog, restricted)
        return restricted

    def groups(self) -> tuple[GroupSpec, ...]:
        """Return all groups as they were registered, in canonical order (SPEC GRP-4); see also `list_groups`."""
        return self.catalog.groups

    def core_tools(self) -> tuple[Spec, ...]:
        """Return the tools of no group, hidden ones and a loader among them, in order of name (SPEC GRP-4)."""
        return tuple(spec for _, spec in sorted(self.catalog.tools.items()) if spec.group is None)

    def group_tools(self, path: str) -> tuple[Spec, ...]:
        """Return the tools directly in a group, hidden ones among them, in order of name (SPEC GRP-4).

        Control tools are left out. It is empty if there is no such group.
        """
        tools = sorted(self.catalog.tools.items())
        return tuple(spec for _, spec in tools if spec.group == path and spec.control is None)

    def view_of(self, snapshot: Snapshot) -> View:
        """Return a view of a snapshot for one request (SPEC VIS-3)."""
        return View(snapshot, self._state, self._report)

    def hint(self, spec: Spec | None, view: View) -> str | None:
        """Return what to activate for a tool that is not available, where hints are on (SPEC CALL-1)."""
        if self._on_hidden != "hint" or spec is None:
            return None
        missing = sorted((path for path in anchors(spec.rule) if not view.is_group_active(path)), key=canonical_key)
        if not missing or not view.snapshot.catalog.index.keys() >= set(missing):
            return None  # no group would help, or one that does not exist here (SPEC PRO-1)
        return f"activate the group {missing[0]} first"

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Have `observer(event)` called after each event of this tool set; returns a function that ends that."""
        return self.observers.add(observer)

    def trace(self, tracer: Tracer) -> Callable[[], None]:
        """Have `tracer(event)` called with each event, and with each request, plan and hook as it happens.

        Returns a function that ends that. See `toolfold.observe` for what is told.
        """
        return self.observers.add_tracer(tracer)

    def _report(self, spec: Spec, error: Exception, mode: str | None) -> None:
        reported = self._reported.setdefault(spec, set())
        if mode not in reported:
            reported.add(mode)
            of = "" if mode is None else f"mode {mode!r} of "
            log.error("a predicate or count of %s%s %r failed", of, spec.kind, spec.name, exc_info=error)
            self.observers.tell(PredicateFailed(spec.kind, spec.name, error, mode))

    # -- sessions -----------------------------------------------------------------------------------------------------

    def open_session(
        self, profile: str | Profile | None = None, active: Iterable[str] = (), *, identity: str | None = None
    ) -> Session:
        """Return a new session, to be opened by `async with` or by `await session.start()`.

        Args:
            profile: A registered profile's name, or a profile; its active groups are opened first (SPEC PRO-1).
            active: More groups to open at the start, in one step with the profile's.
            identity: What the session is called in logs and events; numbered otherwise.

        Raises:
            ConfigError: There is no such profile.
        """
        chosen = self.profile(profile)
        start = (*(chosen.active if chosen else ()), *active)
        return Session(self, identity or f"{self.name}-{next(self._identities)}", chosen, dict.fromkeys(start))

    def restore_session(
        self, data: Any, profile: str | Profile | None = None, *, identity: str | None = None
    ) -> Session:
        """Return a new session in a state that `Session.dump` gave, to be opened as one of `open_session` is.

        Against the same catalog the state is equal (SPEC PER-1). Against another it is normalised, and `dropped` of the
        session tells what is no longer active: unknown groups, then groups without active parents, then of an exclusion
        set all but the first (SPEC PER-2), and groups that are transient by now (SPEC PER-4).

        Opening it sets the groups up anew: their `on_activate` hooks run as those of one step (SPEC HOOK-1), and can
        read the facts. If one fails, what had succeeded is undone, and the session is closed.

        Args:
            data: What `dump` gave, perhaps by way of JSON.
            profile: A profile in place of the one that the dumped session was opened under.
            identity: What the session is called in logs and events; numbered otherwise.

        Raises:
            HandleInvalid: The data is damaged, or of another tool set; nothing was opened.
            ConfigError: There is no such profile.
        """
        saved = read(self.name, data)
        chosen = self.profile(saved.profile if profile is None else profile)
        return Session(self, identity or f"{self.name}-{next(self._identities)}", chosen, saved)

    def request_session(self, snapshot: Snapshot, profile: Profile | None = None) -> Session:
        """Return an open session in the state `snapshot`, for one request of a protocol without sessions.

        It belongs to no pool: it is neither counted nor ended. The groups that are active in `snapshot` are lent to it;
        close it if it may have opened others.
        """
        session = Session(self, f"{self.name}-request", profile, ())
        session.begin(snapshot)
        return session

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The open sessions, the least recently used first where sessions are bounded or time out."""
        return self.pool.sessions

    def notify_list_changed(self, kinds: Iterable[str] = ("tool",)) -> None:
        """Tell every open session's listeners that lists changed, after registrations at run time (SPEC NTF-3).

        So does whoever changes the application state that predicates, modes and counts look at: by itself, a change of
        it notifies nobody, although the next list shows it.
        """
        changed = frozenset(kinds)
        for session in self.sessions:
            session.notify(changed)
        self.observers.tell(ListsAnnounced(changed))

    async def end_idle_sessions(self) -> int:
        """End the sessions without a request for `idle_timeout` seconds; return how many (SPEC SES-3)."""
        return await self.pool.end_idle()

    def profile(self, profile: str | Profile | None) -> Profile | None:
        """Return a registered profile by its name, or raise `ConfigError`; a profile or `None` comes back as it is.

        One that was registered comes back without the groups that were unregistered since (SPEC REG-5).
        """
        profiles = self.catalog.profiles
        if isinstance(profile, Profile):
            now = profiles.get(profile.name)
            gone = {*profile.active, *profile.available} - self.catalog.index.keys() - {"*"}
            return now if now is not None and now == profile.without(gone) else profile
        if profile is None:
            return None
        if profile not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            raise ConfigError(f"There is no profile {profile!r}; the profiles are: {known}.")
        return profiles[profile]

    # -- the default session ------------------------------------------------------------------------------------------

    @property
    def default_session(self) -> Session:
        """The session that the methods below work on, opened when it is first needed."""
        if self._default is None or not self._default.is_open:
            self._default = Session(self, f"{self.name}-default", None, ())
            self._default.begin()
            self.pool.add(self._default, lasting=True)
        return self._default

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


def _check_choice(setting: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{setting} must be one of {', '.join(map(repr, choices))}, not {value!r}.")
