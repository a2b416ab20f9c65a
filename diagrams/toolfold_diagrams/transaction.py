"""The core's own machines: the life cycle of one transaction, and the region of one group (SPEC DIA-1, DIA-2).

Both are drawn from the tables that drive the code, `toolfold.transaction` and `toolfold.machine.TABLE`.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolfold import RegionState
from toolfold.machine import TABLE, Effect, Guard, RegionEvent, Row
from toolfold.machine.transaction import STATES, TRANSITIONS, leaves

from .diagram import Diagram
from .dot import Dot, Label, Line, chip
from .palette import FAINT, FONT, GROUND, INK, LINE, LOOKS, PAPER
from .text import identifier, mermaid, mermaid_lines


def transaction_chart() -> Diagram:
    """Return the life of one transaction: its states, the events that move it, and how it ends.

    SPEC DIA-2.
    """
    return Diagram("the life of one transaction", _transaction_dot(), _transaction_mermaid())


def region_chart() -> Diagram:
    """Return the states of one group and what moves it between them, as `event [guard] / effect`.

    Events that do not change the state stand inside of the state.

    SPEC DIA-2.
    """
    return Diagram("the states of one group", _region_dot(), _region_mermaid())


# The transaction


def _final() -> frozenset[str]:
    return frozenset(STATES) - {leaf for _, source, _ in TRANSITIONS for leaf in leaves(source)}


def _composites() -> Iterator[tuple[str, list[str]]]:
    """Yield each composite state with the states in it, in order, and each other state under `""`."""
    seen: dict[str, list[str]] = {}
    for state in STATES:
        outer, _, _ = state.rpartition(".")
        seen.setdefault(outer or f".{state}", []).append(state)
    for outer, states in seen.items():
        yield ("" if outer.startswith(".") else outer), states


def _name(state: str) -> str:
    return state.rpartition(".")[2].replace("_", " ")


def _event(trigger: str) -> str:
    return trigger.replace("_", " ")


def _transaction_dot() -> str:
    dot = _chart("transaction", "LR")
    for outer, states in _composites():
        if not outer:
            _transaction_state(dot, states[0])
            continue
        look = {"style": "rounded,filled", "fillcolor": GROUND, "color": LINE, "fontcolor": INK}
        with dot.cluster(identifier("state", outer), _name(outer), **look):
            for state in states:
                _transaction_state(dot, state)
    dot.edge("initial", identifier("state", STATES[0]))
    for trigger, source, target in TRANSITIONS:
        # Graphviz draws arrows between nodes: one from a composite state begins at a node in it, and is cut at its box.
        tail = identifier("state", leaves(source)[0])
        box = {"ltail": f"cluster_{identifier('state', source)}"} if source not in STATES else {}
        dot.edge(tail, identifier("state", target), label=chip([_event(trigger)]), **box)
    return dot.text()


def _transaction_state(dot: Dot, state: str) -> None:
    final = 2 if state in _final() else 1
    dot.node(identifier("state", state), _name(state), peripheries=final)


def _transaction_mermaid() -> str:
    lines = ["stateDiagram-v2", "  direction LR", f"  [*] --> {identifier('state', STATES[0])}"]
    for outer, states in _composites():
        indent = "    " if outer else "  "
        named = [f'{indent}state "{mermaid(_name(state))}" as {identifier("state", state)}' for state in states]
        if outer:
            named = [f'  state "{mermaid(_name(outer))}" as {identifier("state", outer)} {{', *named, "  }"]
        lines += named
    for trigger, source, target in TRANSITIONS:
        arrow = f"{identifier('state', source)} --> {identifier('state', target)}"
        lines.append(f"  {arrow} : {mermaid(_event(trigger))}")
    lines += [f"  {identifier('state', state)} --> [*]" for state in STATES if state in _final()]
    return "\n".join(lines) + "\n"


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
