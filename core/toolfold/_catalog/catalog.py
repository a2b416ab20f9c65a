"""The catalog: groups, exclusion sets, and everything that is registered, as one immutable value (SPEC 1, 3).

A catalog is compiled once, when it is made. What its groups are to each other is the machine's `Forest`.
What is registered is indexed by a group that must be active for it to be available; a list then looks only
into the buckets of active groups, however much is registered (SPEC LST-5).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from attrs import evolve, field

from .._extras import Displayed
from .._limits import MAX_URI
from .._memo import Memo, Memory
from .._names import SEPARATOR, canonical_key, is_text, spoken
from .._usercode import on_loop
from .._values import frozen
from ..errors import ConfigError
from ..machine import Configuration, Forest, Plan, restore
from ..machine.step import Hooks
from .components import KINDS, Component, Group, Kind, OwnComponents, Profile, Role, WithheldBy
from .quota import Cap, Quota
from .rules import Always, GroupActive, required_groups
from .uri_templates import UriTemplate


@frozen(eq=False)
class ListBudget:
    """The greatest length of a session's list of tools.

    A group counts with the tools that need it to be listed, what needs several with one of them. Tools with predicates
    and modes count in full, and so do those of no group, pinned ones, and control tools.

    Args:
        tokens: The budget.
        measure: Returns the tokens of a definition, such as `toolfold_adapters.tokens.approximate_tokens`; it is asked
            once for each definition.

    Raises:
        ConfigError: The budget is no positive whole number, or the measure no function.
    """

    tokens: int
    measure: Callable[[Mapping[str, Any]], int]
    _known: WeakKeyDictionary[Component, int] = field(init=False, factory=WeakKeyDictionary[Component, int], repr=False)

    def __attrs_post_init__(self) -> None:
        given: Any = self.tokens
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise ConfigError(f"The budget of a list must be a whole number of at least 1, not {given!r}.")
        if not callable(self.measure):
            raise ConfigError(
                "The budget of a list needs a measure, such as toolfold_adapters.tokens.approximate_tokens, "
                f"not {self.measure!r}."
            )

    def of(self, components: Iterable[Component]) -> int:
        """Return how many tokens the definitions of some tools have."""
        total = 0
        for component in components:
            if component not in self._known:
                self._known[component] = self.measure(component.definition)
            total += self._known[component]
        return total


@frozen
class Bucket:
    """What may be listed while a group is active, or always.

    Nothing is asked about what is `plain`: it is listed then. The others are listed if their rules hold, which is seen
    for each state, or for each request if they are `changing`.
    """

    plain: tuple[Component, ...] = ()
    ruled: tuple[Component, ...] = ()
    changing: tuple[Component, ...] = ()

    @classmethod
    def of(cls, components: Iterable[Component], index: Mapping[str, int]) -> Bucket:
        """Return the bucket of components that need the same group; `index` gives the number of each group."""
        plain, ruled, changing = list[Component](), list[Component](), list[Component]()
        for component in components:
            rule = component.listing_rule
            is_plain = isinstance(rule, Always) or (isinstance(rule, GroupActive) and rule.path in index)
            (changing if not component.is_settled else plain if is_plain else ruled).append(component)
        return cls(tuple(plain), tuple(ruled), tuple(changing))

    @property
    def everything(self) -> tuple[Component, ...]:
        """All that is in it."""
        return (*self.plain, *self.ruled, *self.changing)


@frozen
class Components:
    """What a catalog holds of one kind: all by name; what may be listed, in buckets by a group that must be active.

    `changing` says whether anything in them is.
    """

    by_name: Mapping[str, Component]
    ungrouped: Bucket
    grouped: Mapping[int, Bucket]
    changing: bool

    @classmethod
    def of(cls, registered: Mapping[str, Component], index: Mapping[str, int]) -> Components:
        """Return the components; `index` gives the number of each group."""
        buckets: dict[int | None, list[Component]] = {None: []}
        for component in registered.values():
            if not component.never_listed:
                needed = [index[path] for path in required_groups(component.listing_rule) if path in index]
                buckets.setdefault(max(needed, default=None), []).append(component)
        ungrouped = Bucket.of(buckets[None], index)
        grouped = {number: Bucket.of(held, index) for number, held in buckets.items() if number is not None}
        changing = any(bucket.changing for bucket in (ungrouped, *grouped.values()))
        return cls(MappingProxyType(dict(registered)), ungrouped, grouped, changing)


@frozen(kw_only=True, eq=False)
class Catalog(Displayed):
    """The immutable definition that everything else is a function of.

    `groups` is in canonical order, and a group's place in it is its number in `forest`. `memo` holds what others
    compute once for a catalog; see `Memo`. `withheld` says why tools that are known of are missing (SPEC EXP-1); a name
    that ends with `*` stands for all that begin like it. `admits_withheld` returns whether one is known of under a
    profile; without it all are. `whole` is the catalog of which a profile makes this one.
    """

    name: str
    groups: tuple[Group, ...]
    exclusions: tuple[frozenset[str], ...]
    registered: Mapping[Kind, Mapping[str, Component]]
    profiles: Mapping[str, Profile]
    max_active: int | None = None
    evict_oldest: bool = False
    evict_by_use: bool = False
    list_budget: ListBudget | None = None
    make_controls: Callable[[tuple[Group, ...]], tuple[Component, ...]] | None = None
    withheld: Mapping[str, tuple[WithheldBy, str]] = field(factory=dict[str, tuple[WithheldBy, str]], repr=False)
    admits_withheld: Callable[[str, Profile], bool] | None = field(default=None, repr=False)
    whole: Catalog | None = field(default=None, repr=False)

    forest: Forest = field(init=False)
    components: Mapping[Kind, Components] = field(init=False)
    quota: Quota | None = field(init=False)
    opened_by: Mapping[str, tuple[str, ...]] = field(init=False)
    interned: WeakValueDictionary[Any, Any] = field(init=False, factory=WeakValueDictionary[Any, Any], repr=False)
    memo: Memory = field(init=False, factory=dict[Memo[Any, Any], Any], repr=False)

    def __attrs_post_init__(self) -> None:
        forest = Forest.of(
            (group.path for group in self.groups),
            self.exclusions,
            ordered=self.evict_oldest,
        )
        registered = dict(self.registered)
        if self.make_controls is not None:
            controls = {control.name: control for control in self.make_controls(self.groups)}
            registered["tool"] = {**registered.get("tool", {}), **controls}
        components = {kind: Components.of(registered.get(kind, {}), forest.index) for kind in KINDS}
        compiled: dict[str, Any] = {
            "forest": forest,
            "components": components,
            "quota": self._quota(components["tool"]),
            "opened_by": _openers(self.groups),
        }
        for name, value in compiled.items():
            object.__setattr__(self, name, value)

    def _quota(self, tools: Components) -> Quota | None:
        """Return the limits on active groups, if any; a group counts with the tools that need it to be listed."""
        if self.max_active is None and self.list_budget is None:
            return None
        groups, count, length = range(len(self.groups)), None, None
        if self.max_active is not None:
            count = Cap("open groups", self.max_active, 0, (1,) * len(groups))
        if (budget := self.list_budget) is not None:
            weights = [budget.of(tools.grouped.get(number, Bucket()).everything) for number in groups]
            length = Cap("tokens in the list", budget.tokens, budget.of(tools.ungrouped.everything), tuple(weights))
        return Quota(count, length, sum([1 << number for number in groups if self.groups[number].pinned]))

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that have anything that might be listed."""
        return tuple(kind for kind, held in self.components.items() if held.ungrouped.everything or held.grouped)

    @cached_property
    def tools(self) -> Mapping[str, Component]:
        """All tools by full name, control tools included."""
        return self.components["tool"].by_name

    @cached_property
    def loader(self) -> Component | None:
        """The tool that opens groups by name, if there is one.

        SPEC CTL-3.
        """
        return self._control("load")

    @cached_property
    def finder(self) -> Component | None:
        """The tool that searches, if there is one.

        SPEC FND-1.
        """
        return self._control("find")

    def _control(self, role: Role) -> Component | None:
        return next((one for one in self.tools.values() if one.control and one.control[0] == role), None)

    def spoken(self, name: str) -> str:
        """Return a tool's name as people say it: `orders.open` for what opens the group orders."""
        said, tool = spoken(name), self.tools.get(name)
        return said if tool is not None and tool.opens_or_closes and said not in self.tools else name

    def why_withheld(self, name: str) -> tuple[WithheldBy, str] | None:
        """Return why a tool that is known of is missing, and a sentence on it; `None` for others."""
        of_all = (said for known, said in self.withheld.items() if known[-1:] == "*" and name.startswith(known[:-1]))
        return self.withheld.get(name) or next(of_all, None)

    def matching(self, uri: str) -> Iterator[tuple[Component, dict[str, str]]]:
        """Yield the templates that `uri` is an instance of, in order of name, and what their variables are.

        A URI beyond the limit is an instance of none.
        """
        if not is_text(uri) or len(uri) > MAX_URI:
            return
        begun = (self._templates.get(uri[:length], ()) for length in self._lengths)
        for name, template in sorted(one for alike in begun for one in alike):
            if (values := template.values(uri)) is not None:
                yield self.components["resource_template"].by_name[name], values

    @cached_property
    def _templates(self) -> Mapping[str, Sequence[tuple[str, UriTemplate]]]:
        """The templates, each with its name, by how all their instances begin."""
        begun: defaultdict[str, list[tuple[str, UriTemplate]]] = defaultdict(list)
        for name, component in self.components["resource_template"].by_name.items():
            template = UriTemplate.of(name, is_parsed=component.arguments is not None)
            begun[template.literals[0]].append((name, template))
        return begun

    @cached_property
    def _lengths(self) -> frozenset[int]:
        """How long what they begin with is."""
        return frozenset(map(len, self._templates))

    @property
    def index(self) -> Mapping[str, int]:
        """The number of each group by its path."""
        return self.forest.index

    def group(self, path: str) -> Group:
        """Return a group by its path, or raise `GroupNotFound`."""
        return self.groups[self.forest.number(path)]

    def instructions(self, paths: Iterable[str]) -> str:
        """Return what a model reads when these groups open, before their tools; `""` if nothing.

        SPEC SKL-1.
        """
        texts = (self.group(path).instructions.strip() for path in paths)
        return "\n\n".join(text for text in texts if text)

    def initial_instructions(self, active: Iterable[str] = ()) -> str:
        """Return what a model reads of groups that are open from the start: pinned ones, and `active` ones."""
        begun = {*active}
        return self.instructions(group.path for group in self.groups if group.pinned or group.path in begun)

    @cached_property
    def initial(self) -> Configuration:
        """The configuration in which sessions begin: pinned groups are active.

        SPEC FND-4.
        """
        return self.restored(()).after

    def restored(self, paths: Iterable[str]) -> Plan:
        """Return the plan from no active group to what a stored state allows, with the pinned groups.

        SPEC PER-2.
        """
        return restore(self.forest, (*(group.path for group in self.groups if group.pinned), *paths))

    @cached_property
    def tool_counts(self) -> Mapping[str, int]:
        """The number of user tools directly in each group that has any."""
        counts: dict[str, int] = {}
        for component in self.tools.values():
            if component.group is not None and component.control is None:
                counts[component.group] = counts.get(component.group, 0) + 1
        return counts

    @property
    def undescribed(self) -> tuple[str, ...]:
        """The names of the tools that lists may have and that have no description."""
        return tuple(
            name for name, tool in self.tools.items() if not tool.never_listed and not tool.description.strip()
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hexadecimal digest of what the state of a session refers to: name, groups, exclusion sets, quota."""
        content = {
            "name": self.name,
            "groups": [group.path for group in self.groups],
            "exclusions": sorted(sorted(one) for one in self.exclusions),
            "quota": [self.max_active, self.evict_oldest, self.evict_by_use],
        }
        return sha256(json.dumps(content).encode()).hexdigest()

    @cached_property
    def hooks(self) -> tuple[Hooks | None, ...]:
        """What transitions of each group run, if anything."""
        return tuple(group.hooks if group.has_hooks else None for group in self.groups)

    @cached_property
    def hooked(self) -> int:
        """The groups of which transitions run anything, as a bit set."""
        return sum([1 << number for number, hooks in enumerate(self.hooks) if hooks])

    @cached_property
    def has_hooks(self) -> bool:
        """Whether any transition runs something outside of the machine."""
        return bool(self.hooked)

    @cached_property
    def selectable(self) -> int:
        """The groups that a request may begin with, as a bit set: selectable ones in selectable ones.

        SPEC SES-6.
        """
        mask = 0
        for number, group in enumerate(self.groups):
            if group.selectable and not self.forest.ancestors[number] & ~mask:
                mask |= 1 << number
        return mask

    @cached_property
    def openers(self) -> Mapping[str, str]:
        """The groups that a model can open, in canonical order, each with the tool that opens it."""
        loader = self.loader.name if self.loader else None
        tools = {group.path: loader or f"{group.path}{SEPARATOR}activate" for group in self.groups if group.controls}
        return {path: tool for path, tool in tools.items() if tool in self.tools}

    @cached_property
    def named_openers(self) -> Mapping[str, str]:
        """Those of `openers` whose tools are listed, so that a model can be told to call them."""
        return {path: tool for path, tool in self.openers.items() if not self.tools[tool].never_listed}

    @cached_property
    def openable(self) -> int:
        """The groups that the library's own control tools open, as a bit set.

        A tool of the author's in place of an activator may ask for more than a call (SPEC NAM-4).
        """
        own = [path for path, tool in self.openers.items() if self.tools[tool].control is not None]
        return self.forest.mask(own)

    def under(self, profile: Profile) -> Catalog:
        """Return the catalog as a session under `profile` knows it: other groups do not exist in it.

        SPEC PRO-1.
        """
        return _UNDER.of(self.memo, profile, partial(self._under, profile))

    def _under(self, profile: Profile, *, bounds: bool = True) -> Catalog:
        admitted = {group.path for group in self.groups if profile.admits(group.path)}
        knows = self.admits_withheld
        exists = partial(_admitted, admitted=admitted, profile=profile, bounds=bounds)
        own = profile.replaced or _NOTHING_OWN
        registered = {
            kind: {name: component for name, component in own.of(kind, held) if exists(component)}
            for kind, held in self.registered.items()
        }
        bare = self.registered.get("tool", {})
        withheld = {name: said for name, said in self.withheld.items() if knows is None or knows(name, profile)}
        withheld |= {name: said for name, said in own.withheld.items() if name in bare and exists(bare[name])}
        return evolve(
            self,
            groups=tuple(group for group in self.groups if group.path in admitted),
            exclusions=tuple(remaining for one in self.exclusions if len(remaining := one & admitted) > 1),
            registered=registered,
            withheld=withheld,
            whole=self,
        )

    @cached_property
    def ungrouped(self) -> Catalog:
        """This catalog without its groups: what is at root, and no control tools."""
        return evolve(self._under(Profile(name="root"), bounds=False), make_controls=None)


_NOTHING_OWN = OwnComponents(key=None, components={})
_UNDER = Memo[Profile, Catalog](most=256)
"""A catalog under profiles."""


def canonical(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return groups in canonical order (SPEC 1)."""
    return tuple(sorted(groups, key=lambda group: canonical_key(group.path)))


def _openers(groups: Iterable[Group]) -> Mapping[str, tuple[str, ...]]:
    opened: dict[str, tuple[str, ...]] = {}
    for group in groups:
        if group.opens_on is not None:
            opened[group.opens_on] = (*opened.get(group.opens_on, ()), group.path)
    return opened


def _admitted(component: Component, admitted: set[str], profile: Profile, *, bounds: bool) -> bool:
    owner = component.control[1] if component.control else component.group
    if owner is not None and owner not in admitted:
        return False
    if bounds and component.bounded_by and admitted.isdisjoint(component.bounded_by):
        return False
    if component.kind != "tool" or component.control is not None:
        return True
    hints = component.definition.get("annotations", {})
    return profile.keeps(hints.get("readOnlyHint") is True, hints.get("destructiveHint") is not False)


class Catalogs:
    """The newest catalog of a tool set, made when it is first asked for after a registration.

    Args:
        name: The name of the tool set.
        make: Makes the catalog of all that is registered now.

    `newest` is that catalog, or `None` once something was registered since.
    """

    def __init__(self, name: str, make: Callable[[], Catalog]) -> None:
        self.name = name
        self.newest: Catalog | None = None
        self._make = make

    @property
    def present(self) -> Catalog:
        """The catalog of all that is registered now; the same one until something is registered."""
        return self.newest or self._present()

    @on_loop
    def _present(self) -> Catalog:
        if self.newest is None:
            self.newest = self._make()
        return self.newest

    def under(self, profile: Profile | None) -> Catalog:
        """Return the newest catalog as a session under `profile` knows it (SPEC PRO-1)."""
        catalog = self.present
        return catalog if profile is None else catalog.under(profile)
