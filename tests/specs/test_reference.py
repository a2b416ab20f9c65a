"""The reference is itself checked: its counts are pinned and its two definitions agree on every small system."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, permutations, product

import pytest

from toolfold_specs.linearize import Operation, linearizable, witness
from toolfold_specs.reference import Answer, State, System, activate, deactivate, legal, region, step, step_within
from toolfold_specs.systems import forests, numbered_forests, shape, systems
from verification.systems import as_pairs, greatest_consistent_after, legal_states, reachable, wide_systems

SIZES = (1, 2, 3, 4)


def states(*members: int) -> State:
    return frozenset(members)


@cache
def worlds(n: int) -> tuple[tuple[System, tuple[State, ...]], ...]:
    return tuple((system, reachable(system)) for system in systems(n))


def positions(n: int) -> Iterator[tuple[System, State, int]]:
    for system, found in worlds(n):
        for state, group in product(found, system.groups):
            yield system, state, group


# The enumeration


@pytest.mark.parametrize(("n", "count"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 9), (5, 20), (6, 48)])
def test_forests_are_counted_once_per_isomorphism_class(n: int, count: int) -> None:
    found = list(forests(n))
    assert len(found) == count
    assert {shape(parents) for parents in found} == {shape(parents) for parents in numbered_forests(n)}


@pytest.mark.parametrize(("n", "count", "total"), [(1, 1, 2), (2, 3, 10), (3, 15, 77), (4, 151, 1115)])
def test_systems_and_their_reachable_states_have_the_known_counts(n: int, count: int, total: int) -> None:
    assert len(worlds(n)) == len({system for system, _ in worlds(n)}) == count
    assert sum(len(found) for _, found in worlds(n)) == total


@pytest.mark.parametrize(("n", "count"), [(1, 0), (2, 0), (3, 8), (4, 2104)])
def test_exclusion_sets_of_three_or_more_act_as_their_pairs(n: int, count: int) -> None:
    found = list(wide_systems(n))
    assert len(found) == count
    for system in found:
        assert any(len(members) > 2 for members in system.exclusions)
        pairs = as_pairs(system)
        assert [system.excluded(group) for group in system.groups] == [pairs.excluded(group) for group in pairs.groups]
        assert legal_states(system) == legal_states(pairs)


# Values


@pytest.mark.parametrize(
    ("parents", "exclusions"),
    [
        ((0,), ()),
        ((None, 2, None), ()),
        ((None, -1), ()),
        ((None, None), (states(0),)),
        ((None, None), (states(0, 2),)),
        ((None, 0), (states(0, 1),)),
        ((None, 0, 1, None), (states(0, 2, 3),)),
    ],
)
def test_an_ill_formed_system_is_refused(parents: tuple[int | None, ...], exclusions: tuple[State, ...]) -> None:
    with pytest.raises(ValueError, match=r"parent of group|exclusion set"):
        System(parents, exclusions)


def test_paths_and_canonical_order_follow_the_segments() -> None:
    system = System((None, None, 0, 2, 1))
    assert system.paths() == ("g0", "g1", "g0.g2", "g0.g2.g3", "g1.g4")
    assert system.canonical([4, 3, 2, 1, 0, 4]) == (0, 2, 3, 1, 4)
    assert System((None,) * 11).canonical([10, 2, 1]) == (1, 2, 10)


# Activation and deactivation


@pytest.mark.parametrize("n", SIZES)
def test_activate_gives_the_greatest_consistent_state_everywhere(n: int) -> None:
    for system, state, group in positions(n):
        answer = activate(system, state, group)
        expected = greatest_consistent_after(system, state, group)
        assert (answer.kind == "refused") is (expected is None)
        assert answer.state == (state if expected is None else expected)


@pytest.mark.parametrize("n", SIZES)
def test_deactivate_gives_the_greatest_legal_state_without_the_group(n: int) -> None:
    for system, state, group in positions(n):
        below = [other for other in legal_states(system) if other <= state - {group}]
        assert deactivate(system, state, group).state == max(below, key=len)
        assert all(other <= deactivate(system, state, group).state for other in below)


@pytest.mark.parametrize("n", SIZES)
def test_answers_are_legal_and_describe_the_change(n: int) -> None:
    for system, state, group in positions(n):
        entered, left = activate(system, state, group), deactivate(system, state, group)
        for answer in (entered, left):
            assert legal(system, answer.state)
            assert (answer.kind == "changed") is (answer.state != state)
            assert (answer.kind == "refused") is (answer.error is not None)
        before = region(system, state, group)
        assert entered.kind == {"locked": "refused", "inactive": "changed", "active": "unchanged"}[before]
        assert left.kind == ("changed" if before == "active" else "unchanged")
        if entered.kind == "refused":
            missing = [ancestor for ancestor in system.ancestors(group) if ancestor not in state]
            assert (entered.error, entered.detail) == ("ParentInactive", missing[0])


@pytest.mark.parametrize("n", SIZES)
def test_activating_its_ancestors_first_activates_any_group_from_any_state(n: int) -> None:
    for system, state, group in positions(n):
        now = state
        for target in (*system.ancestors(group), group):
            answer = activate(system, now, target)
            assert answer.kind != "refused"
            now = answer.state
        assert group in now


# Transitions


@pytest.mark.parametrize("n", SIZES)
def test_a_transition_of_one_request_is_that_request(n: int) -> None:
    for system, state, group in positions(n):
        assert step(system, state, [group]) == activate(system, state, group)
        assert step(system, state, (), [group]) == deactivate(system, state, group)


@pytest.mark.parametrize("n", SIZES)
def test_a_granted_transition_activates_all_requested_groups_and_a_refused_one_changes_nothing(n: int) -> None:
    for system, found in worlds(n):
        pairs = [pair for size in range(3) for pair in combinations(system.groups, size)]
        for state, activated, deactivated in product(found, pairs, pairs):
            answer = step(system, state, activated, deactivated)
            assert legal(system, answer.state)
            if answer.kind == "refused":
                assert answer.state == state
                assert answer.error in {"ParentInactive", "ExclusionConflict"}
            else:
                assert answer.state >= frozenset(activated)
                assert answer.state.isdisjoint(frozenset(deactivated) - frozenset(activated))
                assert (answer.kind == "changed") is (answer.state != state)


def test_the_order_and_repetition_of_the_requests_do_not_matter() -> None:
    for system, found in worlds(3):
        for state, asked in product(found, permutations(system.groups)):
            expected = step(system, state, sorted(asked))
            assert step(system, state, asked) == step(system, state, asked * 2) == expected
            assert step(system, state, (), asked) == step(system, state, (), sorted(asked))


# Limits


@pytest.mark.parametrize("n", [1, 2, 3])
def test_without_a_limit_only_the_order_matters(n: int) -> None:
    for system, found in worlds(n):
        asked = [some for size in range(n + 1) for some in combinations(system.groups, size)]
        for state, activated, deactivated in product(found, asked, asked):
            order = system.canonical(state)
            plain = step(system, state, activated, deactivated)
            answer = step_within(system, order, activated, deactivated)
            assert (answer.kind, answer.error, answer.detail) == (plain.kind, plain.error, plain.detail)
            assert frozenset(answer.state) == plain.state
            assert len(answer.state) == len(plain.state)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("evict_oldest", [False, True])
def test_a_limited_transition_is_legal_within_the_limit_and_activates_what_it_requests(
    n: int, evict_oldest: bool
) -> None:
    for system, found in worlds(n):
        for state, wanted, pinned, limit in product(found, found, found, range(n + 1)):
            if len(state) > limit:
                continue
            order = system.canonical(state)
            plain = step(system, state, sorted(wanted))
            answer = step_within(system, order, sorted(wanted), limit=limit, evict_oldest=evict_oldest, pinned=pinned)
            after = frozenset(answer.state)
            assert len(after) <= limit
            assert legal(system, after)
            if plain.kind == "refused" or len(plain.state) <= limit:
                assert (answer.kind, answer.error, after) == (plain.kind, plain.error, plain.state)
            elif answer.kind == "refused":
                assert (answer.error, answer.state) == ("QuotaExceeded", order)
            else:
                assert evict_oldest
                assert wanted | (pinned & plain.state) <= after < plain.state


def test_the_limit_applies_to_the_result_of_a_transition_that_activates_a_group() -> None:
    system = System((None, None, None, None), (states(1, 2), states(1, 3)))
    assert step_within(system, (2, 3), [0, 1], limit=2) == Answer("changed", (0, 1))
    assert step_within(system, (2,), [0], [2], limit=1) == Answer("changed", (0,))
    assert step_within(system, (0, 2, 3), [0], [2], limit=1) == Answer("changed", (0, 3))


# Histories


def counter(value: int, request: str) -> tuple[int, int]:
    return (value + 1, value + 1) if request == "increment" else (value, value)


def did(client: str, call: int, ret: int | None, request: str, answer: int | None) -> Operation:
    return Operation(client, call, ret, request, answer)


def fits(order: tuple[Operation, ...]) -> bool:
    """Whether an order respects real time and the answers, by the definition."""
    for earlier, later in combinations(order, 2):
        if later.ret is not None and later.ret < earlier.call:
            return False
    value = 0
    for operation in order:
        value, answer = counter(value, operation.request)
        if operation.ret is not None and answer != operation.answer:
            return False
    return True


def test_the_search_agrees_with_trying_every_order() -> None:
    spans = [((1, 4), (2, 3), (5, 6)), ((1, 3), (2, 5), (4, 6)), ((1, 6), (2, 3), (4, 5)), ((1, 2), (3, 6), (4, 5))]
    verdicts: set[bool] = set()
    kinds, values = product(("increment", "read"), repeat=3), product(range(4), repeat=3)
    for times, requests, answers in product(spans, kinds, values):
        for lost in (None, 0, 1, 2):
            history = [
                did(str(index), call, None if index == lost else ret, requests[index], answers[index])
                for index, (call, ret) in enumerate(times)
            ]
            needed = [operation for operation in history if operation.ret is not None]
            expected = any(fits(order) for pool in (history, needed) for order in permutations(pool))
            found = witness(0, counter, history)
            assert (found is not None) is expected
            assert found is None or fits(found)
            verdicts.add(expected)
    assert verdicts == {True, False}


def test_an_empty_history_and_a_long_one_are_checked_without_recursion() -> None:
    assert witness(0, counter, []) == ()
    assert linearizable(0, counter, [])
    rounds, clients = 60, 6
    history: list[Operation] = []
    for number in range(rounds):
        start = number * 2 * clients
        for client in range(clients):
            answer = number * clients + (client + 3) % clients + 1
            history.append(did(str(client), start + client, start + 2 * clients - 1 - client, "increment", answer))
    order = witness(0, counter, history)
    assert order is not None
    assert [operation.answer for operation in order] == list(range(1, rounds * clients + 1))
