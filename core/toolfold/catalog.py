"""The catalog: groups, exclusion sets, and everything that is registered, as one immutable value (SPEC 1, 3).

A catalog is compiled once, when it is made. What its groups are to each other is the machine's `Forest`.
What is registered is put into buckets by a group that must be active for it to be available; a list then looks only
into the buckets of active groups, however much is registered (SPEC LST-5).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from attrs import evolve, field, frozen

from .errors import ConfigError
from .machine import Forest, paths_of
from .names import canonical_key, split_name
from .visibility import Visibility, anchors, is_settled, listing_rule, never_listed

if TYPE_CHECKING:
    from .control import Loader
    from .dispatch import Context
    from .modes import Modes
    from .schema import Arguments
    from .snapshot import Snapshot

Kind = Literal["tool", "prompt", "resource", "resource_template"]
KINDS: tuple[Kind, ...] = ("tool", "prompt", "resource", "resource_template")
Role = Literal["activate", "deactivate", "load"]
Hook = Callable[..., Any]
Handler = Callable[[dict[str, Any], "Context"], Awaitable[Any]]


def kinds_of(kinds: Kind | Iterable[Kind]) -> frozenset[Kind]:
    """Return kinds as a set; a single text is one kind. Raises `ConfigError` for what is none."""
    given = frozenset((kinds,) if isinstance(kinds, str) else kinds)
    if unknown := [kind for kind in given if kind not in KINDS]:
        raise ConfigError(f"There is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}.")
    return given


@frozen(kw_only=True)
class GroupSpec:
    """A group as it was registered.

    `on_rollback` is `None` to undo a hook by its opposite, a hook of its own, or `False` to opt out (SPEC HOOK-5).
    `opens_on` is the tool whose success opens the group (SPEC SES-6). One that is not `selectable` is opened by no
    request that names or fetches it, nor is what is in it; see `Catalog.selectable`. A `transient` group is not stored
    (SPEC PER-4).
    """

    path: str
    description: str = ""
    title: str | None = None
    on_activate: Hook | None = None
    on_deactivate: Hook | None = None
    on_rollback: Hook | Literal[False] | None = None
    show_deactivator: bool = True
    controls: bool = True
    selectable: bool = True
    pinned: bool = False
    opens_on: str | None = None
    transient: bool = False

    @property
    def parent(self) -> str | None:
        """The path of the parent, or `None` for a group at root."""
        return split_name(self.path)[0] or None

    @property
    def display_name(self) -> str:
        """The title, or else the last segment of the path."""
        return self.title or split_name(self.path)[1]

    @property
    def has_hooks(self) -> bool:
        """Whether any transition of this group runs something."""
        return self.on_activate is not None or self.on_deactivate is not None


@frozen(kw_only=True, eq=False)
class Spec:
    """Something registered: a tool, prompt, resource or resource template (SPEC REG-9).

    `name` is what it is called by: the full name, the URI, or the URI template. `definition` is what clients are shown,
    in the shape of the MCP specification; treat it as read-only. `control` is set for what the library made itself, and
    `loader` for a tool that opens groups by name. `hidden` says whether lists leave it out, or is the rule under which
    they do (SPEC VIS-6); ask `visibility.is_hidden`. `modes` is set for a composite tool, and `origin` for one as it is
    offered in one snapshot: what was registered.
    """

    kind: Kind
    name: str
    rule: Visibility
    definition: Mapping[str, Any]
    handler: Handler
    arguments: Arguments | None = None
    group: str | None = None
    hidden: bool | Visibility = False
    category: str | None = None
    tags: tuple[str, ...] = ()
    control: tuple[Role, str] | None = None
    loader: Loader | None = None
    modes: Modes | None = None
    origin: Spec | None = None

    @property
    def description(self) -> str:
        """What the model is told about it."""
        return str(self.definition.get("description", ""))

    @property
    def title(self) -> str | None:
        """The human-readable name, if there is one."""
        return self.definition.get("title")

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of a tool's arguments; empty for other kinds."""
        schema: Mapping[str, Any] = self.definition.get("inputSchema", {})
        return schema


@frozen(kw_only=True)
class Profile:
    """A named choice of groups (SPEC PRO-1): active from the start, and allowed to be activated.

    `"*"` in `available` means all others. `read_only=True` keeps only the tools whose `readOnlyHint` is true (PRO-3).
    """

    name: str
    description: str = ""
    active: tuple[str, ...] = field(default=(), converter=paths_of)
    available: tuple[str, ...] = field(default=(), converter=paths_of)
    read_only: bool | None = None

    def admits(self, path: str) -> bool:
        """Return whether the group exists under this profile: named, or above a named one."""
        if "*" in self.available:
            return True
        return any(name == path or name.startswith(f"{path}.") for name in (*self.active, *self.available))

    def without(self, gone: Container[str]) -> Profile:
        """Return the profile without some groups, which do not exist any more."""
        active = tuple(path for path in self.active if path not in gone)
        return evolve(self, active=active, available=tuple(path for path in self.available if path not in gone))


@frozen
class Shelf:
    """What a catalog holds of one kind: all by name; what may be listed, in buckets by a group that must be active."""

    by_name: Mapping[str, Spec]
    loose: tuple[Spec, ...]
    anchored: Mapping[int, tuple[Spec, ...]]
    changing: frozenset[Spec]

    @classmethod
    def of(cls, specs: Mapping[str, Spec], index: Mapping[str, int]) -> Shelf:
        """Return a shelf of `specs`; `index` gives the number of each group."""
        loose: list[Spec] = []
        anchored: dict[int, list[Spec]] = {}
        changing: list[Spec] = []
        for spec in specs.values():
            if never_listed(spec):
                continue
            needed = [index[path] for path in anchors(listing_rule(spec)) if path in index]
            (anchored.setdefault(max(needed), []) if needed else loose).append(spec)
            if not is_settled(spec):
                changing.append(spec)
        return cls(
            MappingProxyType(dict(specs)),
            tuple(loose),
            {number: tuple(bucket) for number, bucket in anchored.items()},
            frozenset(changing),
        )

    def candidates(self, active: Iterable[int]) -> Iterator[Spec]:
        """Yield everything that might be listed while exactly the groups `active` are."""
        yield from self.loose
        for number in active:
            yield from self.anchored.get(number, ())


@frozen(kw_only=True, eq=False)
class Catalog:
    """The immutable definition that everything else is a function of (SPEC 1).

    `groups` is in canonical order, and a group's place in it is its number in `forest`. `memo` is for what others work
    out once for a catalog.
    """

    name: str
    groups: tuple[GroupSpec, ...]
    exclusions: tuple[frozenset[str], ...]
    specs: Mapping[Kind, Mapping[str, Spec]]
    profiles: Mapping[str, Profile]
    max_active: int | None = None
    evict_oldest: bool = False
    make_loader: Callable[[tuple[GroupSpec, ...]], Spec] | None = None

    forest: Forest = field(init=False)
    shelves: Mapping[Kind, Shelf] = field(init=False)
    opened_by: Mapping[str, tuple[str, ...]] = field(init=False)
    interned: WeakValueDictionary[Any, Snapshot] = field(init=False, factory=WeakValueDictionary[Any, Any], repr=False)
    memo: dict[Any, Any] = field(init=False, factory=dict[Any, Any], repr=False)

    def __attrs_post_init__(self) -> None:
        forest = Forest.of(
            (group.path for group in self.groups),
            self.exclusions,
            max_active=self.max_active,
            evict_oldest=self.evict_oldest,
            pinned=(group.path for group in self.groups if group.pinned),
        )
        specs = dict(self.specs)
        if self.make_loader is not None:
            loader = self.make_loader(self.groups)
            specs["tool"] = {**specs.get("tool", {}), loader.name: loader}
        compiled: dict[str, Any] = {
            "forest": forest,
            "shelves": {kind: Shelf.of(specs.get(kind, {}), forest.index) for kind in KINDS},
            "opened_by": _openers(self.groups),
        }
        for name, value in compiled.items():
            object.__setattr__(self, name, value)

    @property
    def tools(self) -> Mapping[str, Spec]:
        """All tools by full name, control tools included."""
        return self.shelves["tool"].by_name

    @cached_property
    def loader(self) -> Spec | None:
        """The tool that opens groups by name, if there is one (SPEC CTL-3)."""
        return next((spec for spec in self.tools.values() if spec.control and spec.control[0] == "load"), None)

    @property
    def index(self) -> Mapping[str, int]:
        """The number of each group by its path."""
        return self.forest.index

    def group(self, path: str) -> GroupSpec:
        """Return a group by its path, or raise `GroupNotFound`."""
        return self.groups[self.forest.number(path)]

    @cached_property
    def tool_counts(self) -> Mapping[str, int]:
        """The number of user tools directly in each group that has any."""
        counts: dict[str, int] = {}
        for spec in self.tools.values():
            if spec.group is not None and spec.control is None:
                counts[spec.group] = counts.get(spec.group, 0) + 1
        return counts

    @cached_property
    def fingerprint(self) -> str:
        """A hexadecimal digest of what the state of a session refers to: name, groups, exclusion sets, quota."""
        told = {
            "name": self.name,
            "groups": [group.path for group in self.groups],
            "exclusions": sorted(sorted(one) for one in self.exclusions),
            "quota": [self.max_active, self.evict_oldest],
        }
        return sha256(json.dumps(told).encode()).hexdigest()

    @cached_property
    def has_hooks(self) -> bool:
        """Whether any transition runs something outside of the machine."""
        return any(group.has_hooks for group in self.groups)

    @cached_property
    def selectable(self) -> int:
        """The groups that a request may begin with, as a bit set: selectable ones in selectable ones (SPEC SES-6)."""
        mask = 0
        for number, group in enumerate(self.groups):
            if group.selectable and not self.forest.ancestors[number] & ~mask:
                mask |= 1 << number
        return mask

    def under(self, profile: Profile) -> Catalog:
        """Return the catalog as a session under `profile` knows it: other groups do not exist in it (SPEC PRO-1)."""
        kept = {group.path for group in self.groups if profile.admits(group.path)}
        specs = {
            kind: {name: spec for name, spec in held.items() if _admitted(spec, kept, profile)}
            for kind, held in self.specs.items()
        }
        return evolve(
            self,
            groups=tuple(group for group in self.groups if group.path in kept),
            exclusions=tuple(kept_set for one in self.exclusions if len(kept_set := one & kept) > 1),
            specs=specs,
        )

    @cached_property
    def ungrouped(self) -> Catalog:
        """This catalog without its groups: what is at root, and no control tools."""
        return evolve(self.under(Profile(name="root")), make_loader=None)


def canonical(groups: Iterable[GroupSpec]) -> tuple[GroupSpec, ...]:
    """Return groups in canonical order (SPEC 1)."""
    return tuple(sorted(groups, key=lambda group: canonical_key(group.path)))


def _openers(groups: Iterable[GroupSpec]) -> Mapping[str, tuple[str, ...]]:
    opened: dict[str, tuple[str, ...]] = {}
    for group in groups:
        if group.opens_on is not None:
            opened[group.opens_on] = (*opened.get(group.opens_on, ()), group.path)
    return opened


def _admitted(spec: Spec, kept: set[str], profile: Profile) -> bool:
    owner = spec.control[1] if spec.control else spec.group
    if owner is not None and owner not in kept:
        return False
    if profile.read_only is None or spec.kind != "tool" or spec.control is not None:
        return True
    return bool(spec.definition.get("annotations", {}).get("readOnlyHint", False)) is profile.read_only
