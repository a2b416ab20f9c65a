"""What is said of a server and of a group that has no description: one sentence, from foreign words (SPEC GWY-2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..tokens import plural

SENTENCE_LENGTH = 90
"""Of so many characters, those of fifteen servers fit into what hosts show."""
LISTED_LENGTH = 80
_PREAMBLE = re.compile(
    r"^(welcome to |this is )?((an?|the|this|our) )?([\w.-]+ ){0,2}(model context protocol|mcp)( \([^)]*\))? server\b"
    r"( implementation)?[\s:,]*((that|which|for|to) ((provides?|enables?|offers?|allows?) )?"
    r"|(provides?|enables?|offers?|allows?) )?",
    re.IGNORECASE,
)
"""How half of all servers begin: "A Model Context Protocol (MCP) server that provides …"."""
_FENCED = re.compile(r"```.*?(```|\Z)", re.DOTALL)
_TAGS = re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->", re.DOTALL)
_LINKS = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_HEADINGS = re.compile(r"^\s*(#+ .*|[-=*_]{3,}\s*)$", re.MULTILINE)
_ITEMS = re.compile(r"^\s*([-*+>]|\d+[.)]) +", re.MULTILINE)
_MARKS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_END = re.compile(r"(?<![\s.]\w)(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bNo)[.!?]+(?=\s|$)|[。！？]")
_PARAGRAPH = re.compile(r"\n\s*\n")


def sentence_of(text: str) -> str:
    """Return the first sentence of what a server says of itself, without marks, heading and full stop.

    It has at most 90 characters, and ends at a word where it had more; it is empty if no word is in the text.
    """
    plain = _LINKS.sub(r"\1", _TAGS.sub(" ", _FENCED.sub("\n\n", text)))
    paragraphs = _PARAGRAPH.split(_HEADINGS.sub("\n", plain)) + _PARAGRAPH.split(plain.replace("#", "\n\n"))
    for paragraph in paragraphs:
        line = " ".join(_MARKS.sub("", _ITEMS.sub("", paragraph)).split())
        first = _END.split(line, maxsplit=1)[0]
        said = (_PREAMBLE.sub("", first) or first).strip(" .,;:-")
        if re.search(r"\w", said):
            return _cut(said[0].upper() + said[1:])
    return ""


def _cut(text: str) -> str:
    """Return a text, or as many of its words as there is room for, up to the end of a clause if that is late enough."""
    if len(text) <= SENTENCE_LENGTH:
        return text
    cut = text[: SENTENCE_LENGTH + 1]
    clause = max(cut.rfind(mark) for mark in (", ", "; ", ": ", " (", " - ", " – ", " — "))
    end = clause if clause > SENTENCE_LENGTH // 2 else cut.rfind(" ")
    return (cut[:end] if end > 0 else cut[:SENTENCE_LENGTH]).rstrip(" ,;:-–—(")


def description_of(names: Sequence[str]) -> str:
    """Return a description of a group that has none: how many tools it has, and the names of a few.

    Words that all names begin with are left out.
    """
    if not names:
        return ""
    text = f"{plural(len(names), 'tool')}: "
    prefix = _prefix(names)
    for position, name in enumerate(names):
        shown = f"{', ' if position else ''}{name[prefix:]}"
        if position and len(text) + len(shown) > LISTED_LENGTH:
            return f"{text} and {len(names) - position:,} more"
        text += shown
    return text


def _prefix(names: Sequence[str]) -> int:
    """Return the length of what several names begin with, up to a `_` or `-`."""
    first, last = min(names), max(names)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    common = first[:length] if len(names) > 1 else ""
    return max(common.rfind("_"), common.rfind("-")) + 1
