"""Which tools a query names: exactly, without a prefix, or by their words (SPEC FND-5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from .._names import SEPARATOR

_PREFIXED = "__"
"""What stands between the name of a tool and that of its server or its host; the separator of groups is read as it."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+")
_PLURAL = 4
"""How long a word is at least whose last letter may be the `s` of a plural."""

Closeness = tuple[int, int]
"""The smaller, the closer: which of the rules holds, and how many words of the name are not in the query."""


def closeness_to(query: str) -> Callable[[str], Closeness | None]:
    """Return what says how closely a name is that of a query: `None` if it is not, or lacks a word of the query.

    The name itself comes before one that differs by a prefix, that before one with the same words, and all of them
    before names that have the words of the query and others.
    """
    asked = _plain(query.strip(" \t\r\n`'\""))
    words = _words(query)
    wanted = _folded(words)

    def closeness(name: str) -> Closeness | None:
        plain = _plain(name)
        if plain == asked:
            return 0, 0
        if asked and (plain.endswith(_PREFIXED + asked) or asked.endswith(_PREFIXED + plain)):
            return 1, 0
        base = _words(_base(name))
        if words and words in (base, _words(name)):
            return 2, 0
        if not wanted or not wanted <= _folded(_words(name)):
            return None
        return 3, len(_folded(base) - wanted)

    return closeness


def _plain(name: str) -> str:
    return name.casefold().replace(SEPARATOR, _PREFIXED)


def _base(name: str) -> str:
    return name.replace(SEPARATOR, _PREFIXED).rpartition(_PREFIXED)[2]


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _folded(words: Iterable[str]) -> set[str]:
    """Return words without the `s` of the plural, which names and queries use as they please."""
    return {word[:-1] if len(word) >= _PLURAL and word.endswith("s") else word for word in words}
