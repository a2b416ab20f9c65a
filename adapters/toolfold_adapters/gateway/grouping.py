"""The groups of a gateway: as its configuration has them, as servers say, or by the names of tools (SPEC GWY-2).

A tool is in the first group of the configuration that has a pattern for it; else in the first of its server's own
groups that has it; else in that of its server. What is over the budget has groups in it where its parts have names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from attrs import evolve, field

from toolfold.spi import Kind, ancestors, frozen, table

from ..files import quoted_key
from ..manifests.nouns import Sized, divide, divided
from ..mcp.existing.grouping import matches, tags_of
from ..mcp.extensions.offered_groups import OfferedGroup
from ..names import ALWAYS_LOAD_META, ONE_SERVER, numbered, path_of, server_name
from ..skills import Skill, missing, not_served
from ..tokens import approximate_tokens
from .config.settings import GatewayConfig
from .describing import description_of, sentence_of
from .known import known_parts
from .upstream.definitions import Definitions, Table, Usable

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_CHARACTERS = 48
BY_CALLER = "its tools are known once it is opened"
"""What is said of a server of which nothing is known, or each caller is listed his own, whoever looks."""


@frozen(kw_only=True)
class Placed:
    """Something that an upstream offers, with its place here.

    `original` is what the upstream calls it, and `name` what clients do; URIs are the same. `meta` goes over its own.
    `shared` are further groups and skills that it is available with, too. What is in no group is `bounded_by` those of
    its server: a profile has to have one of them (SPEC ISO-2). `by_caller` is what only those are offered who were
    listed it themselves (SPEC GWY-19).
    """

    kind: Kind
    server: str
    original: str
    name: str
    definition: Table
    group: str | None = None
    bounded_by: tuple[str, ...] = ()
    hidden: bool = False
    shared: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(factory=dict[str, Any])
    by_caller: bool = False


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


@frozen
class Members:
    """The names of the tools of a group, and what a table of servers or their author says of it."""

    names: tuple[str, ...] = ()
    description: str = ""


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
    members = _members(config, servers, tools, offered, warnings if not unknown else [])
    groups = _groups(config, servers, offered, members, frozenset(tool.name for tool in tools if tool.hidden))
    for server, text in unknown.items():
        groups.setdefault(server, _unknown(config, server, text))
    for server in late if not groups else ():
        names = description_of([tool.name for tool in tools if not tool.hidden])
        groups[server] = PlacedGroup(path=server, description=f"its tools are in no group, and can be called: {names}")
    home = {name: path for path, group in members.items() for name in group.names}
    tools = [_at_home(tool, home.get(tool.name), offered[tool.server], groups) for tool in tools]
    return groups, _with_skills(config, tools, groups, warnings, complete=not unknown)


def _unknown(config: GatewayConfig, server: str, text: str) -> PlacedGroup:
    """Return the group of a server of which nothing is known, as a text says."""
    title = config.upstreams[server].title
    about = _introduction(config, server) or title
    described = f"{about} ({text.rstrip('.')})" if about else text
    return PlacedGroup(path=server, description=described, title=title)


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
    config: GatewayConfig,
    servers: Mapping[str, Usable],
    tools: Sequence[Placed],
    offered: Mapping[str, Offered],
    warnings: list[str],
) -> dict[str, Members]:
    """Return the tools of each group by its path."""
    free = [tool for tool in tools if ALWAYS_LOAD_META not in tool.meta]
    configured: dict[str, tuple[str, ...]] = {}
    if config.groups is not None:
        patterns = {path: config.groups[key].tools for key, path in config.paths().items()}
        configured, problems = by_pattern({tool.name: aliases(config, tool) for tool in free}, patterns)
        warnings += problems
        taken = {name for names in configured.values() for name in names}
        free = [tool for tool in free if tool.name not in taken]
    found = {path: Members(names) for path, names in configured.items()}
    if config.groups is not None and not config.prefixed:
        return found
    of_server: defaultdict[str, list[Placed]] = defaultdict(list)
    for tool in free:
        of_server[tool.server].append(tool)
    for server, said in offered.items():
        if servers[server].said.by_caller:  # what its parts are called is of what somebody was listed
            own = tuple(tool.name for tool in of_server[server])
            found |= {server: Members((*configured.get(server, ()), *own))} if config.prefixed else {}
            continue
        for path, derived in _of_groups(config, servers[server].said, server, of_server[server], said).items():
            found[path] = evolve(derived, names=(*configured.get(path, ()), *derived.names))
    return found


def _of_groups(
    config: GatewayConfig, said: Definitions, server: str, tools: Sequence[Placed], offered: Offered
) -> dict[str, Members]:
    """Return the groups of one server: those that it has itself, and in its own group what is in none of them.

    Either is divided where it is over the budget. A part whose name a group of its own has stays in the server's.
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
    groups: dict[str, Members] = {base: Members()} if needed and base else {}
    for path, own in inside.items():
        if path in needed:
            groups |= {path: Members()} | _divided(config, path, own)
    parts = _divided(config, base, rest, _called(config, server, said))
    clashing = tuple(name for path in parts if path in groups and path != base for name in parts[path].names)
    if clashing and base:
        parts[base] = Members((*parts[base].names, *clashing))
    return groups | {path: part for path, part in parts.items() if path == base or path not in groups}


def _called(config: GatewayConfig, server: str, said: Definitions) -> tuple[str, ...]:
    """Return what may say which server it is: what it calls itself, its URL, its command."""
    upstream = config.upstreams[server]
    return said.name, upstream.url or "", *(upstream.command or ())


def _divided(
    config: GatewayConfig, path: str, tools: Sequence[Placed], called: tuple[str, ...] = ("",)
) -> dict[str, Members]:
    """Return the group of some tools, with others in it if it is over the budget and has parts (SPEC GWY-2).

    Without a path there is no such group: the parts are at root, and what is in none of them is in no group within the
    budget, and else in one that is called like the server.
    """
    if not tools:
        return {}
    budget = config.budgets.group_tokens
    sized = {tool.original: _sized(tool) for tool in tools}
    parts, texts = _parts([*sized.values()], budget, called)
    inner = {name for names in parts.values() for name in names}
    names = {tool.original: tool.name for tool in tools}
    groups = {
        f"{path}.{part}" if path else part: Members(tuple(names[name] for name in own), texts.get(part, ""))
        for part, own in parts.items()
    }
    own = [name for name in names if name not in inner]
    whole = path
    if not path and sum(sized[name].tokens for name in own) > budget:
        whole = _name_of(called[0], groups)
    return {whole: Members(tuple(names[name] for name in own)), **groups} if whole else groups


def _parts(
    tools: Sequence[Sized], budget: int, called: Sequence[str]
) -> tuple[dict[str, tuple[str, ...]], Mapping[str, str]]:
    """Return the names of the tools of each part, if they are over the budget, and what is said of some parts."""
    if sum(tool.tokens for tool in tools) <= budget:
        return {}, {}
    if (known := known_parts(called, tools)) is None:
        return divide(tools, budget), {}
    parts, texts = known
    return divided(parts, budget), texts


def _sized(tool: Placed) -> Sized:
    """Return a tool as far as parts go; a hidden one takes no room in a list."""
    tokens = 0 if tool.hidden else approximate_tokens({**tool.definition, "name": tool.name})
    return Sized(name=tool.original, tags=_tags(tool.definition), tokens=tokens)


def _name_of(server: str, groups: Mapping[str, object]) -> str:
    """Return what the group of a server is called that is served without a name: what it calls itself."""
    name = server_name(server) if server else ONE_SERVER
    return name if name not in groups else f"{name}-server"


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
    members: Mapping[str, Members],
    hidden: Set[str],
) -> dict[str, PlacedGroup]:
    """Return the groups, each after those that it is in; no description names a hidden tool."""
    named = {path: [name for name in group.names if name not in hidden] for path, group in members.items()}
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
            text = members[path].description or description_of(below[path])
            derived = PlacedGroup(path=path, description=text)
            groups[path] = _of_server(config, servers, path, below[path]) if path in servers else derived
    return dict(sorted(groups.items(), key=lambda item: item[0].count(".")))


def _of_server(
    config: GatewayConfig, servers: Mapping[str, Usable], server: str, members: Sequence[str]
) -> PlacedGroup:
    """Return the group of all that a server has, with the introduction of the server, else with a few of its tools."""
    said = servers[server].said
    if said.by_caller:  # none learns from it what another was listed
        return _unknown(config, server, BY_CALLER)
    title, listed = config.upstreams[server].title or said.title, description_of(members)
    text = _introduction(config, server, said.instructions) or ": ".join(filter(None, (title, listed)))
    return PlacedGroup(path=server, description=text, title=title)


def _introduction(config: GatewayConfig, server: str, instructions: str | None = None) -> str:
    """Return the sentence that introduces a server, from the configuration or else as it says."""
    return sentence_of(config.upstreams[server].description or instructions or "")


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
