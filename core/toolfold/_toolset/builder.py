"""A catalog in the making: what registration checks and collects (SPEC 3).

A `Builder` is the only mutable definition, and private to a tool set. Every method checks first and changes last, so an
error leaves it as it was (SPEC REG-1); each costs the same however much is registered (SPEC REG-8). `freeze` makes the
immutable `Catalog`, once for any number of registrations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from weakref import WeakKeyDictionary

from attrs import evolve, frozen

from .._catalog.budget import ListBudget
from .._catalog.catalog import Catalog, canonical
from .._catalog.components import KINDS, Component, GroupSpec, Kind, Profile
from .._catalog.rules import Always, Group, Visibility, groups_of
from .._names import ancestors, check_name, check_segment, is_text, qualified_name, split_name
from .._schema.arguments import check_text
from .._usercode import on_loop
from .._view.control import RESERVED, ControlStyle, loader_components
from .._view.finder import FINDER, finder_component
from .._view.search import Ranker
from ..errors import ConfigError, DuplicateName, ExclusionConflict, GroupNotFound, InvalidDefinition, InvalidName

NameGuard = Callable[[str], None]


Evict = Literal["oldest", "idlest"]


@frozen
class Quota:
    """How much may be active at a time in a session, and what makes room beyond that (SPEC ACT-10, FND-3)."""

    max_active: int | None = None
    budget: ListBudget | None = None
    evict: Evict | None = None


class Builder:
    """The groups, exclusion sets, components and profiles registered so far.

    `newest` is the catalog of all that is registered, or `None` once something was registered since.
    """

    def __init__(self, name: str, style: ControlStyle, quota: Quota, ranker: Ranker | None = None) -> None:
        self.name = name
        self.style = style
        self._quota = quota
        self._ranker = ranker
        self._taken = (*(style.loader.names if style.loader else ()), *((FINDER,) if ranker else ()))
        self._groups: dict[str, GroupSpec] = {}
        self._exclusions: dict[frozenset[str], None] = {}
        self._specs: dict[Kind, dict[str, Component]] = {kind: {} for kind in KINDS}
        self._profiles: dict[str, Profile] = {}
        self._guards: list[tuple[NameGuard, NameGuard]] = []
        self.newest: Catalog | None = None
        self._restricted: WeakKeyDictionary[Profile, tuple[Catalog, Catalog]] = WeakKeyDictionary()

    def freeze(self) -> Catalog:
        """Return the catalog of all that is registered now; the same one until something is registered."""
        return self.newest or self._freeze()

    @on_loop
    def _freeze(self) -> Catalog:
        if self.newest is None:
            self.newest = Catalog(
                name=self.name,
                groups=canonical(self._groups.values()),
                exclusions=tuple(self._exclusions),
                registered={kind: dict(held) for kind, held in self._specs.items()},
                profiles=dict(self._profiles),
                max_active=self._quota.max_active,
                evict_oldest=self._quota.evict is not None,
                evict_by_use=self._quota.evict == "idlest",
                list_budget=self._quota.budget,
                make_controls=self._make_controls if self._taken else None,
            )
        return self.newest

    def _make_controls(self, groups: Iterable[GroupSpec]) -> tuple[Component, ...]:
        """Return the control tools of no group in a catalog that has `groups` (SPEC CTL-3, FND-1)."""
        loader = () if self.style.loader is None else loader_components(self.style.loader, groups)
        if self.style.loader is not None and not loader:
            return ()  # everything is in view
        return loader if self._ranker is None else (*loader, finder_component(self._ranker))

    def under(self, profile: Profile | None) -> Catalog:
        """Return the newest catalog as a session under `profile` knows it (SPEC PRO-1)."""
        catalog = self.freeze()
        if profile is None:
            return catalog
        source, restricted = self._restricted.get(profile, (None, None))
        if source is not catalog or restricted is None:
            restricted = catalog.under(profile)
            self._restricted[profile] = (catalog, restricted)
        return restricted

    @contextmanager
    def all_or_nothing(self) -> Generator[None]:
        """Undo what was registered within if it raises (SPEC REG-1)."""
        groups, exclusions, profiles = dict(self._groups), dict(self._exclusions), dict(self._profiles)
        components: dict[Kind, dict[str, Component]] = {kind: dict(held) for kind, held in self._specs.items()}
        frozen = self.newest
        try:
            yield
        except BaseException:
            added = self._specs["tool"]
            self._groups, self._exclusions, self._profiles, self._specs = groups, exclusions, profiles, components
            self.newest = frozen
            self._release(added)
            raise

    @on_loop
    def guard_names(self, guard: NameGuard, release: NameGuard) -> None:
        """Have `guard(name)` called with every tool name, now and before each is registered; it may raise.

        `release(name)` is called for each that is gone again.
        """
        for name in self._specs["tool"]:
            guard(name)
        for name in self._taken:
            guard(name)
        self._guards.append((guard, release))

    # -- groups -------------------------------------------------------------------------------------------------------

    @on_loop
    def add_group(self, name: str, parent: str | None, options: Mapping[str, Any]) -> GroupSpec:
        """Add a group given by segment and parent, or by full path (SPEC REG-2)."""
        path = self.path_of(name, parent)
        if path in self._groups:
            raise DuplicateName("group", path)
        for above in ancestors(path):
            self.known(above)
        group = GroupSpec(path=path, **options)
        for what, value in (("description", group.description), ("title", group.title), ("opens_on", group.opens_on)):
            check_text(path, what, value)
        controls = self.style.components(group)
        self._check_new("tool", controls)
        self._groups[path] = group
        self._specs["tool"].update(controls)
        self.newest = None
        return group

    @on_loop
    def update_group(self, path: str, changes: Mapping[str, Any]) -> GroupSpec:
        """Change texts and traits of a group that no state depends on, and the control tools that show them."""
        group = evolve(self.known(path), **changes)
        for what, value in (("description", group.description), ("title", group.title)):
            check_text(path, what, value)
        tools = self._specs["tool"]
        for name in self.style.components(self.known(path)):
            if tools[name].control:
                del tools[name]
        self._groups[path] = group
        tools.update({name: made for name, made in self.style.components(group).items() if name not in tools})
        self.newest = None
        return group

    def path_of(self, name: str, parent: str | None) -> str:
        """Return the full path that a segment or path, with a parent or without, stands for."""
        check_name(name)
        above, segment = split_name(name)
        if parent is None:
            return name
        if above and above != parent:
            raise InvalidName(name, name, f"it is not directly in its parent {parent!r}")
        return check_name(f"{check_name(parent)}.{segment}")

    def known(self, path: str) -> GroupSpec:
        """Return a registered group, or raise `GroupNotFound`."""
        group = self._groups.get(path) if is_text(path) else None
        if group is None:
            raise GroupNotFound(path, tuple(self._groups))
        return group

    def exclusion(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the exclusion set of these groups, checked but not added (SPEC REG-3)."""
        given = list(paths)
        members = frozenset(given)
        for path in given:
            self.known(path)
        if len(members) < 2 or len(members) != len(given):
            named = ", ".join(map(repr, given)) or "none"
            raise ExclusionConflict(
                tuple(given), f"An exclusion set needs two or more different groups, and not: {named}."
            )
        for path in sorted(members):
            for above in ancestors(path):
                if above in members:
                    raise ExclusionConflict(
                        (above, path),
                        f"{above!r} contains {path!r}, which needs it active, so they can't exclude one another.",
                    )
        return members

    @on_loop
    def add_exclusion(self, members: frozenset[str]) -> None:
        """Add a checked exclusion set."""
        self._exclusions[members] = None
        self.newest = None

    @on_loop
    def remove_exclusion(self, members: frozenset[str]) -> bool:
        """Remove an exclusion set, and return whether there was one."""
        if members not in self._exclusions:
            return False
        del self._exclusions[members]
        self.newest = None
        return True

    @on_loop
    def remove_group(self, path: str) -> GroupSpec:
        """Remove a group, what is below it, and their tools, also from profiles that name it (SPEC REG-5, PRO-1)."""
        group = self.known(path)
        gone = {other for other in self._groups if other == path or other.startswith(f"{path}.")}
        self._groups = {name: component for name, component in self._groups.items() if name not in gone}
        before = self._specs["tool"]
        for kind, held in self._specs.items():
            self._specs[kind] = {name: component for name, component in held.items() if component.group not in gone}
        self._release(before)
        remaining = (members - gone for members in self._exclusions)
        self._exclusions = {members: None for members in remaining if len(members) > 1}
        self._profiles = {name: profile.without(gone) for name, profile in self._profiles.items()}
        self.newest = None
        return group

    # -- tools and the rest -------------------------------------------------------------------------------------------

    @on_loop
    def add_component(self, component: Component) -> Component:
        """Add a checked component; a user's tool takes the place of a generated control tool (SPEC NAM-4, REG-4)."""
        self._check_new(component.kind, [component.name])
        self._specs[component.kind][component.name] = component
        self.newest = None
        return component

    @on_loop
    def remove_component(self, kind: Kind, name: str) -> Component | None:
        """Remove what a user registered and return it, or `None`; a generated control tool takes its place again."""
        component = self._specs[kind].get(name)
        if component is None or component.control is not None:
            return None
        del self._specs[kind][name]
        if kind == "tool" and component.group is not None:
            control = self.style.components(self._groups[component.group]).get(name)
            if control is not None:
                self._specs[kind][name] = control
        if kind == "tool":
            self._release([name])
        self.newest = None
        return component

    @on_loop
    def add_profile(self, profile: Profile) -> None:
        """Add a profile whose groups exist and whose starting groups can be active together (SPEC PRO-1)."""
        check_segment(profile.name)
        if profile.name in self._profiles:
            raise DuplicateName("profile", profile.name)
        for path in (*profile.active, *(path for path in profile.available if path != "*")):
            self.known(path)
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
        self.newest = None

    @on_loop
    def remove_profile(self, name: str) -> Profile | None:
        """Remove a profile and return it, or `None`; sessions under it stay so."""
        self.newest = None if name in self._profiles else self.newest
        return self._profiles.pop(name, None)

    def place(self, kind: Kind, name: str, given: Mapping[str, Any]) -> tuple[str, str | None, Visibility]:
        """Return `(full name, group, rule)` of what is registered under a name, base or full, or under a URI.

        `given` are its options (SPEC NAM-2, NAM-4, NAM-5, VIS-1). The groups that its rules mention must exist.
        """
        group, rule, flat = given.get("group"), given.get("visibility"), given.get("flat", False)
        base = name
        if kind in ("tool", "prompt"):
            group, base = _split(name, group, flat)
        else:
            flat = True
        for rule_of in (rule, given.get("hidden")):
            for mentioned in sorted(groups_of(rule_of)) if isinstance(rule_of, Visibility) else ():
                self.known(mentioned)
        if group is None and isinstance(rule, Group):
            group, flat = rule.path, True
        if group is None:
            return base, None, Always() if rule is None else rule
        self.known(group)
        full = base if flat else qualified_name(group, base)
        if kind == "tool" and base in RESERVED and not flat:
            return full, group, _replacement_rule(full, rule)
        return full, group, Group(group) if rule is None else rule

    def _check_new(self, kind: Kind, names: Collection[str]) -> None:
        for name in names:
            held = self._specs[kind].get(name)
            if (kind == "tool" and name in self._taken) or (held is not None and held.control is None):
                raise DuplicateName(kind.replace("_", " "), name)
        if kind == "tool":
            try:
                for name in names:
                    for guard, _ in self._guards:
                        guard(name)
            except BaseException:
                self._release(names)
                raise

    def _release(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._specs["tool"]:
                for _, release in self._guards:
                    release(name)


def _split(name: str, group: str | None, flat: bool) -> tuple[str | None, str]:
    """Return the group and the base name of what is registered under a name, base or full."""
    if not is_text(name):
        raise InvalidName(str(name), str(name), "a name is a text")
    above, base = split_name(name)
    if base != name:
        check_name(name)
        if flat or (group is not None and group != above):
            raise InvalidName(name, name, "a dotted name is a full name, and its group must agree with it")
        group = above
    check_segment(base, name)
    return group, base


def _replacement_rule(name: str, rule: Visibility | None) -> Visibility:
    if rule is None:
        return Always()
    if groups_of(rule):
        raise InvalidDefinition(
            name, "it takes the place of a control tool, so it must not depend on a group being active"
        )
    return rule
