"""What the tests of the statechart share: walks of the core, and runs of the exports by other people's libraries."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, permutations
from random import Random
from typing import Any

from attrs import evolve
from statemachine.io import load

from tests.core.support import FAMILIES, world
from toolfold import Catalog, ParentInactive, Snapshot, ToolSet, TransitionRequest
from toolfold._names import ancestors
from toolfold.machine import Effect, RegionEvent, RegionState
from toolfold.machine.statechart import Region, Statechart, Transition, event_name, to_scxml, to_transitions, to_xstate
from toolfold_specs.reference import System
from toolfold_specs.systems import distinct_systems, legal_sets

Active = frozenset[str]
Move = tuple[RegionEvent, str]
Trace = list[tuple[str, Active]]
Source = Catalog | Statechart
Runner = Callable[[Source, Iterable[str]], Iterator[Active]]

REQUESTS = (RegionEvent.ACTIVATE, RegionEvent.DEACTIVATE)
ODD_NAMES = """
    active active.active active.inactive inactive inactive.active group groups groups.active locked
    a a.activate a.deactivate a.b a.b.c a-b a_b a-b.c a_b.c ab A activate deactivate activate.a
    0 0.0 1 1.1 s1 10 - -.- -- _ __ _.active __proto__ __proto__.__proto__ __class__ __init__
    add add.add _func state states trigger model initial name machine to is_a may_a on In event and or not true null
    constructor constructor.prototype toString hasOwnProperty valueOf then type guard groupActive params id key
    class def None
"""
ODD_SETS = (
    ("active", "inactive", "a"),
    ("a.b", "1", "__proto__.__proto__"),
    ("a.deactivate", "a.activate", "a.b.c"),
    ("a-b", "a_b", "ab"),
    ("add", "add-" + "x" * 60, "constructor.prototype"),
    ("-", "_", "--", "__"),
    ("__proto__", "constructor", "toString"),
    ("active.active", "inactive.active", "groups.active", "_.active"),
    ("_.active", "0.0", "-.-"),
)


# The core


def answered(snapshot: Snapshot, move: Move) -> Snapshot:
    """The snapshot after a request; in a statechart, what is refused changes nothing."""
    request, path = move
    try:
        return snapshot.after(
            TransitionRequest(path) if request is RegionEvent.ACTIVATE else TransitionRequest((), path)
        )
    except ParentInactive:
        return snapshot


def moves(catalog: Catalog) -> list[Move]:
    return [(request, group.path) for group in catalog.groups for request in REQUESTS]


def followed(catalog: Catalog, made: Iterable[Move]) -> Trace:
    """The events of some requests, each with the groups that are active in the core after it."""
    trace: Trace = []
    snapshot = Snapshot.of(catalog)
    for move in made:
        snapshot = answered(snapshot, move)
        trace.append((event_name(*move), frozenset(snapshot.active)))
    return trace


def tour(catalog: Catalog) -> list[Move]:
    """A sequence of requests that makes every request in every reachable state."""
    start = Snapshot.of(catalog)
    edges: dict[Snapshot, dict[Move, Snapshot]] = {}
    found = deque([start])
    while found:
        if (snapshot := found.popleft()) not in edges:
            edges[snapshot] = {move: answered(snapshot, move) for move in moves(catalog)}
            found.extend(edges[snapshot].values())
    left = {(snapshot, move) for snapshot, onward in edges.items() for move in onward}
    made: list[Move] = []
    here = start
    while left:
        for move in _to_one_left(edges, left, here):
            left.discard((here, move))
            made.append(move)
            here = edges[here][move]
    return made


def _to_one_left(
    edges: dict[Snapshot, dict[Move, Snapshot]], left: set[tuple[Snapshot, Move]], here: Snapshot
) -> list[Move]:
    routes: deque[tuple[Snapshot, list[Move]]] = deque([(here, [])])
    seen = {here}
    while routes:
        snapshot, route = routes.popleft()
        for move, after in edges[snapshot].items():
            if (snapshot, move) in left:
                return [*route, move]
            if after not in seen:
                seen.add(after)
                routes.append((after, [*route, move]))
    raise AssertionError("a state can't be reached again")


def wander(catalog: Catalog, seed: int, length: int) -> list[Move]:
    """Random requests; two in three are activations that change something, where there are any."""
    random = Random(seed)
    made: list[Move] = []
    snapshot = Snapshot.of(catalog)
    for _ in range(length):
        activations = [move for move in moves(catalog) if move[0] is RegionEvent.ACTIVATE]
        fruitful = [move for move in activations if answered(snapshot, move) is not snapshot]
        move = random.choice(fruitful if fruitful and random.random() < 0.67 else moves(catalog))
        made.append(move)
        snapshot = answered(snapshot, move)
    return made


def forest(seed: int, size: int = 14) -> Catalog:
    """A random forest with exclusion sets of three members, and groups that exclude both a group and its parent."""
    random = Random(seed)
    parents = tuple(None if not n or random.random() < 0.3 else random.randrange(n) for n in range(size))
    bare, pairs = System(parents), legal_sets(parents, (2,))
    lines = [
        (pair, frozenset((other, above)))
        for pair in pairs
        for member, other in permutations(sorted(pair))
        for above in bare.ancestors(member)[:1]
        if frozenset((other, above)) in pairs
    ]
    chosen = [*random.sample(legal_sets(parents, (3,)), 3), *chain(*random.sample(lines, 4))]
    return world(System(parents, tuple(chosen))).catalog


def odd() -> Catalog:
    """Groups whose legal names are special in some format."""
    tools = ToolSet('an "odd" <name> & more', control="none")
    for path in [*ODD_NAMES.split(), "add-" + "x" * 60]:
        tools.register_group(path)
    for members in ODD_SETS:
        tools.register_exclusion(*members)
    return tools.catalog


def nested_partners() -> Catalog:
    """A group and its child, a and a.b, each of which excludes c, though not the other."""
    tools = ToolSet("nested", control="none")
    for path in ("a", "a.b", "c"):
        tools.register_group(path)
    tools.register_exclusion("a", "c")
    tools.register_exclusion("a.b", "c")
    return tools.catalog


def desk(*, backwards: bool = False) -> Catalog:
    """A small catalog, registered in one order or the reverse."""
    tools = ToolSet("desk", control="none")
    roots, below = ["repo", "chat", "files"], ["repo.prod", "repo.test", "chat.rooms", "files.write"]
    sets = [("repo", "chat"), ("files.write", "repo.prod"), ("repo.test", "chat.rooms", "files.write")]
    for path in [*reversed(roots), *reversed(below)] if backwards else [*roots, *below]:
        tools.register_group(path, f"All about {path}")
    for members in reversed(sets) if backwards else sets:
        tools.register_exclusion(*(reversed(members) if backwards else members))
    return tools.catalog


LARGE = tuple(forest(seed) for seed in range(6))
SMALL = tuple(
    world(system).catalog for family in ("pairs-1", "pairs-2", "pairs-3", "wide-3") for system in FAMILIES[family]
)
FOUR = tuple(world(system).catalog for system in distinct_systems(4))


# The exports


def chart_of(source: Source) -> Statechart:
    """The statechart of a catalog; a statechart is its own."""
    return source if isinstance(source, Statechart) else Statechart.of(source.name, source.forest)


def by_hand(source: Source, events: Iterable[str]) -> Iterator[Active]:
    """Run the description itself."""
    chart = chart_of(source)
    active: Active = frozenset()
    for event in events:
        there = [region.group for region in chart.walk() if active.issuperset(ancestors(region.group))]
        here = {group: RegionState.ACTIVE if group in active else RegionState.INACTIVE for group in there}
        happens = [
            each
            for each in chart.reactions[event]
            if here.get(each.group) is each.source and each.guard in {None, *active}
        ]
        entered = {each.group for each in happens if each.target is RegionState.ACTIVE}
        left = {each.group for each in happens if each.source is RegionState.ACTIVE}
        assert entered == {each.group for each in happens if each.effect is Effect.SET_UP}
        assert left == {each.group for each in happens if each.effect is Effect.TEAR_DOWN}
        active = frozenset(group for group in active | entered if left.isdisjoint({*ancestors(group), group}))
        yield active


def by_transitions(source: Source, events: Iterable[str]) -> Iterator[Active]:
    machine: Any = to_transitions(chart_of(source))
    for event in events:
        machine.trigger(event)
        yield frozenset(path for leaf in leaves(machine.state) for path in active_in(leaf))


def leaves(state: Any) -> Iterator[str]:
    if isinstance(state, str):
        yield state
    else:
        for inner in state:
            yield from leaves(inner)


def active_in(leaf: str) -> Iterator[str]:
    """The groups that are active in a state such as `groups.a.active.b.inactive`: here, `a`."""
    path: list[str] = []
    names = leaf.split(".")[1:]
    for segment, state in zip(names[::2], names[1::2], strict=True):
        path.append(segment)
        if state == RegionState.ACTIVE.value:
            yield ".".join(path)


def by_scxml(source: Source, events: Iterable[str]) -> Iterator[Active]:
    machine = load(to_scxml(chart_of(source)), format="scxml")()
    for event in events:
        machine.send(event)
        here = [str(state) for state in machine.configuration_values]
        yield frozenset(state.removeprefix("active.") for state in here if state.startswith("active."))


RUNNERS: Mapping[str, Runner] = {"description": by_hand, "transitions": by_transitions, "scxml": by_scxml}
"""Functions that run a statechart or one of its exports: they take events and yield the groups active after each."""


def difference(run: Runner, source: Source, trace: Trace) -> tuple[int, str, Active, Active] | None:
    """The first event after which an export and the core differ: its number, name, and the groups active in each."""
    ran = run(source, [event for event, _ in trace])
    for number, ((event, expected), got) in enumerate(zip(trace, ran, strict=True)):
        if got != expected:
            return number, event, expected, got
    return None


# Mutants of statecharts


def mutants(catalog: Catalog, trace: Trace) -> Iterator[Statechart]:
    """The statechart with one transition disabled that could happen, or without its guard."""
    chart = chart_of(catalog)
    for each in arrows(chart):
        if can_happen(each, trace):
            yield replaced(chart, each, evolve(each, guard="never"))
        if each.guard is not None:
            yield replaced(chart, each, evolve(each, guard=None))


def arrows(chart: Statechart) -> list[Transition]:
    return [each for region in chart.walk() for each in region.transitions]


def replaced(chart: Statechart, old: Transition, new: Transition) -> Statechart:
    def of(region: Region) -> Region:
        transitions = tuple(new if each == old else each for each in region.transitions)
        return evolve(region, transitions=transitions, children=tuple(of(child) for child in region.children))

    return evolve(chart, regions=tuple(of(region) for region in chart.regions))


def can_happen(transition: Transition, trace: Trace) -> bool:
    """Whether the trace has a state in which the transition is enabled when its event occurs."""
    group, source = transition.group, transition.source
    before: Active = frozenset()
    for event, after in trace:
        there = before.issuperset(ancestors(group)) and (group in before) is (source is RegionState.ACTIVE)
        if event == transition.event and there and transition.guard in {None, *before}:
            return True
        before = after
    return False


def exported(catalog: Catalog) -> list[str]:
    machine: Any = to_transitions(chart_of(catalog))
    shown = [(each.source, each.dest) for event in machine.events for each in machine.get_transitions(event)]
    return [to_scxml(chart_of(catalog)), json.dumps(to_xstate(chart_of(catalog))), repr(shown), repr(chart_of(catalog))]
