"""SVG of graphs that are laid out already, without Graphviz: `placed` is a pure function from a graph to a text.

It draws what structure.py and sequence_layout.py use of DOT: boxes and curves, labels and arrowheads, all with a `pos`.
Elements have ids and classes as in Graphviz's SVG.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import hypot

from .dot import Dot, Edge, Label, Node, Value
from .palette import FONT, INK
from .text import printable, xml

PAD = 10.8
"""Around a picture, in points; as Graphviz has it with a `pad` of 0.15 inches."""
LEADING = 1.22
"""The height of a line, as a multiple of the size of its font."""
ASCENT = 0.93
"""The base line, as a multiple of the size of the font, below the top of a line."""
INSET, MARGIN = 3.0, 10.0
"""Between a text and the left edge of its background, or of its box."""
RADIUS = 8.0
SIZE = 11.0
_ID = re.compile(r' id=(?=")')

Point = tuple[float, float]


def placed(graph: Dot, title: str, description: str) -> str:
    """Return a graph as SVG whose nodes all have places: edges below nodes, on a transparent background.

    Args:
        graph: Boxes (`shape` box, plain or point) and edges; one without a `pos` is a straight line.
        title: What the picture shows.
        description: The same in more words, for those who can't see it.
    """
    places = {node.key: _place(node.attributes["pos"]) for node in graph.nodes}
    routes = [_Route(edge, places) for edge in graph.edges]
    corners = [corner for node in graph.nodes for corner in _corners(node)]
    corners += [point for route in routes for point in route.points]
    left, top = (min((corner[axis] for corner in corners), default=0) - PAD for axis in (0, 1))
    width = max((x for x, _ in corners), default=0) + PAD - left
    height = max((y for _, y in corners), default=0) + PAD - top
    size = f'width="{width:g}pt" height="{height:g}pt" viewBox="{left:g} {top:g} {width:g} {height:g}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img">']
    lines += [about(title, description)]
    lines += [line for route in routes for line in route.drawn()]
    lines += [line for node in graph.nodes for line in _node(node)]
    return "\n".join([*lines, "</svg>"]) + "\n"


def about(title: str, description: str) -> str:
    """Return the elements of an SVG that say what it shows to those who can't see it."""
    return f"<title>{xml(printable(title))}</title>\n<desc>{xml(printable(description))}</desc>"


def embedded(svg: str) -> str:
    """Return an SVG for a page that may have several: ids, which would be there twice, become `data-id`."""
    return _ID.sub(" data-id=", svg[svg.index("<svg") :])


def rectangle(x: float, y: float, width: float, height: float) -> str:
    """Return the attributes of a `rect` around a point."""
    return f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}"'


# Nodes


def _place(pos: Value) -> Point:
    x, y = map(float, str(pos).split(","))
    return x, -y


def _size(node: Node) -> Point:
    return float(node.attributes.get("width", 0)) * 72, float(node.attributes.get("height", 0)) * 72


def _corners(node: Node) -> Iterator[Point]:
    (x, y), (width, height) = _place(node.attributes["pos"]), _size(node)
    yield from ((x - width / 2, y - height / 2), (x + width / 2, y + height / 2))


def _node(node: Node) -> Iterator[str]:
    given = node.attributes
    styles = str(given.get("style", "")).split(",")
    if "invis" in styles:
        return
    (x, y), (width, height) = _place(given["pos"]), _size(node)
    yield _opening("node", given)
    if "tooltip" in given:
        yield f"<title>{xml(str(given['tooltip']))}</title>"
    if given.get("shape") != "plain":
        box = rectangle(x, y, width, height)
        corner = f' rx="{min(RADIUS, height / 2):g}"' if "rounded" in styles else ""
        fill = given.get("fillcolor", "none") if "filled" in styles else "none"
        yield f'<rect {box}{corner} fill="{fill}" {_stroke(given)}/>'
    if isinstance(node.label, Label):
        yield from _label(node.label, given, (x, y), (width, height))
    yield "</g>"


def _label(label: Label, given: Mapping[str, Value], middle: Point, box: Point) -> Iterator[str]:
    sizes = [line.size or float(given.get("fontsize", SIZE)) for line in label.lines]
    (x, y), (width, height) = middle, box
    if label.background is not None:
        yield f'<rect {rectangle(x, y, width + 2 * INSET, height)} fill="{label.background}"/>'
    left = label.align == "left"
    start = x - width / 2 + (0 if given.get("shape") == "plain" else MARGIN) if left else x
    top = y - sum(sizes) * LEADING / 2
    for line, size in zip(label.lines, sizes, strict=True):
        look = f'font-size="{size:g}" fill="{line.color or given.get("fontcolor", INK)}"'
        place = f'x="{start:.5g}" y="{top + size * ASCENT:.5g}"' + ("" if left else ' text-anchor="middle"')
        text = f'<tspan font-weight="bold">{xml(line.text)}</tspan>' if line.bold else xml(line.text)
        yield f"<text {place} {look}>{xml(line.mark)}{text}</text>"
        top += size * LEADING


def _opening(kind: str, given: Mapping[str, Value]) -> str:
    named = f' id="{xml(str(given["id"]))}"' if "id" in given else ""
    return f'<g{named} class="{kind} {given["class_"]}">' if "class_" in given else f'<g{named} class="{kind}">'


def _stroke(given: Mapping[str, Value]) -> str:
    width = float(given.get("penwidth", 1))
    dashed = ' stroke-dasharray="5,2"' if "dashed" in str(given.get("style", "")) else ""
    return f'stroke="{given.get("color", INK)}" stroke-width="{width:g}"{dashed}'


# Edges


class _Route:
    """The route of an edge: a curve, and its ends, which are beyond the curve where there is room for an arrowhead."""

    def __init__(self, edge: Edge, places: Mapping[str, Point]) -> None:
        self._given = edge.attributes
        ends: dict[str, Point] = {}
        self.points: list[Point] = []
        for part in str(self._given.get("pos", "")).split():
            name, comma, rest = part.partition(",")
            if name in ("s", "e"):
                ends[name] = _place(rest)
            elif comma:
                self.points.append(_place(part))
        self._is_straight = not self.points
        if self._is_straight:
            self.points = [places[edge.tail], places[edge.head]]
        self._start = ends.get("s", self.points[0])
        self._end = ends.get("e", self.points[-1])

    def drawn(self) -> Iterator[str]:
        """Yield the elements of the edge."""
        given = self._given
        arrowheads = [(str(given.get("arrowhead", "normal")), self.points[-2], self.points[-1], self._end)]
        if given.get("dir") == "both":
            arrowheads.append((str(given.get("arrowtail", "normal")), self.points[1], self.points[0], self._start))
        yield _opening("edge", given)
        yield f'<path d="{self._path()}" fill="none" {_stroke(given)}/>'
        for kind, before, last, end in arrowheads:
            yield from _arrowhead(kind, last if last != end else before, end, given)
        yield "</g>"

    def _path(self) -> str:
        first, *others = (f"{x:.6g},{y:.6g}" for x, y in self.points)
        return f"M{first}{'L' if self._is_straight else 'C'}{' '.join(others)}"


def _arrowhead(kind: str, before: Point, end: Point, given: Mapping[str, Value]) -> Iterator[str]:
    """Yield the arrowhead at an end: filled (`normal`), open (`vee`), or a bar across (`tee`)."""
    length = hypot(end[0] - before[0], end[1] - before[1])
    if kind == "none" or not length:
        return
    scale = float(given.get("arrowsize", 1))
    x, y = (end[0] - before[0]) / length, (end[1] - before[1]) / length
    color = given.get("color", INK)

    def beside(back: float, side: float) -> str:
        return f"{end[0] - x * back - y * side:.5g},{end[1] - y * back + x * side:.5g}"

    if kind == "tee":
        bar = f"M{beside(1.5, 5 * scale)}L{beside(1.5, -5 * scale)}"
        yield f'<path d="{bar}M{beside(0, 0)}L{beside(length, 0)}" fill="none" stroke="{color}" stroke-width="2"/>'
    elif kind == "vee":
        corners = f"M{beside(9 * scale, 4 * scale)}L{beside(0, 0)}L{beside(9 * scale, -4 * scale)}"
        yield f'<path d="{corners}" fill="none" stroke="{color}"/>'
    else:
        corners = f"M{beside(0, 0)}L{beside(10 * scale, 3.5 * scale)}L{beside(10 * scale, -3.5 * scale)}Z"
        yield f'<path d="{corners}" fill="{color}"/>'
