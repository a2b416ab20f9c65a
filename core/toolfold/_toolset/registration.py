"""What is registered: definitions, checked and collected, of which catalogs are made (SPEC 3).

A `Registration` is the only mutable definition, and private to a tool set. Every method checks first and changes last,
so an error leaves it as it was (SPEC REG-1); each costs the same however much is registered (SPEC REG-8). `catalogs`
has the immutable `Catalog`, which is made once for any number of registrations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal

from attrs import evolve

from .._catalog.catalog import Catalog, Catalogs, ListBudget, canonical
from .._catalog.components import KINDS, Component, Group, Kind, Profile, WithheldBy, words
from .._catalog.rules import Always, shared
from .._names import ancestors, check_name, check_segment, is_text, split_name
from .._schema.annotations import SchemaCache
from .._schema.arguments import check_text
from .._usercode import on_loop
from .._values import frozen
from .._view.search import Ranker
from ..errors import (
    ConfigError,
    DuplicateName,
    ExclusionConflict,
    GroupNotFound,
    InvalidDefinition,
    InvalidName,
    ToolNotFound,
    warn,
)
from ..machine.forest import exclusion_of
from .control import ControlStyle, loader_components
from .decorators import options_of
from .definitions import component_of
from .finder import FINDER, finder_component
from .handlers import hooks
from .options import OF_GROUPS, checked_options

Evict = Literal["oldest", "idlest"]
NameGuard = Callable[[str], None]


@frozen
class Settings:
    """The settings that a catalog depends on: how groups are opened, how much is active, and how tools are found."""

    style: ControlStyle
    max_active: int | None = None
    evict: Evict | None = None
    list_budget: ListBudget | None = None
    ranker: Ranker | None = None

    @cached_property
    def reserved(self) -> tuple[str, ...]:
        """The names of the control tools that are in no group."""
        loader = self.style.loader
        return (*(loader.names if loader else ()), *((FINDER,) if self.ranker else ()))

    def control_tools(self, groups: Iterable[Group]) -> tuple[Component, ...]:
        """Return the control tools that are in no group, in a catalog that has `groups` (SPEC CTL-3, FND-1)."""
        loader, finder = self.style.loader, FINDER if self.ranker else None
        tools = () if loader is None else loader_components(loader, groups, finder)
        if loader is not None and not tools:
            return ()  # everything is in view
        named = groups if self.style.has_tools else ()
        return tools if self.ranker is None else (*tools, finder_component(self.ranker, named))


class Registration:
    """The groups, exclusion sets, components and profiles registered so far; `catalogs` has the catalog of them.

    Args:
        name: The name of the tool set.
        settings: What the catalog depends on beside what is registered.
        defaults: Options of all components and groups that a registration does not give.
        tool_defaults: Those of tools alone.
    """

    def __init__(
        self, name: str, settings: Settings, defaults: Mapping[str, Any], tool_defaults: Mapping[str, Any]
    ) -> None:
        self.name = name
        self.settings = settings
        self._defaults = dict(defaults)
        self._tool_defaults = {**defaults, **tool_defaults}
        self._schemas = SchemaCache()
        self._groups: dict[str, Group] = {}
        self._exclusions: dict[frozenset[str], None] = {}
        self._specs: dict[Kind, dict[str, Component]] = {kind: {} for kind in KINDS}
        self._profiles: dict[str, Profile] = {}
        self._withheld: Mapping[str, tuple[WithheldBy, str]] = {}
        self._admits_withheld: Callable[[str, Profile], bool] | None = None
        self._guards: list[tuple[NameGuard, NameGuard, NameGuard]] = []
        self.catalogs = Catalogs(name, self._make)

    def _make(self) -> Catalog:
        """Return the catalog of all that is registered now."""
        settings = self.settings
        return Catalog(
            name=self.name,
            groups=canonical(self._groups.values()),
            exclusions=tuple(self._exclusions),
            registered={kind: dict(held) for kind, held in self._specs.items()},
            profiles=dict(self._profiles),
            max_active=settings.max_active,
            evict_oldest=settings.evict is not None,
            evict_by_use=settings.evict == "idlest",
            list_budget=settings.list_budget,
            make_controls=settings.control_tools if settings.reserved else None,
            withheld=self._withheld,
            admits_withheld=self._admits_withheld,
        )

    @on_loop
    def adopt_settings(self, other: Registration) -> None:
        """Take over the settings of `other`; the control tools of groups are made anew."""
        style, reserved = other.settings.style, other.settings.reserved
        tools = {name: tool for name, tool in self._specs["tool"].items() if tool.control is None}
        groups = {path: _restyled(group, self.settings.style, style) for path, group in self._groups.items()}
        controls = {name: tool for group in groups.values() for name, tool in style.components(group).items()}
        for name in reserved:
            if name in tools:
                raise DuplicateName("tool", name)
        new = {*reserved, *controls} - tools.keys()
        old = {*self.settings.reserved, *self._specs["tool"]} - tools.keys()
        self._guard(new - old, generated=controls)
        self.settings, self._groups = other.settings, groups
        self._specs["tool"] = {**controls, **tools}
        self._release(old - new)
        self.catalogs.newest = None

    @contextmanager
    def all_or_nothing(self) -> Generator[None]:
        """Undo what was registered within if it raises (SPEC REG-1)."""
        groups, exclusions, profiles = dict(self._groups), dict(self._exclusions), dict(self._profiles)
        components: dict[Kind, dict[str, Component]] = {kind: dict(held) for kind, held in self._specs.items()}
        settings, newest = self.settings, self.catalogs.newest
        withheld, admits = self._withheld, self._admits_withheld
        try:
            yield
        except BaseException:
            added = (*self._specs["tool"], *self.settings.reserved)
            self._groups, self._exclusions, self._profiles, self._specs = groups, exclusions, profiles, components
            self.settings, self.catalogs.newest = settings, newest
            self._withheld, self._admits_withheld = withheld, admits
            self._release(added)
            raise

    @on_loop
    def guard_names(self, guard: NameGuard, release: NameGuard, control: NameGuard) -> None:
        """Have `guard(name)` called with every tool name, now and before each is registered; it may raise.

        `control(name)` is called instead for the tools that open and close one group, and `release(name)` for each
        name that is gone again.
        """
        tools = self._specs["tool"]
        opening = [name for name, tool in tools.items() if tool.opens_or_closes]
        for name in (*tools.keys() - {*opening}, *self.settings.reserved):
            guard(name)
        for name in opening:  # those give way to the names of others
            control(name)
        self._guards.append((guard, release, control))

    # -- groups -------------------------------------------------------------------------------------------------------

    def add_group(self, name: str, parent: str | None, description: str, options: Mapping[str, Any]) -> Group:
        """Add a group given by segment and parent, or by full path, with `GroupOptions` (SPEC REG-2)."""
        given = self._defaults | checked_options(str(name), options, OF_GROUPS)
        given.setdefault("controls", "opens_on" not in given)
        given.setdefault("selectable", given["controls"] and self.settings.style.has_tools)
        given |= hooks(str(name), given, in_thread=given.pop("run_in_thread"))
        return self._add_group(_path(name, parent), description, given)

    @on_loop
    def _add_group(self, path: str, description: str, options: Mapping[str, Any]) -> Group:
        if path in self._groups:
            raise DuplicateName("group", path)
        for above in ancestors(path):
            self.group_at(above)
        group = self._pinnable(Group(path=path, description=description, **options))
        _check_texts(group)
        controls = self.settings.style.components(group)
        self._check_new("tool", controls, generated=controls)
        self._groups[path] = group
        self._specs["tool"].update(controls)
        self.catalogs.newest = None
        return group

    @on_loop
    def update_group(self, path: str, **changes: Any) -> Group:
        """Change what no state depends on about a group, and the control tools that show it."""
        group = self._pinnable(evolve(self.group_at(path), **changes))
        _check_texts(group)
        tools = self._specs["tool"]
        for name in self.settings.style.components(self.group_at(path)):
            if tools[name].control:
                del tools[name]
        self._groups[path] = group
        tools.update({name: made for name, made in self.settings.style.components(group).items() if name not in tools})
        self.catalogs.newest = None
        return group

    def _pinnable(self, group: Group) -> Group:
        """Return a group, which can't be closed if it is pinned, or raise if it can't be open always (SPEC FND-4)."""
        path, parent = group.path, group.parent
        if group.pinned:
            if group.has_hooks or group.opens_on is not None or group.transient:
                raise InvalidDefinition(
                    path, "a pinned group is open in every session, so it has no hooks, opens on no event and is stored"
                )
            if parent is not None and not self._groups[parent].pinned:
                raise InvalidDefinition(path, f"it is pinned, so {parent!r}, which contains it, must be pinned too")
            if conflict := next((members for members in self._exclusions if path in members), None):
                raise _never_open(path, conflict)
            return evolve(group, show_deactivator=False)
        if path in self._groups and (  # one that is new contains none
            below := [other.path for other in self._groups.values() if other.pinned and other.parent == path]
        ):
            raise InvalidDefinition(path, f"it contains {below[0]!r}, which is pinned, so it must be pinned too")
        return group

    def group_at(self, path: str) -> Group:
        """Return a registered group, or raise `GroupNotFound`."""
        group = self._groups.get(path) if is_text(path) else None
        if group is None:
            raise GroupNotFound(path, tuple(self._groups))
        return group

    def exclusion(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the exclusion set of these groups, checked but not added (SPEC REG-3)."""
        given = tuple(paths)
        for path in given:
            self.group_at(path)
        members = exclusion_of(given)
        for path in sorted(members):
            if self._groups[path].pinned:
                raise _never_open(path, members)
        return members

    @on_loop
    def add_exclusion(self, members: frozenset[str]) -> None:
        """Add a checked exclusion set."""
        self._exclusions[members] = None
        self.catalogs.newest = None

    @on_loop
    def remove_exclusion(self, members: frozenset[str]) -> bool:
        """Remove an exclusion set, and return whether there was one."""
        if members not in self._exclusions:
            return False
        del self._exclusions[members]
        self.catalogs.newest = None
        return True

    @on_loop
    def remove_group(self, path: str) -> Group:
        """Remove a group, what is below it, and their tools, also from profiles that name it (SPEC REG-5, PRO-1)."""
        group = self.group_at(path)
        gone = {other for other in self._groups if other == path or other.startswith(f"{path}.")}
        self._groups = {name: component for name, component in self._groups.items() if name not in gone}
        before = self._specs["tool"]
        for kind, held in self._specs.items():
            self._specs[kind] = {name: component for name, component in held.items() if component.group not in gone}
        self._release(before)
        remaining = (members - gone for members in self._exclusions)
        self._exclusions = {members: None for members in remaining if len(members) > 1}
        self._profiles = {name: profile.without(gone) for name, profile in self._profiles.items()}
        self.catalogs.newest = None
        return group

    # -- tools and the rest -------------------------------------------------------------------------------------------

    def add(self, kind: Kind, name: str, handler: Callable[..., Any], options: Mapping[str, Any]) -> Component:
        """Add a tool, prompt, resource or template by its name or URI, with the options of its kind (SPEC REG-6)."""
        defaults = self._tool_defaults if kind == "tool" else self._defaults
        given = defaults | options_of(kind, str(name), handler, options)
        component = component_of(kind, name, handler, given, self._schemas, self.group_at)
        if kind == "tool" and self._is_control(component.name) and not given.get("replaces_control"):
            warn(_replaces(component))
        return self._add_component(component)

    @on_loop
    def _add_component(self, component: Component) -> Component:
        """Add a checked component; a user's tool takes the place of a generated control tool (SPEC NAM-4, REG-4)."""
        self._check_new(component.kind, [component.name])
        if component.kind == "tool" and self._is_control(component.name):
            component = evolve(component, replaces_control=True)
        self._specs[component.kind][component.name] = component
        self.catalogs.newest = None
        return component

    def adopt(self, component: Component) -> Component:
        """Add a component that another registration made; raises `GroupNotFound` if its group is not here."""
        if component.group is not None:
            self.group_at(component.group)
        return self._add_component(component)

    @on_loop
    def share_tool(self, name: str, path: str) -> Component:
        """Have a tool available while another group is open, too (SPEC SKL-2)."""
        self.group_at(path)
        tool = self._specs["tool"].get(name)
        if tool is None or tool.control is not None:
            raise ToolNotFound(name)
        if not isinstance(tool.rule, Always):
            tool = evolve(tool, rule=shared(tool.rule, tool.group, path))
            self._specs["tool"][name] = tool
            self.catalogs.newest = None
        return tool

    def _is_control(self, name: str) -> bool:
        """Return whether a tool of that name opens or closes a group, and was generated."""
        held = self._specs["tool"].get(name)
        return held is not None and held.control is not None

    @on_loop
    def remove_component(self, kind: Kind, name: str) -> Component | None:
        """Remove what a user registered and return it, or `None`; a generated control tool takes its place again."""
        component = self._specs[kind].get(name)
        if component is None or component.control is not None:
            return None
        del self._specs[kind][name]
        if kind == "tool" and component.group is not None:
            control = self.settings.style.components(self._groups[component.group]).get(name)
            if control is not None:
                self._specs[kind][name] = control
        if kind == "tool":
            self._release([name])
        self.catalogs.newest = None
        return component

    @on_loop
    def add_profile(self, profile: Profile) -> None:
        """Add a profile whose groups exist and whose initial groups can be active together (SPEC PRO-1)."""
        check_segment(profile.name)
        if profile.name in self._profiles:
            raise DuplicateName("profile", profile.name)
        for path in (*profile.active, *(path for path in profile.available if path != "*")):
            self.group_at(path)
        for path in profile.active:
            if missing := [above for above in ancestors(path) if above not in profile.active]:
                raise ConfigError(
                    f"Profile {profile.name!r} starts with {path!r} active, but not {missing[0]!r} which contains it: "
                    "name both."
                )
        for members in self._exclusions:
            if len(both := sorted(members & set(profile.active))) > 1:
                raise ExclusionConflict(
                    both,
                    f"Profile {profile.name!r} starts with {both[0]!r} and {both[1]!r} active, "
                    "which exclude one another: leave one out.",
                )
        self._profiles[profile.name] = profile
        self.catalogs.newest = None

    @on_loop
    def withhold(
        self, tools: Mapping[str, tuple[WithheldBy, str]], admits: Callable[[str, Profile], bool] | None
    ) -> None:
        """Replace the reasons why tools are missing, and which profiles know of them."""
        self._admits_withheld = admits
        if tools != self._withheld:
            self._withheld, self.catalogs.newest = dict(tools), None

    @on_loop
    def remove_profile(self, name: str) -> Profile | None:
        """Remove a profile and return it, or `None`; sessions under it remain so."""
        self.catalogs.newest = None if name in self._profiles else self.catalogs.newest
        return self._profiles.pop(name, None)

    def _check_new(self, kind: Kind, names: Collection[str], generated: Container[str] = ()) -> None:
        for name in names:
            held = self._specs[kind].get(name)
            if (kind == "tool" and name in self.settings.reserved) or (held is not None and held.control is None):
                raise DuplicateName(words(kind), name)
        if kind == "tool":
            self._guard(names, generated)

    def _guard(self, names: Collection[str], generated: Container[str]) -> None:
        try:
            for name in names:
                for guard, _, control in self._guards:
                    (control if name in generated else guard)(name)
        except BaseException:
            self._release(names)
            raise

    def _release(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._specs["tool"] and name not in self.settings.reserved:
                for _, release, _ in self._guards:
                    release(name)


def _path(name: str, parent: str | None) -> str:
    """Return the path of a group that is given by a segment and its parent, or by its path."""
    check_name(name)
    above, segment = split_name(name)
    if parent is None:
        return name
    if above and above != parent:
        raise InvalidName(name, name, f"it is not directly in its parent {parent!r}")
    return check_name(f"{check_name(parent)}.{segment}")


def _replaces(component: Component) -> str:
    """Return the warning of a tool that takes the place of a control tool, probably by mistake (SPEC NAM-4)."""
    role = component.name.rpartition(".")[2]
    does = "opens" if role == "activate" else "closes"
    return (
        f"The tool {component.name!r} takes the place of the one that {does} the group {component.group!r}. Give it "
        f"another name; or have its handler await context.{role}({component.group!r}), and say replaces_control=True."
    )


def _check_texts(group: Group) -> None:
    for what in ("description", "instructions", "title", "opens_on"):
        check_text(group.path, what, getattr(group, what))


def _never_open(path: str, members: Iterable[str]) -> ExclusionConflict:
    named = tuple(sorted(members))
    return ExclusionConflict(named, f"{path!r} is pinned, so no group that it excludes could ever be open.")


def _restyled(group: Group, before: ControlStyle, after: ControlStyle) -> Group:
    """Return a group under another style of control, which decides whether it is selectable by default."""
    by_default = group.selectable == (group.controls and before.has_tools)
    return evolve(group, selectable=group.controls and after.has_tools) if by_default else group
