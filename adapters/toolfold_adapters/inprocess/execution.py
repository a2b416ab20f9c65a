"""Runs calls, each with a result of its own whatever happens to the others: a turn's, or a single one (SPEC AGT-1)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio

from toolfold import HookFailed, Session, StoreError, ToolfoldError, ToolNotFound, ToolResult
from toolfold.spi import internal_error, is_failure

from .messages import read_arguments, unreadable_arguments
from .turn import Call, batches
from .wire_names import WireNameCodec

log = logging.getLogger("toolfold.inprocess")


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
    try:
        return await session.call(call.name, call.arguments, view=session.view(to_wire=names.to_wire), request=request)
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
