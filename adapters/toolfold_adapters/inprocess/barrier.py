"""The order of calls that are made at the same time, where nobody sees the whole turn (SPEC AGT-2).

A framework that makes the calls of a turn itself starts them in the order in which the model wrote them. A call of a
control tool then waits for the calls before it, and those after it wait for it; all others run concurrently.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import anyio

_around: ContextVar[tuple[anyio.Event, ...]] = ContextVar("toolfold_calls_around", default=())
"""The calls within which this code runs. What it calls waits for nothing: they would wait for each other."""


class Place:
    """The place of a call among those that are made at the same time: made by `Barrier.line_up`."""

    def __init__(self, before: list[anyio.Event], passing: dict[anyio.Event, bool]) -> None:
        self._before = before
        self._passing = passing
        self.over = anyio.Event()

    def leave(self) -> None:
        """Let the calls after this one run, if they still wait for it."""
        if self._passing.pop(self.over, None) is not None:
            self.over.set()

    @asynccontextmanager
    async def passing(self) -> AsyncGenerator[None]:
        """Wait until the call may run; it is over at the end of the block."""
        reset = _around.set((*_around.get(), self.over))
        try:
            for call in self._before:
                await call.wait()
            yield
        finally:
            _around.reset(reset)
            self.leave()


class Barrier:
    """Lets calls pass in the order in which they come: some exclusively, the others together."""

    def __init__(self) -> None:
        self._passing: dict[anyio.Event, bool] = {}

    def line_up(self, *, exclusively: bool) -> Place:
        """Return a place behind the calls that came before; leave it, or pass."""
        nested = any(call in self._passing for call in _around.get())
        before = [] if nested else [call for call, alone in self._passing.items() if exclusively or alone]
        place = Place(before, self._passing)
        self._passing[place.over] = exclusively
        return place
