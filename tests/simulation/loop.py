"""An event loop with virtual time, whose order is drawn, and extents of tasks that are killed or cancelled.

Nothing ever waits: when no task can go on, the time is that of the next timer. Tasks that are ready at the same time go
on in an order that is drawn. Each await of a task is counted by the extents that the task belongs to: processes, which
may be killed there, and operations, which may be cancelled there.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, TypeVar, cast

import anyio
from anyio._backends import _asyncio
from attrs import define, field

T = TypeVar("T")

EPOCH = 1_800_000_000.0
"""The time of day at which a world begins."""
LONGEST = 3_000.0
"""Seconds after which a world hangs."""
IN_THREAD = 0.005
"""Seconds that a worker thread takes before it calls its function, and after that."""


class Stuck(Exception):
    """Nothing happens any more, or too much."""


class Died(Exception):
    """What was awaited was killed."""


@define(eq=False)
class Extent:
    """Tasks that belong together: those that it starts, and those that these start.

    Attributes:
        name: What it is called.
        loop: Their loop.
        awaits: How often one of them has waited.
        at: What to do at which of these awaits.
        trace: Where they have waited, if that is to be noted.
        alive: Whether they go on.
        rest: Until when they do nothing; `None` for never.
    """

    name: str
    loop: Loop
    awaits: int = 0
    at: dict[int, Callable[[], object]] = field(factory=dict[int, Callable[[], object]])
    trace: list[str] | None = None
    alive: bool = True
    rest: asyncio.Future[None] | None = None
    _deaths: list[asyncio.Future[None]] = field(factory=list["asyncio.Future[None]"])

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that belongs to it, beside those that the caller belongs to."""
        context = copy_context()
        context.run(_extents.set, (*_extents.get(), self))
        return self.loop.create_task(coroutine, context=context)

    async def run(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what a function returns as a task of it; raises `Died` once it is killed."""
        if not self.alive:
            raise Died(self.name)
        task, death = self.start(function()), self.loop.create_future()
        self._deaths.append(death)
        await asyncio.wait((task, death), return_when=asyncio.FIRST_COMPLETED)
        self._deaths.remove(death)
        if not task.done():
            raise Died(self.name)
        return task.result()

    def kill(self) -> None:
        """End all of its tasks where they are, as the end of a process does: nothing of them runs any more."""
        self.alive = False
        self.loop.drop_dead()
        for death in self._deaths:
            if not death.done():
                death.set_result(None)

    def waits(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Count an await, and do what is to be done there."""
        self.awaits += 1
        if self.trace is not None:
            self.trace.append(_place(coroutine))
        if self.awaits in self.at:
            self.at.pop(self.awaits)()


_extents: ContextVar[tuple[Extent, ...]] = ContextVar("extents", default=())


class _Task(asyncio.Task[T]):
    """A task with a number, by which sets of tasks are in the same order each time; it begins in one."""

    def __init__(self, number: int, extents: tuple[Extent, ...], coroutine: Any, **named: Any) -> None:
        self.number, self.extents = number, extents
        super().__init__(coroutine, **named)

    def __hash__(self) -> int:
        return self.number


class _Observed:
    """Awaits a coroutine, and has its extents count each time that it waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], extents: tuple[Extent, ...]) -> None:
        self._coroutine = coroutine
        self._extents = extents

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, step = self._coroutine, self._coroutine.send
        given: Any = None
        while True:
            try:
                waited = step(given)
            except StopIteration as end:
                return end.value
            for extent in self._extents:
                extent.waits(coroutine)
            try:
                given, step = (yield waited), coroutine.send
                for extent in self._extents:
                    if extent.rest is not None:
                        yield from extent.rest
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                given, step = error, coroutine.throw


async def _observed(coroutine: Coroutine[Any, Any, Any], extents: tuple[Extent, ...]) -> Any:
    return await _Observed(coroutine, extents)


class Loop(asyncio.BaseEventLoop):
    """The event loop of one world.

    Args:
        random: What the order is drawn from.
        unfair: How likely tasks that are ready at the same time go on in another order than they got ready in.
        turns: The only draws, by number, that change the order; `None` for all that do.
    """

    def __init__(self, random: Random, unfair: float, turns: frozenset[int] | None = None) -> None:
        super().__init__()
        self.draws = 0
        self.turned: list[int] = []
        self.failures: list[str] = []
        self.rounds = 0
        self._random = random
        self._unfair = unfair
        self._turns = turns
        self._now = 0.0
        self._numbers = 0
        self._any_dead = False
        self._tasks: list[_Task[Any]] = []
        self._anything = cast(Any, self)  # what the base class has without saying so
        self._anything._selector = self
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._note)

    def time(self) -> float:
        """Return the virtual time."""
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Let the time pass until the next timer, and order what is ready; the base class asks for events here."""
        self.rounds += 1
        if timeout is None:
            raise Stuck("every task waits for another")
        if self._now > LONGEST:
            raise Stuck(f"the world does not come to an end: {self.waiting()}")
        self._now += timeout
        if self._any_dead:
            _drop_dead(self._anything._ready)
        ready = self._anything._ready
        if len(ready) > 1 and self._random.random() < self._unfair:
            self._change_order(ready)
        return []

    def _change_order(self, ready: Any) -> None:
        """Draw another order of the tasks that are ready, and note the number of the draw, if it is one that counts."""
        steps = [place for place, handle in enumerate(ready) if _task_of(handle) is not None]
        order = self._random.sample(steps, len(steps))
        self.draws += 1
        if order == steps or (self._turns is not None and self.draws not in self._turns):
            return
        self.turned.append(self.draws)
        handles = [ready[place] for place in order]
        for place, handle in zip(steps, handles, strict=True):
            ready[place] = handle

    def drop_dead(self) -> None:
        """Cancel what dead extents would still do; only what is ready has to be looked at from now on."""
        self._any_dead = True
        _drop_dead((*self._anything._ready, *self._anything._scheduled))

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what a function returns, and end everything else that goes on then."""
        with _quiet(), _virtual_clocks(self), _virtual_threads(), _numbered_scopes():
            try:
                return self.run_until_complete(main())
            finally:
                self._bury()

    def waiting(self) -> list[str]:
        """Return where the tasks wait that nobody has killed."""
        left = [task for task in self._tasks if not task.done() and all(one.alive for one in task.extents)]
        return sorted(
            f"{[one.name for one in task.extents]} {_named([*_frames(task.get_coro())][-1])}" for task in left
        )

    def _bury(self) -> None:
        """End all tasks without a step of theirs."""
        self.set_exception_handler(lambda loop, context: None)
        self.close()
        for task in self._tasks:
            cast(Any, task)._log_destroy_pending = False
            if not task.done() and (coroutine := task.get_coro()) is not None:
                with suppress(BaseException):
                    coroutine.close()
        self._tasks.clear()
        self._anything._ready.clear()
        self._anything._scheduled.clear()
        gc.collect(1)

    def _new_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> _Task[Any]:
        context = named.get("context")
        extents = (_extents.get() if context is None else context.get(_extents, ())) or ()
        if extents and asyncio.iscoroutine(coroutine):
            coroutine = _observed(coroutine, extents)
        self._numbers += 1
        task: _Task[Any] = _Task(self._numbers, extents, coroutine, loop=loop, **named)
        self._tasks.append(task)
        if len(self._tasks) > 1000:
            self._tasks = [one for one in self._tasks if not one.done()]
        return task

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(f"{context['message']}: {context.get('exception')!r}")

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There is no other thread."""

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refuse, since there are no other threads in this world than those of anyio."""
        raise Stuck(f"a thread was asked for: {func}")


def _drop_dead(handles: Iterable[asyncio.Handle]) -> None:
    for handle in handles:
        if not handle.cancelled() and not all(one.alive for one in cast(Any, handle)._context.get(_extents, ())):
            handle.cancel()


def _task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    owner = getattr(cast(Any, handle)._callback, "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def _frames(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of what a coroutine waits in, the innermost last."""
    while coroutine is not None:
        frame: FrameType | None = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            yield frame
        waited = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
        coroutine = frame.f_locals["coroutine"] if frame and frame.f_code is _Observed.__await__.__code__ else waited


def _named(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"


def _place(coroutine: Any) -> str:
    """Return where in the product a coroutine waits: its innermost functions there."""
    return " < ".join([_named(one) for one in _frames(coroutine) if "/toolfold" in one.f_code.co_filename][:-5:-1])


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing, and collect no garbage while tasks run, since that runs code at any time."""
    enabled, hook, disabled = gc.isenabled(), sys.unraisablehook, logging.root.manager.disable
    gc.disable()
    sys.unraisablehook = lambda unraisable: None
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = hook
        logging.disable(disabled)
        if enabled:
            gc.enable()


@contextmanager
def _virtual_clocks(loop: Loop) -> Iterator[None]:
    """Have the clocks of the process show the time of the loop."""
    names = ("time", "monotonic")
    real = {name: getattr(time, name) for name in names}
    for name in names:
        setattr(time, name, lambda: EPOCH + loop.time())
    try:
        yield
    finally:
        for name in names:
            setattr(time, name, real[name])


@contextmanager
def _virtual_threads() -> Iterator[None]:
    """Have a worker thread take time, and nothing else: its function is called in the middle of that."""

    async def run_sync(
        function: Callable[..., T], *given: Any, abandon_on_cancel: bool = False, limiter: object = None
    ) -> T:
        scope = nullcontext() if abandon_on_cancel else anyio.CancelScope(shield=True)
        with scope:
            await anyio.sleep(IN_THREAD)
            answer = copy_context().run(function, *given)
            await anyio.sleep(IN_THREAD)
            return answer

    real, cast(Any, anyio.to_thread).run_sync = anyio.to_thread.run_sync, run_sync
    try:
        yield
    finally:
        cast(Any, anyio.to_thread).run_sync = real


@contextmanager
def _numbered_scopes() -> Iterator[None]:
    """Give scopes numbers, by which sets of them are in the same order each time, as those of tasks are."""
    numbers = count()

    class Scope(_asyncio.CancelScope):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.number = next(numbers)

        def __hash__(self) -> int:
            return self.number

    plain, cast(Any, _asyncio).CancelScope = _asyncio.CancelScope, Scope
    try:
        yield
    finally:
        cast(Any, _asyncio).CancelScope = plain
