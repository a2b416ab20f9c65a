"""Ways to cancel a request: its task, as asyncio does it, which no shield stops; or the scope around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.core.support import Block, settle

Request = Callable[[], Awaitable[Any]]
Cancel = Callable[[], object]
Steer = Callable[[Cancel], Awaitable[None]]
Cancelled = Callable[[Request, Steer], Awaitable[None]]


async def by_task(request: Request, steer: Steer) -> None:
    """Give `steer` the means to cancel the task of a request, and check that the task ends cancelled."""
    task = asyncio.ensure_future(request())
    await steer(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_scope(request: Request, steer: Steer) -> None:
    """Give `steer` the means to cancel the scope around a request, and check that the cancellation goes on."""
    scope, ended = anyio.CancelScope(), list[str]()

    async def run() -> None:
        with scope:
            await request()
            await checkpoint()  # a cancellation that was held back by a shield is raised here
            ended.append("not cancelled")

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await steer(scope.cancel)
    assert scope.cancelled_caught
    assert ended == []


def at(*blocks: Block, times: int = 1) -> Steer:
    """Cancel the request in each of these hooks, once it is blocked there, and release the hook."""

    async def steer(cancel: Cancel) -> None:
        for block in blocks:
            await block.arrived.wait()
            for _ in range(times):
                cancel()
                await settle()
            block.release.set()

    return steer


ways = pytest.mark.parametrize(
    ("anyio_backend", "cancelled"),
    [("asyncio", by_task), ("asyncio", by_scope), ("trio", by_scope)],
    ids=["asyncio task", "asyncio scope", "trio scope"],
)
