"""Where the boxes and lines of an outline go: rows below one another, indented by level, in columns as on a page.

Graphviz would draw a forest of some hundred groups as a ribbon, and lines between trees would pull them apart. So the
places are worked out here, row by row, and Graphviz only draws. Lengths are in points, and y grows downwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt

from attrs import field, frozen

WIDTH = 216.0
"""The width of a box at root; the right edges of all boxes of a column are in line."""
GUTTER = 26.0
"""Between two columns."""
WIDE_GUTTER = 80.0
"""Between two columns where lines of exclusions are drawn."""
INDENT = 18.0
"""How far a level is indented; less where a forest is so deep that little would be left of the boxes."""
INDENTED = 96.0
"""How far the lowest level may be indented."""
GAP = 6.0
"""Between two rows; twice as much after a tree."""
SHAPE = 1.2
"""The intended width of a picture, as a multiple of its height."""
HEAD = 16.0
"""The height of the line above a column that continues a tree, which names the parent of its first group."""
KNOT = (46.0, 16.0)
"""The size of the box of an exclusion set of more than two."""
KNOT_GUTTER = WIDE_GUTTER + KNOT[0] + 22.0
"""Between two columns where such boxes are: beyond where lines turn, so that none runs behind one."""
TEE = 5.0
"""The length of the end of an exclusion's line."""
LANES = 5


@frozen
class PlacedRow:
    """A row to place: its height, and the index of its parent, an earlier row."""

    height: float
    parent: int | None = None


@frozen
class Box:
    """A rectangle in a column: its left edge and its middle, its size."""

    column: int
    left: float
    middle: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def top(self) -> float:
        """Its upper edge."""
        return self.middle - self.height / 2

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.middle + self.height / 2

    @property
    def attributes(self) -> dict[str, str | float]:
        """The attributes of a node of Graphviz in this place."""
        x, y = self.left + self.width / 2, -self.middle
        return {"pos": f"{x:g},{y:g}", "width": self.width / 72, "height": self.height / 72}


@frozen
class Outline:
    """The places of rows.

    Attributes:
        boxes: One for each row.
        heads: For each column that continues a tree: the parent of its first row, and the box of its head.
        pitch: From the left edge of a column to that of the next one.
    """

    boxes: tuple[Box, ...]
    heads: Mapping[int, tuple[int, Box]]
    pitch: float

    def above(self, row: int, parent: int) -> Box:
        """Return the box from which a row hangs: its parent, or the head of its column."""
        box = self.boxes[parent]
        column = self.boxes[row].column
        if box.column == column:
            return box
        head = self.heads[column][1]
        return Box(column, head.left + WIDTH - box.width, head.middle, box.width, head.height)

    def between(self, one: Box, other: Box, lane: int) -> list[Point]:
        """Return the curve between two boxes of different columns, the left one first, with room for its ends."""
        start, end = _ends(one, other)
        return self.across((start[0] + TEE, start[1]), (end[0] - TEE, end[1]), one.column, other.column, lane)

    def across(self, start: Point, end: Point, column: int, last: int, lane: int = 0) -> list[Point]:
        """Return a curve that runs behind no box of the columns that it passes.

        Args:
            start: Where it begins: beside a box of `column`, or at the right of a knot there.
            end: Where it ends: at the left of a box of the `last` column.
            column: The column beside which it begins.
            last: The column in which it ends.
            lane: Lines through one gap whose numbers differ are apart.
        """
        points = [start]
        for passed in range(column + 1, last + 1):
            (x, y), edge = points[-1], passed * self.pitch
            turned = edge - self.pitch + WIDTH + WIDE_GUTTER
            far, level = (edge + WIDTH, self._gap(passed, y, lane)) if passed < last else end
            turned = min(turned if x < turned else edge, far)
            points += _curve((x, y), (turned, level))[1:]
            if far > turned:
                points += [(turned, level), (far, level), (far, level)]
        return points

    def _gap(self, column: int, wish: float, lane: int) -> float:
        """Return the height at which a line passes a column: in the gap between boxes that is nearest to a wish."""
        boxes = [*(box for box in self.boxes if box.column == column)]
        boxes += [head for _, head in self.heads.values() if head.column == column]
        boxes.sort(key=lambda box: box.top)
        gaps = [boxes[0].top - GAP / 2, *((one.bottom + two.top) / 2 for one, two in pairwise(boxes))]
        gaps.append(boxes[-1].bottom + GAP / 2)
        return min(gaps, key=lambda gap: abs(gap - wish)) + 1.5 * (lane % 3 - 1)


def indent(levels: int) -> float:
    """Return the indentation of each level of a forest with this many levels."""
    return min(INDENT, INDENTED / max(levels - 1, 1))


def outline(rows: Sequence[PlacedRow], step: float, gutter: float = WIDE_GUTTER) -> Outline:
    """Return the places of rows, in as many columns as give the picture the shape of a page.

    Args:
        rows: The rows to place.
        step: The indentation of a level.
        gutter: The space between columns.
    """
    pitch = WIDTH + gutter
    total = sum(row.height + GAP for row in rows)
    count = max(1, round(sqrt(total * SHAPE / pitch)))
    most = total / count
    while True:
        found = _filled(rows, step, pitch, most)
        if found.boxes and found.boxes[-1].column >= count:
            most *= 1.02  # higher columns, rather than one more for the rest
        else:
            return found


def _filled(rows: Sequence[PlacedRow], step: float, pitch: float, most: float) -> Outline:
    """Return the places in columns of about this height at most."""
    levels: list[int] = []
    boxes: list[Box] = []
    heads: dict[int, tuple[int, Box]] = {}
    column, y = 0, 0.0
    for row in rows:
        level = 0 if row.parent is None else levels[row.parent] + 1
        gap = 2 * GAP if levels and levels[-1] > level == 0 else GAP
        levels.append(level)
        if y and y + gap + row.height > most * (1.04 if level else 0.97):  # rather between two trees than within one
            column, y = column + 1, 0.0
            if row.parent is not None:
                heads[column] = row.parent, Box(column, column * pitch, HEAD / 2, WIDTH, HEAD)
                y = HEAD
        y += gap if y else 0
        inset = step * level
        boxes.append(Box(column, column * pitch + inset, y + row.height / 2, WIDTH - inset, row.height))
        y += row.height
    return Outline(tuple(boxes), heads, pitch)


def knots(
    places: Outline, boxes: Sequence[Box], sets: Sequence[Sequence[int]], pairs: Sequence[tuple[int, int]]
) -> list[Box]:
    """Return where the boxes of exclusion sets go: in the gutter, between their members, where nothing else is.

    Args:
        places: The places of all boxes.
        boxes: Those of the groups.
        sets: The members of each set, as indices of `boxes`.
        pairs: The pairs that have lines, which lead past the boxes of sets.
    """
    columns = [_column_of([boxes[member].column for member in members]) for members in sets]
    passed = _Passed(places.pitch)
    for lane, (one, other) in enumerate(pairs):
        if boxes[one].column != boxes[other].column:
            passed.add(places.between(boxes[one], boxes[other], lane))
    wished: list[tuple[int, float, int]] = []
    for number, (column, members) in enumerate(zip(columns, sets, strict=True)):
        beside = [boxes[member].middle for member in members if boxes[member].column in (column, column + 1)]
        wished.append((column, sum(beside) / len(beside), number))
        for box in (boxes[member] for member in members if boxes[member].column < column):
            passed.add(places.across((box.right, box.middle), (column * places.pitch, 0), box.column, column), column)
    width, height = KNOT
    free: dict[int, float] = {}
    placed: dict[int, Box] = {}
    for column, wish, number in sorted(wished):
        middle = passed.below(column, max(wish, free.get(column, wish)), height / 2 + 2)
        free[column] = middle + height + GAP
        knot = Box(column, column * places.pitch + WIDTH + WIDE_GUTTER, middle, width, height)
        for box in (boxes[member] for member in sets[number] if boxes[member].column > column + 1):
            passed.add(places.between(knot, box, 0), column)
        placed[number] = knot
    return [placed[number] for number in range(len(sets))]


@frozen
class _Passed:
    """At which heights lines lead through the gutters between columns, by the number of the column before."""

    pitch: float
    heights: dict[int, set[float]] = field(factory=dict[int, set[float]])

    def add(self, path: Iterable[Point], but: int | None = None) -> None:
        """Note the line of a path, but in one gutter."""
        for x, y in path:
            if (gutter := int(x // self.pitch)) != but:
                self.heights.setdefault(gutter, set()).add(y)

    def below(self, gutter: int, wish: float, room: float) -> float:
        """Return the first height from a wish on that has room above and below it."""
        for height in sorted(self.heights.get(gutter, ())):
            if abs(height - wish) < room:
                wish = height + room
        return wish


def _column_of(columns: Sequence[int]) -> int:
    """Return the column beside which lines to boxes in `columns` cross the fewest others; rather one of them."""

    def crossed(column: int) -> int:
        return sum(column - one if one <= column else one - column - 1 for one in columns)

    either = {*columns, *(column - 1 for column in columns if column)}
    return min(either, key=lambda column: (crossed(column), column not in columns, column))


def elbow(above: Box, box: Box, step: float) -> str:
    """Return the line from a parent down and to its child, as a `pos` of Graphviz."""
    x, y = above.left + step / 2, box.middle
    bend = min(4.0, step / 2)
    top, corner, bent, end = (x, above.bottom), (x, y - bend), (x + bend, y), (box.left, y)
    return _spline([top, top, corner, corner, (x, y), (x, y), bent, bent, end, end])


def bow(places: Outline, one: Box, other: Box, lane: int) -> str:
    """Return the line between two boxes that exclude one another, with room for both its ends, as a `pos`.

    Args:
        places: The places of all boxes.
        one: The box that comes first.
        other: The other one, in the same column or a later one.
        lane: Lines in one column whose numbers differ are apart.
    """
    if one.column == other.column:
        out = 16 + 52 * (lane % LANES) / (LANES - 1)
        start, end = (one.right, one.middle), (other.right, other.middle)
        bend = [(start[0] + out, start[1]), (end[0] + out, end[1])]
        path = [(start[0] + TEE, start[1]), *bend, (end[0] + TEE, end[1])]
    else:
        start, end = _ends(one, other)
        path = places.between(one, other, lane)
    return f"s,{_point(start)} e,{_point(end)} {_spline(path)}"


def tie(places: Outline, member: Box, knot: Box) -> str:
    """Return the line from a member to the box of its exclusion set, with room for an end at the member, as a `pos`."""
    if member.column > knot.column:
        _, start = _ends(knot, member)
        path = places.across((knot.right, knot.middle), (start[0] - TEE, start[1]), knot.column, member.column)[::-1]
    else:
        start, end = (member.right, member.middle), (knot.left, knot.middle)
        path = places.across((start[0] + TEE, start[1]), end, member.column, knot.column + 1)
    return f"s,{_point(start)} {_spline(path)}"


Point = tuple[float, float]


def _ends(left: Box, right: Box) -> tuple[Point, Point]:
    # Lower than the middle of the right one, where the line from its parent ends.
    return (left.right, left.middle), (right.left, right.middle + 5)


def _curve(start: Point, end: Point) -> list[Point]:
    reach = (end[0] - start[0]) / 2
    return [start, (start[0] + reach, start[1]), (end[0] - reach, end[1]), end]


def _spline(points: Sequence[Point]) -> str:
    return " ".join(map(_point, points))


def _point(point: Point) -> str:
    return f"{point[0]:.5g},{-point[1]:.5g}"
