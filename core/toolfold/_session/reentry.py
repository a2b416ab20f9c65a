"""Who may change a session now: one change at a time, in order of arrival, without deadlocks (SPEC SES-2, HOOK-7)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import get_ident

import anyio

from .._usercode import uninterrupted
from ..errors import ReentrantTransition

_CROSSED = (
    "A hook asked session {!r} for a change, and a hook of that session waits for this one's: neither could ever end. "
    "Do one of the two after its transition."
)
_ELSEWHERE = (
    "Session {!r} was asked for a change from another event loop while one of its hooks runs, which it can't wait for "
    "there. Share one loop among threads: start_blocking_portal() of anyio.from_thread, then "
    "portal.call(session.activate, ...) in each. In a hook of the session itself, ask after its transition."
)


class Queue:
    """The queue of the changes of one session, of which one happens at a time."""

    __slots__ = ("_lock", "_running")

    def __init__(self) -> None:
        self._lock = anyio.Semaphore(1, fast_acquire=True)
        self._running: _Hooks | None = None

    @property
    def under_way(self) -> bool:
        """Whether one is under way, or is to be."""
        return self._lock.value == 0

    async def enter(self, session: str, *, patient: bool = False) -> BaseException | None:
        """Wait for the changes that came before, and keep later ones waiting until `leave`.

        Returns the cancellation that a patient caller received meanwhile, which is the caller's to raise.

        Args:
            session: The name of the session, for refusals.
            patient: Whether a cancellation of the caller waits until the end (SPEC HOOK-9).

        Raises:
            ReentrantTransition: It would deadlock: see `_refuse_deadlock` (SPEC HOOK-7).
        """
        if self.under_way:
            self._refuse_deadlock(session)
            return await self._wait(patient=patient)
        if patient:
            self._lock.acquire_nowait()
        else:
            await self._lock.acquire()  # which does not wait, but notices a cancellation
        return None

    @contextmanager
    def unless_busy(self) -> Generator[bool]:
        """Keep later changes waiting until the end; yield `False`, and do nothing, if there is one already."""
        if self.under_way:
            yield False
            return
        self._lock.acquire_nowait()
        try:
            yield True
        finally:
            self.leave()

    def leave(self) -> None:
        """Let the next change begin."""
        self._lock.release()

    def begin_hooks(self) -> None:
        """Mark what runs in this task from now on as hooks of this session, for `ReentrantTransition`."""
        if self._running is None:
            self._running = _Hooks()
            self._running.token = _under_way.set((*_under_way.get(), self._running))

    def end_hooks(self) -> None:
        """End what `begin_hooks` began, if it did."""
        if self._running is not None:
            _under_way.reset(self._running.token)
            self._running = None

    def refuse_reentry(self, session: str) -> None:
        """Raise `ReentrantTransition` if the caller runs within a hook of this session."""
        if self._running is not None and self._running in _under_way.get():
            raise ReentrantTransition(session)

    def _refuse_deadlock(self, session: str) -> None:
        """Raise `ReentrantTransition` if the caller would wait for itself, or waits in another event loop.

        It would wait for itself within a hook of this session, and within a hook of another one for which a hook of
        this one waits, perhaps through more sessions. A hook is recognised by its context, which tasks inherit, and
        threads started by `anyio.to_thread`, `asyncio.to_thread` and `anyio.from_thread`; not plain threads, which
        wait until `hook_timeout` ends the hook. The lock can't wake a waiter in another event loop.
        """
        self.refuse_reentry(session)
        if self._running is not None and self._running.thread != get_ident():
            raise ReentrantTransition(session, _ELSEWHERE.format(session))
        asking = _under_way.get()
        met: set[_Hooks] = set()
        ahead = [self] if asking else []
        while ahead:
            hooks = ahead.pop()._running
            if hooks in asking:
                raise ReentrantTransition(session, _CROSSED.format(session))
            if hooks is not None and hooks not in met:
                met.add(hooks)
                ahead += hooks.waits

    async def _wait(self, *, patient: bool) -> BaseException | None:
        """Wait for the lock; return the cancellation that a `patient` caller received meanwhile and waited through."""
        asking = _under_way.get()
        for hooks in asking:
            hooks.waits.append(self)
        try:
            if patient:
                return (await uninterrupted(self._lock.acquire))[1]
            await self._lock.acquire()
        finally:
            for hooks in asking:
                hooks.waits.remove(self)
        return None


class _Hooks:
    """The hooks of one transition while they run: in which thread, and which sessions are waited for within them."""

    __slots__ = ("thread", "token", "waits")

    def __init__(self) -> None:
        self.token: Token[tuple[_Hooks, ...]]
        self.thread = get_ident()
        self.waits: list[Queue] = []


_under_way: ContextVar[tuple[_Hooks, ...]] = ContextVar("toolfold_under_way", default=())
