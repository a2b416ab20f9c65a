"""The fenced blocks of a page of Markdown, in their order.

A block is run or checked by its language (`running.py`). One that can't be has a comment on the line before it, which
says why: `<!-- not run: it starts Claude Desktop -->`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(
    r"^(?:[ ]*<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"^(?P<indent>[ ]*)(?P<fence>`{3,})(?P<language>[\w-]*)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@frozen
class Block:
    """A fenced block: its language, the file that it is (or "Output"), its text, and why it is not run."""

    language: str
    title: str | None
    text: str
    reason: str | None
    indent: str
    line: int
    start: int
    end: int


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page."""
    return [_block(page, match) for match in _FENCE.finditer(page)]


def replaced(page: str, texts: dict[Block, str]) -> str:
    """Return a page with other texts in some of its blocks."""
    for block in sorted(texts, key=lambda block: -block.start):
        lines = (f"{block.indent}{line}".rstrip() for line in texts[block].splitlines())
        page = page[: block.start] + "".join(f"{line}\n" for line in lines) + page[block.end :]
    return page


def pages() -> list[Path]:
    """Return the pages whose blocks are run: the README, and those of the site."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _block(page: str, match: re.Match[str]) -> Block:
    words = (word.partition("=") for word in shlex.split(match["info"]))
    info = {name: value for name, _, value in words}
    text = "".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True))
    line = page.count("\n", 0, match.start("fence")) + 1
    title, reason = info.get("title"), match["reason"]
    return Block(match["language"], title, text, reason, match["indent"], line, match.start("text"), match.end("text"))
