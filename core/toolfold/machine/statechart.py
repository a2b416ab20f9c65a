"""The statechart: a forest as one explicit hierarchical machine, as data, and its exports (SPEC CNF-6, DIA-1, DIA-2).

Each group has an orthogonal region with the states `inactive` and `active`, and the regions of its children are
inside `active`. LOCKED is not a state here: the region of a locked group is not there. So nesting itself does what the
table of `toolfold.machine` says of ANCESTOR_ACTIVATED and ANCESTOR_DEACTIVATED, and the other rows become transitions:

* `activate:<path>` and `deactivate:<path>` are the events. What a region does is looked up in the table.
* `activate:g` displaces, in the regions of g's partners. Of partners below one another only the topmost reacts. It
  takes the others with it; theirs would win over it, as inner transitions do in a statechart, and it would stay.
* That reaction is guarded by "the parent of g is active", unless the region is inside that parent too: otherwise, a
  request that is refused would displace.

What is refused, changes nothing. A transition of several groups (SPEC ACT-9) has no counterpart, nor has a quota
(ACT-10), of which a forest knows nothing.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from transitions import EventData
from transitions.extensions.nesting import HierarchicalMachine, NestedState

from .._names import SEPARATOR, split_name
from .._values import frozen
from .forest import Forest, bits
from .table import Effect, Guard, RegionEvent, RegionState, Row, rows


def _row(state: RegionState, event: RegionEvent) -> Row:
    """Return the row for a region that is there: all ancestors of its group are active."""
    return next(row for row in rows(state, event) if row.guard in (Guard.NONE, Guard.ANCESTORS_ACTIVE))


STATES = tuple(state for state in RegionState if state is not RegionState.LOCKED)
"""The states of a region that is there."""

INITIAL = _row(RegionState.LOCKED, RegionEvent.ANCESTOR_ACTIVATED).target
"""The initial state of a region."""

ROOT = "groups"
"""What holds the regions of the groups at root, where a format needs a name for it."""


def event_name(request: RegionEvent, path: str) -> str:
    """Return the name of the event that asks for ACTIVATE or DEACTIVATE of a group, such as `activate:web:search`.

    Without dots it is one token: an SCXML processor takes `deactivate.web` to match `deactivate.web.search` too.
    """
    return f"{request.value}:{path.replace(SEPARATOR, ':')}"


@frozen
class Transition:
    """An arrow in the region of `group`: on `event`, while the group `guard` is active, from `source` to `target`.

    `cause` and `effect` are those of the row of the machine's table that it comes from.
    """

    group: str
    event: str
    source: RegionState
    target: RegionState
    cause: RegionEvent
    effect: Effect
    guard: str | None = None


@frozen
class Region:
    """The region of a group, and inside its state ACTIVE those of its children."""

    group: str
    transitions: tuple[Transition, ...]
    children: tuple[Region, ...] = ()

    @property
    def segment(self) -> str:
        """The last segment of the path."""
        return split_name(self.group)[1]

    def inside(self, state: RegionState) -> tuple[Region, ...]:
        """Return the regions inside one of the states."""
        return self.children if state is RegionState.ACTIVE else ()

    def transitions_from(self, state: RegionState) -> tuple[Transition, ...]:
        """Return the transitions out of one of the states."""
        return tuple(transition for transition in self.transitions if transition.source is state)

    def walk(self) -> Iterator[Region]:
        """Yield this region and those inside of it, in canonical order."""
        yield self
        for child in self.children:
            yield from child.walk()


@frozen
class Statechart:
    """A forest as a statechart: the regions at root, in canonical order."""

    name: str
    regions: tuple[Region, ...]

    @classmethod
    def of(cls, name: str, forest: Forest) -> Statechart:
        """Return the statechart of a forest, called `name` (SPEC DIA-2)."""
        children: dict[str | None, list[int]] = {}
        for number, path in enumerate(forest.paths):
            children.setdefault(split_name(path)[0] or None, []).append(number)

        def below(parent: str | None) -> tuple[Region, ...]:
            inside = [(number, forest.paths[number]) for number in children.get(parent, [])]
            return tuple(Region(path, tuple(_transitions(forest, number)), below(path)) for number, path in inside)

        return cls(name, below(None))

    def walk(self) -> Iterator[Region]:
        """Yield all regions in canonical order."""
        for region in self.regions:
            yield from region.walk()

    @cached_property
    def reactions(self) -> Mapping[str, tuple[Transition, ...]]:
        """What each event may do: its transitions in all regions, which happen as one."""
        found: dict[str, list[Transition]] = {}
        for region in self.walk():
            for transition in region.transitions:
                found.setdefault(transition.event, []).append(transition)
        return MappingProxyType({event: tuple(transitions) for event, transitions in found.items()})


def _transitions(forest: Forest, number: int) -> Iterator[Transition]:
    """Yield what the table says for a region that is there, so for one whose ancestors are all active."""
    for cause, asked in _deliveries(forest, number):
        request = RegionEvent.ACTIVATE if cause is RegionEvent.DISPLACED else cause
        for state in STATES:
            row = _row(state, cause)
            if row.target is not state:
                yield Transition(
                    forest.paths[number],
                    event_name(request, forest.paths[asked]),
                    state,
                    row.target,
                    cause,
                    row.effect,
                    _guard(forest, number, asked),
                )


def _deliveries(forest: Forest, number: int) -> Iterator[tuple[RegionEvent, int]]:
    """Yield the events of a region, each with the group that is asked for."""
    yield RegionEvent.ACTIVATE, number
    yield RegionEvent.DEACTIVATE, number
    for partner in bits(forest.partners[number]):
        if not forest.ancestors[number] & forest.partners[partner]:
            yield RegionEvent.DISPLACED, partner


def _guard(forest: Forest, number: int, asked: int) -> str | None:
    """Return the group that must be active for the request to be granted, unless it is while the region is there."""
    parent = split_name(forest.paths[asked])[0]
    if not parent or forest.ancestors[number] >> forest.index[parent] & 1:
        return None
    return parent


# transitions


class _DottedState(NestedState):
    separator = SEPARATOR


class _Machine(HierarchicalMachine):
    """A machine of `transitions` with two methods corrected."""

    state_cls = _DottedState

    def _check_event_result(self, res: bool | None, model: object, trigger: str) -> bool:
        # The original takes a nested list of states for one path, and raises for an event that has no effect.
        if trigger not in self.events:
            raise AttributeError(f"Do not know event named '{trigger}'.")
        return bool(res)

    def _add_model_to_state(self, state: object, model: object) -> None:
        # The original gives the model methods named after the states, where a group named "add" hides the one it needs.
        pass


def to_transitions(chart: Statechart) -> HierarchicalMachine:
    """Return the statechart as a machine of the library `transitions`, which is its own model (SPEC CNF-6).

    Group `a.b` is active in the state `groups.a.active.b.active`: ask `is_state(name, machine, allow_substates=True)`.
    `machine.trigger(event)` returns whether something changed; see `event_name`. Don't rename its states
    or extend it. A session needs none of this; it is for study, and for checks against another implementation.
    """
    machine = _Machine(
        name=chart.name,
        states=[_state(ROOT, chart.regions)],
        initial=ROOT,
        auto_transitions=False,
        send_event=True,
    )
    for transitions in chart.reactions.values():
        for each in transitions:
            machine.add_transition(
                each.event,
                _nested_name(each.group, each.source),
                _nested_name(each.group, each.target),
                conditions=[] if each.guard is None else [_is_active(each.guard)],
            )
    return machine


def _state(name: str, regions: tuple[Region, ...]) -> dict[str, Any]:
    return {"name": name, "parallel": [_region(region) for region in regions]}


def _region(region: Region) -> dict[str, Any]:
    children = [_state(state.value, region.inside(state)) for state in STATES]
    return {"name": region.segment, "initial": INITIAL.value, "children": children}


def _nested_name(path: str, state: RegionState) -> str:
    within = path.replace(SEPARATOR, f"{SEPARATOR}{RegionState.ACTIVE.value}{SEPARATOR}")
    return SEPARATOR.join((ROOT, within, state.value))


def _is_active(path: str) -> Callable[[EventData], bool]:
    name = _nested_name(path, RegionState.ACTIVE)

    def condition(event: EventData) -> bool:
        machine = event.machine
        assert isinstance(machine, HierarchicalMachine)
        return machine.is_state(name, event.model, allow_substates=True)

    return condition


# SCXML


def to_scxml(chart: Statechart) -> str:
    """Return the statechart as an SCXML document with the null data model (SPEC DIA-1).

    Its states are `group.<path>`, `inactive.<path>` and `active.<path>`; for the events see `event_name`.
    """
    document = ET.Element("scxml", xmlns="http://www.w3.org/2005/07/scxml", version="1.0", datamodel="null")
    _add_regions(ET.SubElement(document, "parallel", id=ROOT), chart.regions)
    ET.indent(document)
    return ET.tostring(document, encoding="unicode") + "\n"


def _add_regions(parent: ET.Element, regions: tuple[Region, ...]) -> None:
    for region in regions:
        initial = _scxml_id(INITIAL, region.group)
        element = ET.SubElement(parent, "state", id=f"group.{region.group}", initial=initial)
        for state in STATES:
            inside = region.inside(state)
            kind = "parallel" if inside else "state"
            inner = ET.SubElement(element, kind, id=_scxml_id(state, region.group))
            for each in region.transitions_from(state):
                cond = {} if each.guard is None else {"cond": f"In('{_scxml_id(RegionState.ACTIVE, each.guard)}')"}
                target = _scxml_id(each.target, region.group)
                ET.SubElement(inner, "transition", {"event": each.event, **cond, "target": target})
            _add_regions(inner, inside)


def _scxml_id(state: RegionState, path: str) -> str:
    # The state comes first because a path may begin with a digit or a hyphen, and an XML id may not.
    return f"{state.value}.{path}"


# XState


XSTATE_MODULE = """\
import { createMachine } from "xstate";
import { stateIn } from "xstate/guards";

// A custom guard does not receive the state of the machine, so XState's own guard takes its place.
const revive = (key, value) => (value?.type === "groupActive" ? stateIn(value.params.state) : value);

export const toMachine = (json) => createMachine(JSON.parse(json, revive));
"""
"""A JavaScript module whose `toMachine` makes a machine of XState 5 from the JSON text of what `to_xstate` returns."""


def to_xstate(chart: Statechart) -> dict[str, Any]:
    """Return the statechart as a machine configuration of XState 5, ready for `json.dumps` (SPEC DIA-1).

    Group `a.b` is active while `{"a": {"active": {"b": "active"}}}` matches; for the events see `event_name`. JSON
    can't carry the code of a guard: `XSTATE_MODULE` gives `groupActive` its meaning.
    """
    return {"id": chart.name, **_parallel(chart.regions)}


def _parallel(regions: tuple[Region, ...]) -> dict[str, Any]:
    return {"type": "parallel", "states": {_key(region.segment): _xstate_region(region) for region in regions}}


def _xstate_region(region: Region) -> dict[str, Any]:
    states: dict[str, Any] = {}
    for state in STATES:
        inside = region.inside(state)
        on = {each.event: _xstate_transition(each) for each in region.transitions_from(state)}
        states[state.value] = {"on": on, **(_parallel(inside) if inside else {})}
    return {"initial": INITIAL.value, "states": states}


def _xstate_transition(transition: Transition) -> dict[str, Any]:
    if transition.guard is None:
        return {"target": transition.target.value}
    params = {"group": transition.guard, "state": _state_value(transition.guard)}
    return {"target": transition.target.value, "guard": {"type": "groupActive", "params": params}}


def _state_value(path: str) -> Any:
    value: Any = RegionState.ACTIVE.value
    for segment in reversed(path.split(SEPARATOR)):
        value = {_key(segment): value if value == RegionState.ACTIVE.value else {RegionState.ACTIVE.value: value}}
    return value


def _key(segment: str) -> str:
    # The one legal segment that JavaScript can't hold as the key of an object; no segment has a colon.
    return f"{segment}:" if segment == "__proto__" else segment
