"""Pinned groups and tools: always listed, never evicted (SPEC FND-4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.searching import by_shared_words
from tests.core.support import answer
from toolfold import (
    ExclusionConflict,
    InvalidDefinition,
    ListBudget,
    Profile,
    QuotaExceeded,
    Session,
    ToolSet,
    success_of,
)

pytestmark = pytest.mark.spec("FND-4")


def desk(**options: Any) -> ToolSet:
    """A pinned group in a pinned one, two other groups, and a tool that is always listed at root and in one of them."""
    tools = ToolSet("desk", **{"control": "open_group", **options})
    tools.register("hello", answer)
    for group in ("base", "base.more", "a", "b"):
        tools.register_group(group, pinned=group.startswith("base"))
        tools.register("use", answer, group=group, description=f"use {group}")
    tools.register("always", answer, group="a", always=True)
    return tools


PINNED = ["a.always", "base.more.use", "base.use", "hello"]


def listed(session: Session) -> list[str]:
    return [one.name for one in session.list_tools().tools if one.control is None]


async def test_every_session_begins_with_the_pinned_groups_open() -> None:
    tools = desk()
    assert [one.name for one in tools.list_tools().tools if one.control is None] == PINNED, "the default session too"
    async with tools.open_session() as session, tools.open_session(active=["a"]) as other:
        assert session.active == ("base", "base.more")
        assert listed(session) == PINNED
        assert not (await session.call("base.more.use")).is_error
        assert other.active == ("a", "base", "base.more")
        assert session.fork().active == session.active


async def test_no_client_closes_a_pinned_group() -> None:
    async with desk().open_session() as session:
        assert "- base" not in session.catalog.tools["open_group"].description, "there is nothing to open"
        for group in ("base", "base.more"):
            assert (await session.call("close_group", {"group": group})).is_error
        assert listed(session) == PINNED
    async with desk(control="per_group").open_session() as session:
        assert not {"base.deactivate", "base.more.deactivate"} & session.catalog.tools.keys()
        assert "a.deactivate" in session.catalog.tools


@pytest.mark.spec("ACT-10")
@pytest.mark.parametrize("evict", ["oldest", "idlest"])
async def test_neither_a_quota_nor_a_budget_evicts_what_is_pinned(evict: Any) -> None:
    async with desk(max_active=3, evict=evict).open_session() as session:
        for group in ("a", "b", "a"):
            await session.activate(group)
            assert set(PINNED) <= set(listed(session))
            assert session.active == tuple(sorted(("base", "base.more", group)))
    budget = ListBudget(len(PINNED), lambda definition: 0 if "open_group" in str(definition["name"]) else 1)
    async with desk(control="none", list_budget=budget, evict=evict).open_session() as session:
        with pytest.raises(QuotaExceeded):
            await session.activate("b")
        assert listed(session) == PINNED


async def test_a_search_finds_a_pinned_tool_as_one_that_can_be_called() -> None:
    async with desk(search=by_shared_words).open_session() as session:
        result = await session.call("find_tools", {"query": "base.more", "limit": 1})
        assert result.structured["tools"] == result.structured["found"] == ["base.more.use"]


@pytest.mark.spec("PRO-1")
async def test_a_profile_decides_whether_there_is_a_pinned_group_at_all() -> None:
    tools = desk()
    tools.register_profile(Profile(name="few", available=("b",)))
    tools.register_profile(Profile(name="base", active=("a",), available=("base", "base.more")))
    async with tools.open_session("few") as few, tools.open_session("base") as base:
        assert few.active == ()
        assert base.active == ("a", "base", "base.more")


@pytest.mark.spec("REG-7", "PER-2")
async def test_a_group_that_is_pinned_later_is_open_in_open_and_in_restored_sessions() -> None:
    tools = desk()
    async with tools.open_session(active=["b"]) as session:
        stored = session.dump()
        tools.register_group("late", pinned=True)
        tools.update_group("a", "Now pinned", pinned=True)
        assert session.active == ("a", "b", "base", "base.more", "late")
    async with tools.restore_session(stored) as restored:
        assert restored.active == ("a", "b", "base", "base.more", "late")
        assert restored.discarded == ()
        tools.update_group("a", "No longer")
        assert not (await restored.call("close_group", {"group": "a"})).is_error
        assert "a" not in restored.active


@pytest.mark.parametrize(
    ("register", "error", "reason"),
    [
        (lambda t: t.register_group("x", pinned=True, on_activate=answer), InvalidDefinition, "has no hooks"),
        (lambda t: t.register_group("x", pinned=True, opens_on=success_of("hello")), InvalidDefinition, "no event"),
        (lambda t: t.register_group("x", pinned=True, transient=True), InvalidDefinition, "is stored"),
        (lambda t: t.register_group("a.x", pinned=True), InvalidDefinition, "'a.x' .* 'a', which contains it, must be"),
        (lambda t: t.update_group("base", ""), InvalidDefinition, "'base.more', which is pinned"),
        (lambda t: t.register_exclusion("base", "a"), ExclusionConflict, "'base' is pinned"),
        (lambda t: (t.register_exclusion("a", "b"), t.update_group("a", "", pinned=True)), ExclusionConflict, "'a' is"),
    ],
    ids=["hooks", "an event", "transient", "parent", "child", "exclusion", "of an exclusion"],
)
def test_what_could_close_a_pinned_group_is_refused(
    register: Callable[[ToolSet], Any], error: type[Exception], reason: str
) -> None:
    tools = desk()
    with pytest.raises(error, match=reason):
        register(tools)
    assert "x" not in tools.catalog.index
    assert tools.catalog.group("base").pinned
    assert not tools.catalog.group("a").pinned
