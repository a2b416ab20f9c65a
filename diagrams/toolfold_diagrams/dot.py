"""A writer of DOT: statements in the order in which they are made, every id and value quoted.

An attribute whose name is a keyword of Python has `_` after it: `class_`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager

from .palette import GROUND
from .text import dot_string, xml


class Html(str):
    """A label in Graphviz's subset of HTML, whose texts are escaped already; see `text.xml`."""

    __slots__ = ()


Value = str | int | float


def chip(lines: Iterable[str]) -> Html:
    """Return lines as a label with a light ground of its own: it can be read wherever the picture is put."""
    table = f'<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="2" CELLSPACING="0" BGCOLOR="{GROUND}">'
    return Html(f"{table}<TR><TD>{'<BR/>'.join(map(xml, lines))}</TD></TR></TABLE>")


class Dot:
    """One graph in the making.

    Args:
        name: Its name.
        attributes: Those of the graph, as Graphviz knows them.
        directed: Whether edges have a direction.
    """

    def __init__(self, name: str, *, directed: bool = True, **attributes: Value) -> None:
        self._lines = [f"{'digraph' if directed else 'graph'} {dot_string(name)} {{"]
        self._arrow = "->" if directed else "--"
        self._depth = 1
        for each in _formatted(attributes):
            self._add(each)

    def default(self, kind: str, **attributes: Value) -> None:
        """Set what holds for every `node` or `edge` that follows, in the same cluster."""
        self._add(f"{kind}{_attributes(attributes)}")

    def node(self, key: str, label: str, **attributes: Value) -> None:
        """Add a node."""
        self._add(f"{dot_string(key)}{_attributes({'label': label, **attributes})}")

    def edge(self, tail: str, head: str, **attributes: Value) -> None:
        """Add an edge."""
        self._add(f"{dot_string(tail)} {self._arrow} {dot_string(head)}{_attributes(attributes)}")

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


def _attributes(attributes: Mapping[str, Value]) -> str:
    return f" [{', '.join(_formatted(attributes))}]" if attributes else ""


def _formatted(attributes: Mapping[str, Value]) -> Iterator[str]:
    for name, value in attributes.items():
        yield f"{name.removesuffix('_')}={_value(value)}"


def _value(value: Value) -> str:
    if isinstance(value, Html):
        escaped = value.replace("\\", "\\\\")  # Graphviz puts names in place of such as \N here too
        return f"<{escaped}>"
    return dot_string(value) if isinstance(value, str) else f"{value:g}"
