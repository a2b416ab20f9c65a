"""The steps of one session: one at a time, in order of arrival, each over hooks to a commit (SPEC 5, SES-2).

A step is planned, its hooks are run as its `Transaction` asks for them, and it is committed. This is the only place
where hooks are awaited.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from attrs import evolve, frozen

from .._catalog.catalog import Catalog
from .._catalog.components import GroupSpec
from .._snapshot import Change
from .._usercode import InThread, is_failure, settled, uninterrupted
from ..errors import HookTimeout, ReentrantTransition, ToolfoldError
from ..machine import Configuration, Plan, TransitionRequest, bits
from ..machine.transaction import ABORTED, ROLLING_BACK, HookCall, Transaction
from .context import HookContext
from .observers import Asked, HooksFailed, Observers, RolledBack, log

if TYPE_CHECKING:
    from .session import Session

MakePlan = Callable[[Configuration], Plan]
Commit = Callable[[Plan, Transaction], Change]

_CROSSED = (
    "A hook asked session {!r} for a change, and a hook of that session waits for this one's: neither could ever end. "
    "Do one of the two after its transition."
)
_ELSEWHERE = (
    "Session {!r} was asked for a change from another event loop while one of its hooks runs, perhaps by that hook. "
    "Ask in the event loop of the session, after its transition."
)


class _Run:
    """The hooks of one step while they run: in which thread, and whose turns are waited for within them."""

    __slots__ = ("thread", "waits")

    def __init__(self) -> None:
        self.thread = get_ident()
        self.waits: list[Steps] = []


_under_way: ContextVar[tuple[_Run, ...]] = ContextVar("toolfold_under_way", default=())


class Steps:
    """Takes the steps of one session."""

    __slots__ = ("_lock", "_observers", "_running")

    def __init__(self, observers: Observers) -> None:
        self._lock: anyio.Semaphore | None = None
        self._observers = observers
        self._running: _Run | None = None

    @asynccontextmanager
    async def turn(
        self, session: str, what: Asked, step: TransitionRequest | None = None, force: bool = False
    ) -> AsyncGenerator[None]:
        """Wait for the steps that came before, and keep later ones waiting until the end.

        Tracers are told who asks for what: `what`, `step` and `force` are for them alone. The end of a session is not
        given up because whoever ends it is cancelled: the cancellation is raised after it (SPEC HOOK-9).

        Raises:
            ReentrantTransition: The turn would never come: see `_refuse_deadlock` (SPEC HOOK-7).
        """
        with self._observers.requested(session, what, "", step, force):
            if self._lock is None:
                self._lock = anyio.Semaphore(1, fast_acquire=True)
            lock, interrupted = self._lock, None
            if lock.value == 0:
                self._refuse_deadlock(session)
                interrupted = await self._wait(lock, patient=what == "close")
            elif what == "close":
                lock.acquire_nowait()
            else:
                await lock.acquire()  # which does not wait, but notices a cancellation
            try:
                yield
            finally:
                if lock.statistics().tasks_waiting == 0:
                    self._lock = None
                lock.release()
            if interrupted is not None:
                raise interrupted

    def refuse_reentry(self, session: str) -> None:
        """Raise `ReentrantTransition` if the caller runs within a hook of this session's step."""
        if self._running is not None and self._running in _under_way.get():
            raise ReentrantTransition(session)

    def _refuse_deadlock(self, session: str) -> None:
        """Raise `ReentrantTransition` if what asks would wait for itself, or in a place where no turn can come.

        It would wait for itself within a hook of this session, and within a hook of another one for which a hook of
        this one waits, perhaps by way of more sessions. A hook is recognised by its context, which tasks inherit, and
        threads started by `anyio.to_thread`, `asyncio.to_thread` and `anyio.from_thread`; not plain threads, which
        wait until `hook_timeout` ends the hook. A turn can't be handed from one event loop to another.
        """
        self.refuse_reentry(session)
        if self._running is not None and self._running.thread != get_ident():
            raise ReentrantTransition(session, _ELSEWHERE.format(session))
        asking = _under_way.get()
        met: set[_Run] = set()
        ahead = [self] if asking else []
        while ahead:
            run = ahead.pop()._running
            if run in asking:
                raise ReentrantTransition(session, _CROSSED.format(session))
            if run is not None and run not in met:
                met.add(run)
                ahead += run.waits

    async def _wait(self, lock: anyio.Semaphore, *, patient: bool) -> BaseException | None:
        """Wait for a turn; a `patient` caller does so to the end, and is given the cancellation that came meanwhile."""
        runs = _under_way.get()
        for run in runs:
            run.waits.append(self)
        try:
            if patient:
                return (await uninterrupted(lock.acquire))[1]
            await lock.acquire()
        finally:
            for run in runs:
                run.waits.remove(self)
        return None

    async def carry_out(
        self,
        session: Session,
        make_plan: MakePlan,
        commit: Commit,
        *,
        timeout: float | None,
        force: bool,
        shielded: bool = False,
    ) -> Change:
        """Return what a step changed, once it is committed; call it within a turn.

        If the catalog changes while hooks run, so that the step no longer means the same, the hooks are undone and the
        step is planned again.

        Args:
            session: Whose step it is; plans are made for its present configuration.
            make_plan: Plans the step for a configuration.
            commit: Makes a plan's outcome the session's state.
            timeout: Seconds that each hook may take; `None` for ever (SPEC HOOK-6).
            force: Pass over failing `on_deactivate` hooks (SPEC HOOK-8).
            shielded: Let every hook come to its end before a cancellation is raised (SPEC HOOK-9).

        Raises:
            HookFailed: A hook failed, and what had succeeded was undone (SPEC HOOK-4, HOOK-5).
            ToolfoldError: The step is refused.
        """
        interrupted: BaseException | None = None
        while True:
            before = session.snapshot
            planned = make_plan(before.configuration)
            self._observers.planned(session.id, planned)
            if not planned.changes:
                return _unless(interrupted, Change())
            transaction = _transaction(before.catalog, planned, session.inherited, force)
            interrupted = await self._run_hooks(session, transaction, timeout, interrupted, shielded)
            if transaction.state == ABORTED:
                error = transaction.error()
                self._observers.tell(RolledBack(session.id, error))
                raise error if interrupted is None else _noted(interrupted, error.compensation)
            again, refused = _again(make_plan, planned, session.snapshot.configuration)
            if again is not None and _groups(session.catalog, again) == _groups(before.catalog, planned):
                return _unless(interrupted, commit(again, transaction))
            transaction.give_up(refused or RuntimeError("the catalog changed while hooks ran"))
            interrupted = await self._run_hooks(session, transaction, timeout, interrupted, shielded)
            if transaction.compensation_failures:
                self._observers.tell(HooksFailed(session.id, tuple(transaction.compensation_failures)))
            if (stop := refused if shielded else interrupted or refused) is not None:
                raise _noted(stop, transaction.compensation_failures)

    async def _run_hooks(
        self,
        session: Session,
        transaction: Transaction,
        timeout: float | None,
        interrupted: BaseException | None,
        shielded: bool,
    ) -> BaseException | None:
        """Run the hooks that the transaction asks for; return the cancellation that met it, to be raised at its end.

        From then on, and while hooks are undone, every hook comes to its end, however often the caller is cancelled.
        """
        if (call := transaction.next()) is None:
            return interrupted
        self._running = _Run()
        token = _under_way.set((*_under_way.get(), self._running))
        try:
            while call is not None:
                attempt = partial(self._attempt, session, call, timeout)
                if shielded or interrupted is not None or transaction.state == ROLLING_BACK:
                    ended, cancelled = await uninterrupted(attempt)
                elif isinstance(call.hook, InThread):  # which can't be stopped, so that only its end says how it went
                    ended, cancelled = await uninterrupted(attempt)
                    ended = evolve(ended, interruption=cancelled or await _cancellation())
                else:
                    ended, cancelled = await attempt(), None
                interrupted = interrupted or ended.interruption or cancelled
                if ended.error is not None:
                    transaction.failed(call, ended.error)
                elif ended.interruption is not None:
                    transaction.cancelled(call, ended.interruption)
                else:
                    transaction.succeeded(call)
                call = transaction.next()
        finally:
            self._running = None
            _under_way.reset(token)
        return interrupted

    async def _attempt(self, session: Session, call: HookCall, timeout: float | None) -> _Ended:
        """Run a hook and return how it ended; this is the one place that logs failures of hooks (SPEC SAF-3)."""
        try:
            with self._observers.hook(session.id, call.group.path, call.phase, call.undoes):
                await _run_hook(session, call, timeout)
        except BaseException as error:
            if is_failure(error):
                log.error("session %s: %s failed", session.id, call, exc_info=error)
                return _Ended(error)
            if isinstance(error, GeneratorExit):  # nothing can be awaited any more
                raise
            return _Ended(error, error)
        return _Ended()


@frozen
class _Ended:
    """How a hook ended: what it failed with, and the cancellation that came while the step could still be given up."""

    error: BaseException | None = None
    interruption: BaseException | None = None


async def _cancellation() -> BaseException | None:
    """Return the cancellation that has waited while a hook was shielded from it, if any."""
    try:
        await checkpoint_if_cancelled()
    except anyio.get_cancelled_exc_class() as error:
        return error
    return None


async def _run_hook(session: Session, call: HookCall, timeout: float | None) -> None:
    stopped: BaseException | None = None
    with anyio.move_on_after(timeout) as scope:
        try:
            await settled(call.hook(HookContext(session, call.group.path, call.phase, call.undoes)))
        except anyio.get_cancelled_exc_class() as error:
            stopped = error
            raise
    if scope.cancelled_caught and timeout is not None:
        raise HookTimeout(timeout) from stopped  # which says where it was


def _transaction(catalog: Catalog, planned: Plan, lent: Container[str], force: bool) -> Transaction:
    """Return the transaction of a plan: leaving groups from below, then entering ones from above (SPEC HOOK-3).

    The hooks of groups that are lent belong to the session that lends them.
    """
    leaving, entering = ([group for group in groups if group.path not in lent] for groups in _groups(catalog, planned))
    return Transaction(reversed(leaving), entering, force=force)


def _groups(catalog: Catalog, planned: Plan) -> tuple[list[GroupSpec], list[GroupSpec]]:
    """Return the groups that leave and enter as they are registered: a path may come to name another group."""
    groups = catalog.groups
    return (
        [groups[number] for number in bits(planned.deactivated)],
        [groups[number] for number in bits(planned.activated)],
    )


def _again(make_plan: MakePlan, planned: Plan, now: Configuration) -> tuple[Plan | None, ToolfoldError | None]:
    """Return the plan as it is now that the hooks have run, or why it is refused by now."""
    if now is planned.before:
        return planned, None
    try:
        return make_plan(now), None
    except ToolfoldError as error:
        return None, error


def _unless(interrupted: BaseException | None, change: Change) -> Change:
    """Return what a step changed, unless a cancellation has waited for its end, which is raised now."""
    if interrupted is not None:
        raise interrupted
    return change


def _noted(error: BaseException, failures: Iterable[BaseException]) -> BaseException:
    """Return `error` with the failures met while undoing attached, where it has no place of its own for them."""
    for failure in failures:
        error.add_note(f"while undoing the hooks that had run: {failure!r}")
    return error
