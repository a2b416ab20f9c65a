"""Groups from the names of tools, or by the patterns of a configuration file (SPEC GWY-2).

Without a file, tools whose names begin with the same word are a group: `issue_create`, `issue-list`, `issue.close` and
`issueLock` belong to `issue`. A word ends at `_`, `-`, `.`, another sign, or a camel-case hump. A group needs three
tools; the others stay at root. Where all names of a server begin with the same words (`browser_click`,
`browser_tab_list`), these say nothing, and the next word counts. Servers that put the verb first (`create_issue`) get
groups of verbs: a file serves them better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

MIN_SIZE = 3
NAMES_SHOWN = 5
_BREAK = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def by_prefix(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the groups that follow from the first words of `names`: a segment to the names in it."""
    words = {name: _words(name) for name in names}
    depth = _shared(list(words.values()))
    groups: dict[str, list[str]] = {}
    for name, own in words.items():
        if len(own) > depth:
            groups.setdefault(own[depth][:64], []).append(name)
    return {group: tuple(members) for group, members in groups.items() if len(members) >= MIN_SIZE}


def by_pattern(
    names: Sequence[str], patterns: Mapping[str, Iterable[str]]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the members of each group, and a warning for each pattern that brings none.

    Args:
        names: The upstream's names of its tools.
        patterns: A group's path to its patterns, in the order of the file: the first that matches a name gets it.
            `*`, `?` and `[…]` are wild; upper and lower case differ.
    """
    left = dict.fromkeys(names)
    groups: dict[str, tuple[str, ...]] = {}
    warnings: list[str] = []
    for path, globs in patterns.items():
        members: dict[str, None] = {}
        for glob in globs:
            matched = [name for name in left if fnmatchcase(name, glob)]
            if not matched and not any(fnmatchcase(name, glob) for name in members):
                elsewhere = any(fnmatchcase(name, glob) for name in names)
                reason = "only tools that an earlier group has taken" if elsewhere else "none of the server's tools"
                warnings.append(f"The pattern {glob!r} of group {path!r} matches {reason}.")
            members.update(dict.fromkeys(matched))
            left = {name: None for name in left if name not in members}
        groups[path] = tuple(name for name in names if name in members)
    return groups, warnings


def description_of(names: Sequence[str]) -> str:
    """Return a description of a group that nobody described: how many tools it has, and the names of a few."""
    if not names:
        return ""
    shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"{len(names)} {'tool' if len(names) == 1 else 'tools'}: {shown}"


def _words(name: str) -> list[str]:
    return [word.lower() for word in _BREAK.split(name) if word]


def _shared(words: Sequence[Sequence[str]]) -> int:
    """Return how many words all names begin with."""
    depth = 0
    while words and all(len(own) > depth for own in words) and len({own[depth] for own in words}) == 1:
        depth += 1
    return depth
