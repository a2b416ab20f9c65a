"""The structure of a catalog: the forest of its groups with the state of each, and what excludes what (SPEC DIA-1).

It is drawn as an outline: a box for each group, indented below its parent and as high as its text, and lines beside the
boxes for exclusions. The places are those of outline.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from toolfold import Catalog, GroupInfo, RegionState, Snapshot

from .diagram import Diagram, Source, described, snapshot_of
from .dot import Dot, Label, Line
from .outline import (
    GUTTER,
    KNOT_GUTTER,
    WIDE_GUTTER,
    WIDTH,
    Box,
    Outline,
    PlacedRow,
    bow,
    elbow,
    indent,
    knots,
    outline,
    tie,
)
from .palette import EXCLUSION, FAINT, FONT, GROUND, INK, LINE, LOOKS
from .svg import placed
from .text import drawable, identifier, mermaid, mermaid_lines, plural, printable, wrapped

FEW = 60
"""Up to this many groups, boxes have whole descriptions; beyond it, one line of each, and none in Mermaid."""
MERMAID_LETTERS = 26
"""The letters of a label that fit on one line in Mermaid."""

MEANINGS = {
    RegionState.ACTIVE: "open",
    RegionState.INACTIVE: "closed",
    RegionState.LOCKED: "locked: a group above it is not open",
}
TITLE_SIZE, TEXT_SIZE = 11, 9
TITLE_LINE, TEXT_LINE, PADDING = 14.0, 11.0, 10.0
TITLE_LETTER, TEXT_LETTER = 6.4, 4.9
"""The average width of a letter in points, in the widest of the fonts."""
TITLE_LINES = TEXT_LINES = 2
MARGIN = 20.0
TOOLTIP = 500
"""The letters of a description in the tooltip of a box."""
TRAIL = 38
"""The letters of the path of a group that continues in the next column."""


def structure(source: Source) -> Diagram:
    """Return the forest of groups with tool counts, exclusions, and the state of each group.

    The state is that of the session or snapshot; for a catalog or a tool set, nothing is active. There is no Mermaid
    form of a catalog that is larger than what Mermaid draws.

    SPEC DIA-1, DIA-3.
    """
    snapshot = snapshot_of(source)
    facts = _Facts.of(snapshot)
    title, about, graph = f"{facts.catalog.name}: structure", described(snapshot), _graph(facts)
    svg = placed(graph, title, about)
    return Diagram(title, graph.text(), drawable(*_mermaid(facts)), svg=svg, description=about)


@frozen
class _Facts:
    """What there is to draw.

    Attributes:
        catalog: The catalog.
        infos: The groups with their states.
        parents: The number of each one's parent.
        below: How many tools there are below each group.
        pairs: The exclusion sets of two, by numbers, in an order independent of registration.
        larger: Those of more than two.
    """

    catalog: Catalog
    infos: tuple[GroupInfo, ...]
    parents: tuple[int | None, ...]
    below: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    larger: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Facts:
        catalog, infos = snapshot.catalog, snapshot.groups
        parents = tuple(None if info.parent is None else catalog.index[info.parent] for info in infos)
        below = [0] * len(infos)
        for number in reversed(range(len(infos))):
            parent = parents[number]
            if parent is not None:
                below[parent] += below[number] + infos[number].tool_count
        sets = sorted({tuple(sorted(catalog.index[path] for path in members)) for members in catalog.exclusions})
        pairs = tuple((members[0], members[1]) for members in sets if len(members) == 2)
        return cls(catalog, infos, parents, tuple(below), pairs, tuple(members for members in sets if len(members) > 2))

    @property
    def levels(self) -> int:
        """How many levels the forest has."""
        return max((info.name.count(".") + 1 for info in self.infos), default=1)

    @property
    def excludes(self) -> bool:
        """Whether there is any exclusion."""
        return bool(self.pairs or self.larger)

    def about(self, number: int) -> str:
        """Return the facts about a group: its name if it has a title, and its contents."""
        info, group = self.infos[number], self.catalog.groups[number]
        segment = info.name.rpartition(".")[2]
        facts = [] if info.display_name == segment else [segment]
        below = self.below[number]
        facts.append(plural(info.tool_count, "tool") + (f" + {below} below" if below else ""))
        if group.has_hooks:
            facts.append("hooks")
        if group.opens_on is not None:
            facts.append(f"opens on {group.opens_on}")
        return " · ".join(facts)

    def at_root(self) -> Iterator[str]:
        """Yield the facts about the catalog, and about the tools at root."""
        own = [component for component in self.catalog.tools.values() if component.control is None]
        yield f"{plural(len(self.infos), 'group')}, {plural(len(own), 'tool')}"
        yield f"{plural(sum(component.group is None for component in own), 'tool')} at root, in no group"
        for component in self.catalog.tools.values():
            if component.control is not None and component.control[0] == "load":
                yield f"{component.name} opens groups"
        if self.catalog.max_active is not None:
            most = f"at most {plural(self.catalog.max_active, 'open group')}"
            yield f"{most}; {self._giving_way()}" if self.catalog.evict_oldest else most
        if self.catalog.list_budget is not None:
            most = f"at most {plural(self.catalog.list_budget.tokens, 'token')} in the list"
            yield f"{most}; {self._giving_way()}" if self.catalog.evict_oldest else most

    def _giving_way(self) -> str:
        return f"the {'least recently used' if self.catalog.evict_by_use else 'oldest'} give way"

    def legend(self) -> Iterator[str]:
        """Yield the meanings of the marks that are in the picture."""
        present = {info.state for info in self.infos}
        for state, meaning in MEANINGS.items():
            if state in present:
                yield f"{LOOKS[state].mark} {meaning}"
        if self.excludes:
            yield "- - - not open together"


def _at_most_one(members: Sequence[int]) -> str:
    return f"≤ 1 of {len(members)}"


# DOT


@frozen
class _Text:
    """The text of a box: a title, and smaller lines below it."""

    title: Sequence[str]
    lines: Sequence[str]
    mark: str = ""

    @property
    def height(self) -> float:
        return PADDING + TITLE_LINE * len(self.title) + TEXT_LINE * len(self.lines)

    def within(self, width: float) -> Label:
        """Return it as a label that fills a box of this width from the left."""
        marks = [self.mark, *("" for _ in self.title)]
        title = [Line(text, bold=True, mark=mark) for text, mark in zip(self.title, marks, strict=False)]
        return Label((*title, *map(_small, self.lines)), align="left", width=width - MARGIN)


def _graph(facts: _Facts) -> Dot:
    step = indent(facts.levels)
    heads = {"root": _Text(*_fitted(WIDTH, facts.catalog.name, facts.at_root()))}
    if facts.infos:
        heads["legend"] = _Text((), tuple(facts.legend()))
    labels = [
        _group_label(facts, number, WIDTH - step * info.name.count(".")) for number, info in enumerate(facts.infos)
    ]
    parents = [None if parent is None else parent + len(heads) for parent in facts.parents]
    rows = [PlacedRow(label.height) for label in heads.values()]
    rows += [PlacedRow(label.height, parent) for label, parent in zip(labels, parents, strict=True)]
    places = outline(rows, step, KNOT_GUTTER if facts.larger else WIDE_GUTTER if facts.pairs else GUTTER)
    boxes = places.boxes[len(heads) :]

    dot = Dot(facts.catalog.name, layout="nop2", outputorder="edgesfirst", bgcolor="transparent", pad=0.15)
    dot.default(
        "node", shape="box", style="rounded,filled", margin=0, fontname=FONT, fontsize=TITLE_SIZE, fontcolor=INK
    )
    dot.default("edge", color=LINE, arrowhead="none", arrowtail="none", arrowsize=0.8)
    for (key, label), box in zip(heads.items(), places.boxes, strict=False):
        _add_note(dot, key, label.within(box.width), box)
    for column, (row, box) in places.heads.items():
        path = facts.infos[row - len(heads)].name
        trail = path if len(path) <= TRAIL else f"…{path[1 - TRAIL :]}"
        _add_note(dot, f"continued_{column}", _Text((), (f"{trail}, continued",)).within(box.width), box)
    for info, label, box in zip(facts.infos, labels, boxes, strict=True):
        _add_group(dot, info, label, box)
    for number, parent in enumerate(parents):
        if parent is not None:
            info, above = facts.infos[number], places.above(number + len(heads), parent)
            key = identifier("parent", info.name)
            dot.edge(info.parent or "", info.name, id=key, class_="parent", pos=elbow(above, boxes[number], step))
    _add_exclusions(dot, facts, places, boxes)
    return dot


def _group_label(facts: _Facts, number: int, width: float) -> _Text:
    info = facts.infos[number]
    lines = 3 if len(facts.infos) <= FEW else 1
    title, facts_ = _fitted(width, info.display_name, [facts.about(number)])
    described = wrapped(info.description, int((width - MARGIN) / TEXT_LETTER), lines)
    return _Text(title, (*facts_, *described), f"{LOOKS[info.state].mark} ")


def _fitted(width: float, title: str, lines: Iterable[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return a title and smaller lines, wrapped to the width of a box."""
    letters = int((width - MARGIN) / TEXT_LETTER)
    pieces = [piece for line in lines for piece in wrapped(line, letters, TEXT_LINES)]
    return wrapped(title, int((width - MARGIN) / TITLE_LETTER) - 2, TITLE_LINES), pieces


def _small(text: str) -> Line:
    return Line(text, size=TEXT_SIZE, color=FAINT)


def _add_note(dot: Dot, key: str, label: Label, box: Box) -> None:
    """Add a box that is no group: its key has a colon, which no path has."""
    dot.node(
        f":{key}",
        label,
        id=key,
        class_=key.partition("_")[0],
        style="filled",
        fillcolor=GROUND,
        color=GROUND,
        **box.attributes,
    )


def _add_group(dot: Dot, info: GroupInfo, label: _Text, box: Box) -> None:
    look = LOOKS[info.state]
    dot.node(
        info.name,
        label.within(box.width),
        id=identifier("group", info.name),
        class_=f"group {info.state.value}",
        tooltip=printable(info.description or info.display_name)[:TOOLTIP],
        style=f"rounded,filled{',dashed' if look.dashed else ''}",
        fillcolor=look.fill,
        color=look.border,
        penwidth=look.width,
        **box.attributes,
    )


def _add_exclusions(dot: Dot, facts: _Facts, places: Outline, boxes: Sequence[Box]) -> None:
    """Add a line for each pair, and for each larger set a box with a line to each member: n lines, not n²."""
    dot.default("edge", style="dashed", color=EXCLUSION, penwidth=1.3, dir="both", constraint="false")
    paths = [info.name for info in facts.infos]
    for lane, (one, other) in enumerate(facts.pairs):
        key = identifier("exclusion", f"{paths[one]}|{paths[other]}")
        place = bow(places, boxes[one], boxes[other], lane)
        dot.edge(paths[one], paths[other], id=key, class_="exclusion", arrowhead="tee", arrowtail="tee", pos=place)
    placed = knots(places, boxes, facts.larger, facts.pairs)
    for number, (members, knot) in enumerate(zip(facts.larger, placed, strict=True), 1):
        key, label = f":exclusion_{number}", Label((_small(_at_most_one(members)),))
        dot.node(key, label, id=key[1:], class_="exclusion", fillcolor=GROUND, color=EXCLUSION, **knot.attributes)
        for member in members:
            place = tie(places, boxes[member], knot)
            dot.edge(paths[member], key, id=f"{key[1:]}_{member}", class_="exclusion", arrowtail="tee", pos=place)


# Mermaid


def _mermaid(facts: _Facts) -> tuple[str, int]:
    """Return the text, and how many edges there are in it."""
    few = len(facts.infos) <= FEW
    ids = [identifier("group", info.name if few else str(number)) for number, info in enumerate(facts.infos)]
    head = mermaid_lines([facts.catalog.name, *facts.at_root(), *facts.legend()])
    lines = ["flowchart LR", f'  root["{head}"]:::note']
    for number, info in enumerate(facts.infos):
        label = wrapped(f"{LOOKS[info.state].mark} {info.display_name}", MERMAID_LETTERS, TITLE_LINES)
        label += [facts.about(number), *wrapped(info.description, MERMAID_LETTERS, 3 if few else 0)]
        lines.append(f'  {ids[number]}["{mermaid_lines(label)}"]:::{info.state.value}')
    children: dict[int, list[str]] = {}
    for number, parent in enumerate(facts.parents):
        if parent is not None:
            children.setdefault(parent, []).append(ids[number])
    lines += [f"  {ids[parent]} --- {' & '.join(below)}" for parent, below in children.items()]
    tree = sum(map(len, children.values()))
    apart = [f"{ids[one]} x-.-x {ids[other]}" for one, other in facts.pairs]
    for number, members in enumerate(facts.larger, 1):
        lines.append(f'  exclusion_{number}(["{mermaid(_at_most_one(members))}"]):::exclusion')
        apart += [f"{ids[member]} x-.- exclusion_{number}" for member in members]
    lines += [f"  {edge}" for edge in apart]
    if apart:
        numbers = ",".join(str(tree + number) for number in range(len(apart)))
        lines.append(f"  linkStyle {numbers} stroke:{EXCLUSION}")
    return "\n".join([*lines, *_classes()]) + "\n", tree + len(apart)


def _classes() -> Iterator[str]:
    for state, look in LOOKS.items():
        line = f"stroke:{look.border},stroke-width:{look.width}px{',stroke-dasharray:4' if look.dashed else ''}"
        yield f"  classDef {state.value} fill:{look.fill},{line},color:{INK}"
    yield f"  classDef note fill:{GROUND},stroke:{GROUND},color:{INK}"
    yield f"  classDef exclusion fill:{GROUND},stroke:{EXCLUSION},color:{INK}"
