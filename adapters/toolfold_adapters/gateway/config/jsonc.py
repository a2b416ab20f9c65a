"""JSON with comments and last commas, as editors allow it."""

from __future__ import annotations

import re

_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')


def without_comments(text: str) -> str:
    """Return a text with blanks for comments, so that all else stays on its line and column."""
    return _COMMENT.sub(_blank, text)


def plain_json(text: str) -> str:
    """Return a text of JSON with blanks for comments and last commas."""
    return _LAST_COMMA.sub(_blank, without_comments(text))


def _blank(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\n]", " ", match[0])
