"""The order in which the calls of one turn run, both when they are executed and when they are replayed (SPEC AGT-2).

A model writes the calls of a turn one after the other, and is answered once. Calls of control tools run one at a time,
in the order in which they were written. All other calls wait until the end of the turn and run concurrently, so that
they can use the groups that the turn opens. Before a control call, some of the calls written earlier can't wait, if
their tools are available by then:

- If the control call closes groups, all of them run first, since they may need these groups.
- Otherwise those run first whose success opens groups; later, they could contradict the answer to the control call.

So the answer to a control call stays true until the end of the turn, unless a call that was written after it changes
that. This does not hold for groups that a handler opens or closes through its context, which can't be predicted.

A framework that makes the calls of a turn itself, so that nobody sees the whole of it, starts them in the order in
which they were written. They pass a barrier: a call of a control tool waits for the calls before it, and those after it
wait for it; all others run concurrently.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
from attrs import frozen

from toolfold import Catalog, Snapshot, ToolfoldError, TransitionRequest, plan
from toolfold.spi import RequestView, available, request_of

Batch = list[list[int]]
"""The indices of calls that run concurrently; those of one inner list run one after the other."""


@frozen
class Call:
    """A call of a turn: the full name of its tool, and its arguments, `None` if they can't be read."""

    name: str
    arguments: Mapping[str, Any] | None

    def is_control(self, catalog: Catalog) -> bool:
        """Return whether its tool is a control tool."""
        component = catalog.tools.get(self.name)
        return component is not None and component.control is not None

    def opens(self, catalog: Catalog) -> tuple[str, ...]:
        """Return the groups that open on its success (SPEC SES-6)."""
        return catalog.opened_by.get(self.name, ())

    def requests(self, catalog: Catalog) -> Sequence[TransitionRequest]:
        """Return its transition requests if it succeeds; none unless its tool opens or closes groups."""
        component = catalog.tools.get(self.name)
        if component is None or component.control is None:
            return [TransitionRequest(activate=path) for path in self.opens(catalog)] if component is not None else ()
        request = None if self.arguments is None else request_of(component, self.arguments, catalog)
        return () if request is None else (request,)

    def is_available(self, view: RequestView) -> bool:
        """Return whether its tool can be called now."""
        component = view.snapshot.catalog.tools.get(self.name)
        return component is not None and available(component, view)


def batches(calls: Sequence[Call], view: Callable[[], RequestView]) -> Iterator[Batch]:
    """Yield the calls of a turn in the order in which they run.

    Args:
        calls: The calls, as they were written.
        view: Returns the current view; called after the calls of the previous batches have run.
    """
    waiting: list[int] = []
    for number, call in enumerate(calls):
        now = view()
        catalog = now.snapshot.catalog
        if not call.is_control(catalog):
            waiting.append(number)
            continue
        if due := _due(waiting, calls, call, now):
            yield _batch(due, calls, catalog)
            waiting = [other for other in waiting if other not in due]
        yield [[number]]
    if waiting:
        yield _batch(waiting, calls, view().snapshot.catalog)


def _due(waiting: list[int], calls: Sequence[Call], control: Call, now: RequestView) -> list[int]:
    """Return which of the waiting calls run before a control call."""
    if not waiting:
        return []
    closes = _closes(control, now.snapshot)
    catalog = now.snapshot.catalog
    return [other for other in waiting if (closes or calls[other].opens(catalog)) and calls[other].is_available(now)]


def _closes(control: Call, snapshot: Snapshot) -> bool:
    try:
        return any(plan(snapshot.configuration, request).deactivated for request in control.requests(snapshot.catalog))
    except ToolfoldError:
        return False


def _batch(numbers: list[int], calls: Sequence[Call], catalog: Catalog) -> Batch:
    """Return a batch of these calls, which run concurrently, except those of different tools that groups open on.

    Their order determines the order of the groups, and which of two that exclude one another stays open.
    """
    openers = [number for number in numbers if calls[number].opens(catalog)]
    if len({calls[number].name for number in openers}) < 2:
        return [[number] for number in numbers]
    return [openers, *([number] for number in numbers if number not in openers)]


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
