"""Well-known servers: parts with names that a person gave them (SPEC GWY-2), and whether sessions share one (GWY-14).

`known.toml` has a row for each. Parts count for a server that is called so and has most of its tools from them: a
server that has other tools today, or took the name of another, is divided like any other one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import frozen

from ..manifests.nouns import MIN_TOOLS, Parts, Sized
from ..mcp.existing.grouping import matches

_FILE = Path(__file__).with_name("known.toml")


@frozen(kw_only=True)
class KnownServer:
    """A row: what such a server is called, patterns of its own tools and of each part, and what is said of a part.

    `shared` says whether sessions of one user can share a process of it; `None` if that is not known.
    """

    known_as: tuple[str, ...]
    own: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]]
    descriptions: Mapping[str, str]
    shared: bool | None = None

    def is_called(self, texts: Iterable[str]) -> bool:
        """Return whether one of some texts, such as a command or a URL, has one of its names as a whole word."""
        words = "|".join(map(re.escape, self.known_as))
        name = re.compile(rf"(?<![\w-])({words})(?![\w-])", re.IGNORECASE)
        return any(name.search(text) for text in texts)

    def divide(self, tools: Sequence[Sized]) -> Parts | None:
        """Return the parts of its tools that have three of them or more; `None` if most are of no pattern of it."""
        homes = {tool.name: self._home(tool.name) for tool in tools}
        if 2 * sum(home is not None for home in homes.values()) <= len(tools):
            return None
        parts = {part: [tool for tool in tools if homes[tool.name] == part] for part in self.parts}
        return {part: members for part, members in parts.items() if len(members) >= MIN_TOOLS}

    def _home(self, tool: str) -> str | None:
        """Return the part that a tool is in, empty for one of the server's own, or `None`."""
        patterns = {"": self.own, **self.parts}
        return next((part for part, globs in patterns.items() if matches([tool], globs)), None)


@lru_cache
def known_servers() -> tuple[KnownServer, ...]:
    """Return the rows."""
    return tuple(_rows(tomllib.loads(_FILE.read_text(encoding="utf-8"))["server"]))


def _rows(given: Iterable[Mapping[str, Any]]) -> Iterator[KnownServer]:
    for row in given:
        parts: Mapping[str, Sequence[str]] = row.get("parts", {})
        yield KnownServer(
            known_as=tuple(row["known_as"]),
            own=tuple(row.get("own", ())),
            parts={part: tuple(patterns) for part, (_, *patterns) in parts.items()},
            descriptions={part: description for part, (description, *_) in parts.items()},
            shared=row.get("shared"),
        )


def known_parts(texts: Sequence[str], tools: Sequence[Sized]) -> tuple[Parts, Mapping[str, str]] | None:
    """Return the parts of a server that is known, and what is said of each; `None` for any other one.

    Args:
        texts: What may say which server it is: what it calls itself, its command, its URL.
        tools: What it has.
    """
    for row in known_servers():
        if row.is_called(texts) and (parts := row.divide(tools)) is not None:
            return parts, row.descriptions
    return None
