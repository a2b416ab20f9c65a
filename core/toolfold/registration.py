"""Registration: what a tool set is made of, and what it has been told (SPEC 3).

Each of these methods either does all that it says or raises and leaves the catalog as it was (SPEC REG-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Literal, TypeVar, Unpack

from . import declare
from .catalog import Catalog, GroupSpec, Hook, Kind, Profile, Spec
from .catalog_tool import OPTIONS as CATALOG_OPTIONS
from .catalog_tool import CatalogTool
from .draft import Draft
from .errors import ExclusionConflict, SessionClosed
from .modes import Modes
from .names import qualified_name
from .pool import SessionPool
from .specs import ResourceOptions, prompt_spec, resource_spec, tool_spec
from .visibility import Visibility

F = TypeVar("F", bound=Callable[..., Any])


class Registration:
    """The half of a `ToolSet` that is told what there is.

    Args:
        draft: The catalog in the making.
        pool: The open sessions, which may stand against what is to be registered or removed.
    """

    qualified_name = staticmethod(qualified_name)

    def __init__(self, draft: Draft, pool: SessionPool) -> None:
        self.pool = pool
        self._draft = draft

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
