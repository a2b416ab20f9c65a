"""Where the parts of a sequence diagram go, and the picture in DOT: Graphviz only draws, since it has no such layout.

A message's text stands above its arrow, in the space to the right of the left one of its two lifelines. The space
between two lifelines is as wide as the texts in it need. Lengths are in points, y grows downwards.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

from attrs import define, field, frozen

from toolfold import RegionState

from .dot import Dot, Label, Line, Value
from .interaction import Bar, Interaction, Lifeline, Look, Message, Note, Role
from .palette import FAINT, FONT, GROUND, INK, LINE, LOOKS, PAPER, REFUSED
from .text import printable, wrapped

SIZE, LINE_HEIGHT, CHAR = 10, 12.5, 5.6
"""The size of texts, the height of a line, and the width of an average letter in the widest of the fonts."""
TEXT, NAME = 34, 22
"""The letters of a line of a message or note, and of one of a lifeline's name."""
LINES = 6
MARGIN = 10.0
BAR = 8.0
"""The width of a bar; one that begins during another is shifted to the right by half of it."""
LOOP = 22.0
"""The reach of an arrow from a lifeline to itself."""
SPACE = 36.0
"""Twice the least space between the heads of two lifelines."""


@frozen
class _Style:
    """How a message looks."""

    color: str = LINE
    line: str = "solid"
    arrow: str = "normal"


_MESSAGES: Mapping[Look, _Style] = MappingProxyType(
    {
        Look.CALL: _Style(),
        Look.REPLY: _Style(line="dashed", arrow="vee"),
        Look.SIGNAL: _Style(arrow="vee"),
        Look.FAILED: _Style(REFUSED, "dashed", "vee"),
    }
)
_ACTIVE = LOOKS[RegionState.ACTIVE]
_NOTES: Mapping[Look, Mapping[str, Value]] = MappingProxyType(
    {
        Look.PLAIN: {"fillcolor": GROUND, "color": LINE, "style": "filled"},
        Look.DONE: {"fillcolor": _ACTIVE.fill, "color": _ACTIVE.border, "style": "filled", "penwidth": 1.5},
        Look.FAILED: {"fillcolor": PAPER, "color": REFUSED, "style": "filled,dashed", "penwidth": 1.5},
    }
)


def drawn(interaction: Interaction, name: str) -> Dot:
    """Return a sequence diagram, all of whose parts have places."""
    dot = Dot(printable(name), layout="nop", splines="line", outputorder="edgesfirst", bgcolor="transparent", pad=0.15)
    dot.default("node", shape="box", fontname=FONT, fontsize=SIZE, fontcolor=INK, margin=0)
    dot.default("edge", color=LINE, arrowsize=0.7)
    layout = _Layout(dot, interaction, _columns(interaction))
    layout.heads()
    for number in range(len(interaction.rows)):
        layout.row(number)
    layout.finish()
    return dot


@frozen
class _Box:
    """Lines of text, and their size."""

    lines: tuple[str, ...]

    @property
    def width(self) -> float:
        return max((sum(map(_units, line)) for line in self.lines), default=0) * CHAR

    @property
    def height(self) -> float:
        return len(self.lines) * LINE_HEIGHT


def _units(char: str) -> int:
    return 2 if char in "WM@%" or unicodedata.east_asian_width(char) in "WF" else 1


def _text(row: Message | Note) -> _Box:
    return _Box(tuple(wrapped(row.text, TEXT, LINES)))


def _head(line: Lifeline) -> _Box:
    return _Box((line.role.value, *wrapped(line.name, NAME, LINES)))


def _columns(interaction: Interaction) -> dict[Lifeline, float]:
    """Return where each lifeline is: as far from the one before as the texts between them need."""
    order = {line: number for number, line in enumerate(interaction.lifelines)}
    half = [_head(line).width / 2 + MARGIN for line in interaction.lifelines]
    gaps = [left + right + SPACE / 2 for left, right in pairwise(half)]
    for row in interaction.rows:
        if isinstance(row, Message):
            left, right = sorted((order[row.tail], order[row.head]))
            needed = {left: _text(row).width + 3 * MARGIN + (LOOP if left == right else 0.0)}
        elif isinstance(row, Note):
            side = _text(row).width / 2 + 2 * MARGIN
            needed = {order[row.over] - 1: side, order[row.over]: side}
        else:
            continue
        for gap, width in needed.items():
            if 0 <= gap < len(gaps):
                gaps[gap] = max(gaps[gap], width)
    places = [0.0]
    for space in gaps:
        places.append(places[-1] + space)
    return dict(zip(interaction.lifelines, places, strict=True))


@define
class _Layout:
    """Places rows from top to bottom, and adds them to the picture."""

    dot: Dot
    interaction: Interaction
    columns: dict[Lifeline, float]
    y: float = 0
    _bars: dict[Lifeline, dict[str, tuple[int, float]]] = field(factory=dict[Lifeline, dict[str, tuple[int, float]]])
    _notes: list[Callable[[], None]] = field(factory=list[Callable[[], None]])

    @property
    def _end(self) -> float:
        """The end of the last row: its arrow, or the lower edge of its note."""
        return self.y - MARGIN

    def heads(self) -> None:
        """Draw the heads of the lifelines."""
        boxes = {line: _head(line) for line in self.interaction.lifelines}
        height = max(box.height for box in boxes.values()) + MARGIN
        for number, (line, box) in enumerate(boxes.items()):
            role, *name = box.lines
            label = Label((Line(role, size=8, color=FAINT), *(Line(piece, bold=True) for piece in name)))
            look = {"style": "filled,rounded" if line.role in (Role.CALLER, Role.LISTENERS) else "filled"}
            width = box.width + 2 * MARGIN
            key = f"head_{number}"
            self._box(key, label, self.columns[line], height / 2, width, height, fillcolor=GROUND, color=LINE, **look)
        self.y = height + MARGIN

    def finish(self) -> None:
        """Draw the notes over the bars that they cover, and the lifelines down to the last row."""
        for note in self._notes:
            note()
        for number, line in enumerate(self.interaction.lifelines):
            self._point(f"foot_{number}", self.columns[line], self.y + MARGIN)
            self.dot.edge(f"head_{number}", f"foot_{number}", style="dashed", arrowhead="none", penwidth=0.8)

    def row(self, number: int) -> None:
        """Draw a row below the others; bars begin and end at the arrow before them."""
        row, key = self.interaction.rows[number], f"row_{number}"
        match row:
            case Message():
                opening, start = self._opening(number), self._side(row.tail, right=True)
                if opening is not None:  # taken before the arrow is drawn, which ends at the bar's side
                    self._bars.setdefault(opening.on, {})[opening.key] = (self._free(opening.on), 0)
                if row.tail == row.head:
                    self._loop(key, row, start)
                else:
                    self._message(key, row)
                if opening is not None:
                    self._bars[opening.on][opening.key] = (self._bars[opening.on][opening.key][0], self._end)
            case Note():
                self._note(key, row)
            case Bar(begins=False):
                self._bar(key, row)
            case _:
                pass

    def _opening(self, number: int) -> Bar | None:
        """Return the bar that begins with a message."""
        following = self.interaction.rows[number + 1 : number + 2]
        return next((row for row in following if isinstance(row, Bar) and row.begins), None)

    def _free(self, line: Lifeline) -> int:
        taken = {slot for slot, _ in self._bars.get(line, {}).values()}
        return next(slot for slot in range(len(taken) + 1) if slot not in taken)

    def _message(self, key: str, row: Message) -> None:
        box = _text(row)
        rightwards = self.columns[row.tail] < self.columns[row.head]
        left, right = (row.tail, row.head) if rightwards else (row.head, row.tail)
        start, end = self._side(left, right=True), self._side(right, right=False)
        self._label(key, box, start + MARGIN)
        self.y += box.height + 4
        self._point(f"{key}_left", start, self.y)
        self._point(f"{key}_right", end, self.y)
        ends = ("left", "right") if rightwards else ("right", "left")
        self._edge(f"{key}_{ends[0]}", f"{key}_{ends[1]}", row.look)
        self.y += MARGIN

    def _loop(self, key: str, row: Message, start: float) -> None:
        box = _text(row)
        end = self._side(row.head, right=True)
        height = max(box.height, LINE_HEIGHT)
        self._label(key, box, end + LOOP + MARGIN / 2)
        corners = [(start, self.y), (end + LOOP, self.y), (end + LOOP, self.y + height), (end, self.y + height)]
        for corner, (x, y) in enumerate(corners):
            self._point(f"{key}_{corner}", x, y)
        for corner in range(2):
            self._edge(f"{key}_{corner}", f"{key}_{corner + 1}", row.look, pointed=False)
        self._edge(f"{key}_2", f"{key}_3", row.look)
        self.y += height
        self.y += MARGIN

    def _note(self, key: str, row: Note) -> None:
        box = _text(row)
        height = box.height + 6
        x, middle = self.columns[row.over], self.y + height / 2
        label = Label(tuple(map(Line, box.lines)))
        look = _NOTES[row.look]
        self._notes.append(lambda: self._box(key, label, x, middle, box.width + 2 * MARGIN, height, **look))
        self.y += height + MARGIN

    def _bar(self, key: str, row: Bar) -> None:
        slot, begin = self._bars[row.on].pop(row.key)
        height = max(self._end - begin, BAR)
        x = self.columns[row.on] + slot * BAR / 2
        self._box(key, "", x, begin + height / 2, BAR, height, fillcolor=GROUND, color=LINE, style="filled")

    def _side(self, line: Lifeline, *, right: bool) -> float:
        """Return where arrows meet a lifeline: at the side of the bars that are on it."""
        slots = [slot for slot, _ in self._bars.get(line, {}).values()]
        if not slots:
            return self.columns[line]
        return self.columns[line] + ((max(slots) + 1) * BAR / 2 if right else (min(slots) - 1) * BAR / 2)

    def _label(self, key: str, box: _Box, left: float) -> None:
        if not box.lines:
            return
        label = Label(tuple(map(Line, box.lines)), align="left", width=box.width, background=GROUND)
        x, y = left + box.width / 2, self.y + box.height / 2
        self._box(key, label, x, y, box.width, box.height, shape="plain")

    def _edge(self, tail: str, head: str, look: Look, *, pointed: bool = True) -> None:
        style = _MESSAGES[look]
        self.dot.edge(tail, head, color=style.color, style=style.line, arrowhead=style.arrow if pointed else "none")

    def _point(self, key: str, x: float, y: float) -> None:
        self.dot.node(key, "", shape="point", style="invis", width=0.01, pos=f"{x:g},{-y:g}")

    def _box(
        self, key: str, label: str | Label, x: float, y: float, width: float, height: float, **attributes: Value
    ) -> None:
        size = {"width": round(width / 72, 4), "height": round(height / 72, 4)}
        self.dot.node(key, label, pos=f"{x:g},{-y:g}", **size, **attributes)
