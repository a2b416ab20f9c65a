"""The token budget of a list: refused, evicted by age, or by use (SPEC FND-3, FND-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import anyio
import pytest

from tests.core.support import subsets
from toolfold import (
    ConfigError,
    ExclusionConflict,
    Forest,
    ListBudget,
    ParentInactive,
    QuotaExceeded,
    Session,
    ToolSet,
    TransitionRequest,
    Visibility,
)
from toolfold._catalog.quota import Cap, Quota
from toolfold.machine import Configuration, Interpreter, restore, use
from toolfold_specs import reference as model
from toolfold_specs.reference import Order, System
from toolfold_specs.systems import distinct_systems
from verification.systems import after_use

# -- the machine, compared with the reference -------------------------------------------------------------------------


def result_of(quota: Quota, before: Configuration, request: TransitionRequest, **run: Any) -> tuple[object, ...]:
    try:
        planned = quota.plan(before, request, **run)
    except (ParentInactive, ExclusionConflict, QuotaExceeded) as error:
        return "refused", type(error).__name__
    return ("changed", planned.after.order) if planned.changes else ("unchanged",)


def forest_of(system: System, *, ordered: bool = True) -> tuple[Forest, list[int]]:
    """Return a system as a forest, and the number that each of its groups has there."""
    paths = system.paths()
    exclusions = [[paths[member] for member in members] for members in system.exclusions]
    forest = Forest.of(paths, exclusions, ordered=ordered)
    return forest, [forest.index[path] for path in paths]


WEIGHTS: Mapping[int, Iterable[tuple[int, ...]]] = {
    2: [*product((0, 1, 2, 3), repeat=2)],
    3: [(1, 1, 1), (0, 1, 2), (3, 1, 0)],
}


@pytest.mark.spec("FND-3", "ACT-10", "ACT-11")
@pytest.mark.parametrize(("groups", "limit"), [(2, None), (3, None), (3, 2)])
def test_every_transition_under_a_weight_is_answered_as_by_the_reference(groups: int, limit: int | None) -> None:
    answers: set[object] = set()
    for system in distinct_systems(groups):
        paths, orders = system.paths(), orders_of(system)
        forest, numbers = forest_of(system)
        asked = [*product(subsets(system.groups, 2), subsets(system.groups, 1))]
        requests = [TransitionRequest(*([paths[one] for one in some] for some in each)) for each in asked]
        for weights, pinned in product(WEIGHTS[groups], subsets(system.groups, 1)):
            by_number = tuple(weight for _, weight in sorted(zip(numbers, weights, strict=True)))
            count = None if limit is None else Cap("open groups", limit, 0, (1,) * groups)
            length = Cap("tokens in the list", 5 + 2, 5, by_number)
            quota = Quota(count, length, forest.mask(paths[one] for one in pinned))
            limits: dict[str, Any] = {"limit": limit, "pinned": frozenset(pinned), "weights": weights, "room": 2}
            for order in orders:
                before = restore(forest, [paths[group] for group in order]).after
                for groups_asked, request in zip(asked, requests, strict=True):
                    expected = model.step_within(system, order, *groups_asked, evict_oldest=True, **limits)
                    answer = result_of(quota, before, request)
                    if groups == 2:
                        assert answer == result_of(quota, before, request, run_of=Interpreter)
                    if expected.kind == "changed":
                        assert answer == ("changed", tuple(numbers[group] for group in expected.state))
                    else:
                        assert answer == (("refused", expected.error) if expected.error else ("unchanged",))
                    answers.add(answer[0] if answer[0] != "refused" else answer)
    assert {"changed", "unchanged", ("refused", "QuotaExceeded")} <= answers


def orders_of(system: System) -> list[Order]:
    """Return every order of activation that single requests reach without a limit."""
    found: dict[Order, None] = {(): None}
    frontier: list[Order] = [()]
    while frontier:
        order = frontier.pop()
        for group in system.groups:
            after = model.step_within(system, order, [group]).state
            if after not in found:
                found[after] = None
                frontier.append(after)
    return list(found)


@pytest.mark.spec("FND-3")
def test_a_use_moves_a_group_and_what_it_is_in_to_the_end_of_the_order() -> None:
    for system in distinct_systems(3):
        forest, numbers = forest_of(system)
        plain, _ = forest_of(system, ordered=False)
        for order, group in product(orders_of(system), system.groups):
            path = system.paths()[group]
            before = restore(forest, [system.paths()[one] for one in order]).after
            expected = after_use(system, order, group) if group in order else order
            if group not in order and not set(system.ancestors(group)) & set(order):
                assert use(before, [path]) is before
            if group in order:
                assert use(before, [path]).order == tuple(numbers[one] for one in expected)
            assert use(before, [path]).active == before.active
            unordered = restore(plain, [system.paths()[one] for one in order]).after
            assert use(unordered, [path, "unknown"]) is unordered


# -- sessions ---------------------------------------------------------------------------------------------------------


def stored(definition: Mapping[str, Any]) -> int:
    """Measure a definition by what its description says: tests then show what is counted."""
    return int(str(definition["description"]).split()[-1])


def shelf(tokens: int = 100, *, pinned: str = "", **options: Any) -> ToolSet:
    """A tool set with a tool of 10 tokens in no group, and groups of 40 tokens each, but for one of 20."""
    tools = ToolSet("shelf", control="none", list_budget=ListBudget(tokens, stored), **options)
    tools.register("root", lambda: "ok", description="costs 10")
    for group, cost in (("a", 40), ("b", 40), ("c", 40), ("small", 20), ("a.inner", 40)):
        tools.register_group(group, pinned=group == pinned)
        tools.register("t", lambda: "ok", description=f"costs {cost}", group=group)
    tools.register_group("empty")
    return tools


@pytest.mark.spec("FND-3")
async def test_a_transition_that_would_exceed_the_budget_is_refused_and_changes_nothing() -> None:
    async with shelf().open_session(active=["a", "b"]) as session:
        before = session.snapshot
        with pytest.raises(QuotaExceeded, match=r"100 tokens in the list is reached: close a group .* 'c'"):
            await session.activate("c")
        assert session.snapshot is before
        assert await session.activate("empty")
        await session.transition(activate=["c"], deactivate=["a"])
        assert session.active == ("b", "c", "empty")


@pytest.mark.spec("FND-3", "ACT-10")
@pytest.mark.parametrize(("evict", "left"), [("oldest", ("b", "c")), ("idlest", ("a", "c"))])
async def test_the_oldest_or_the_least_recently_used_group_makes_room(evict: Any, left: tuple[str, ...]) -> None:
    async with shelf(evict=evict).open_session() as session:
        await session.activate("a")
        await session.activate("b")
        await session.call("a.t")
        change = await session.transition(activate=["c"])
        assert session.active == left
        assert change.deactivated == tuple({"a", "b"} - set(left))
        assert change.list_changed


@pytest.mark.spec("FND-3")
async def test_using_a_tool_counts_as_use_of_the_groups_around_it_and_of_no_other() -> None:
    async with shelf(130, evict="idlest").open_session() as session:
        for path in ("a", "a.inner", "b"):
            await session.activate(path)
        await session.call("a.inner.t")
        await session.call("root")
        await session.activate("c")
        assert session.active == ("a", "a.inner", "c")


@pytest.mark.spec("FND-3", "FND-4")
async def test_neither_pinned_groups_nor_those_that_would_not_help_are_evicted() -> None:
    async with shelf(evict="idlest", pinned="small").open_session(active=["empty"]) as session:
        await session.activate("b")
        await session.activate("c")
        assert session.active == ("c", "empty", "small")
        with pytest.raises(QuotaExceeded):
            await session.transition(activate=["a", "b"])
        assert session.active == ("c", "empty", "small")


@pytest.mark.spec("FND-4")
async def test_a_pinned_tool_is_listed_whatever_is_open_and_counts_from_the_beginning() -> None:
    tools = shelf(evict="idlest")
    tools.register("pin", lambda: "ok", description="costs 50", group="a", always=True)
    async with tools.open_session() as session:
        for path in ("a", "b"):
            assert {"root", "a.pin"} <= set(session.list_tools().names)
            await session.activate(path)
        assert {"root", "a.pin"} <= set(session.list_tools().names)
        assert session.active == ("b",), "there is room for one group beside the pinned tool"


@pytest.mark.spec("FND-3", "LST-5")
async def test_each_definition_is_measured_once_however_often_the_catalog_changes() -> None:
    measured: list[str] = []

    def counting(definition: Mapping[str, Any]) -> int:
        measured.append(str(definition["name"]))
        return 1

    tools = ToolSet("t", list_budget=ListBudget(100, counting))
    tools.register_group("g")
    async with tools.open_session() as one, tools.open_session() as other:
        for number in range(3):
            tools.register(f"t{number}", lambda: "ok", group="g")
            await one.activate("g")
            await other.activate("g")
            one.list_tools()
    assert sorted(measured) == ["g.activate", "g.deactivate", "g.t0", "g.t1", "g.t2"]


@pytest.mark.spec("FND-3", "PER-1", "SES-7")
async def test_the_order_of_use_outlives_the_session() -> None:
    tools = shelf(evict="idlest")
    async with tools.open_session() as session:
        await session.activate("a")
        await session.activate("b")
        await session.call("a.t")
        dumped = session.dump()
        async with session.fork() as child, tools.restore_session(dumped) as restored:
            for copy in (child, restored):
                await copy.activate("c")
                assert copy.active == ("a", "c")


@pytest.mark.spec("FND-3", "SES-1")
async def test_a_use_in_one_session_spares_nothing_in_another() -> None:
    tools = shelf(evict="idlest")
    async with tools.open_session() as one, tools.open_session() as other:
        for session in (one, other):
            await session.activate("a")
            await session.activate("b")
        await one.call("a.t")
        await other.activate("c")
        assert other.active == ("b", "c")


@pytest.mark.spec("FND-3", "LST-5", "NTF-1")
async def test_a_use_changes_no_list_and_notifies_nobody() -> None:
    async with shelf(evict="idlest").open_session() as session:
        await session.activate("a")
        await session.activate("b")
        before, notified = session.list_tools(), list[frozenset[str]]()
        session.on_list_changed(notified.append)
        await session.call("a.t")
        assert session.list_tools() == before
        assert notified == []


async def when_hook_runs(act: Callable[[Session], Any]) -> tuple[str, ...]:
    """Return what is active after `act` was done while a hook of an activation ran."""
    running, go_on = anyio.Event(), anyio.Event()

    async def wait() -> None:
        running.set()
        await go_on.wait()

    tools = shelf(evict="idlest", hook_timeout=None)
    tools.register_group("slow", on_activate=wait)
    async with tools.open_session() as session:
        async with anyio.create_task_group() as group:
            await session.activate("a")
            await session.activate("b")
            group.start_soon(session.activate, "slow")
            await running.wait()
            await act(session)
            go_on.set()
            await session.activate("c")
        return session.active


@pytest.mark.spec("FND-3", "CALL-4")
async def test_a_use_while_hooks_run_counts_once_they_are_done() -> None:
    async def call(session: Session) -> None:
        await session.call("a.t")

    assert await when_hook_runs(call) == ("a", "c", "slow")


@pytest.mark.spec("FND-3")
async def test_tools_with_predicates_and_of_several_groups_count_in_full() -> None:
    tools = shelf(60)
    never = Visibility.when(lambda view: False)
    tools.register("rare", lambda: "ok", description="costs 15", visibility=Visibility.group("small") & never)
    async with tools.open_session() as session:
        await session.activate("small")
        with pytest.raises(QuotaExceeded):
            await session.activate("b")
    async with tools.open_session() as session:
        assert await session.activate("b")


@pytest.mark.spec("FND-3")
@pytest.mark.parametrize("tokens", [0, -1, True, 1.5, "many"])
def test_a_budget_is_a_whole_number(tokens: Any) -> None:
    with pytest.raises(ConfigError, match=f"must be a whole number of at least 1, not {tokens!r}"):
        ListBudget(tokens, stored)


@pytest.mark.spec("FND-3")
def test_a_budget_needs_a_measure_and_a_tool_set_a_budget() -> None:
    measure: Any = None
    with pytest.raises(ConfigError, match=r"needs a measure, such as toolfold_adapters\.tokens\.approximate_tokens"):
        ListBudget(8_000, measure)
    tokens: Any = 8_000
    with pytest.raises(ConfigError, match="list_budget must be a ListBudget, not 8000"):
        ToolSet("t", list_budget=tokens)
