"""What each caller is listed himself, in place of what a catalog has for all (SPEC GWY-19, ISO-1).

Of a server that lists each caller his own, a catalog has no more than the names that any of them was listed, which it
offers nobody. What one caller was listed is in a profile (see `Profile.with_own`): it has his definitions, and nothing
of what he was not listed. Whose definitions are the same share one. Each caller's are compared with what was approved
of his (SPEC GWY-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from attrs import evolve, field

from toolfold import Component, Profile, Visibility, WithheldBy
from toolfold.spi import Kind, frozen, table

from ...names import ALWAYS_LOAD_META
from ..config.settings import GatewayConfig
from ..finding import Finder
from ..grouping import Placed
from ..layout import Layout, is_served
from ..stored import Approvals, Item, reviewed
from ..upstream.definitions import Definitions, Usable, usable
from ..views import with_own_views

Key = tuple[Kind, str]

Make = Callable[[Sequence[Placed]], Mapping[Key, Component]]
"""Returns what can be registered of what is placed."""

NOBODYS = Visibility.when(lambda _: False)
"""The rule of what each caller has to be listed himself."""
NOBODY = ""


@frozen(kw_only=True, eq=False)
class OwnList:
    """What a server lists to a caller, or to several who are listed the same.

    Attributes:
        key: What it is known by, as long as its caller has the same.
        offered: What the server has said.
        changed: What of that is not approved.
        placed: Its places here.
        components: What he has in place of what is registered; see `Profile.with_own`.
        withheld: Why some of it is missing.
        finder: Finds it by a URI.
    """

    key: object
    offered: Usable | None = None
    changed: frozenset[Item] = frozenset()
    placed: tuple[Placed, ...] = ()
    components: Mapping[Key, Component | None]
    withheld: Mapping[str, tuple[WithheldBy, str]] = field(factory=dict[str, tuple[WithheldBy, str]])
    finder: Finder = field(factory=lambda: Finder(()))


Made = Mapping[str, Mapping[str, OwnList]]
"""By server, what it lists to each caller; under `NOBODY` what all others have of it, which is nothing."""


class OwnLists:
    """What servers list to each of their callers.

    Args:
        approvals: Which definitions were approved; all are, unless it is given.
    """

    def __init__(self, approvals: Approvals | None) -> None:
        self._approvals = approvals
        self._usable: dict[str, dict[str, Usable]] = {}
        self._changed: dict[str, dict[str, frozenset[Item]]] = {}
        self._made: Made = {}
        self._profiles: dict[tuple[object, ...], Profile] = {}

    def learn(self, server: str, own: Mapping[str, Definitions]) -> None:
        """Take what a server lists to each of its callers, by whose it is; `compare` is to be called then."""
        known = {id(one.said): one for one in self._usable.get(server, {}).values()}
        for definitions in own.values():
            if id(definitions) not in known:
                known[id(definitions)] = usable(definitions)
        self._usable[server] = {whose: known[id(definitions)] for whose, definitions in own.items()}

    def compare(self, server: str, config: GatewayConfig) -> None:
        """Find out what of a server's lists has changed since it was approved, each caller's for itself."""
        changed: dict[str, frozenset[Item]] = {}
        if self._approvals is not None and server in config.upstreams:
            entry, quarantine = config.entry(server), config.on_change == "quarantine"
            for whose, own in self._usable.get(server, {}).items():
                found = self._approvals.changed(entry.of(whose), own.said, quarantine=quarantine)
                changed[whose] = frozenset(
                    (kind, name) for kind, name in found if kind != "tool" or is_served(entry.upstream, name)
                )
        self._changed[server] = changed

    def has_unapproved(self, server: str, whose: str | None = None) -> bool:
        """Return whether something of a server is not approved, of anybody's list or of one caller's."""
        changed = self._changed.get(server, {})
        return any(changed.values()) if whose is None else bool(changed.get(whose))

    def problems(self, server: str, config: GatewayConfig) -> Iterator[str]:
        """Yield why what is approved of callers can't be stored or read, of those of which it can't be."""
        if self._approvals is not None:
            entry = config.entry(server)
            said = (self._approvals.problem(entry.of(whose)) for whose in self._usable.get(server, {}))
            yield from filter(None, said)

    def made(
        self, servers: Iterable[str], renewed: Set[str], config: GatewayConfig, layout: Layout, make: Make
    ) -> Made:
        """Return what each caller has of servers that list each his own, as a layout places it.

        Args:
            servers: The servers.
            renewed: Those that need new handlers, although they list the same.
            config: The configuration.
            layout: Where everything is.
            make: Makes components.
        """
        found: dict[str, Mapping[str, OwnList]] = {}
        for server in servers:
            placed = [one for one in layout.components.values() if one.server == server]
            nothing: dict[Key, Component | None] = {(one.kind, one.name): None for one in placed}
            own = {NOBODY: OwnList(key=server, components=nothing)}
            before = [] if server in renewed else [*self._made.get(server, {}).values()]
            for whose, offered in self._usable.get(server, {}).items():
                changed = self._changed.get(server, {}).get(whose, frozenset())
                listed = _described_by(offered, changed, config, placed, layout)
                alike = (*own.values(), *before)
                same = next((one for one in alike if _is(one, offered, changed, listed)), None)
                if same is None:
                    withheld = _withheld(changed, placed) if config.on_change == "quarantine" else {}
                    same = OwnList(
                        key=object(),
                        offered=offered,
                        changed=changed,
                        placed=listed,
                        components={**nothing, **make(listed)},
                        withheld=withheld,
                        finder=Finder(listed),
                    )
                own[whose] = evolve(same, components={**nothing, **same.components})
            found[server] = own
        return found

    def concerned(self, made: Made) -> Callable[[Profile | None], bool]:
        """Return whether a profile has what somebody is listed who will have something else once this is offered."""
        keys = {one.key for own in made.values() for one in own.values()}
        stale = [profile.replaced for key, profile in self._profiles.items() if not keys.issuperset(key)]
        return lambda profile: profile is not None and profile.replaced in stale

    def take(self, made: Made) -> None:
        """Offer callers this from now on."""
        self._made, self._profiles = made, {}

    def of(self, whose: Mapping[str, str]) -> Profile | None:
        """Return a profile that has what a caller is listed himself; `None` if all are listed the same.

        Args:
            whose: By what he is known at each server.
        """
        if not self._made:
            return None
        lists = self._lists_of(whose)
        key = tuple(one.key for one in lists)
        if key not in self._profiles:
            components: dict[Key, Component | None] = {}
            withheld: dict[str, tuple[WithheldBy, str]] = {}
            for one in lists:
                components |= one.components
                withheld |= one.withheld
            self._profiles[key] = Profile.with_own(key, components, withheld)
        return self._profiles[key]

    def finders(self, whose: Mapping[str, str]) -> list[Finder]:
        """Return what finds by a URI what a caller is listed himself; of `whose` see `of`."""
        return [one.finder for one in self._lists_of(whose)]

    def _lists_of(self, whose: Mapping[str, str]) -> list[OwnList]:
        return [own.get(whose.get(server, NOBODY), own[NOBODY]) for server, own in self._made.items()]


def bare(one: Placed) -> Placed:
    """Return something that each caller is listed himself, without anything that one of them was told of it."""
    definition: dict[str, Any] = {"inputSchema": {"type": "object"}} if one.kind == "tool" else {"name": one.name}
    return evolve(one, definition=definition, meta={})


def _described_by(
    offered: Usable, changed: frozenset[Item], config: GatewayConfig, placed: Iterable[Placed], layout: Layout
) -> tuple[Placed, ...]:
    """Return what a caller was listed, in the places that it has here, described as it was to him."""
    own = reviewed(offered, changed, quarantine=config.on_change == "quarantine")
    found: list[Placed] = []
    for one in placed:
        definition = table(own.by_kind[one.kind].get(one.original))
        if definition is not None:
            name = one.original if one.kind == "resource" else one.name
            meta = {key: value for key, value in one.meta.items() if key == ALWAYS_LOAD_META}
            found.append(evolve(one, name=name, definition=definition, meta=meta))
    return tuple(with_own_views(found, layout.views))


def _is(one: OwnList, offered: Usable, changed: frozenset[Item], placed: tuple[Placed, ...]) -> bool:
    return one.offered is offered and one.changed == changed and one.placed == placed


def _withheld(changed: frozenset[Item], placed: Iterable[Placed]) -> dict[str, tuple[WithheldBy, str]]:
    return {
        one.name: ("quarantined", withheld_text(one.name))
        for one in placed
        if one.kind == "tool" and (one.kind, one.original) in changed
    }


def withheld_text(name: str) -> str:
    """Return what is said of a tool that is withheld (SPEC GWY-11)."""
    return f"The tool {name!r} has changed and is withheld until its operator has approved it: `toolfold approve`."
