"""Texts in pictures: made fit to print, wrapped, and escaped for each format, so that none breaks or injects anything.

Names have few characters (SPEC NAM-1), but titles, descriptions, facts and errors may be anything.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable

ELLIPSIS = "…"
_KEPT = frozenset("\u200c\u200d")  # joiners, which scripts and emoji need, though they are format characters
_MERMAID_PLAIN = re.compile(r"[^\w .,…·→●○✓✗+=*/!?'-]")
_ID = {"_": "__", ".": "_d", "-": "_h", ":": "_c", "/": "_s"}


def printable(text: str) -> str:
    """Return `text` on one line without what can't be printed: controls, lone surrogates, and turns of direction."""
    shown = (" " if char.isspace() else char for char in text if _is_shown(char))
    return " ".join("".join(shown).split())


def wrapped(text: str, width: int = 32, lines: int = 3) -> list[str]:
    """Return `text` on at most `lines` lines of at most `width` characters; what is cut off ends in `…`."""
    return textwrap.wrap(printable(text), width, max_lines=lines, placeholder=f" {ELLIPSIS}")


def identifier(kind: str, path: str = "") -> str:
    """Return an id for a group path: a word of letters, digits and `_`, another one for each kind and path.

    It is the same in every picture and run, and no keyword of DOT or Mermaid.
    """
    return f"{kind}_" + "".join(_ID.get(char, char) for char in path)


def dot_string(text: str) -> str:
    """Return a quoted string of DOT that stands for `text`, also where it is a label; newlines become line breaks."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;").replace("\n", "\\n")
    return f'"{escaped}"'


def xml(text: str) -> str:
    """Return `text` escaped for XML and HTML, also inside of quotes."""
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(char, entity)
    return text


def mermaid(text: str) -> str:
    """Return `text` for a label of Mermaid, inside of quotes or not: all but plain characters by their numbers."""
    return _MERMAID_PLAIN.sub(lambda found: f"#{ord(found[0])};", text)


def mermaid_lines(lines: Iterable[str]) -> str:
    """Return lines of text as one label of Mermaid."""
    return "<br/>".join(map(mermaid, lines))


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 tool`, `2 tools`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _is_shown(char: str) -> bool:
    return char.isspace() or char in _KEPT or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Cn", "Co")
