"""The calls of one turn, which run, and are replayed, in the same order (SPEC AGT-1, AGT-2).

A model writes the calls of a turn one after the other, and is answered once. Calls of control tools run one at a time,
in the order in which they were written. All other calls wait until the end of the turn and run concurrently, so that
they can use the groups that the turn opens. Before a control call, some of the calls written earlier can't wait, if
their tools are available by then:

- If the control call closes groups, all of them run first, since they may need these groups.
- Otherwise those run first whose success opens groups; later, they could contradict the answer to the control call.

So the answer to a control call stays true until the end of the turn, unless a call that was written after it changes
that. This does not hold for groups that a handler opens or closes through its context, which can't be predicted.

A framework that makes the calls of a turn itself, so that the whole of it is never seen, starts them in the order in
which they were written. They pass a barrier: a call of a control tool waits for the calls before it, and those after it
wait for it; all others run concurrently.

Each call has a result of its own, whatever happens to the others.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio

from toolfold import (
    Catalog,
    HookFailed,
    Session,
    Snapshot,
    StoreError,
    ToolfoldError,
    ToolNotFound,
    ToolResult,
    TransitionRequest,
)
from toolfold.spi import RequestView, available, frozen, internal_error, is_failure, request_of

from .formats import read_arguments, unreadable_arguments
from .schemas import own_arguments
from .wire_names import WireNameCodec

log = logging.getLogger("toolfold.inprocess")

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
        return any(snapshot.plan(request).deactivated for request in control.requests(snapshot.catalog))
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


class QueuePosition:
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

    def line_up(self, *, exclusively: bool) -> QueuePosition:
        """Return a place behind the calls that came before; leave it, or pass."""
        nested = any(call in self._passing for call in _around.get())
        before = [] if nested else [call for call, alone in self._passing.items() if exclusively or alone]
        place = QueuePosition(before, self._passing)
        self._passing[place.over] = exclusively
        return place


async def run_turn(
    session: Session, names: WireNameCodec, written: Iterable[tuple[Any, Any]], after_call: Callable[[], None]
) -> list[ToolResult]:
    """Return the results of the calls of a turn, in the order of the calls.

    Control tools are called in the task that calls this function, since a task must close what its hooks have opened;
    all others are called in tasks of their own.

    Args:
        session: The session of the calls.
        names: The names by which the model knows the tools.
        written: Names and arguments, as the model wrote them.
        after_call: Called after each call.
    """
    written = list(written)
    try:
        async with session.request():
            return await _run_turn(session, names, written, after_call)
    except (StoreError, HookFailed) as error:  # of a session in a store
        return [ToolResult.of_text(str(error), is_error=True)] * len(written)


async def _run_turn(
    session: Session, names: WireNameCodec, written: Sequence[tuple[Any, Any]], after_call: Callable[[], None]
) -> list[ToolResult]:
    calls = [written_call(names, *_pair(one)) for one in written]
    answers = [ToolResult()] * len(calls)

    async def run(number: int, *, in_own_task: bool) -> None:
        name = written[number][0]
        if isinstance(name, str):
            answers[number] = await _result(session, calls[number], names, in_own_task=in_own_task)
        else:
            problem = f"The name of a tool must be a string, not {type(name).__name__}."
            answers[number] = ToolResult.of_text(problem, is_error=True)
        after_call()

    async def run_in_order(numbers: Iterable[int]) -> None:
        for number in numbers:
            await run(number, in_own_task=True)

    for batch in batches(calls, session.view):
        first = batch[0][0]
        if calls[first].is_control(session.catalog):
            await run(first, in_own_task=False)
            continue
        async with anyio.create_task_group() as group:
            for numbers in batch:
                group.start_soon(run_in_order, numbers)
    return answers


async def run_call(session: Session, names: WireNameCodec, call: Call, request: Any) -> ToolResult:
    """Return the result of one call, made in the task that calls this; `request` is for the handler's context."""
    try:
        async with session.request():
            return await _result(session, call, names, in_own_task=False, request=request)
    except (StoreError, HookFailed) as error:  # of a session in a store
        return ToolResult.of_text(str(error), is_error=True)


async def _result(
    session: Session, call: Call, names: WireNameCodec, *, in_own_task: bool, request: Any = None
) -> ToolResult:
    """Return the result of a call; `in_own_task` says whether it runs in a task of its own."""
    name = names.to_wire(call.name)
    if call.arguments is None:
        return unreadable_arguments(name)
    component = session.catalog.tools.get(call.name)
    given = call.arguments if component is None else own_arguments(component.input_schema, call.arguments)
    try:
        return await session.call(call.name, given, view=session.view(to_wire=names.to_wire), request=request)
    except ToolNotFound as error:
        return ToolResult.of_text(str(ToolNotFound(name, error.hint)), is_error=True)
    except ToolfoldError as error:  # a protocol's error, or the end of the session
        return ToolResult.of_text(str(error), is_error=True)
    except anyio.get_cancelled_exc_class():
        if not in_own_task or anyio.current_effective_deadline() == -math.inf:
            raise  # the whole turn is cancelled
        log.exception("the call of %r cancelled itself", call.name)
    except BaseException as error:  # it must not affect the other calls
        if not is_failure(error):
            raise
        log.exception("the call of %r failed outside its handler", call.name)
    return internal_error(name)


def _pair(call: Any) -> tuple[Any, Any]:
    match call:
        case (name, arguments):
            return name, arguments
        case _:
            raise TypeError(f"A call is a pair of a name and arguments, such as ('ping', {{}}), not {call!r}.")


def written_call(names: WireNameCodec, name: Any, arguments: Any) -> Call:
    """Return a call in terms of the catalog, from what a model wrote."""
    return Call(names.from_wire(_text(name)), read_arguments(arguments))


def _text(name: Any) -> str:
    """Return a name as UTF-8 can encode it, and an empty one for what is not a string."""
    return name.encode(errors="replace").decode() if isinstance(name, str) else ""
