"""The transition table of a region, whole, and what the walks through all small systems leave of SPEC 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.support import Journal, desk, snapshot_of
from toolfold import (
    DuplicateName,
    ExclusionConflict,
    GroupNotFound,
    IllegalEvent,
    InvalidName,
    Profile,
    QuotaExceeded,
    ToolSet,
    TransitionRequest,
    plan,
)
from toolfold.machine import (
    TABLE,
    Configuration,
    Effect,
    Forest,
    Guard,
    Interpreter,
    RegionEvent,
    RegionState,
    Row,
    Run,
    close,
    rows,
)
from toolfold.machine.compiled import compile_table
from toolfold.machine.table import Table

INACTIVE, ACTIVE = RegionState.INACTIVE, RegionState.ACTIVE


def at(tools: ToolSet, *active: str) -> Configuration:
    return snapshot_of(tools.catalog, active).configuration


# The table


@pytest.mark.spec("ACT-11")
def test_a_pair_without_a_row_in_the_table_is_refused_with_state_and_event() -> None:
    with pytest.raises(IllegalEvent) as raised:
        rows(ACTIVE, RegionEvent.ANCESTOR_ACTIVATED)
    assert (raised.value.state, raised.value.event) == ("active", "ancestor activated")
    assert str(raised.value) == "Event 'ancestor activated' can't happen in state 'active'."


@pytest.mark.spec("ACT-11")
def test_the_rows_of_a_pair_are_exhaustive_and_exclusive() -> None:
    complete = [
        [Guard.NONE],
        [Guard.ANCESTORS_ACTIVE, Guard.ANCESTOR_INACTIVE],
        [Guard.PARTNERS_INACTIVE, Guard.PARTNER_ACTIVE],
    ]
    assert all([row.guard for row in alternatives] in complete for alternatives in TABLE.values())


@pytest.mark.spec("ACT-11", "HOOK-3")
def test_a_group_is_set_up_and_torn_down_exactly_where_it_becomes_active_or_inactive() -> None:
    for (state, _), alternatives in TABLE.items():
        for row in alternatives:
            assert (row.effect is Effect.SET_UP) is (state is not ACTIVE and row.target is ACTIVE)
            assert (row.effect is Effect.TEAR_DOWN) is (state is ACTIVE and row.target is not ACTIVE)
            assert row.effect is not Effect.REFUSE or row.target is state


@pytest.mark.spec("ACT-11")
@pytest.mark.parametrize(
    "run_of",
    [Interpreter, lambda before, table: Run(before, compile_table(table))],
    ids=["interpreter", "compiled"],
)
def test_an_event_of_which_no_row_holds_is_refused(run_of: Callable[[Configuration, Table], Any]) -> None:
    only_with_a_partner = {
        **TABLE,
        (INACTIVE, RegionEvent.ACTIVATE): (Row(ACTIVE, guard=Guard.PARTNER_ACTIVE),),
    }
    run = run_of(Configuration.initial(Forest.of(["a", "b"], [["a", "b"]])), only_with_a_partner)
    with pytest.raises(IllegalEvent, match="'activate' can't happen in state 'inactive'"):
        run.send(RegionEvent.ACTIVATE, 0)


def test_the_machine_can_be_used_without_tools() -> None:
    flags = Forest.of(["search", "search.fuzzy", "light", "dark"], [["light", "dark"]])
    first = plan(Configuration.initial(flags), TransitionRequest(["search", "dark"])).after
    assert first.paths == ("dark", "search")
    assert plan(first, TransitionRequest("light")).paths == (("light",), ("dark",))


@pytest.mark.spec("REG-2", "REG-3")
def test_a_forest_needs_its_parents_and_refuses_exclusions_that_no_state_could_satisfy() -> None:
    with pytest.raises(GroupNotFound):
        Forest.of(["a.b"])
    with pytest.raises(ExclusionConflict):
        Forest.of(["a", "a.b"], [["a", "a.b"]])
    with pytest.raises(GroupNotFound):
        Forest.of(["a", "c"], [["a", "b"]])
    with pytest.raises(ExclusionConflict, match="two or more different groups, and not: 'ab'"):
        Forest.of(["a", "b"], ["ab"])
    with pytest.raises(ExclusionConflict, match="two or more different groups, and not: 'a', 'a'"):
        Forest.of(["a", "b"], [["a", "a"]])


@pytest.mark.spec("NAM-1", "REG-4")
def test_a_forest_has_each_group_once_under_a_valid_name_and_a_text_is_one_group() -> None:
    assert Forest.of("abc").paths == ("abc",)
    with pytest.raises(DuplicateName, match="'a'"):
        Forest.of(["a", "b", "a"])
    for wrong in ("a b", "a..b", 5):
        with pytest.raises(InvalidName):
            Forest.of([wrong])  # type: ignore[list-item]


@pytest.mark.spec("ERR-2")
async def test_what_is_no_group_or_no_request_is_refused_with_what_to_write() -> None:
    several: Any = ["a", "b"]
    async with desk().open_session() as session:
        for change in (session.activate, session.deactivate):
            with pytest.raises(GroupNotFound, match=r"named by a text; transition\(activate=\[…\]\) changes several"):
                await change(several)
        with pytest.raises(GroupNotFound, match="named by a text"):
            session.is_active(several)
    with pytest.raises(TypeError, match=r"a TransitionRequest\(activate=\[…\], .*not of \['a', 'b'\]"):
        plan(Configuration.initial(Forest.of(["a", "b"])), several)


def test_the_repr_of_a_configuration_has_its_active_groups() -> None:
    flags = Forest.of(["search", "light", "dark"])
    first = Configuration.initial(flags)
    assert repr(first) == "<Configuration: no group active of 3>"
    assert repr(plan(first, TransitionRequest(["dark", "search"])).after) == "<Configuration: dark, search active of 3>"


# Requests


@pytest.mark.spec("ACT-10", "ERR-2")
def test_a_transition_over_the_limit_is_refused_with_the_names_of_all_requested_groups() -> None:
    with pytest.raises(QuotaExceeded) as raised:
        snapshot_of(desk(max_active=1).catalog, ()).plan(TransitionRequest(("c", "a")))
    assert str(raised.value) == ("The limit of 1 open groups is reached: close a group before you open 'a', 'c'.")


@pytest.mark.spec("ACT-9", "HOOK-1")
async def test_applying_a_profile_is_one_transition() -> None:
    journal = Journal()
    tools = desk(journal)
    profile = Profile(name="work", active=("a.x", "a", "c"), available="*")
    notified: list[object] = []
    tools.observe(notified.append)
    async with tools.open_session(profile) as session:
        assert session.active == ("a", "a.x", "c")
        assert journal.take() == ["+a", "+a.x", "+c"]
        assert [type(event).__name__ for event in notified] == ["SessionOpened", "Committed"]


@pytest.mark.spec("ACT-9")
def test_a_single_text_is_one_group_and_not_its_letters() -> None:
    assert TransitionRequest("ab", "cd") == TransitionRequest(("ab",), ("cd",))


@pytest.mark.spec("ACT-6", "SES-5")
def test_a_transition_does_not_change_the_facts() -> None:
    snapshot = snapshot_of(desk().catalog, ["a"], {"f": 1})
    assert snapshot.after(TransitionRequest("b")).facts == {"f": 1}


def test_a_plan_has_the_activated_and_deactivated_groups_in_canonical_order() -> None:
    tools = desk()
    planned = plan(at(tools, "a", "a.y", "a.x"), TransitionRequest(("b.z", "b")))
    assert planned.paths == (("b", "b.z"), ("a", "a.x", "a.y"))
    assert planned.changes
    ended = close(at(tools, "a", "a.x", "c"))
    assert ended.paths == ((), ("a", "a.x", "c"))
    assert ended.after is Configuration.initial(tools.catalog.forest)
    assert not plan(at(tools, "a"), TransitionRequest("a")).changes
