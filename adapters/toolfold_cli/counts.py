"""Numbers in texts, and texts of others; apart from `printing`, whose libraries a server does not need in memory."""

from __future__ import annotations


def approximate(tokens: int) -> str:
    """Return an approximate number as text."""
    return f"~{tokens:,}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def escaped(text: str, *, kept: str = "\n") -> str:
    """Return a text that a terminal shows unchanged: control characters are escaped, and those of direction.

    It may come from a server or a caller, and is data there (SPEC SAF-6).
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else repr(char)[1:-1] for char in text)
