"""What a gateway offers, as a value: a function of its configuration and of what each upstream offers (SPEC GWY-2).

`layout_of` decides on the name and the group of everything; `registration` makes a tool set so. Since a layout is a
value, a list that an upstream changed, a configuration that was edited and a definition that was approved are the same:
another layout.

Prompts, resources and resource templates are in no group: people and programs choose those, and no model reads them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from attrs import evolve, field, frozen

from toolfold import Profile
from toolfold.spi import KINDS, Kind, ancestors, shortened, table
from toolfold_adapters.data import quoted_key
from toolfold_adapters.mcp.grouping import tags_of
from toolfold_adapters.names import ALWAYS_LOAD_META, WIRE_SEPARATOR, allowed_names, is_allowed
from toolfold_adapters.skills import Skill, missing, not_served
from toolfold_adapters.tokens import approximate_tokens

from .config.settings import GatewayConfig, UpstreamConfig
from .grouping import Offered, Sized, by_pattern, description_of, divide, free_path, matches, offered_by
from .upstream.definitions import Table, Usable

SUMMARY_LENGTH = 160
_PREAMBLE = re.compile(
    r"^(this is )?((an?|the|this) )?([\w.-]+ ){0,2}(model context protocol|mcp)( \([^)]*\))? server\b( implementation)?"
    r"[\s:,]*((that|which|for|to) ((provides?|enables?|offers?|allows?) )?)?",
    re.IGNORECASE,
)
"""How half of all servers begin: "A Model Context Protocol (MCP) server that provides …"."""


@frozen(kw_only=True)
class Placed:
    """Something that an upstream offers, with its place here.

    `original` is what the upstream calls it, and `name` what clients do; URIs are the same. `meta` goes over its own.
    `shared` are further groups and skills that it is available with, too.
    """

    kind: Kind
    server: str
    original: str
    name: str
    definition: Table
    group: str | None = None
    hidden: bool = False
    shared: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(factory=dict[str, Any])


@frozen(kw_only=True)
class PlacedGroup:
    """A group with its texts; `place` is where the configuration has it."""

    path: str
    description: str = ""
    instructions: str = ""
    title: str | None = None
    pinned: bool = False
    skill: Skill | None = None
    place: str = field(default="groups", eq=False)


@frozen(kw_only=True)
class Layout:
    """Everything that a gateway offers, and sentences on what is wrong with it.

    Groups come after those that they are in; components are by kind and name.
    """

    groups: Mapping[str, PlacedGroup] = field(factory=dict[str, PlacedGroup])
    components: Mapping[tuple[Kind, str], Placed] = field(factory=dict[tuple[Kind, str], Placed])
    exclusions: tuple[tuple[str, ...], ...] = ()
    profiles: tuple[Profile, ...] = ()
    warnings: tuple[str, ...] = ()


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
            warnings += (_of_server(config, server, problem) for problem in servers[server].warnings)
            placed += _placed(config, server, servers[server], frozenset(reserved), warnings)
    tools = _renamed(config, [one for one in placed if one.kind == "tool"], warnings)
    if config.pins or config.hidden:
        tools = [_pinned(config, tool) for tool in tools]
    offered = _offered(config, servers, warnings)
    members = _members(config, tools, offered, warnings if not unknown else [])
    home = {name: path for path, names in members.items() for name in names}
    groups = _groups(config, servers, offered, members, frozenset(tool.name for tool in tools if tool.hidden))
    for server, text in unknown.items():
        title = config.upstreams[server].title
        groups.setdefault(server, PlacedGroup(path=server, description=text, title=title))
    for server in late if not groups else ():
        names = description_of([tool.name for tool in tools if not tool.hidden])
        groups[server] = PlacedGroup(path=server, description=f"its tools are in no group, and can be called: {names}")
    tools = [_shared(tool, offered, home, groups) for tool in tools]
    tools = _with_skills(config, tools, groups, warnings, complete=not unknown)
    components: dict[tuple[Kind, str], Placed] = {}
    for one in (*(_at_home(tool, home, groups) for tool in tools), *(one for one in placed if one.kind != "tool")):
        if (one.kind, one.name) in components:
            warnings.append(_of_server(config, one.server, f"The {one.kind} {one.name!r} is also another server's."))
        components.setdefault((one.kind, one.name), one)
    return Layout(
        groups=groups,
        components=components,
        exclusions=_exclusions(config, groups, unknown, warnings),
        profiles=_profiles(config, groups, unknown),
        warnings=tuple(warnings),
    )


def _at_home(tool: Placed, home: Mapping[str, str], groups: Mapping[str, PlacedGroup]) -> Placed:
    """Return a tool in its group; one in a pinned group is always to be loaded (SPEC FND-4, GWY-6)."""
    path = home.get(tool.name)
    pinned = path is not None and groups[path].pinned
    return evolve(tool, group=path, meta={**tool.meta, ALWAYS_LOAD_META: True} if pinned else tool.meta)


def _of_server(config: GatewayConfig, server: str, sentence: str) -> str:
    return f"{server}: {sentence}" if config.prefixed else sentence


# -- what is offered, and under which name ----------------------------------------------------------------------------


def _placed(
    config: GatewayConfig, server: str, usable: Usable, reserved: Set[str], warnings: list[str]
) -> Iterator[Placed]:
    """Yield what a server offers and the configuration serves, by names that clients accept."""
    upstream, prefix = config.upstreams[server], f"{server}{WIRE_SEPARATOR}" if config.prefixed else ""
    for kind in KINDS:
        own = {name: one for name, one in usable.by_kind[kind].items() if kind != "tool" or is_served(upstream, name)}
        names = {name: name for name in own}
        if kind in ("tool", "prompt"):
            names = allowed_names([*own], reserved if kind == "tool" else (), server if prefix else None)
            warnings += (
                _of_server(
                    config,
                    server,
                    f"The {kind} {original!r} is called {name!r} here: its own name is not allowed or taken.",
                )
                for original, name in names.items()
                if name != prefix + original
            )
        for original, definition in own.items():
            if kind == "tool" and _needs_task(definition):
                text = f"The tool {original!r} can only be called as a task, which is not passed on: calls will fail."
                warnings.append(_of_server(config, server, text))
            yield Placed(kind=kind, server=server, original=original, name=names[original], definition=definition)


def is_served(upstream: UpstreamConfig, tool: str) -> bool:
    """Return whether the configuration serves a tool, by the server's own name for it."""
    return matches([tool], upstream.include_tools) and not matches([tool], upstream.exclude_tools)


def _needs_task(definition: Table) -> bool:
    return (table(definition.get("execution")) or {}).get("taskSupport") == "required"


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
    aliases = _aliases(config, tool)
    meta = {**tool.meta, ALWAYS_LOAD_META: True} if matches(aliases, config.pins) else tool.meta
    return evolve(tool, meta=meta, hidden=matches(aliases, config.hidden))


def _aliases(config: GatewayConfig, tool: Placed) -> tuple[str, ...]:
    """Return what patterns may match a tool by: its name here, and the server's own, with its name where it counts."""
    prefix = f"{tool.server}{WIRE_SEPARATOR}" if config.prefixed else ""
    return tool.name, f"{prefix}{tool.original}"


# -- groups -----------------------------------------------------------------------------------------------------------


def _offered(config: GatewayConfig, servers: Mapping[str, Usable], warnings: list[str]) -> dict[str, Offered]:
    """Return the groups of the servers that have some by an extension."""
    found: dict[str, Offered] = {}
    for server in config.upstreams:
        if server in servers and (groups := servers[server].said.groups):
            problems: list[str] = []
            found[server] = offered_by(groups, server if config.prefixed else "", problems)
            warnings += (_of_server(config, server, problem) for problem in problems)
    return found


def _shared(tool: Placed, offered: Mapping[str, Offered], home: Mapping[str, str], groups: Container[str]) -> Placed:
    """Return a tool as it is shared with further groups of its server, if it is in several and in no other here."""
    paths = offered.get(tool.server, Offered()).homes.get(tool.original, ())
    own = home.get(tool.name)
    if own is None or not paths or paths[0] not in (own, *ancestors(own)):
        return tool
    return evolve(tool, shared=tuple(path for path in paths[1:] if path in groups))


def _members(
    config: GatewayConfig, tools: Sequence[Placed], offered: Mapping[str, Offered], warnings: list[str]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the tools of each group by its path."""
    free = [tool for tool in tools if ALWAYS_LOAD_META not in tool.meta]
    configured: dict[str, tuple[str, ...]] = {}
    if config.groups is not None:
        patterns = {path: config.groups[key].tools for key, path in config.paths().items()}
        configured, problems = by_pattern({tool.name: _aliases(config, tool) for tool in free}, patterns)
        warnings += problems
        taken = {name for names in configured.values() for name in names}
        free = [tool for tool in free if tool.name not in taken]
        if not config.prefixed:
            return configured
    derived: dict[str, tuple[str, ...]] = {}
    for server in config.upstreams:
        own = [tool for tool in free if tool.server == server]
        derived |= _of_groups(config, server, own, offered.get(server, Offered()))
    return {path: (*configured.get(path, ()), *derived.get(path, ())) for path in (*configured, *derived)}


def _of_groups(
    config: GatewayConfig, server: str, tools: Sequence[Placed], offered: Offered
) -> dict[str, tuple[str, ...]]:
    """Return the groups of one server: those that it has itself, and what is in none of them as `_divided` has it.

    A group of its own that is over the budget has others in it, as the whole server would.
    """
    inside: dict[str, list[Placed]] = {path: [] for path in offered.groups}
    rest: list[Placed] = []
    for tool in tools:
        homes = offered.homes.get(tool.original, ())
        (inside[homes[0]] if homes else rest).append(tool)
    filled = {path for path, group in offered.groups.items() if group.instructions}
    filled |= {path for tool in tools for path in offered.homes.get(tool.original, ())}
    needed = {above for path in filled for above in (path, *ancestors(path))}
    base = server if config.prefixed else ""
    groups: dict[str, tuple[str, ...]] = {base: ()} if needed and base else {}
    for path, own in inside.items():
        if path in needed:
            groups |= {path: ()} | _divided(config, path, own)
    for path, names in _divided(config, base, rest).items():
        groups[path if path == base else free_path(path, groups)] = names
    return groups


def _divided(config: GatewayConfig, path: str, tools: Sequence[Placed]) -> dict[str, tuple[str, ...]]:
    """Return the group of some tools, with others in it if it is over the budget (SPEC GWY-2).

    Without a path there is no such group: within the budget they are in none, and others are at root.
    """
    if not tools:
        return {}
    budget, names = config.budgets.group_tokens, tuple(tool.name for tool in tools)
    sized = [
        Sized(
            name=tool.original,
            description=str(tool.definition.get("description") or ""),
            tags=_tags(tool.definition),
            tokens=0 if tool.hidden else approximate_tokens({**tool.definition, "name": tool.name}),
        )
        for tool in tools
    ]
    if sum(tool.tokens for tool in sized) <= budget:
        return {path: names} if path else {}
    own = dict(zip((tool.original for tool in tools), names, strict=True))
    inner = {segment: tuple(own[name] for name in members) for segment, members in divide(sized, budget).items()}
    if not path:
        return inner
    return {path: (), **{f"{path}.{segment}": members for segment, members in inner.items()}}


def _tags(definition: Table) -> list[str]:
    """Return what a server says that a tool belongs to: its tags and its category."""
    meta = table(definition.get("_meta")) or {}
    return [*tags_of(meta), *(text for text in [meta.get("category")] if isinstance(text, str))]


def _groups(
    config: GatewayConfig,
    servers: Mapping[str, Usable],
    offered: Mapping[str, Offered],
    members: Mapping[str, Sequence[str]],
    hidden: Set[str],
) -> dict[str, PlacedGroup]:
    """Return the groups, each after those that it is in; no description names a hidden tool."""
    named = {path: [name for name in names if name not in hidden] for path, names in members.items()}
    below: defaultdict[str, list[str]] = defaultdict(list)
    for path, names in named.items():
        for one in (path, *ancestors(path)):
            below[one] += names
    groups: dict[str, PlacedGroup] = {}
    paths = config.paths()
    pinned = {path for key, path in paths.items() if (config.groups or {})[key].pinned}
    pinned.update(*map(ancestors, pinned))
    for key, path in paths.items():
        given = (config.groups or {})[key]
        groups[path] = PlacedGroup(
            path=path,
            description=description_of(below[path]) if given.description is None else given.description,
            instructions=given.instructions,
            title=given.title,
            pinned=path in pinned,
            place=f"[groups.{quoted_key(key)}]",
        )
    own = {path: group for one in offered.values() for path, group in one.groups.items()}
    for path in named:
        if path not in groups and path in own:
            groups[path] = PlacedGroup(
                path=path,
                description=own[path].description or description_of(below[path]),
                instructions=own[path].instructions,
                title=own[path].title,
            )
        elif path not in groups:
            groups[path] = _of_one_server(config, servers, path, named)
    return dict(sorted(groups.items(), key=lambda item: item[0].count(".")))


def _of_one_server(
    config: GatewayConfig, servers: Mapping[str, Usable], path: str, members: Mapping[str, Sequence[str]]
) -> PlacedGroup:
    """Return a derived group: of all that a server has, with the introduction of the server, or of a part of it."""
    names = members[path]
    if path not in servers:
        return PlacedGroup(path=path, description=description_of(names))
    upstream, said = config.upstreams[path], servers[path].said
    title = upstream.title or said.title
    summary = _summary(upstream.description or said.instructions or "")
    text = f"{title}: {summary}" if title and summary else title or summary
    inner = [one for other, own in members.items() if path in ancestors(other) for one in own]
    listed = description_of(names) if not inner else f"{len(inner)} tools"
    return PlacedGroup(path=path, description=f"{text} ({listed})" if text and listed else text or listed, title=title)


def _with_skills(
    config: GatewayConfig, tools: list[Placed], groups: dict[str, PlacedGroup], warnings: list[str], *, complete: bool
) -> list[Placed]:
    """Add the skills to the groups, and return the tools with those that they are shared with (SPEC SKL-2)."""
    known = {alias: tool.name for tool in tools for alias in _aliases(config, tool)}
    shared: defaultdict[str, list[str]] = defaultdict(
        list, {tool.name: [*tool.shared] for tool in tools if tool.shared}
    )
    for skill in config.skills:
        if skill.name in groups:
            warnings.append(f"{skill.file}: the skill is left out, since a group is called {skill.name!r} already.")
            continue
        groups[skill.name] = PlacedGroup(
            path=skill.name,
            description=skill.description,
            instructions=skill.instructions,
            skill=skill,
            place="skills",
        )
        if skill.problem is not None:
            warnings.append(not_served(skill))
        for name in skill.allowed_tools:
            if name in known:
                shared[known[name]].append(skill.name)
            elif complete:
                warnings.append(missing(skill, name, known))
    return [evolve(tool, shared=tuple(shared[tool.name])) for tool in tools] if shared else tools


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


def _profiles(
    config: GatewayConfig, groups: Mapping[str, PlacedGroup], unknown: Mapping[str, str]
) -> tuple[Profile, ...]:
    """Return the profiles; the name of a server stands for all the groups that it has now."""

    def of(paths: Iterable[str]) -> tuple[str, ...]:
        found: list[str] = []
        for path in paths:
            if _is_server(config, path):
                found += (group for group in groups if path in (group, *ancestors(group)))
            elif path in groups or not _may_come(config, unknown, path):
                found.append(path)
        return tuple(dict.fromkeys(found))

    return tuple(
        Profile(
            name=name,
            description=profile.description,
            active=of(profile.active),
            available=of(profile.available),
            read_only=profile.read_only,
        )
        for name, profile in config.profiles.items()
    )


def _may_come(config: GatewayConfig, unknown: Mapping[str, str], path: str) -> bool:
    """Return whether a group may be there once more is known of a server."""
    return any(path.startswith(f"{server}.") for server in unknown) if config.prefixed else bool(unknown)


def _is_server(config: GatewayConfig, path: str) -> bool:
    return config.prefixed and (path in config.upstreams or path in config.left_out)


def _summary(text: str) -> str:
    """Return the beginning of the introduction of a server, without the words that it is an MCP server."""
    said = " ".join(text.split())
    summary = _PREAMBLE.sub("", said) or said
    return shortened(summary[0].upper() + summary[1:], SUMMARY_LENGTH).rstrip(".") if summary else ""
