"""Running the code of users: handlers, hooks, predicates, observers (SPEC SAF-2).

Whatever that code does harms the request that called it, and nothing else. So every place that calls it catches what it
raises, of whatever class, and asks `is_failure` what that was. What must come to its end runs `uninterrupted`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dis import opmap
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, TypeVar, cast

import anyio

T = TypeVar("T")

_RAISING = (opmap["RAISE_VARARGS"], opmap["RERAISE"])


def is_failure(error: BaseException) -> bool:
    """Return whether the code that raised `error` has failed, by whatever class of error; else it must be passed on.

    Three things come out of code without being its doing:

    - The cancellation of the task that runs it. A `CancelledError` of asyncio can also be raised by the code itself, or
      come from something else that was cancelled and that it awaited; it is the task's own if `Task.cancelling` says
      that the task is being cancelled. The `Cancelled` of trio can't be made by anybody else.
    - What a signal handler raised where it interrupted the code: `KeyboardInterrupt` on Ctrl-C, perhaps `SystemExit` on
      SIGTERM. They end the program as they would anywhere; raised by the code itself, they are its failure.
    - The `GeneratorExit` of a coroutine that is closed while it waits.

    Call it in the function that called or awaited the code.
    """
    if isinstance(error, Exception):
        return True
    if isinstance(error, GeneratorExit):
        # A coroutine that is closed raises it where it waits, after what it waits for has been closed: no frame below.
        return error.__traceback__ is not None and error.__traceback__.tb_next is not None
    return not any(_is_cancellation(leaf) or _is_of_signal(leaf) for leaf in _leaves(error))


async def uninterrupted(function: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, BaseException | None]:
    """Return what `function` returns, and the cancellation that came meanwhile, which is the caller's to raise.

    The cancellation of a scope waits outside, for the next checkpoint. asyncio's `Task.cancel` goes through shields,
    and any number of times, so under asyncio the function runs in a task of its own, which nobody else knows.
    """
    if not _is_asyncio():
        with anyio.CancelScope(shield=True):
            return await function(), None
    import asyncio

    task, interruption = asyncio.create_task(function()), None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                interruption = interruption or error
    return task.result(), interruption


def _is_asyncio() -> bool:
    return anyio.get_cancelled_exc_class().__module__.startswith("asyncio")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(one)
    else:
        yield error


def _is_cancellation(error: BaseException) -> bool:
    try:
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            return False
    except RuntimeError:  # no event loop runs here, so there is no task
        return False
    if not _is_asyncio():
        return True
    import asyncio  # not above: it takes long to import, and not every program needs it

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_of_signal(error: BaseException) -> bool:
    """Return whether a signal handler raised `error`: such a function is given the frame that it interrupted.

    Python's own handler of Ctrl-C has no frame, so what it raises comes out of code that has no `raise` there.
    """
    trace = error.__traceback__
    if trace is None or current_thread() is not main_thread():
        return False
    while (inner := trace.tb_next) is not None:
        if _was_given(inner.tb_frame, trace.tb_frame):
            return True
        trace = inner
    return isinstance(error, KeyboardInterrupt) and trace.tb_frame.f_code.co_code[trace.tb_lasti] not in _RAISING


def _was_given(function: FrameType, frame: FrameType) -> bool:
    """Return whether a function has a frame among its arguments, perhaps as one of `*args`."""
    given: list[object] = list(function.f_locals.values())
    rest = (one for value in given if isinstance(value, tuple) for one in cast("tuple[object, ...]", value))
    return any(one is frame for one in (*given, *rest))
