"""Running the code of users: handlers, hooks, predicates, observers (SPEC SAF-2).

A failure of that code affects only the request that called it. So every place that calls it catches what it
raises, of whatever class, and asks `is_failure` what it was. What must run to its end runs `uninterrupted`.

Plain functions run in worker threads, so that they delay no other request, unless registered to run on the event loop
(`caller`). State belongs to the loop: what such a function asks of it goes there (`on_loop`), as far as it is more than
reading one reference.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dis import opmap
from functools import partial, wraps
from threading import current_thread, get_ident, main_thread
from types import FrameType
from typing import Any, ParamSpec, TypeVar, cast

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import current_token

from ._values import frozen

P = ParamSpec("P")
T = TypeVar("T")

_loop_thread: ContextVar[int | None] = ContextVar("toolfold_loop_thread", default=None)
"""In code that a worker thread was given, and in what it calls: the thread of the event loop that waits for it."""

_RAISING = (opmap["RAISE_VARARGS"], opmap["RERAISE"])


# -- failing ----------------------------------------------------------------------------------------------------------


def is_failure(error: BaseException) -> bool:
    """Return whether the code that raised `error` has failed, whatever its class; otherwise it must be raised again.

    Three kinds of exception are not the fault of the code that they come from:

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


def guarded(function: Callable[[], T], failed: Callable[[BaseException], T]) -> T:
    """Return what users' code that answers at once answers, or what `failed` makes of its failure (SPEC SAF-2)."""
    try:
        return function()
    except BaseException as error:
        if not is_failure(error):
            raise
        return failed(error)


async def uninterrupted(function: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, BaseException | None]:
    """Return what `function` returns, and the cancellation that came meanwhile, which is the caller's to raise.

    The cancellation of a scope waits outside, for the next checkpoint. asyncio's `Task.cancel` goes through shields,
    and any number of times, so under asyncio the function runs in a task of its own, unknown to others.
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


# -- calling ----------------------------------------------------------------------------------------------------------


def is_async(function: Any) -> bool:
    """Return whether calling `function` gives something to await."""
    while isinstance(function, partial):
        function = function.func
    if inspect.iscoroutinefunction(function) or is_async_generator(function):
        return True
    return not inspect.isroutine(function) and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def is_generator(function: Any) -> bool:
    """Return whether calling `function` returns a generator."""
    if inspect.isgeneratorfunction(function):
        return True
    return not inspect.isroutine(function) and inspect.isgeneratorfunction(getattr(function, "__call__", None))  # noqa: B004


def is_async_generator(function: Any) -> bool:
    """Return whether calling `function` gives an async generator."""
    if inspect.isasyncgenfunction(function):
        return True
    return not inspect.isroutine(function) and inspect.isasyncgenfunction(getattr(function, "__call__", None))  # noqa: B004


async def settled(value: Any) -> Any:
    """Return `value`, awaited if it can be."""
    return await value if inspect.isawaitable(value) else value


def caller(function: Callable[..., Any], *, in_thread: bool) -> Callable[..., Awaitable[Any]]:
    """Return an async function that calls `function`: on the event loop if that is async too, or in a worker thread."""
    if is_async(function):
        return function
    if in_thread:
        return InThread(function)

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await settled(function(*args, **kwargs))

    return call


@frozen
class InThread:
    """A plain function as an async one that runs it in a worker thread. If it returns an awaitable, the loop awaits it.

    A cancelled caller is free at once; the thread goes on, and its result is discarded.

    Args:
        function: What to call.
        limited: Whether it waits while as many threads are at work as anyio's default limiter allows, 40 at first.
            What is called from within a thread never does: those that it would wait for may be waiting for it. Nor does
            what is `counted`: a caller that counts calls also limits their threads.
    """

    function: Callable[..., Any]
    limited: bool = True

    async def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns."""
        work, thread = _work.get(), _Thread()
        shared = self.limited and work is None and _loop_thread.get() is None
        call = partial(_within_thread, get_ident(), thread, self.function, args, kwargs)
        try:
            limiter = None if shared else anyio.CapacityLimiter(1)
            value, error = await to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
        except BaseException:
            if work is not None:
                thread.abandon(work)
            raise
        if error is None:
            return await settled(value)
        try:
            raise error
        finally:
            del error  # whose traceback has this frame


def _within_thread(loop_thread: int, thread: _Thread, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return what `function` returns and what it raises: raised here, a `GeneratorExit` would close the whole task."""
    _loop_thread.set(loop_thread)
    if not thread.begin():
        return None, None
    try:
        return function(*args, **kwargs), None
    except BaseException as error:
        return None, error
    finally:
        thread.end()


class _Work:
    """Work under way: what runs within `counted`, and the threads that it has abandoned. All on the event loop."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then
        self._open = 1

    def begin(self) -> None:
        self._open += 1

    def end(self) -> None:
        self._open -= 1
        if not self._open and self._then is not None:
            then, self._then = self._then, None
            then()


_work: ContextVar[_Work | None] = ContextVar("toolfold_work", default=None)


@contextmanager
def counted(then: Callable[[], None]) -> Generator[None]:
    """Have `then` called once what runs within has ended, and the threads that it has abandoned.

    A thread can't be stopped: if the call of a plain function is cancelled, its thread goes on.
    """
    work = _Work(then)
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)
        work.end()


class _Thread:
    """One run of a function in a worker thread: whether it has begun and ended, and who waits for that."""

    def __init__(self) -> None:
        self._unclaimed = [True]  # who pops it first decides whether the function runs
        self._ended = False
        self._notify: Callable[[], None] | None = None

    def begin(self) -> bool:
        """Return whether to go on: not if the call was given up before; in the thread."""
        return self._claim()

    def end(self) -> None:
        """Take note of the end; in the thread."""
        self._ended = True
        if self._notify is not None:
            self._notify()

    def abandon(self, work: _Work) -> None:
        """Count the thread as part of `work` until its end, unless it has not begun: then it never will."""
        if self._claim():
            return
        work.begin()
        loop: Any = current_token().native_token
        soon = loop.call_soon_threadsafe if _is_asyncio() else loop.run_sync_soon

        def finish() -> None:
            if self._notify is not None:
                self._notify = None
                work.end()

        def notify() -> None:
            with suppress(RuntimeError):  # the loop has ended
                soon(finish)

        self._notify = notify
        if self._ended:
            finish()

    def _claim(self) -> bool:
        try:
            return self._unclaimed.pop()
        except IndexError:
            return False


def is_away() -> bool:
    """Return whether this runs in a thread that `InThread` was given, away from the event loop."""
    if _loop_thread.get() in (None, get_ident()):
        return False
    try:
        current_token()
    except RuntimeError:
        return True
    return False  # the function runs an event loop of its own in its thread


def on_loop(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function` as one that runs on the event loop also if a handler or hook calls it in its thread."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if is_away():
            return from_thread.run_sync(partial(function, *args, **kwargs))
        return function(*args, **kwargs)

    return call
