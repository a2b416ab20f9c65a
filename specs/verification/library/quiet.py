"""An event loop that can be run until everything in it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

Ts = TypeVarTuple("Ts")


class QuietLoop(asyncio.SelectorEventLoop):
    """Counts what is scheduled to run next, so that it is known when nothing is left.

    What waits for time, a thread or a socket counts as waiting.
    """

    scheduled = 0

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback, and count it."""
        self.scheduled += 1
        return super().call_soon(callback, *args, context=context)

    def settle(self) -> None:
        """Run until every task has ended or waits for what only a later call can bring."""
        self.run_until_complete(self._quiet())

    def resume(self) -> None:
        """Run what an interrupted run has left scheduled, which may be its own end."""
        self.call_soon(self.stop)
        self.run_forever()

    async def _quiet(self) -> None:
        while True:
            before = self.scheduled
            await asyncio.sleep(0)
            if self.scheduled == before + 1:  # the one that is counted is this coroutine itself
                return
