"""Groups of tools: by the patterns of a configuration, or by the nouns of names and descriptions (SPEC GWY-2).

Nouns say where a tool belongs, verbs do not: `create_issue`, `issueList` and `issues-close` are of `issue`. A tool goes
to the noun that most tools of the server share with it. A group that is over the budget is divided again by the nouns
that are left; one that is too small joins another. All of it is a function of names, descriptions and sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from attrs import evolve, field, frozen

from .words import nouns_of, words_of

MIN_TOOLS = 3
SMALL = 8
"""A group of less than this part of the budget joins another: each costs a line in the list of groups."""
OTHER = "other"
BALANCING_STEPS = 8
MAX_NAME = 28
DESCRIPTION_LENGTH = 80


@frozen(kw_only=True)
class Sized:
    """A tool as far as grouping goes: its name, its description, and the approximate tokens of its definition."""

    name: str
    description: str = ""
    tokens: int = 0


@frozen(kw_only=True)
class _Class:
    """Tools that go together, and the nouns that they are named by, the most important first; the rest has none."""

    nouns: tuple[str, ...] = ()
    tools: tuple[Sized, ...]
    tokens: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "tokens", sum(tool.tokens for tool in self.tools))

    @property
    def is_small(self) -> bool:
        return len(self.tools) < MIN_TOOLS


def divide(tools: Sequence[Sized], budget: int) -> dict[str, tuple[str, ...]]:
    """Return groups that have every tool once: a segment to names of tools, both in a settled order.

    No group has more tokens than the budget unless it is a single tool, and none has fewer than three tools unless no
    other one has room for them.

    Args:
        tools: Tools with different names.
        budget: The most tokens of a group.
    """
    nouns = _telling(tools)
    classes = _settled(_divided((), tuple(tools), nouns, budget), budget)
    order = {tool.name: position for position, tool in enumerate(tools)}
    groups: dict[str, tuple[str, ...]] = {}
    for one in sorted(classes, key=lambda one: (not one.nouns, one.nouns)):
        members = sorted((tool.name for tool in one.tools), key=order.__getitem__)
        groups[_free(_segment(one.nouns), groups)] = tuple(members)
    return groups


def _telling(tools: Sequence[Sized]) -> dict[str, tuple[str, ...]]:
    """Return the nouns of each tool's name without those that all have, which distinguish nothing."""
    nouns = {tool.name: nouns_of(tool.name) for tool in tools}
    counts = Counter(noun for own in nouns.values() for noun in set(own))
    return {name: tuple(noun for noun in own if counts[noun] < len(tools)) for name, own in nouns.items()}


def _divided(
    path: tuple[str, ...], tools: tuple[Sized, ...], nouns: Mapping[str, Sequence[str]], budget: int
) -> list[_Class]:
    """Return classes of tools, all of which have the nouns `path`, that are within the budget where nouns suffice."""
    members, rest = _by_noun(tools, {name: [noun for noun in own if noun not in path] for name, own in nouns.items()})
    if not members:
        return _chunks(path, tools, budget)
    classes: list[_Class] = []
    for noun, own in members.items():
        inner = _Class(nouns=(*path, *_common(noun, own, nouns, path)), tools=own)
        classes += [inner] if inner.tokens <= budget else _divided(inner.nouns, own, nouns, budget)
    return [*classes, *_chunks(path, rest, budget)]


def _common(
    noun: str, tools: Sequence[Sized], nouns: Mapping[str, Sequence[str]], path: Sequence[str]
) -> tuple[str, ...]:
    """Return the nouns that all these tools have, `noun` among them, as they stand in a name: `pull` and `request`."""
    named = [nouns[tool.name] for tool in tools if noun in nouns[tool.name]] or [(noun,)]
    return tuple(word for word in named[0] if word not in path and all(word in own for own in named))


def _by_noun(
    tools: Sequence[Sized], nouns: Mapping[str, Sequence[str]]
) -> tuple[dict[str, tuple[Sized, ...]], tuple[Sized, ...]]:
    """Return the tools of each noun that at least three tools go to, and those that go to none."""
    counts = Counter(noun for tool in tools for noun in set(nouns[tool.name]))
    retained = {noun for noun, count in counts.items() if count >= MIN_TOOLS}
    while True:
        homes = {tool.name: _home(tool, nouns[tool.name], retained, counts) for tool in tools}
        sizes = Counter(home for home in homes.values() if home is not None)
        small = {noun for noun in retained if sizes[noun] < MIN_TOOLS}
        if not small:
            break
        retained -= {min(small, key=lambda noun: (sizes[noun], counts[noun], noun))}
    members = {noun: tuple(tool for tool in tools if homes[tool.name] == noun) for noun in sorted(retained)}
    return members, tuple(tool for tool in tools if homes[tool.name] is None)


def _home(tool: Sized, own: Sequence[str], retained: set[str], counts: Mapping[str, int]) -> str | None:
    """Return the noun that a tool goes to: of its name's the one that most share, else the first of its description."""
    candidates = [noun for noun in own if noun in retained]
    if candidates:
        return max(candidates, key=lambda noun: (counts[noun], -own.index(noun)))
    if own:
        return None
    return next((noun for noun in words_of(tool.description) if noun in retained), None)


def _chunks(path: tuple[str, ...], tools: Sequence[Sized], budget: int) -> list[_Class]:
    """Return classes of tools that nouns don't divide, in their order: as few as the budget allows, of like sizes."""
    fewest = len(_cut(tools, budget))
    least = min(sum(tool.tokens for tool in tools) // max(fewest, 1), budget)
    limits = (least + (budget - least) * step // BALANCING_STEPS for step in range(BALANCING_STEPS))
    chunks = next((cut for limit in limits if len(cut := _cut(tools, limit)) == fewest), _cut(tools, budget))
    return [_Class(nouns=path, tools=chunk) for chunk in chunks]


def _cut(tools: Sequence[Sized], limit: int) -> list[tuple[Sized, ...]]:
    """Return tools in runs that have no more than so many tokens, unless they are one tool."""
    chunks: list[tuple[Sized, ...]] = []
    size = 0
    for tool in tools:
        if not chunks or size + tool.tokens > limit:
            chunks.append(())
            size = 0
        chunks[-1] = (*chunks[-1], tool)
        size += tool.tokens
    return chunks


def _settled(classes: Sequence[_Class], budget: int) -> list[_Class]:
    """Return the classes after those that are too small have joined others, as far as the budget allows."""
    settled = list(classes)
    stuck: list[_Class] = []
    while True:
        small = [one for one in settled if one not in stuck and (one.is_small or one.tokens * SMALL < budget)]
        if not small:
            return settled
        joining = min(small, key=lambda one: (not one.is_small, one.tokens, one.nouns))
        hosts = [one for one in settled if one is not joining and one.tokens + joining.tokens <= budget]
        if not joining.is_small:  # it is small alone in tokens: it joins what is small too, and spoils no good group
            hosts = [one for one in hosts if one in small and one.nouns]
        if not hosts:
            stuck.append(joining)
            continue
        host = max(hosts, key=lambda one: (_shared(one.nouns, joining.nouns), not one.nouns, -one.tokens, one.nouns))
        settled = [one for one in settled if one is not joining and one is not host]
        settled.append(_joined(host, joining))


def _joined(host: _Class, joining: _Class) -> _Class:
    """Return one class of two; what they share comes first in its name, and a rest gives none to it."""
    if joining.is_small or not (host.nouns and joining.nouns):
        nouns = host.nouns if joining.is_small else ()
    else:
        first, second = sorted((host.nouns, joining.nouns))
        nouns = first + second[_shared(first, second) :]
    return evolve(host, nouns=nouns, tools=(*host.tools, *joining.tools))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _segment(nouns: Sequence[str]) -> str:
    """Return the name of a group of these nouns."""
    name = OTHER
    for position, noun in enumerate(nouns):
        longer = f"{name}_{noun}" if position else noun
        if position and len(longer) > MAX_NAME:
            break
        name = longer[:MAX_NAME]
    return name


def _free(name: str, used: Mapping[str, object]) -> str:
    number, candidate = 1, name
    while candidate in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


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


def matches(aliases: Iterable[str], globs: Iterable[str]) -> bool:
    """Return whether one of the names of a tool matches one of the patterns."""
    patterns = tuple(globs)
    return any(fnmatchcase(alias, glob) for alias in aliases for glob in patterns)


def description_of(names: Sequence[str]) -> str:
    """Return a description of a group that nobody described: how many tools it has, and the names of a few.

    Words that all names begin with are left out.
    """
    if not names:
        return ""
    text = f"{len(names)} {'tool' if len(names) == 1 else 'tools'}: "
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
