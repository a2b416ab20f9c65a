"""Carrying out the calls of one turn: each has a result of its own, whatever becomes of the others (SPEC AGT-1)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import anyio

from toolfold import Session, ToolfoldError, ToolNotFound, ToolResult
from toolfold.spi import internal_error, is_failure

from .arguments import read_arguments, unreadable
from .spelling import Speller
from .turn import Call, batches

log = logging.getLogger("toolfold.inprocess")


async def run_turn(
    session: Session, speller: Speller, asked: Iterable[tuple[Any, Any]], ran: Callable[[], None]
) -> list[ToolResult]:
    """Return the results of the calls of a turn, in the order of the calls.

    Control tools are called by the task that calls this, since a hook may open what the same task has to close; all
    others by tasks of their own.

    Args:
        session: What is called.
        speller: Knows the names that the model has for the tools.
        asked: Names and arguments, as the model wrote them.
        ran: Called after each call.
    """
    asked = list(asked)
    calls = [Call(speller.meant(_text(name)), read_arguments(arguments)) for name, arguments in asked]
    results = [ToolResult()] * len(calls)

    async def run(number: int, *, apart: bool) -> None:
        name = asked[number][0]
        if isinstance(name, str):
            results[number] = await _result(session, calls[number], speller.spell, apart=apart)
        else:
            told = f"The name of a tool is a text, not {type(name).__name__}."
            results[number] = ToolResult.of_text(told, is_error=True)
        ran()

    async def lane(numbers: Iterable[int]) -> None:
        for number in numbers:
            await run(number, apart=True)

    for batch in batches(calls, session.view):
        first = batch[0][0]
        if calls[first].is_control(session.catalog):
            await run(first, apart=False)
            continue
        async with anyio.create_task_group() as group:
            for numbers in batch:
                group.start_soon(lane, numbers)
    return results


async def _result(session: Session, call: Call, spell: Callable[[str], str], *, apart: bool) -> ToolResult:
    """Return the result of a call. `apart` tells whether it runs in a task of its own."""
    name = spell(call.name)
    if call.arguments is None:
        return unreadable(name)
    try:
        return await session.call(call.name, call.arguments, spell=spell)
    except ToolNotFound as error:
        return ToolResult.of_text(str(ToolNotFound(name, error.hint)), is_error=True)
    except ToolfoldError as error:  # a protocol's error, or the end of the session
        return ToolResult.of_text(str(error), is_error=True)
    except anyio.get_cancelled_exc_class():
        if not apart or anyio.current_effective_deadline() == -math.inf:
            raise  # the whole turn is cancelled
        log.exception("the call of %r cancelled itself", call.name)
    except BaseException as error:  # it must not take the other calls with it
        if not is_failure(error):
            raise
        log.exception("the call of %r failed beyond its handler", call.name)
    return internal_error(name)


def _text(name: Any) -> str:
    """Return a name as UTF-8 can carry it; what is no text is no tool's name either."""
    return name.encode(errors="replace").decode() if isinstance(name, str) else ""
