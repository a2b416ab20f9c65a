"""Sessions of different callers, where they are bounded: none makes room for another's (SPEC SES-4, SAF-4)."""

from __future__ import annotations

import pytest

from toolfold import QuotaExceeded, ToolSet

pytestmark = pytest.mark.spec("SES-4", "SAF-4")


async def test_the_idlest_session_of_the_same_caller_makes_room_and_no_other() -> None:
    tools = ToolSet("desk", max_sessions=3, when_full="end_idlest")
    of_bob, first, second = [await tools.open_session(caller=caller).start() for caller in ("bob", "ada", "ada")]
    first.list_tools()
    third = await tools.open_session(caller="ada").start()
    assert [session.is_open for session in (of_bob, first, second, third)] == [True, True, False, True]


@pytest.mark.parametrize("caller", ["eve", None])
async def test_a_caller_without_a_session_is_refused_when_all_are_taken(caller: str | None) -> None:
    tools = ToolSet("desk", max_sessions=2, when_full="end_idlest")
    taken = [await tools.open_session(caller=other).start() for other in ("ada", "bob")]
    with pytest.raises(QuotaExceeded, match="The limit of 2 open sessions is reached"):
        await tools.open_session(caller=caller).start()
    assert all(session.is_open for session in taken)
    await taken[0].close()
    assert (await tools.open_session(caller=caller).start()).is_open


async def test_sessions_of_unknown_callers_make_room_for_one_another() -> None:
    tools = ToolSet("desk", max_sessions=2, when_full="end_idlest")
    of_ada, unknown = [await tools.open_session(caller=caller).start() for caller in ("ada", None)]
    assert (await tools.open_session().start()).is_open
    assert of_ada.is_open
    assert not unknown.is_open
