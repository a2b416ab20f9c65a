"""The statechart of a catalog, drawn from the data that is exported too (SPEC DIA-1, DIA-2).

The signs are those of UML: a dashed box for the region of each group, a filled dot where it begins, arrows with
`event [guard] / action`, and the regions of children inside of `active`. The region of a locked group does not exist in
that state, so it is drawn faintly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from attrs import frozen

from toolfold import Catalog, ConfigError, RegionState, Snapshot
from toolfold.machine import Effect
from toolfold.machine.statechart import INITIAL, STATES, Region, Statechart, Transition, to_scxml, to_xstate

from .diagram import Diagram, Source, described, snapshot_of
from .dot import Dot, Value
from .palette import FAINT, FONT, GROUND, INK, LINE, LOOKS
from .text import drawable, identifier, mermaid, mermaid_lines, plural, printable, wrapped

LIMIT = 15
LETTERS = 60
"""The letters of a label on one line."""
HERE = "#e3e8ed"
"""The ground of `inactive` where that is the current state: faint, for every region has one."""


def statechart(source: Source, *, limit: int = LIMIT) -> Diagram:
    """Return the catalog as a statechart, with its exports to SCXML and XState.

    The state of a session or a snapshot is highlighted. A catalog that limits its active groups is drawn with a
    note, and has no exports.

    SPEC DIA-1, DIA-3.

    Args:
        source: What to draw.
        limit: The greatest number of groups; more make an unreadable picture.

    Raises:
        ConfigError: There are more groups.
    """
    snapshot = snapshot_of(source)
    catalog = snapshot.catalog
    if len(catalog.groups) > limit:
        raise ConfigError(
            f"{catalog.name!r} has {len(catalog.groups)} groups, and a statechart of more than {limit} can't be read: "
            "draw the structure view, or raise the limit."
        )
    chart = Statechart.of(catalog.name, catalog.forest)
    view = _View(snapshot, chart)
    mermaid_text = drawable(_mermaid(view), sum(len(region.transitions) for region in chart.walk()))
    exports = {} if unexpressed(catalog) else {name: export(chart) for name, export in EXPORTS.items()}
    about = described(snapshot)
    return Diagram(f"{catalog.name}: statechart", _dot(view), mermaid_text, description=about, **exports)


def _xstate(chart: Statechart) -> str:
    return json.dumps(to_xstate(chart), indent=2, ensure_ascii=False) + "\n"


EXPORTS: Mapping[str, Callable[[Statechart], str]] = MappingProxyType({"scxml": to_scxml, "xstate": _xstate})
"""The exports, for any number of groups."""


def exported(catalog: Catalog, form: str) -> str:
    """Return the statechart of a catalog in the format of another tool; raises `ConfigError` if that can't say all."""
    if left := unexpressed(catalog):
        raise ConfigError(left[0])
    return EXPORTS[form](Statechart.of(catalog.name, catalog.forest))


def unexpressed(catalog: Catalog) -> list[str]:
    """Return what regions can't express of a catalog: its quotas, of which the machine knows nothing."""
    left: list[str] = []
    if catalog.list_budget is not None:
        left.append(
            f"{catalog.name!r} has a budget for its list, which a statechart of regions can't express: export the same "
            "groups without list_budget."
        )
    if _limit(catalog) is not None:
        left.append(
            f"{catalog.name!r} limits its active groups to {catalog.max_active}, which a statechart of regions can't "
            "express: export the same groups without max_active."
        )
    return left


def _limit(catalog: Catalog) -> int | None:
    """Return how many groups may be active at once, if there are more."""
    return most if (most := catalog.max_active) is not None and most < len(catalog.groups) else None


@frozen
class _View:
    """What there is to draw."""

    snapshot: Snapshot
    chart: Statechart

    @property
    def catalog(self) -> Catalog:
        return self.snapshot.catalog

    def state(self, region: Region) -> RegionState:
        """Return the state of a group."""
        return self.snapshot.configuration.state(self.catalog.index[region.group])

    def title(self, region: Region) -> str:
        """Return the title of a region; a mark shows that it is locked."""
        name = self.catalog.group(region.group).display_name
        named = name if name == region.segment else f"{name} ({region.segment})"
        return f"{LOOKS[RegionState.LOCKED].mark} {named}" if self.state(region) is RegionState.LOCKED else named

    def name(self, region: Region, state: RegionState) -> str:
        """Return the title of one of its states; a mark shows that it is the current one."""
        return f"{LOOKS[state].mark} {state.value}" if self.state(region) is state else state.value

    def arrows(self, region: Region) -> dict[tuple[RegionState, RegionState], list[str]]:
        """Return the arrows between the states of a region, each with its labels: `event [guard] / action`."""
        found: dict[tuple[RegionState, RegionState], list[str]] = {}
        for each in region.transitions:
            found.setdefault((each.source, each.target), []).append(transition_label(self.catalog, each))
        return found

    def note(self) -> str | None:
        """Return what the regions can't express."""
        limits: list[str] = []
        if (most := _limit(self.catalog)) is not None:
            limits.append(f"At most {plural(most, 'group')} may be active at once")
        if (budget := self.catalog.list_budget) is not None:
            limits.append(f"The list may have at most {plural(budget.tokens, 'token')}")
        if not limits:
            return None
        first = "least recently used" if self.catalog.evict_by_use else "oldest"
        oldest = f"; beyond it the {first} give way" if self.catalog.evict_oldest else ""
        return f"{'. '.join(limits)}{oldest}. Regions can't express that."


def transition_label(catalog: Catalog, each: Transition) -> str:
    """Return what is written at an arrow between two states: `event [guard] / action`."""
    group = catalog.group(each.group)
    hook, name = {
        Effect.SET_UP: (group.on_activate, "on_activate"),
        Effect.TEAR_DOWN: (group.on_deactivate, "on_deactivate"),
    }.get(each.effect, (None, ""))
    guard = f" [{each.guard} active]" if each.guard else ""
    return f"{each.event}{guard} / {each.effect.value}{f', {name}()' if hook else ''}"


# DOT


def _dot(view: _View) -> str:
    dot = Dot(
        view.catalog.name, rankdir="LR", compound="true", bgcolor="transparent", nodesep=0.3, ranksep=0.45, pad=0.15
    )
    dot.default("graph", fontname=FONT, fontsize=12, fontcolor=INK, labeljust="l")
    dot.default("node", shape="box", style="rounded,filled", margin="0.14,0.06", height=0.3)
    dot.default(
        "node", fontname=FONT, fontsize=11, fontcolor=INK, fillcolor=LOOKS[RegionState.INACTIVE].fill, color=LINE
    )
    dot.default("edge", fontname=FONT, fontsize=9, fontcolor=INK, color=FAINT, arrowsize=0.7)
    if note := view.note():
        label = "\n".join(wrapped(note, lines=5))
        dot.node(":note", label, id="note", class_="note", shape="note", style="filled", fillcolor=GROUND, fontsize=9)
    if not view.chart.regions:
        dot.node(":empty", "no groups", id="empty", class_="note", style="filled", fillcolor=GROUND)
    for region in reversed(view.chart.regions):  # Graphviz stacks boxes from below
        _add_region(dot, view, region)
    return dot.text()


def _add_region(dot: Dot, view: _View, region: Region) -> None:
    absent = view.state(region) is RegionState.LOCKED
    border = LOOKS[RegionState.LOCKED].border if absent else LINE
    key = identifier("region", region.group)
    look: dict[str, Value] = {"style": "rounded,dashed,filled", "fillcolor": GROUND, "color": border}
    with dot.cluster(
        key, "\n".join(wrapped(view.title(region))), id=key, class_=f"region {view.state(region).value}", **look
    ):
        start = identifier("initial", region.group)
        dot.node(start, "", id=start, shape="circle", width=0.12, height=0.12, margin=0, fillcolor=border, color=border)
        for state in STATES:
            _add_state(dot, view, region, state)
        dot.edge(start, identifier(INITIAL.value, region.group), id=f"{start}_edge", class_="initial")
        for (source, target), labels in view.arrows(region).items():
            _add_arrow(dot, region, source, target, labels)


def _add_state(dot: Dot, view: _View, region: Region, state: RegionState) -> None:
    here = view.state(region) is state
    look: dict[str, Value] = {}
    if here:
        look = {"fillcolor": LOOKS[state].fill if state is RegionState.ACTIVE else HERE, "color": LOOKS[state].border}
        look["penwidth"] = LOOKS[state].width
    key = identifier(state.value, region.group)
    kind = f"state {'current' if here else ''}".strip()
    inside = region.inside(state)
    if not inside:
        dot.node(key, view.name(region, state), id=key, class_=kind, **look)
        return
    look = {"fillcolor": LOOKS[RegionState.INACTIVE].fill, "color": LINE, **look}
    with dot.cluster(key, view.name(region, state), id=key, class_=kind, style="rounded,filled", **look):
        # An edge can't end at a cluster: it ends at this point and is cut off at the border.
        dot.node(key, "", shape="point", style="invis", width=0.01, height=0.01)
        for child in reversed(inside):
            _add_region(dot, view, child)
            dot.edge(key, identifier("initial", child.group), style="invis", weight=0)


def _add_arrow(dot: Dot, region: Region, source: RegionState, target: RegionState, labels: list[str]) -> None:
    tail, head = (identifier(state.value, region.group) for state in (source, target))
    ends: dict[str, Value] = {}
    if region.inside(source):
        ends["ltail"] = f"cluster_{tail}"
    if region.inside(target):
        ends["lhead"] = f"cluster_{head}"
    text = "\n".join(f"  {line}  " for label in labels for line in wrapped(label, LETTERS))
    dot.edge(tail, head, label=text, id=f"{tail}_to_{target.value}", class_="transition", **ends)


# Mermaid


def _mermaid(view: _View) -> str:
    """Return the text for Mermaid. There, regions inside of `active` are beside it, with a note.

    Mermaid 11 fails at arrows to a state that has regions, so `active` has none.
    """
    lines = ["stateDiagram-v2", "  direction LR"]
    note = view.note() or ("" if view.chart.regions else "no groups")
    if note:
        lines += [f'  state "{mermaid(note)}" as remark', "  class remark aside"]
    for region in view.chart.regions:
        lines += (f"  {line}" for line in _mermaid_region(view, region))
    for region in view.chart.walk():
        state = view.state(region)
        if state is not RegionState.LOCKED:
            lines.append(f"  class {identifier(state.value, region.group)} {state.value}")
    active, inactive = LOOKS[RegionState.ACTIVE], LOOKS[RegionState.INACTIVE]
    lines += [
        f"  classDef active fill:{active.fill},stroke:{active.border},stroke-width:{active.width}px,color:{INK}",
        f"  classDef inactive fill:{HERE},stroke:{inactive.border},color:{INK}",
        f"  classDef aside fill:{GROUND},stroke:{GROUND},color:{INK}",
    ]
    return "\n".join(lines) + "\n"


def _mermaid_region(view: _View, region: Region, above: str = "") -> Iterator[str]:
    where = f", inside of {above}" if above else ""
    yield f'state "{mermaid(printable(view.title(region) + where))}" as {identifier("region", region.group)} {{'
    yield "  direction LR"
    own = _mermaid_states(view, region)
    if region.children:
        # In a box of their own: Mermaid draws the regions beside them over their arrows.
        yield f'  state "this group" as {identifier("own", region.group)} {{'
        yield "    direction LR"
        own = (f"  {line}" for line in own)
    yield from (f"  {line}" for line in own)
    if region.children:
        yield "  }"
    for child in region.children:
        yield from (f"  {line}" for line in _mermaid_region(view, child, f"active {region.segment}"))
    yield "}"


def _mermaid_states(view: _View, region: Region) -> Iterator[str]:
    ids: dict[RegionState, str] = {state: identifier(state.value, region.group) for state in STATES}
    for state, key in ids.items():
        yield f'state "{view.name(region, state)}" as {key}'
    yield f"[*] --> {ids[INITIAL]}"
    for (source, target), labels in view.arrows(region).items():
        yield f"{ids[source]} --> {ids[target]} : {mermaid_lines(labels)}"
