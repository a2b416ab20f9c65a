"""More of the reference model and the small systems, for proofs and tests: what the kit itself does without."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from toolfold_specs.reference import Order, State, System, activate, deactivate, legal
from toolfold_specs.systems import forests, legal_sets, subsets

MOVES = (activate, deactivate)


def wide_systems(n: int) -> Iterator[System]:
    """Every forest of n groups with every family of legal sets, at least one of which has three members."""
    for parents in forests(n):
        for family in subsets(legal_sets(parents, range(2, n + 1))):
            if any(len(members) > 2 for members in family):
                yield System(parents, family)


def as_pairs(system: System) -> System:
    """The system with every exclusion set replaced by its pairs."""
    pairs = {frozenset(pair) for members in system.exclusions for pair in combinations(sorted(members), 2)}
    return System(system.parents, tuple(sorted(pairs, key=sorted)))


def legal_states(system: System) -> frozenset[State]:
    """All sets of groups that satisfy INV-1 and INV-2."""
    return frozenset(state for chosen in subsets(system.groups) if legal(system, state := frozenset(chosen)))


def reachable(system: System) -> tuple[State, ...]:
    """The states that activations and deactivations reach from the empty one, in order of discovery."""
    found: dict[State, None] = {frozenset(): None}
    frontier: list[State] = [frozenset()]
    while frontier:
        answers = [move(system, state, group) for state in frontier for group in system.groups for move in MOVES]
        frontier = list(dict.fromkeys(answer.state for answer in answers if answer.state not in found))
        found.update(dict.fromkeys(frontier))
    return tuple(found)


def greatest_consistent_after(system: System, state: State, group: int) -> State | None:
    """The greatest legal subset of the state and the group that contains the group; None if there is none.

    This is the definition, evaluated by trying every subset, with which tests compare `activate`.
    """
    pool = state | {group}
    subsets = (frozenset(chosen) for size in range(len(pool) + 1) for chosen in combinations(sorted(pool), size))
    consistent = [subset for subset in subsets if group in subset and legal(system, subset)]
    return next((subset for subset in consistent if all(other <= subset for other in consistent)), None)


def after_use(system: System, order: Order, group: int) -> Order:
    """FND-3: the order after a tool of a group was used: the group and its ancestors are the last to be evicted."""
    used = {group, *system.ancestors(group)} & set(order)
    return tuple(one for one in order if one not in used) + system.canonical(frozenset(used))
