"""The core's own machines: the life of one transition, and the region of one group (SPEC DIA-1, DIA-2).

Both are drawn from the tables that drive the code, those of `toolfold.machine.step` and `toolfold.machine.TABLE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from toolfold import RegionState
from toolfold.machine import TABLE, Effect, Guard, RegionEvent, Row
from toolfold.machine.step import CHOICES, EFFECTS, STATES, State
from toolfold.machine.step import TABLE as LIFE

from .diagram import Diagram
from .dot import Dot, Label, Line, chip
from .palette import FAINT, FONT, GROUND, INK, LINE, LOOKS, PAPER
from .text import identifier, mermaid, mermaid_lines


def transaction_chart() -> Diagram:
    """Return the life of one transition: its states with what is done in them, the outcomes that move it, and its ends.

    SPEC DIA-2.
    """
    return Diagram("the life of one transition", _transaction_dot(), _transaction_mermaid())


def region_chart() -> Diagram:
    """Return the states of one group and what moves it between them, as `event [guard] / effect`.

    Events that do not change the state stand inside of the state.

    SPEC DIA-2.
    """
    return Diagram("the states of one group", _region_dot(), _region_mermaid())


# The transition


@frozen
class _Composite:
    """A state with others in it."""

    name: str
    states: tuple[State, ...]


@frozen
class _Arrow:
    """What moves a transition from a state, or from each of those in a composite one, to another."""

    source: str
    target: State
    labels: tuple[str, ...]


_CLUSTER = {"style": "rounded,filled", "color": LINE, "fontcolor": INK}


def _composites() -> tuple[_Composite, ...]:
    """Return the composite states, each before those in it: where something is done, and what has a name with a dot."""
    named = dict.fromkeys(state.partition(".")[0] for state in STATES if "." in state)
    inner = (_Composite(name, tuple(state for state in STATES if state.startswith(f"{name}."))) for name in named)
    return (_Composite("live", (*(state for state in STATES if state in EFFECTS), *CHOICES)), *inner)


def _arrows() -> Iterator[_Arrow]:
    """Yield an arrow from each state to each other that rows lead to.

    What all states in a composite one have in common is an arrow of that one.
    """
    found: dict[tuple[State, State, str], None] = dict.fromkeys(
        (state, row.target, f"{event} [{row.guard}]" if row.guard else event)
        for (state, event), among in LIFE.items()
        for row in among
    )
    for outer in _composites():
        acting = [state for state in outer.states if state in EFFECTS]
        for _, target, label in [key for key in found if key[0] == acting[0]]:
            shared = {(state, target, label) for state in acting}
            if shared <= found.keys():
                found = dict.fromkeys(key for key in found if key not in shared)
                yield _Arrow(outer.name, target, (label,))
    pairs: dict[tuple[State, State], tuple[str, ...]] = {}
    for source, target, label in found:
        pairs[source, target] = (*pairs.get((source, target), ()), label)
    for (source, target), labels in pairs.items():
        yield _Arrow(source, target, labels)
    for choice, among in CHOICES.items():
        yield from (_Arrow(choice, row.target, (f"[{row.guard}]",)) for row in among)


def _name(state: str) -> str:
    return state.rpartition(".")[2].replace("_", " ")


def _final() -> tuple[State, ...]:
    return tuple(state for state in STATES if state not in EFFECTS)


def _parts(states: Iterable[State]) -> Iterator[State | _Composite]:
    """Yield states, with those of a composite one as one of them where its first is."""
    _, *inner = _composites()
    among: dict[State, _Composite] = {state: one for one in inner for state in one.states}
    parts: dict[State | _Composite, None] = dict.fromkeys(among.get(state, state) for state in states)
    yield from parts


def _transaction_dot() -> str:
    dot, (outer, *inner) = _chart("transaction", "LR"), _composites()
    tails = {outer.name: outer.states[-1], **{one.name: one.states[0] for one in inner}}
    with dot.cluster(identifier("state", outer.name), outer.name, fillcolor=GROUND, **_CLUSTER):
        for part in _parts(outer.states):
            if not isinstance(part, _Composite):
                _transaction_state(dot, part)
                continue
            with dot.cluster(identifier("state", part.name), part.name, fillcolor=PAPER, **_CLUSTER):
                for state in part.states:
                    _transaction_state(dot, state)
    for state in _final():
        _transaction_state(dot, state)
    dot.edge("initial", identifier("state", STATES[0]))
    for arrow in _arrows():
        # Graphviz draws arrows between nodes: one from a composite state begins at a node in it, and is cut at its box.
        tail = identifier("state", tails.get(arrow.source, arrow.source))
        box = {"ltail": f"cluster_{identifier('state', arrow.source)}"} if arrow.source in tails else {}
        dot.edge(tail, identifier("state", arrow.target), label=chip(arrow.labels), **box)
    return dot.text()


def _transaction_state(dot: Dot, state: State) -> None:
    key = identifier("state", state)
    if state in CHOICES:
        dot.node(key, "", shape="diamond", style="filled", width=0.25, height=0.25)
    elif state in EFFECTS:
        dot.node(key, _compartments(_name(state), [f"do / {EFFECTS[state]}"]))
    else:
        dot.node(key, _name(state), peripheries=2)


def _transaction_mermaid() -> str:
    outer, *_ = _composites()
    lines = ["stateDiagram-v2", "  direction LR", f'  state "{outer.name}" as {identifier("state", outer.name)} {{']
    for part in _parts(outer.states):
        if not isinstance(part, _Composite):
            lines.append(_mermaid_state(part, "    "))
            continue
        lines.append(f'    state "{part.name}" as {identifier("state", part.name)} {{')
        lines += [*(_mermaid_state(state, "      ") for state in part.states), "    }"]
    lines += ["  }", *(_mermaid_state(state, "  ") for state in _final())]
    lines.append(f"  [*] --> {identifier('state', STATES[0])}")
    for arrow in _arrows():
        between = f"{identifier('state', arrow.source)} --> {identifier('state', arrow.target)}"
        lines.append(f"  {between} : {mermaid_lines(arrow.labels)}")
    return "\n".join([*lines, *(f"  {identifier('state', state)} --> [*]" for state in _final())]) + "\n"


def _mermaid_state(state: State, indent: str) -> str:
    key = identifier("state", state)
    if state in CHOICES:
        return f"{indent}state {key} <<choice>>"
    said = [_name(state), *([f"do / {EFFECTS[state]}"] if state in EFFECTS else [])]
    return f'{indent}state "{mermaid_lines(said)}" as {key}'


# The region of a group


def _rows() -> Iterator[tuple[RegionState, RegionEvent, Row]]:
    for (state, event), rows in TABLE.items():
        for row in rows:
            yield state, event, row


def _label(event: RegionEvent, row: Row) -> list[str]:
    """Return what is written at an arrow, in lines that make one when they are joined."""
    guard = f" [{row.guard.value}]" if row.guard is not Guard.NONE else ""
    actions = [row.effect.value] if row.effect is not Effect.NOTHING else []
    actions += [f"{emission.event.value} to {emission.to.value}" for emission in row.emits]
    after = [f"{action}," for action in actions[:-1]] + actions[-1:]
    return [f"{event.value}{guard}", *(f"{'' if number else '/ '}{action}" for number, action in enumerate(after))]


def _inside(state: RegionState) -> list[str]:
    """Return the events of a state that do not leave it."""
    return [" ".join(_label(event, row)) for source, event, row in _rows() if source is state and row.target is state]


def _between() -> Iterator[tuple[RegionState, RegionState, list[str]]]:
    for state, event, row in _rows():
        if row.target is not state:
            yield state, row.target, _label(event, row)


def _region_dot() -> str:
    dot = _chart("region", "TB")
    for state in RegionState:
        look = LOOKS[state]
        dot.node(
            identifier("state", state.value),
            _compartments(f"{look.mark} {state.value}", _inside(state)),
            fillcolor=look.fill,
            color=look.border,
            penwidth=look.width,
            style="rounded,filled,dashed" if look.dashed else "rounded,filled",
        )
    for initial, guard in _initial():
        dot.edge("initial", identifier("state", initial.value), label=chip([f"[{guard}]"]))
    for tail, head, label in _between():
        dot.edge(identifier("state", tail.value), identifier("state", head.value), label=chip(label))
    return dot.text()


def _initial() -> Iterator[tuple[RegionState, str]]:
    """Yield the initial states, each with its guard: a new region begins as its ancestors are."""
    for row in TABLE[RegionState.LOCKED, RegionEvent.ANCESTOR_ACTIVATED]:
        yield row.target, row.guard.value


def _compartments(title: str, lines: list[str]) -> Label:
    inside = (Line(line, size=9, color=FAINT) for line in lines)
    return Label((Line(title, bold=True), *inside), align="left")


def _region_mermaid() -> str:
    lines = ["stateDiagram-v2", "  direction TB"]
    for state in RegionState:
        label = mermaid_lines([f"{LOOKS[state].mark} {state.value}", *_inside(state)])
        lines.append(f'  state "{label}" as {identifier("state", state.value)}')
    for initial, guard in _initial():
        lines.append(f"  [*] --> {identifier('state', initial.value)} : {mermaid(f'[{guard}]')}")
    for tail, head, texts in _between():
        arrow = f"{identifier('state', tail.value)} --> {identifier('state', head.value)}"
        lines.append(f"  {arrow} : {mermaid_lines(texts)}")
    return "\n".join(lines) + "\n"


def _chart(name: str, direction: str) -> Dot:
    """Return an empty chart: the look of its states and arrows, and the initial dot."""
    dot = Dot(
        name,
        bgcolor="transparent",
        fontname=FONT,
        fontsize=11,
        rankdir=direction,
        compound="true",
        nodesep=0.4,
        ranksep=0.5,
    )
    dot.default("node", shape="box", style="rounded,filled", fillcolor=PAPER, color=LINE, fontcolor=INK)
    dot.default("node", fontname=FONT, fontsize=11, margin="0.14,0.06")
    dot.default("edge", color=LINE, fontcolor=INK, fontname=FONT, fontsize=10, arrowsize=0.7)
    dot.node("initial", "", shape="circle", style="filled", fillcolor=LINE, color=LINE, width=0.16, fixedsize="true")
    return dot
