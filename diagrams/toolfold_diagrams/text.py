"""Texts in pictures: made printable, wrapped, and escaped for each format, so that none breaks or injects anything.

Names have few characters (SPEC NAM-1), but titles, descriptions, facts and errors may be anything.
"""

from __future__ import annotations

import html
import re
import textwrap
import unicodedata
from collections.abc import Iterable

ELLIPSIS = "…"
MERMAID_TEXT, MERMAID_EDGES = 50_000, 500
_JOINERS = frozenset("\u200c\u200d")  # format characters that scripts and emoji need
_FILLER = "\ue000"  # counts as the first half of a wide character; `printable` leaves none of these
_WIDE = re.compile(
    "[WM@%\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\U0001f000-\U0003ffff]"
)
_NO_XML = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_MERMAID_SPECIAL = re.compile(r"[^\w ,·→●○◌✓✗!?/'-]|(?<![^\W_])[_-]|[_-](?![^\W_])")
_ID = str.maketrans({"_": "__", ".": "_d", "-": "_h", ":": "_c", "/": "_s", "|": "_x"})


def printable(text: str) -> str:
    """Return `text` on one line without what can't be printed: controls, lone surrogates, and changes of direction."""
    if not text.isprintable():
        text = "".join(" " if char.isspace() else char for char in text if _is_shown(char))
    return " ".join(text.split())


def wrapped(text: str, width: int = 32, lines: int = 3) -> list[str]:
    """Return `text` on at most `lines` lines of at most `width` characters; what is cut off ends in `…`.

    Characters that are twice as wide as others, such as Chinese ones, count twice.
    """
    shown = printable(text)[: (width + 1) * (lines + 1)]
    counted = _WIDE.sub(rf"{_FILLER}\g<0>", shown)
    if len(counted) <= width:
        return [shown] if shown else []
    found = textwrap.wrap(counted, width)
    if len(found) > lines:
        last = found[lines - 1]
        if len(last) > width - 2:
            last = last[: width - 1].rpartition(" ")[0] or last[: width - 2]
        found[lines - 1] = f"{last} {ELLIPSIS}"
    return [line.replace(_FILLER, "") for line in found[:lines]]


def identifier(kind: str, path: str = "") -> str:
    """Return an id for a group path: a word of letters, digits and `_`, unique for each kind and path.

    It is the same in every picture and run, and no keyword of DOT or Mermaid.
    """
    return f"{kind}_{path.translate(_ID)}"


def dot_string(text: str) -> str:
    """Return a quoted string of DOT that stands for `text`, in labels too; newlines become line breaks.

    What can't be in XML, and so not in an SVG, becomes a space.
    """
    text = _NO_XML.sub(" ", text)
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        text = text.replace(char, escape)
    return f'"{text}"'


def xml(text: str) -> str:
    """Return `text` escaped for XML and HTML, also inside of quotes."""
    return html.escape(text)


def mermaid(text: str) -> str:
    r"""Return `text` for a label of Mermaid, quoted or not: all but plain characters are escaped by number.

    Mermaid reads labels as Markdown too, so signs are plain only within a word; it reads text between `$$` as a formula
    and `\n` as a line break, so a space of no width splits these.
    """
    parted = printable(text).replace("$$", "$\u200b$").replace("\\n", "\\\u200bn")
    return _MERMAID_SPECIAL.sub(lambda found: f"#{ord(found[0])};", parted)


def drawable(text: str, edges: int = 0) -> str | None:
    """Return a picture's text for Mermaid, or `None` if it exceeds what Mermaid draws by default."""
    return text if len(text) <= MERMAID_TEXT and edges <= MERMAID_EDGES else None


def mermaid_lines(lines: Iterable[str]) -> str:
    """Return lines of text as one label of Mermaid."""
    return "<br/>".join(map(mermaid, lines))


def plural(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun: `1 tool`, `2 tools`; `several` is its plural where that is not made by an `s`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {several or f'{noun}s'}"


def _is_shown(char: str) -> bool:
    return char.isspace() or char in _JOINERS or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Cn", "Co")
