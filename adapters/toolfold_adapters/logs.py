"""What others wrote, as it may stand in a log: short, and on one line (SPEC SAF-3, SAF-6)."""

from __future__ import annotations

from collections.abc import Collection

QUOTED = 80
"""How many characters of a text are quoted."""
NAMED = 5
"""How many of several texts are quoted."""


def quoted(text: str) -> str:
    """Return the beginning of a text in quotes, with control characters and line breaks escaped."""
    return repr(text) if len(text) <= QUOTED else f"{text[:QUOTED]!r}…"


def listed(texts: Collection[str]) -> str:
    """Return the first few of several texts in quotes, and how many more there are."""
    first = ", ".join(quoted(text) for _, text in zip(range(NAMED), texts, strict=False))
    return first if len(texts) <= NAMED else f"{first} and {len(texts) - NAMED} more"


def one_line(text: str, most: int) -> str:
    """Return a text without control characters and line breaks, which are escaped, and cut after `most` characters."""
    kept = text if len(text) <= most else f"{text[:most]}…"
    return kept if kept.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in kept)
