"""What a gateway offers, as a value: a function of its configuration and of what each upstream offers (SPEC GWY-2).

`layout_of` decides on the name and the group of each component; `registration` makes a tool set so. Since a layout is a
value, a list that an upstream changed, a configuration that was edited and a definition that was approved are the same:
another layout.

Prompts, resources and resource templates are in no group: people and programs choose those, and no model reads them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain

from attrs import evolve, field

from toolfold import ConfigError, Profile
from toolfold.spi import KINDS, Kind, ancestors, frozen

from ..files import quoted_key
from ..mcp.existing.grouping import matches
from ..names import ALWAYS_LOAD_META, allowed_names, is_allowed, stable_names
from ..profiles import in_their_parents
from .callers.rights import NO_RIGHTS, Rights
from .config.settings import CLAIM, Access, GatewayConfig, UpstreamConfig
from .finding import Finder
from .grouping import Placed, PlacedGroup, aliases, grouped
from .upstream.definitions import Usable
from .views import renamed_views, with_own_views


@frozen(kw_only=True)
class Layout:
    """Everything that a gateway offers, and sentences on what is wrong with it.

    Groups come after those that they are in; components are by kind and name. `bounds` are the groups of each server: a
    profile that has none of them has nothing of the server (SPEC ISO-2). `rights` are what callers may do (GWY-19).
    `views` are those that have another URI here, by the server and its own (GWY-18).
    """

    groups: Mapping[str, PlacedGroup] = field(factory=dict[str, PlacedGroup])
    components: Mapping[tuple[Kind, str], Placed] = field(factory=dict[tuple[Kind, str], Placed])
    exclusions: tuple[tuple[str, ...], ...] = ()
    profiles: tuple[Profile, ...] = ()
    rights: Rights = NO_RIGHTS
    bounds: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    views: Mapping[str, Mapping[str, str]] = field(factory=dict[str, Mapping[str, str]])
    warnings: tuple[str, ...] = ()

    @cached_property
    def finder(self) -> Finder:
        """Finds what is in it by a URI, but for what each caller is listed himself."""
        components = self.components.values()
        return Finder((one for one in components if not one.by_caller), called=components)

    @cached_property
    def names(self) -> Mapping[tuple[str, Kind, str], str]:
        """What everything is called here, by its server, its kind, and what the server calls it."""
        return {(one.server, one.kind, one.original): one.name for one in self.components.values()}

    @cached_property
    def homes(self) -> Mapping[str, frozenset[str]]:
        """The groups that something of each server is in."""
        homes: defaultdict[str, set[str]] = defaultdict(set)
        for one in self.components.values():
            if one.group is not None:
                homes[one.server].add(one.group)
        return {server: frozenset(groups) for server, groups in homes.items()}


def layout_of(
    config: GatewayConfig,
    servers: Mapping[str, Usable],
    reserved: Iterable[str] = (),
    unknown: Mapping[str, str] | None = None,
    late: Set[str] = frozenset(),
) -> Layout:
    """Return what a gateway offers.

    Args:
        config: Its configuration.
        servers: What each upstream offers that is known, by its name in the configuration.
        reserved: Names that no tool may have.
        unknown: What to say of each upstream of which nothing is known yet: it is a group without tools (SPEC GWY-4).
        late: Upstreams that were unknown before: one that has no group after all is left an empty one, so that
            there is something to call its tools by for clients that list once.
    """
    unknown = unknown or {}
    warnings = [*config.problems]
    placed: list[Placed] = []
    for server in config.upstreams:
        if server in servers:
            warnings += (config.about(server, problem) for problem in servers[server].warnings)
            placed += _placed(config, server, servers[server], frozenset(reserved), warnings)
    tools = _renamed(config, [one for one in placed if one.kind == "tool"], warnings)
    if config.pins or config.hidden:
        tools = [_pinned(config, tool) for tool in tools]
    groups, tools = grouped(config, servers, tools, unknown, late, warnings)
    components: dict[tuple[Kind, str], Placed] = {}
    everything = [*tools, *(one for one in placed if one.kind != "tool")]
    everything.sort(key=lambda one: one.by_caller)  # what one caller is listed takes the place of nothing of all
    views = renamed_views(everything)
    everything = [*with_own_views(everything, views)] if views else everything
    bounds = _bounds(config, everything, groups)
    for one in everything:
        one = one if one.group is not None else evolve(one, bounded_by=bounds[one.server])
        if (one.kind, one.name) in components:
            warnings.append(config.about(one.server, f"The {one.kind} {one.name!r} is also another server's."))
        components.setdefault((one.kind, one.name), one)
    profiles = _profiles(config, groups, unknown)
    return Layout(
        groups=groups,
        components=components,
        exclusions=_exclusions(config, groups, unknown, warnings),
        profiles=profiles,
        rights=_rights(config, groups, unknown, profiles, warnings),
        bounds=bounds,
        views=views,
        warnings=tuple(warnings),
    )


# -- what is offered, and under which name ----------------------------------------------------------------------------


def _placed(
    config: GatewayConfig, server: str, usable: Usable, reserved: Set[str], warnings: list[str]
) -> Iterator[Placed]:
    """Yield what a server offers and the configuration serves, by names that clients accept."""
    upstream, prefix = config.upstreams[server], config.prefix(server)
    for kind in KINDS:
        own = {name: one for name, one in usable.by_kind[kind].items() if kind != "tool" or is_served(upstream, name)}
        names = {name: name for name in own}
        if kind in ("tool", "prompt"):
            names = called(config, server, usable, kind, [*own], reserved)
            warnings += (
                config.about(
                    server, f"The {kind} {original!r} is called {name!r} here: its own name is not allowed or taken."
                )
                for original, name in names.items()
                if name != prefix + original
            )
        for original, definition in own.items():
            yield Placed(
                kind=kind,
                server=server,
                original=original,
                name=names[original],
                definition=definition,
                by_caller=usable.said.by_caller,
            )


def called(
    config: GatewayConfig, server: str, usable: Usable, kind: Kind, names: Sequence[str], reserved: Iterable[str]
) -> dict[str, str]:
    """Return what each of a server's own names of a kind is here: one that was given out is of the same thing.

    Where each caller is listed his own, it depends on no other name: what one is listed renames nothing of another's.
    `reserved` are names that no tool may have.
    """
    if usable.said.by_caller:
        taken = {*reserved, *config.rename.values()} if kind == "tool" else ()
        return stable_names(names, taken, server if config.prefixed else None)
    upstream, before = config.upstreams[server], usable.named.get(kind, ())
    return allowed_names(
        names,
        reserved if kind == "tool" else (),
        server if config.prefixed else None,
        [name for name in before if kind != "tool" or is_served(upstream, name)],
    )


def is_served(upstream: UpstreamConfig, tool: str) -> bool:
    """Return whether the configuration serves a tool, by the server's own name for it."""
    return matches([tool], upstream.include_tools) and not matches([tool], upstream.exclude_tools)


def _renamed(config: GatewayConfig, tools: list[Placed], warnings: list[str]) -> list[Placed]:
    """Return the tools by the names that the configuration gives them."""
    taken = {tool.name for tool in tools}
    chosen: dict[str, str] = {}
    for old, new in config.rename.items():
        place = f"{config.source}, [rename], {quoted_key(old)}"
        if not is_allowed(new):
            warnings.append(f"{place}: {new!r} is no name that clients accept: 1 to 64 of A-Z a-z 0-9 _ -.")
        elif old not in taken:
            warnings.append(f"{place}: there is no tool of that name now.")
        elif new in taken or new in chosen.values():
            warnings.append(f"{place}: another tool is called {new!r} already.")
        else:
            chosen[old] = new
    return [evolve(tool, name=chosen[tool.name]) if tool.name in chosen else tool for tool in tools]


def _pinned(config: GatewayConfig, tool: Placed) -> Placed:
    names = aliases(config, tool)
    meta = {**tool.meta, ALWAYS_LOAD_META: True} if matches(names, config.pins) else tool.meta
    return evolve(tool, meta=meta, hidden=matches(names, config.hidden))


# -- sets and profiles of groups --------------------------------------------------------------------------------------


def _exclusions(
    config: GatewayConfig, groups: Mapping[str, PlacedGroup], unknown: Mapping[str, str], warnings: list[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the exclusion sets whose groups are there; a server that is away is no error."""
    exclusions: list[tuple[str, ...]] = []
    for members in config.exclusions:
        if any(path not in groups and _may_come(config, unknown, path) for path in members):
            continue
        if missing := [path for path in members if path not in groups and _is_server(config, path)]:
            warnings.append(
                f"{config.source}, exclusions: there is no group {missing[0]!r} now, so this set has no effect."
            )
        else:
            exclusions.append(members)
    return tuple(exclusions)


def _bounds(
    config: GatewayConfig, placed: Iterable[Placed], groups: dict[str, PlacedGroup]
) -> dict[str, tuple[str, ...]]:
    """Return the groups of each server that offers something.

    A server that has none gets one where there are profiles or rights, so that these can name it; the only server has
    no name.
    """
    bounds: dict[str, list[str]] = {}
    for one in placed:
        own = bounds.setdefault(one.server, [])
        own += [path for path in (one.group, *one.shared) if path is not None and path not in own]
    for server, own in bounds.items():
        if config.prefixed and (config.profiles or config.rights) and not own:
            text = "what it offers can be used whether it is open or not"
            groups.setdefault(server, PlacedGroup(path=server, description=text, title=config.upstreams[server].title))
            own.append(server)
    return {server: tuple(own) for server, own in bounds.items()}


def _profiles(
    config: GatewayConfig, groups: Mapping[str, PlacedGroup], unknown: Mapping[str, str]
) -> tuple[Profile, ...]:
    """Return the profiles; the name of a server stands for all the groups that it has now."""

    def of(paths: Iterable[str]) -> tuple[str, ...]:
        found: list[str] = []
        for path in paths:
            if _is_server(config, path):
                found += _groups_in(groups, path)
            elif path in groups or not _may_come(config, unknown, path):
                found.append(path)
        return tuple(dict.fromkeys(found))

    def made(name: str, parent: Profile | None) -> Profile:
        profile = config.profiles[name]
        return Profile(
            name=name,
            description=profile.description,
            active=of(profile.active),
            available=of(profile.available),
            read_only=profile.read_only,
            destructive=profile.destructive,
            within=parent,
        )

    with config.at("[profiles]"):
        return in_their_parents({name: profile.within for name, profile in config.profiles.items()}, made)


def _groups_in(groups: Iterable[str], path: str) -> list[str]:
    """Return a group and those inside it."""
    return [group for group in groups if path in (group, *ancestors(group))]


_KEPT: Mapping[Access, tuple[bool | None, bool | None]] = {
    "read": (True, None),
    "write": (None, False),
    "destructive": (None, None),
}
"""Which tools a right leaves, as profiles say it: `read_only` and `destructive`."""


def _rights(
    config: GatewayConfig,
    groups: Mapping[str, PlacedGroup],
    unknown: Mapping[str, str],
    profiles: Iterable[Profile],
    warnings: list[str],
) -> Rights:
    """Return what callers may do, each row as a profile without a name (SPEC GWY-19).

    What a row names and there is not gives no right; with what is in a group come the groups inside it.
    """
    named = {profile.name: profile for profile in profiles}
    found: dict[str, Profile] = {}
    for key, row in config.rights.items():
        place = f"[rights.{quoted_key(key)}]"
        if missing := [server for server in row.servers if not _is_server(config, server)]:
            raise ConfigError(f"{config.source}, {place}: there is no server {missing[0]!r}.")
        if row.profile is not None and row.profile not in named:
            raise ConfigError(f"{config.source}, {place}: there is no profile {row.profile!r}.")
        if not key.startswith(CLAIM) and ("=" in key or key.partition(":")[0].lower() in ("claim", "claims", "scope")):
            warnings.append(f"{config.source}, {place}: that names a caller; a row of a claim is claim:NAME=VALUE.")
        for path in row.groups:
            if path not in groups and not _may_come(config, unknown, path):
                warnings.append(f"{config.source}, {place}: there is no group {path!r} now.")
        read_only, destructive = _KEPT[row.access]
        within = None if row.profile is None else named[row.profile]
        paths = [path for one in (*row.servers, *row.groups) for path in (one, *_groups_in(groups, one))]
        found[key] = Profile(
            name="",
            active=() if within is None else within.active,
            available=tuple(dict.fromkeys(paths)) if {"servers", "groups"} & row.model_fields_set else ("*",),
            read_only=read_only,
            destructive=destructive,
            within=within,
        )
    return Rights(config.rights, found)


def _may_come(config: GatewayConfig, unknown: Mapping[str, str], path: str) -> bool:
    """Return whether a group may be there once more is known of a server."""
    return any(path.startswith(f"{server}.") for server in unknown) if config.prefixed else bool(unknown)


def may_admit(config: GatewayConfig, profile: Profile, server: str) -> bool:
    """Return whether a profile may have groups of a server of which nothing is known yet: it names what may be one."""
    if profile.within is not None and not may_admit(config, profile.within, server):
        return False
    if not config.prefixed or "*" in profile.available:
        return True
    named = {*profile.active, *profile.available}
    if (written := config.profiles.get(profile.name)) is not None:  # with what is not there yet
        named |= {*written.active, *written.available}
    patterns = (config.groups[key].tools for key, path in config.paths().items() if path in named and config.groups)
    return any(path == server or path.startswith(f"{server}.") for path in named) or any(
        _may_match(pattern, config.prefix(server)) for pattern in chain.from_iterable(patterns)
    )


def _may_match(pattern: str, prefix: str) -> bool:
    """Return whether a pattern may match a name that begins with `prefix`."""
    literal = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return literal.startswith(prefix) or (literal != pattern and prefix.startswith(literal))


def _is_server(config: GatewayConfig, path: str) -> bool:
    return config.prefixed and (path in config.upstreams or path in config.left_out)
