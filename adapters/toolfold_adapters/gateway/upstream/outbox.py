"""What an upstream sends beside its answers, passed on to clients one after the other (SPEC GWY-1).

An answer waits until all that came before it has been passed on, also what is just being passed on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

log = logging.getLogger("toolfold.gateway")

MOST_WAITING = 1000
"""How much may wait for a slow client; what comes then is discarded."""

Delivery = Callable[[], Awaitable[None]]


class Outbox:
    """The deliveries of one connection to one client, in order.

    Args:
        tasks: Where they are passed on, while there are any.
        upstream: The name of the upstream.
    """

    def __init__(self, tasks: TaskGroup, upstream: str) -> None:
        self._tasks = tasks
        self._upstream = upstream
        self._discards = False
        self._waiting: deque[Delivery] = deque()
        self._running = False
        self._closed = False
        self._put = 0
        self._passed = 0
        self._progress = anyio.Event()

    def put(self, delivery: Delivery) -> None:
        """Have something passed on after what came before it; it is discarded if far too much waits already."""
        if self._closed or len(self._waiting) >= MOST_WAITING:
            if not self._discards:  # one line for a flood
                log.warning("the MCP server %s sends more than a client receives; the rest is lost", self._upstream)
            self._discards = True
            return
        self._waiting.append(delivery)
        self._put += 1
        if not self._running:
            self._running = True
            self._tasks.start_soon(self._run)

    async def flushed(self) -> None:
        """Wait until all that was put so far has been passed on, or can't be any more."""
        until = self._put
        while self._passed < until and not self._closed:
            await self._progress.wait()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft()()
                self._passed += 1
                self._moved()
            self._running = self._discards = False
        finally:
            self._closed = self._running
            self._moved()

    def _moved(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()
