"""`find_tools` that opens the groups of what it finds, in one transition (SPEC FND-1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio
import pytest

from tests.core.searching import answer, fleet, found
from toolfold import (
    HookFailed,
    Ranking,
    SearchDocument,
    Session,
    Visibility,
)


@pytest.mark.spec("FND-1", "NTF-1")
async def test_a_search_that_opens_makes_the_tools_callable_in_one_transition() -> None:
    async with fleet().open_session() as session:
        notified: list[Iterable[str]] = []
        session.on_list_changed(notified.append)
        result = await session.call("find_tools", {"query": "hire steer vessel", "limit": 2, "open": True})
        assert result.text.splitlines()[0] == "Opened: ship, ship.crew."
        assert result.text.splitlines()[-1] == "Can be called now."
        assert result.structured["changed"] is True
        assert (await session.call("ship.crew.hire", {})).text == "ok"
        assert notified == [frozenset({"tool"})]
        again = await session.call("find_tools", {"query": "hire", "open": True})
        assert again.structured["changed"] is False
        assert len(notified) == 1


@pytest.mark.spec("FND-1", "ACT-4")
async def test_of_groups_that_exclude_one_another_that_of_the_better_tool_is_opened() -> None:
    async with fleet().open_session(active=["east"]) as session:
        result = await session.call("find_tools", {"query": "dock ports Western", "open": True})
        assert session.active == ("west",)
        assert result.text.startswith("Opened: west.\nClosed to make room: east.\n")
        assert result.structured["displaced"] == ["east"]
        assert result.structured["found"] == ["west.dock", "east.dock"]
        assert result.structured["tools"] == ["west.dock"], "what can be called now"
        assert "In group east, not open" in result.text


@pytest.mark.spec("FND-1", "ACT-10")
async def test_a_search_opens_what_the_limit_leaves_room_for_and_refuses_if_that_is_not_the_best() -> None:
    async with fleet(max_active=1).open_session() as session:
        assert await found(session, "hire sailors dock", open=False) == ["ship.crew.hire", "east.dock", "west.dock"]
        refused = await session.call("find_tools", {"query": "hire sailors", "open": True})
        assert refused.is_error
        assert "close a group before you open 'ship', 'ship.crew'" in refused.text
        assert "Opened: east." in (await session.call("find_tools", {"query": "dock steer", "open": True})).text
        assert list(session.active) == ["east"]
        assert "ship.steer" in await found(session, "steer"), "what a full session can't open yet is found all the same"


@pytest.mark.spec("FND-1", "ACT-10")
async def test_what_a_tool_needs_beside_what_is_opened_stays_open() -> None:
    tools = fleet(max_active=2, evict="oldest")
    tools.register("ferry", answer, description="ferry", visibility=Visibility.group("east") & Visibility.group("ship"))
    async with tools.open_session(active=["ship", "ship.crew"]) as session:
        assert await found(session, "ferry", open=True, limit=1) == ["ferry"]
        assert session.active == ("east", "ship")
        assert (await session.call("ferry", {})).text == "ok"


@pytest.mark.spec("FND-1", "SES-6")
async def test_a_search_opens_no_group_again_that_its_session_can_not_open() -> None:
    sessions: list[Session] = []

    def closing(documents: Sequence[SearchDocument]) -> Ranking:
        def ranked(query: str) -> list[str]:
            anyio.from_thread.run(sessions[0].deactivate, "event")
            return ["both"]

        return ranked

    tools = fleet(closing)
    tools.register_group("event", controls=False)
    rule = Visibility.group("event") & Visibility.group("ship")
    tools.register("both", answer, description="needs an event", visibility=rule)
    async with tools.open_session(active=["event"]) as session:
        sessions.append(session)
        assert await found(session, "event", open=True) == ["both"]
        assert session.active == ("ship",)


@pytest.mark.spec("FND-1", "HOOK-4")
async def test_a_hook_that_fails_refuses_the_search_and_changes_nothing() -> None:
    tools = fleet()

    async def fail() -> None:
        raise RuntimeError("secret")

    tools.register_group("bad", "Broken", on_activate=fail)
    tools.register("use", answer, description="broken", group="bad")
    async with tools.open_session() as session:
        result = await session.call("find_tools", {"query": "broken", "open": True})
        assert result.is_error
        assert "Nothing was changed" in result.text
        assert result.meta == {
            "dev.toolfold/error": {"error": HookFailed.__name__, "group": "bad", "phase": "on_activate"}
        }
        assert session.active == ()
