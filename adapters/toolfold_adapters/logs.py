"""Lines of a log, whatever others wrote into them (SPEC SAF-3, SAF-6)."""

from __future__ import annotations


def one_line(text: str, most: int) -> str:
    """Return a text without control characters and line breaks, which are escaped, and cut after `most` characters."""
    kept = text if len(text) <= most else f"{text[:most]}…"
    return kept if kept.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in kept)
