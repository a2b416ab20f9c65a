"""The limit on active groups (SPEC ACT-10), compared with the reference's `step_within`, and by example."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.core.support import World, snapshot_of, subsets, world
from toolfold import ExclusionConflict, Forest, ParentInactive, QuotaExceeded, Snapshot, ToolSet, TransitionRequest
from toolfold._catalog.quota import Cap, Quota
from toolfold.machine import Configuration, Run, restore
from toolfold_specs import reference as model
from toolfold_specs.reference import Answer, Order, System
from toolfold_specs.systems import distinct_systems

FOUR = (
    System((None, 0, 1, None), (frozenset({2, 3}),)),
    System((None, None, None, None), (frozenset({0, 1}), frozenset({2, 3}))),
    System((None, 0, 0, None), (frozenset({1, 2, 3}),)),
)


def at(here: World, order: Order) -> Snapshot:
    """The state after these groups were activated, the oldest first."""
    return snapshot_of(here.catalog, here.named(order))


def order_of(here: World, now: Configuration) -> Order:
    return tuple(here.paths.index(path) for path in now.oldest_first)


def orders(system: System, limit: int, evict_oldest: bool, pinned: frozenset[int]) -> Iterator[Order]:
    """Every order of activation that single requests reach under the limit."""
    found: dict[Order, None] = {(): None}
    frontier: list[Order] = [()]
    while frontier:
        order = frontier.pop()
        yield order
        for group, activates in product(system.groups, (True, False)):
            some, none = [group], list[int]()
            asked = (some, none) if activates else (none, some)
            after = model.step_within(system, order, *asked, limit=limit, evict_oldest=evict_oldest, pinned=pinned)
            if after.state not in found:
                found[after.state] = None
                frontier.append(after.state)


def answer_of(here: World, order: Order, request: TransitionRequest) -> tuple[object, ...]:
    """The answer of the machine and its state then: in order of activation, if that is stored."""
    try:
        planned = at(here, order).plan(request)
    except ParentInactive as error:
        return "refused", "ParentInactive", here.paths.index(error.parent)
    except ExclusionConflict:
        return "refused", "ExclusionConflict", None
    except QuotaExceeded:
        return "refused", "QuotaExceeded", None
    if not planned.changes:
        assert planned.after is planned.before
        return ("unchanged",)
    in_order = here.catalog.evict_oldest
    return "changed", order_of(here, planned.after) if in_order else here.active(planned.after.active)


def expected_answer(answer: Answer[Order], in_order: bool) -> tuple[object, ...]:
    if answer.kind == "refused":
        return "refused", answer.error, answer.detail
    return ("unchanged",) if answer.kind == "unchanged" else ("changed", answer.state if in_order else {*answer.state})


@pytest.mark.spec("ACT-10", "ACT-9")
@pytest.mark.parametrize("evict_oldest", [False, True])
def test_every_request_under_a_limit_is_answered_as_by_the_reference(evict_oldest: bool) -> None:
    answers: set[object] = set()
    for system in (*distinct_systems(2), *distinct_systems(3), *FOUR):
        requests = [*product(subsets(system.groups, 2), subsets(system.groups, 1))]
        for limit in range(1, len(system.groups)):
            for pins in subsets(system.groups, 1 if evict_oldest else 0):
                pinned = frozenset(pins)
                here = world(system, limit, evict_oldest, pinned)
                for order in orders(system, limit, evict_oldest, pinned):
                    for activate, deactivate in requests:
                        expected = model.step_within(
                            system, order, activate, deactivate, limit=limit, evict_oldest=evict_oldest, pinned=pinned
                        )
                        answer = answer_of(here, order, here.request(activate, deactivate))
                        assert answer == expected_answer(expected, evict_oldest)
                        answers.add(answer[:2] if answer[0] == "refused" else answer[0])
    assert {"changed", "unchanged", ("refused", "ParentInactive"), ("refused", "QuotaExceeded")} <= answers


def flat(*groups: str, **settings: Any) -> ToolSet:
    tools = ToolSet("flat", control="none", **settings)
    for path in groups:
        tools.register_group(path, pinned=path == "pinned")
        tools.register(f"{path}.t", lambda: "done")
    return tools


@pytest.mark.spec("ACT-10")
@pytest.mark.parametrize("evict", [None, "oldest"])
def test_a_state_over_the_limit_may_shrink_but_not_grow(evict: str | None) -> None:
    catalog = flat("a", "b", "c", "d", max_active=1, evict=evict).catalog
    over = snapshot_of(catalog, ["a", "b", "c"])
    assert over.after(TransitionRequest((), "a")).active == ("b", "c")
    assert over.after(TransitionRequest("a")) is over
    if evict:
        assert over.after(TransitionRequest("d")).active == ("d",)
    else:
        with pytest.raises(QuotaExceeded):
            over.after(TransitionRequest("d"))


@pytest.mark.spec("ACT-10", "REG-7")
async def test_the_order_of_activation_survives_a_registration() -> None:
    tools = flat("b", "c", "d", max_active=2, evict="oldest")
    async with tools.open_session() as session:
        await session.activate("c")
        await session.activate("b")
        tools.register_group("a")
        await session.activate("d")
        assert session.active == ("b", "d")


@pytest.mark.spec("ACT-10")
def test_a_plan_that_makes_room_is_run_as_the_first_one_was() -> None:
    runs: list[Run] = []

    def run_of(before: Configuration) -> Run:
        runs.append(Run(before))
        return runs[-1]

    forest = Forest.of(["a", "b"], [], ordered=True)
    quota = Quota(Cap("open groups", 1, 0, (1, 1)))
    planned = quota.plan(restore(forest, ["a"]).after, TransitionRequest(["b"]), run_of)
    assert planned.paths == (("b",), ("a",))
    assert len(runs) == 2
