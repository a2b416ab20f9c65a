"""A count of calls includes the threads that cancelled calls leave behind, which bounds them (SPEC SAF-2, SAF-4)."""

from __future__ import annotations

from collections.abc import Generator
from threading import Event

import anyio
import pytest

from tests.core.support import WAIT
from toolfold import ToolSet
from toolfold._usercode import counted

pytestmark = pytest.mark.spec("SAF-4", "INT-4")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Blocking:
    """A tool set whose plain handler blocks its thread until it is released."""

    def __init__(self) -> None:
        self.proceed = Event()
        self.begun = Event()
        self.tools = ToolSet("blocking")
        self.tools.register("block", self.block, input_schema={"type": "object"})
        self.tools.register("quick", lambda: "done", input_schema={"type": "object"})

    def block(self) -> str:
        self.begun.set()
        assert self.proceed.wait(WAIT)
        return "done"

    async def has_begun(self) -> None:
        assert await anyio.to_thread.run_sync(self.begun.wait, WAIT, limiter=anyio.CapacityLimiter(1))


@pytest.fixture
def blocking() -> Generator[Blocking]:
    made = Blocking()
    yield made
    made.proceed.set()


async def test_a_count_ends_with_its_block_if_no_thread_is_left(blocking: Blocking) -> None:
    ended: list[str] = []
    with counted(lambda: ended.append("ended")):
        await blocking.tools.call_tool("quick")
        assert ended == []
    assert ended == ["ended"]


async def test_a_count_ends_with_the_thread_of_a_call_that_was_cancelled(blocking: Blocking) -> None:
    ended = anyio.Event()

    async def call() -> None:
        with counted(ended.set):
            await blocking.tools.call_tool("block")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await blocking.has_begun()
        tasks.cancel_scope.cancel()
    assert not ended.is_set()
    blocking.proceed.set()
    with anyio.fail_after(WAIT):
        await ended.wait()


async def test_a_call_that_is_cancelled_before_its_thread_begins_leaves_no_thread(blocking: Blocking) -> None:
    ended: list[str] = []
    with anyio.CancelScope() as scope, counted(lambda: ended.append("ended")):
        scope.cancel()
        await blocking.tools.call_tool("block")
    assert ended == ["ended"]
    assert not blocking.begun.is_set()


async def test_a_counted_call_does_not_wait_for_the_threads_of_others(blocking: Blocking) -> None:
    limiter = anyio.to_thread.current_default_thread_limiter()
    others = [object() for _ in range(int(limiter.total_tokens))]
    for other in others:
        limiter.acquire_on_behalf_of_nowait(other)
    try:
        with anyio.fail_after(WAIT), counted(lambda: None):
            assert (await blocking.tools.call_tool("quick")).text == "done"
        with pytest.raises(TimeoutError), anyio.fail_after(0):
            await blocking.tools.call_tool("quick")
    finally:
        for other in others:
            limiter.release_on_behalf_of(other)
