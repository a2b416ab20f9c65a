"""A writer of DOT: statements in the order in which they are made, every id and value quoted.

An attribute whose name is a keyword of Python has `_` after it: `class_`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from attrs import field, frozen

from .palette import GROUND
from .text import dot_string, xml

Value = str | int | float

_QUOTED_OR_HTML = re.compile(r'("(?:[^"\\]|\\.)*")|<((?:<[^<>]*>|[^<>])*)>', re.DOTALL)
_BREAK = re.compile(r"<BR[^>]*/>")
_LEFT = '<BR ALIGN="LEFT"/>'
_TAG = re.compile(r"<[^<>]*>")


@frozen
class Line:
    """A line of a label; what is not given is as the picture has it by default. `mark` is before it, and not bold."""

    text: str
    bold: bool = field(default=False, kw_only=True)
    size: float | None = field(default=None, kw_only=True)
    color: str | None = field(default=None, kw_only=True)
    mark: str = field(default="", kw_only=True)

    @property
    def html(self) -> str:
        """The line in Graphviz's subset of HTML."""
        text = f"<B>{xml(self.text)}</B>" if self.bold else xml(self.text)
        given = {"COLOR": self.color, "POINT-SIZE": self.size}
        font = "".join(f' {name}="{value}"' for name, value in given.items() if value is not None)
        return xml(self.mark) + (f"<FONT{font}>{text}</FONT>" if font else text)


@frozen
class Label:
    """A label of lines.

    Attributes:
        lines: The lines.
        align: Where each line begins.
        width: The width of the label; its text is placed in it.
        background: A colour behind the text, so that it can be read wherever the picture is put.
    """

    lines: tuple[Line, ...]
    align: Literal["left", "center"] = field(default="center", kw_only=True)
    width: float | None = field(default=None, kw_only=True)
    background: str | None = field(default=None, kw_only=True)

    @property
    def html(self) -> str:
        """The label in Graphviz's subset of HTML."""
        left = self.align == "left"
        content = "<BR/>".join(line.html for line in self.lines)
        if self.width is None and self.background is None:
            return content.replace("<BR/>", '<BR ALIGN="LEFT"/>') + '<BR ALIGN="LEFT"/>' if left else content
        color = "" if self.background is None else f' BGCOLOR="{self.background}"'
        width = "" if self.width is None else f' WIDTH="{self.width:.0f}"'
        padding = 0 if self.width is not None else 2
        cell = ' ALIGN="LEFT" BALIGN="LEFT"' if left else ""
        table = f'<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="{padding}" CELLSPACING="0"{color}{width}>'
        return f"{table}<TR><TD{cell}>{content}</TD></TR></TABLE>"


def chip(lines: Iterable[str]) -> Label:
    """Return lines as a label with a light background: it can be read wherever the picture is put."""
    return Label(tuple(map(Line, lines)), background=GROUND)


@frozen
class Node:
    """A node as it was added, with the attributes that hold by default."""

    key: str
    label: str | Label
    attributes: Mapping[str, Value]


@frozen
class Edge:
    """An edge as it was added, with the attributes that hold by default."""

    tail: str
    head: str
    attributes: Mapping[str, Value]


class Dot:
    """One graph in the making; `nodes` and `edges` are what was added to it.

    Args:
        name: Its name.
        attributes: Those of the graph, as Graphviz knows them.
    """

    def __init__(self, name: str, **attributes: Value) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._defaults: dict[str, dict[str, Value]] = {}
        self._lines = [f"digraph {dot_string(name)} {{"]
        self._depth = 1
        for each in _formatted(attributes):
            self._add(each)

    def default(self, kind: str, **attributes: Value) -> None:
        """Set what holds for every `node` or `edge` that follows, in the same cluster."""
        self._defaults[kind] = {**self._defaults.get(kind, {}), **attributes}
        self._add(f"{kind}{_attributes(attributes)}")

    def node(self, key: str, label: str | Label, **attributes: Value) -> None:
        """Add a node."""
        self.nodes.append(Node(key, label, {**self._defaults.get("node", {}), **attributes}))
        self._add(f"{dot_string(key)}{_attributes({'label': label, **attributes})}")

    def edge(self, tail: str, head: str, label: str | Label | None = None, **attributes: Value) -> None:
        """Add an edge."""
        self.edges.append(Edge(tail, head, {**self._defaults.get("edge", {}), **attributes}))
        labelled = attributes if label is None else {"label": label, **attributes}
        self._add(f"{dot_string(tail)} -> {dot_string(head)}{_attributes(labelled)}")

    @contextmanager
    def cluster(self, key: str, label: str = "", **attributes: Value) -> Generator[None]:
        """Put what is added within into a box."""
        self._add(f"subgraph {dot_string(f'cluster_{key}')} {{")
        self._depth += 1
        for each in _formatted({"label": label, **attributes}):
            self._add(each)
        yield
        self._depth -= 1
        self._add("}")

    def text(self) -> str:
        """Return the graph as DOT."""
        return "\n".join([*self._lines, "}"]) + "\n"

    def _add(self, line: str) -> None:
        self._lines.append("  " * self._depth + line)


def without_html(text: str) -> str:
    """Return DOT whose labels are plain: for a Graphviz that was built without support for HTML in them."""

    def plain(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        label = match[2].replace("\\\\", "\\")
        end, space = r"\l" if _LEFT in label else r"\n", " " if "BGCOLOR" in label else ""
        lines = _BREAK.split(label.removesuffix(_LEFT))
        return (
            f'"{"".join(dot_string(space + html.unescape(_TAG.sub("", line)) + space)[1:-1] + end for line in lines)}"'
        )

    return _QUOTED_OR_HTML.sub(plain, text)


def _attributes(attributes: Mapping[str, Value | Label]) -> str:
    return f" [{', '.join(_formatted(attributes))}]" if attributes else ""


def _formatted(attributes: Mapping[str, Value | Label]) -> Iterator[str]:
    for name, value in attributes.items():
        yield f"{name.removesuffix('_')}={_value(value)}"


def _value(value: Value | Label) -> str:
    if isinstance(value, Label):
        escaped = value.html.replace("\\", "\\\\")  # Graphviz puts names in place of such as \N here too
        return f"<{escaped}>"
    return dot_string(value) if isinstance(value, str) else f"{value:g}"
