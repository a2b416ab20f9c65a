"""The groups of a gateway: as its configuration has them, as servers say, or from the nouns of names (SPEC GWY-2).

A tool is in the first group of the configuration that has a pattern for it; else in the first of its server's own
groups that has it; else in that of its server. Those of servers are divided by nouns where they are over the budget.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from attrs import evolve, field, frozen

from toolfold.spi import Kind, ancestors, shortened, table

from ..data import quoted_key
from ..mcp.grouping import matches, tags_of
from ..mcp.offered_groups import OfferedGroup
from ..names import ALWAYS_LOAD_META, numbered, path_of
from ..nouns import Sized, divide
from ..skills import Skill, missing, not_served
from ..tokens import approximate_tokens, plural
from .config.settings import GatewayConfig
from .upstream.definitions import Table, Usable

DESCRIPTION_LENGTH = 80
SUMMARY_LENGTH = 160
_PREAMBLE = re.compile(
    r"^(this is )?((an?|the|this) )?([\w.-]+ ){0,2}(model context protocol|mcp)( \([^)]*\))? server\b( implementation)?"
    r"[\s:,]*((that|which|for|to) ((provides?|enables?|offers?|allows?) )?)?",
    re.IGNORECASE,
)
"""How half of all servers begin: "A Model Context Protocol (MCP) server that provides …"."""
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_CHARACTERS = 48


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


def grouped(
    config: GatewayConfig,
    servers: Mapping[str, Usable],
    tools: Sequence[Placed],
    unknown: Mapping[str, str],
    late: Set[str],
    warnings: list[str],
) -> tuple[dict[str, PlacedGroup], list[Placed]]:
    """Return the groups of tools, each after those that it is in, and the tools in them.

    The arguments are those of `layout_of`, but for the tools by their names here; `warnings` gets what is wrong.
    """
    offered = {
        server: _offered(config, server, servers[server].said.groups, warnings)
        for server in config.upstreams
        if server in servers
    }
    members = _members(config, tools, offered, warnings if not unknown else [])
    groups = _groups(config, servers, offered, members, frozenset(tool.name for tool in tools if tool.hidden))
    for server, text in unknown.items():
        title, about = config.upstreams[server].title, _introduction(config, server)
        described = f"{about} ({text.rstrip('.')})" if about else text
        groups.setdefault(server, PlacedGroup(path=server, description=described, title=title))
    for server in late if not groups else ():
        names = description_of([tool.name for tool in tools if not tool.hidden])
        groups[server] = PlacedGroup(path=server, description=f"its tools are in no group, and can be called: {names}")
    home = {name: path for path, names in members.items() for name in names}
    tools = [_at_home(tool, home.get(tool.name), offered[tool.server], groups) for tool in tools]
    return groups, _with_skills(config, tools, groups, warnings, complete=not unknown)


def _at_home(tool: Placed, path: str | None, offered: Offered, groups: Mapping[str, PlacedGroup]) -> Placed:
    """Return a tool in its group, and shared with further ones of its server if it is in several and in no other here.

    One in a pinned group is always to be loaded (SPEC FND-4, GWY-6).
    """
    if path is None:
        return tool
    homes = offered.homes.get(tool.original, ())
    shared = homes[1:] if homes and homes[0] in (path, *ancestors(path)) else ()
    meta = {**tool.meta, ALWAYS_LOAD_META: True} if groups[path].pinned else tool.meta
    return evolve(tool, group=path, meta=meta, shared=tuple(one for one in shared if one in groups))


# -- which tools are in which group -----------------------------------------------------------------------------------


def _members(
    config: GatewayConfig, tools: Sequence[Placed], offered: Mapping[str, Offered], warnings: list[str]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the tools of each group by its path."""
    free = [tool for tool in tools if ALWAYS_LOAD_META not in tool.meta]
    configured: dict[str, tuple[str, ...]] = {}
    if config.groups is not None:
        patterns = {path: config.groups[key].tools for key, path in config.paths().items()}
        configured, problems = by_pattern({tool.name: aliases(config, tool) for tool in free}, patterns)
        warnings += problems
        taken = {name for names in configured.values() for name in names}
        free = [tool for tool in free if tool.name not in taken]
        if not config.prefixed:
            return configured
    derived: dict[str, tuple[str, ...]] = {}
    for server, said in offered.items():
        derived |= _of_groups(config, server, [tool for tool in free if tool.server == server], said)
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
        groups[path if path == base else numbered(path, groups)] = names
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


def aliases(config: GatewayConfig, tool: Placed) -> tuple[str, ...]:
    """Return what patterns may match a tool by: its name here, and the server's own, with its name where it counts."""
    return tool.name, f"{config.prefix(tool.server)}{tool.original}"


def by_pattern(
    names: Mapping[str, Iterable[str]], patterns: Mapping[str, Iterable[str]]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the members of each group, and a warning for each pattern that brings none.

    Args:
        names: The names of tools, each with all that patterns may match it by.
        patterns: A group's path to its patterns, in the order of the file: the first that matches a name gets it.
            `*`, `?` and `[…]` are wild; upper and lower case differ.
    """
    left = dict.fromkeys(names)
    groups: dict[str, tuple[str, ...]] = {}
    warnings: list[str] = []
    for path, globs in patterns.items():
        members: dict[str, None] = {}
        for glob in globs:
            matched = [name for name in left if matches(names[name], [glob])]
            if not matched and not any(matches(names[name], [glob]) for name in members):
                elsewhere = any(matches(aliases, [glob]) for aliases in names.values())
                reason = "only tools that an earlier group has taken" if elsewhere else "none of the tools"
                warnings.append(f"The pattern {glob!r} of group {path!r} matches {reason}.")
            members.update(dict.fromkeys(matched))
            left = {name: None for name in left if name not in members}
        groups[path] = tuple(name for name in names if name in members)
    return groups, warnings


# -- what a server says of its groups (SPEC DEL-5) --------------------------------------------------------------------


@frozen(kw_only=True)
class Offered:
    """The groups of one upstream by their paths, and the paths of each of its tools, by the upstream's own names."""

    groups: Mapping[str, OfferedGroup] = field(factory=dict[str, OfferedGroup])
    homes: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]])


def _offered(config: GatewayConfig, server: str, groups: Iterable[OfferedGroup], warnings: list[str]) -> Offered:
    """Return the groups that a server has, which come after those that they are in.

    A group keeps its name where a path can have it; one that stands for a path of a server of Toolfold is called by the
    end of that path. A tool that is in several groups is in the first of them, and shared with the others.
    """
    paths: dict[str, str] = {}
    placed: dict[str, OfferedGroup] = {}
    homes: dict[str, list[str]] = {}
    for group in groups:
        segment = _NOT_ALLOWED.sub("_", _own_name(group)).strip("_-")[:_MOST_CHARACTERS]
        if not segment:
            text = f"The group {group.name!r} is left out: its name has nothing that a group here can be called."
            warnings.append(config.about(server, text))
            continue
        above = paths.get(group.parent or "", server if config.prefixed else "")
        path = paths[group.name] = numbered(f"{above}.{segment}" if above else segment, placed)
        placed[path] = group
        for tool in dict.fromkeys(group.tools):
            homes.setdefault(tool, []).append(path)
    return Offered(groups=placed, homes=homes)


def _own_name(group: OfferedGroup) -> str:
    """Return the name of a group without what says in which one it is (SPEC DEL-5)."""
    path = path_of(group.name)
    own = path if group.parent is None else path.removeprefix(f"{path_of(group.parent)}.")
    return group.name if "." in own else own


# -- what is said of a group ------------------------------------------------------------------------------------------


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
    said = servers[path].said
    title, text = config.upstreams[path].title or said.title, _introduction(config, path, said.title, said.instructions)
    inner = [one for other, own in members.items() if path in ancestors(other) for one in own]
    listed = description_of(names) if not inner else f"{len(inner)} tools"
    return PlacedGroup(path=path, description=f"{text} ({listed})" if text and listed else text or listed, title=title)


def _introduction(config: GatewayConfig, server: str, title: str | None = None, about: str | None = None) -> str:
    """Return what introduces a server: its title and what it is about, from the configuration or else as it says."""
    upstream = config.upstreams[server]
    title, summary = upstream.title or title, _summary(upstream.description or about or "")
    return f"{title}: {summary}" if title and summary else title or summary


def _summary(text: str) -> str:
    """Return the beginning of the introduction of a server, without the words that it is an MCP server."""
    said = " ".join(text.split())
    summary = _PREAMBLE.sub("", said) or said
    return shortened(summary[0].upper() + summary[1:], SUMMARY_LENGTH).rstrip(".") if summary else ""


def description_of(names: Sequence[str]) -> str:
    """Return a description of a group that has none: how many tools it has, and the names of a few.

    Words that all names begin with are left out.
    """
    if not names:
        return ""
    text = f"{plural(len(names), 'tool')}: "
    prefix = _prefix(names)
    for position, name in enumerate(names):
        shown = f"{', ' if position else ''}{name[prefix:]}"
        if position and len(text) + len(shown) > DESCRIPTION_LENGTH:
            return f"{text}, …"
        text += shown
    return text


def _prefix(names: Sequence[str]) -> int:
    """Return the length of what several names begin with, up to a `_` or `-`."""
    first, last = min(names), max(names)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    common = first[:length] if len(names) > 1 else ""
    return max(common.rfind("_"), common.rfind("-")) + 1


# -- skills (SPEC SKL-2) ----------------------------------------------------------------------------------------------


def _with_skills(
    config: GatewayConfig, tools: list[Placed], groups: dict[str, PlacedGroup], warnings: list[str], *, complete: bool
) -> list[Placed]:
    """Add the skills to the groups, and return the tools with those that they are shared with (SPEC SKL-2)."""
    known = {alias: tool.name for tool in tools for alias in aliases(config, tool)}
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
