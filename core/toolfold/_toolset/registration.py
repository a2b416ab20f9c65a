"""Registration: what a tool set is made of (SPEC 3).

Each of these methods either does all that it says or raises and leaves the catalog as it was (SPEC REG-1).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar, Unpack, overload

from .._catalog.catalog import Catalog
from .._catalog.components import Component, GroupSpec, Kind, Profile, WithheldBy
from .._names import qualified_name
from .._schema.annotations import SchemaCache
from .._session.pool import SessionPool
from .._session.session import Session
from .._usercode import on_loop
from ..errors import ExclusionConflict, SessionClosed, warn
from . import decorators
from .builder import Builder
from .catalog_tool import OPTIONS as CATALOG_OPTIONS
from .catalog_tool import CatalogTool
from .definitions import prompt_component, resource_component, tool_component
from .options import OF_GROUPS, GroupOptions, PromptOptions, ResourceOptions, ToolOptions, checked_options
from .places import place_of

F = TypeVar("F", bound=Callable[..., Any])


class Registration:
    """The half of a `ToolSet` that registers what there is.

    Args:
        builder: The catalog in the making.
        pool: The open sessions, which may stand against what is to be registered or removed.
        run_in_thread: Whether plain functions run in worker threads unless a registration says otherwise.
        structured_output: Whether return annotations describe structured results unless a registration says otherwise.
    """

    qualified_name = staticmethod(qualified_name)

    def __init__(
        self, builder: Builder, pool: SessionPool[Session], *, run_in_thread: bool, structured_output: bool
    ) -> None:
        self.pool = pool
        self._builder = builder
        self._schemas = SchemaCache()
        self._defaults: dict[str, Any] = {"run_in_thread": run_in_thread}
        self._tool_defaults = self._defaults | ({} if structured_output else {"structured_output": False})

    # -- groups -------------------------------------------------------------------------------------------------------

    def register_group(
        self, name: str, description: str = "", *, parent: str | None = None, **options: Unpack[GroupOptions]
    ) -> GroupSpec:
        """Register a group and return it (SPEC REG-2).

        Args:
            name: A segment, with `parent` as its place, or a full path.
            description: What the model reads about the group.
            parent: The path of an existing group.
            options: `instructions`, `title`, `on_activate`, `on_deactivate`, `on_rollback`, `resume`,
                `show_deactivator`, `controls`, `selectable`, `pinned`, `opens_on`, `transient` and `run_in_thread`;
                see `GroupOptions`.

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        given = self._defaults | checked_options(str(name), options, OF_GROUPS)
        given.setdefault("controls", "opens_on" not in given)
        given.setdefault("selectable", given["controls"] and self._builder.settings.style.has_tools)
        hooks = decorators.hooks(str(name), given, in_thread=given.pop("run_in_thread"))
        return self._builder.add_group(name, parent, {"description": description, **given, **hooks})

    def update_group(
        self,
        path: str,
        description: str,
        *,
        instructions: str = "",
        title: str | None = None,
        pinned: bool = False,
        show_deactivator: bool = True,
    ) -> GroupSpec:
        """Change the texts of a group, whether it is pinned and whether clients can close it, and return it.

        Sessions have it open as before, or from now on if it is pinned now.

        Raises:
            GroupNotFound, InvalidDefinition, ExclusionConflict: Nothing has changed.
        """
        return self._builder.update_group(
            path,
            description=description,
            instructions=instructions,
            title=title,
            pinned=pinned,
            show_deactivator=show_deactivator,
        )

    @on_loop
    def register_exclusion(self, *groups: str) -> None:
        """Register groups of which at most one may be active (SPEC REG-3).

        Raises:
            GroupNotFound: A group does not exist.
            ExclusionConflict: Fewer than two groups, one contains another, or an open session has two of them active.
        """
        members = self._builder.exclusion(groups)
        for session in self.pool.live:
            active = [path for path in session.active if path in members]
            if len(active) > 1:
                raise ExclusionConflict(
                    active,
                    f"Session {session.id!r} has {active[0]!r} and {active[1]!r} active; deactivate one of them first.",
                    session.id,
                )
        self._builder.add_exclusion(members)

    def unregister_exclusion(self, *groups: str) -> bool:
        """Remove an exclusion set, and return whether there was one of these groups (SPEC REG-7)."""
        return self._builder.remove_exclusion(frozenset(groups))

    def unregister_profile(self, name: str) -> Profile | None:
        """Remove a profile and return it, or `None` if there was none; sessions that it began go on under it."""
        return self._builder.remove_profile(name)

    def withhold(self, tools: Mapping[str, tuple[WithheldBy, str]]) -> None:
        """Say why tools that are known of are not registered, for `explain`, instead of what was said before (EXP-1).

        Args:
            tools: For each name the reason, and a sentence on it; a name that ends with `*` stands for all that begin
                like it.
        """
        self._builder.withhold(tools)

    def register_profile(self, profile: Profile) -> Profile:
        """Register a profile for sessions to be opened under (SPEC PRO-1)."""
        self._builder.add_profile(profile)
        return profile

    def unregister_group(self, path: str) -> Coroutine[Any, Any, GroupSpec]:
        """Close a group in every session, then remove it with everything below it; await it for the group (SPEC REG-5).

        Sessions of requests under way are among them. While no session has it open, it is removed at once: then only
        the group itself is awaited.

        Raises:
            GroupNotFound: There is no such group, also where it is not awaited.
            HookFailed: A session could not close the group; nothing was removed.
        """
        group = self._builder.known(path)
        if any(session.snapshot.is_active(path) for session in self.pool.live):
            return self._close_and_remove(path)
        self._builder.remove_group(path)
        return _just(group)

    async def _close_and_remove(self, path: str) -> GroupSpec:
        while affected := [session for session in self.pool.live if session.snapshot.is_active(path)]:
            for session in affected:
                with suppress(SessionClosed):  # it ended meanwhile, hooks included
                    await session.deactivate(path)
        return self._builder.remove_group(path)

    # -- tools and the rest -------------------------------------------------------------------------------------------

    def register(self, name: str, handler: Callable[..., Any], **options: Unpack[ToolOptions]) -> Component:
        """Register a tool and return its component (SPEC NAM-2, REG-6).

        If the handler is marked with `@tool`, all that its mark says holds here too, but for its name and for what the
        options say otherwise (SPEC KIT-8).

        Args:
            name: The base name, or the full name of a tool in a group.
            handler: With `input` or `input_schema`, a function of nothing, the arguments, or arguments and `Context`;
                without, a function whose annotated parameters describe the arguments. Sync or async.
            options: `description`, `group`, `flat`, `visibility`, `always`, `hidden`, `visible`, `title`, `input`,
                `output`, `input_schema`, `output_schema`, `structured_output`, `check_arguments`, `check_output`,
                `category`, `tags`, `annotations`, `icons`, `meta`, `modes`, `replaces_control` and `run_in_thread`; see
                `ToolOptions`.

        Raises:
            InvalidName, DuplicateName, GroupNotFound, InvalidDefinition: Nothing was registered.
        """
        given = self._tool_defaults | decorators.options_of("tool", str(name), handler, options)
        place = place_of("tool", name, given, self._builder.known)
        component = tool_component(place, handler, given, self._schemas)
        if self._builder.is_control(component.name) and not given.get("replaces_control"):
            warn(_replaces(component))
        return self._builder.add_component(component)

    @overload
    def tool(self, function: F, /, *, name: str | None = None, **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, name: str, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    @overload
    def tool(self, /, *, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, target: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a tool and return it unchanged: `@tools.tool`, or with options (SPEC KIT-1, KIT-8).

        Its name is the option `name`, else that of its mark, else the function's. The other options, what a mark means,
        and what is raised are as in `register`.
        """
        return self._decorator(self.register, target, {"name": name, **options})

    def _decorator(self, register: Callable[..., Component], target: Any, options: dict[str, Any]) -> Any:
        """Return what a decorator returns that registers a function by its name."""

        def registered(function: Any, options: Any) -> Any:
            given = dict(options)
            register(decorators.name_of(function, given.pop("name")), function, **given)
            return function

        return decorators.decorator(target, options, registered)

    def register_catalog_tool(
        self, name: str = "catalog", *, everything: bool = False, **options: Unpack[ToolOptions]
    ) -> Component:
        """Register a tool that shows what can be used, listed or hidden, with full definitions; return its component.

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
        return self.register(name, CatalogTool(everything), **(CATALOG_OPTIONS | options))

    def register_prompt(self, name: str, handler: Callable[..., Any], **options: Unpack[PromptOptions]) -> Component:
        """Register a prompt and return its component (SPEC REG-9).

        The handler's annotated parameters describe the arguments, each of which is given as a text. With the option
        `arguments` (names, or mappings with `name`, `description` and `required`), it takes nothing, the arguments, or
        arguments and `Context`. It answers with a text or a list of messages. The options are in `PromptOptions`. The
        rest, and what is raised, is as in `register`.
        """
        given = self._defaults | decorators.options_of("prompt", str(name), handler, options)
        place = place_of("prompt", name, given, self._builder.known)
        return self._builder.add_component(prompt_component(place, handler, given, self._schemas))

    @overload
    def prompt(self, function: F, /, *, name: str | None = None, **options: Unpack[PromptOptions]) -> F: ...
    @overload
    def prompt(self, name: str, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    @overload
    def prompt(self, /, *, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, target: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a prompt and return it unchanged: `@tools.prompt`, or with options; see `tool`."""
        return self._decorator(self.register_prompt, target, {"name": name, **options})

    def register_resource(self, uri: str, handler: Callable[..., Any], **options: Unpack[ResourceOptions]) -> Component:
        """Register a resource and return its component (SPEC REG-9).

        The handler takes nothing, or what is annotated as `Context`, and answers with a text, bytes, or contents in the
        form of the MCP specification. The options are in `ResourceOptions`. The rest, and what is raised, is as in
        `register`.
        """
        return self._register_resource("resource", uri, handler, options)

    def register_resource_template(
        self, uri_template: str, handler: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> Component:
        """Register a resource template such as `file:///{path}` and return its component; see `register_resource`.

        The handler's annotated parameters have the names of the template's variables. If it has none, it takes nothing,
        the variables as one mapping, or these and `Context`.
        """
        return self._register_resource("resource_template", uri_template, handler, options)

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource and return it unchanged: `@tools.resource("notes://today")`.

        Its name is the option `name`, else that of its mark, else the function's; see `register_resource`.
        """
        return self._resource("resource", uri, options)

    def resource_template(self, uri_template: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource template and return it unchanged; see `resource`."""
        return self._resource("resource_template", uri_template, options)

    def _resource(self, kind: Kind, uri: Any, options: ResourceOptions) -> Callable[[F], F]:
        decorators.check_marked_uri(kind, uri)

        def registered(function: F) -> F:
            name = decorators.name_of(function, options.get("name"))
            self._register_resource(kind, uri, function, {**options, "name": name})
            return function

        return registered

    def _register_resource(
        self, kind: Kind, uri: str, handler: Callable[..., Any], options: ResourceOptions
    ) -> Component:
        given = self._defaults | decorators.options_of(kind, str(uri), handler, options)
        place = place_of(kind, uri, given, self._builder.known)
        return self._builder.add_component(resource_component(kind, place, handler, given, self._schemas))

    def unregister(self, name: str, kind: Kind = "tool") -> Component | None:
        """Remove a tool, or something of another kind, and return it (SPEC REG-5).

        Returns `None`, with a warning, if nothing of that name was registered.
        """
        found = self._builder.remove_component(kind, name)
        if found is None:
            warn(f"Nothing was unregistered: no {decorators.words(kind)} {name!r} was registered, by its full name.")
        return found

    def share_tool(self, name: str, group: str) -> Component:
        """Have a tool of one group available while another is open, too, and return its component (SPEC SKL-2).

        Its name and its own group stay; a tool that is always available stays so.

        Raises:
            ToolNotFound, GroupNotFound: There is no such tool or group; nothing has changed.
        """
        return self._builder.share_tool(name, group)

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """Return a context manager that undoes what was registered within it if it raises (SPEC REG-1)."""
        return self._builder.all_or_nothing()

    def guard_names(self, guard: Callable[[str], None], release: Callable[[str], None] = lambda _: None) -> None:
        """Have `guard(name)` called with the name of every tool, now and before each registration (SPEC NAM-6).

        What it raises refuses the registration. `release(name)` is called when a name is free again.
        """
        self._builder.guard_names(guard, release)

    # -- the catalog --------------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The present catalog."""
        return self._builder.catalogs.present

    def catalog_under(self, profile: Profile | None) -> Catalog:
        """Return the catalog as a session under `profile` knows it (SPEC PRO-1)."""
        return self._builder.catalogs.under(profile)

    def profile(self, profile: str | Profile | None) -> Profile | None:
        """Return a registered profile by its name, or raise `ConfigError`; a profile or `None` is returned unchanged.

        One that was registered is returned without the groups that were unregistered since (SPEC REG-5).
        """
        return self._builder.catalogs.profile(profile)

    def groups(self) -> tuple[GroupSpec, ...]:
        """Return all groups as they were registered, in canonical order (SPEC GRP-4); see also `list_groups`."""
        return self.catalog.groups

    def core_tools(self) -> tuple[Component, ...]:
        """Return the tools of no group, hidden ones and a loader among them, in order of name (SPEC GRP-4)."""
        return tuple(component for _, component in sorted(self.catalog.tools.items()) if component.group is None)

    def group_tools(self, path: str) -> tuple[Component, ...]:
        """Return the tools directly in a group, hidden ones among them, in order of name (SPEC GRP-4).

        Control tools are left out. It is empty if there is no such group.
        """
        tools = sorted(self.catalog.tools.items())
        return tuple(component for _, component in tools if component.group == path and component.control is None)


def _replaces(component: Component) -> str:
    """Return the warning of a tool that takes the place of a control tool, which was hardly meant (SPEC NAM-4)."""
    role = component.name.rpartition(".")[2]
    does = "opens" if role == "activate" else "closes"
    return (
        f"The tool {component.name!r} takes the place of the one that {does} the group {component.group!r}. Give it "
        f"another name; or have its handler await context.{role}({component.group!r}), and say replaces_control=True."
    )


async def _just(group: GroupSpec) -> GroupSpec:
    return group
