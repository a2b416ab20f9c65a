"""The prefixes of conversations that changed lists break are counted, by whoever changed them (SPEC PFX-1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.support import with_groups
from toolfold import Component, ToolSet, Usage, Visibility

pytestmark = pytest.mark.spec("PFX-1", "EXP-3")


def counted(**options: Any) -> tuple[ToolSet, Usage]:
    """Return a tool set with the groups a and b, and its counters."""
    tools = with_groups("a", "b", **options)
    tools.register("root", lambda: "12345678", description="Always there.")
    for group in ("a", "b"):
        tools.register("t", lambda: "done", group=group, description=f"Of {group}.")
    ticks = iter(range(1_000))
    return tools, tools.count_usage(lambda: float(next(ticks)))


def found(usage: Usage) -> dict[str, int]:
    """Return how many prefixes each has broken."""
    return {by: each.broken for by, each in usage.prefixes.items()}


def tokens_from(items: tuple[Component, ...], other: tuple[Component, ...]) -> int:
    """Return the tokens of a list from where another one differs."""
    same = next((n for n, pair in enumerate(zip(items, other, strict=False)) if pair[0] is not pair[1]), len(other))
    return sum(item.tokens for item in items[same:])


async def test_a_changed_list_breaks_a_prefix_and_its_rest_and_the_answers_are_billed_again() -> None:
    tools, usage = counted()
    async with tools.open_session() as session:
        first = session.list_tools().items
        await session.call("root")
        await session.activate("a")
        second = session.list_tools().items
        assert found(usage) == {"a": 1}
        assert usage.prefixes["a"].tokens == tokens_from(first, second) + 2
        await session.call("root")
        await session.deactivate("a")
        session.list_tools()
        assert found(usage) == {"a": 2}
        assert usage.prefixes["a"].tokens == tokens_from(first, second) + 2 + tokens_from(second, first) + 4


async def test_an_equal_list_breaks_none_whatever_was_done_between() -> None:
    tools, usage = counted()
    async with tools.open_session() as session, tools.open_session() as other:
        session.list_tools()
        await session.activate("a")
        await session.deactivate("a")
        await other.activate("b")
        other.list_tools()
        session.list_tools()
    assert found(usage) == {}


async def test_a_list_in_pages_is_one_list() -> None:
    tools, usage = counted(page_size=2)
    async with tools.open_session() as session:
        for group in (None, "a", "a"):
            if group is not None:
                await session.activate(group)
            page = session.list_tools()
            while page.next_cursor is not None:
                page = session.list_tools(page.next_cursor)
    assert found(usage) == {"a": 1}


async def test_what_is_removed_or_follows_a_fact_breaks_prefixes_too() -> None:
    tools, usage = counted()
    tools.register("late", lambda: None, visibility=Visibility.when(lambda view: bool(view.facts.get("late"))))
    async with tools.open_session() as session:
        session.list_tools()
        session.set_fact("late", True)
        session.list_tools()
        tools.unregister("root")
        session.list_tools()
    assert found(usage) == {"(rules)": 1, "(catalog)": 1}


async def test_the_counts_of_processes_are_added_up_and_records_of_before_have_none() -> None:
    tools, usage = counted()
    async with tools.open_session() as session:
        session.list_tools()
        await session.activate("a")
        session.list_tools()
    both = Usage("")
    for _ in range(2):
        both.add(usage.dump())
    both.add({name: value for name, value in usage.dump().items() if name != "prefixes"})
    assert (both.prefixes["a"].broken, both.prefixes["a"].tokens) == (2, 2 * usage.prefixes["a"].tokens)
