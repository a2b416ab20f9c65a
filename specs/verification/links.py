"""Mentions of clauses on pages, such as SPEC ACT-4, as links to their texts: an extension of Markdown for the site."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

from toolfold_specs.clauses import load_clauses

PRIORITY = 50
"""Below those of code and links, whose texts are left alone."""


class ClauseLinks(Extension):
    """Adds the processor to those of a page."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Add the processor."""
        ids = sorted((re.escape(clause.id) for clause in load_clauses()), key=len, reverse=True)
        md.inlinePatterns.register(_Mention(rf"\b(?:{'|'.join(ids)})\b", md), "clauses", PRIORITY)


class _Mention(InlineProcessor):
    ANCESTOR_EXCLUDES = ("a", "autoref", "h1", "h2", "h3", "h4")

    def handleMatch(  # type: ignore[override]
        self, m: re.Match[str], data: str
    ) -> tuple[Element, int, int]:
        """Return a reference, which the site resolves to the heading of that name."""
        reference = Element("autoref", {"identifier": m[0]})
        reference.text = m[0]
        return reference, m.start(), m.end()


def makeExtension(**_: Any) -> ClauseLinks:
    """Return the extension, which has no options."""
    return ClauseLinks()  # type: ignore[no-untyped-call]
