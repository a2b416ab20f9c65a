"""An open session is small, whether or not use is counted (SPEC EXP-3)."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.core.support import Clock, with_groups
from toolfold import Session, ToolSet

GROUPS = ("a", "a.b", "c", "d")


async def memory_of_a_session(tools: ToolSet, number: int) -> float:
    """Return how many bytes an open session takes that has opened a group."""

    async def opened() -> list[Session]:
        sessions = [await tools.open_session().start() for _ in range(number)]
        for session in sessions:
            await session.activate("a")
        return sessions

    for session in await opened():  # for what is cached for all
        await session.close()
    gc.collect()
    tracemalloc.start()
    sessions = await opened()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(sessions)


@pytest.mark.spec("EXP-3")
@pytest.mark.parametrize("is_counted", [False, True])
async def test_a_session_that_opened_a_group_takes_no_more_than_450_bytes(is_counted: bool) -> None:
    tools = with_groups(*GROUPS)
    if is_counted:
        tools.count_usage(Clock())
    assert await memory_of_a_session(tools, 1500) <= 450
