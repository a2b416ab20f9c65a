"""The steps of one session: one at a time, in order of arrival, each over hooks to a commit (SPEC 5, SES-2).

A step is planned, its hooks are run as its `Transaction` asks for them, and it is committed. This is the only place
where hooks are awaited.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
from attrs import frozen

from .catalog import GroupSpec, bits
from .dispatch import settled
from .errors import HookTimeout, ReentrantTransition, ToolfoldError
from .machine import Plan, Step
from .observe import Asked, Change, HooksFailed, Observers, RolledBack, log
from .transaction import ABORTED, ROLLING_BACK, HookCall, Transaction
from .usercode import is_failure

if TYPE_CHECKING:
    from .session import Session

MakePlan = Callable[[], Plan]
Commit = Callable[[Plan, Transaction], Change]

_under_way: ContextVar[tuple[Transaction, ...]] = ContextVar("toolfold_under_way", default=())


@frozen(eq=False)
class HookContext:
    """What a hook is given, if it takes an argument: whose session, which group, and why it runs."""

    session: Session
    group: str
    phase: str
    undoes: str | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts."""
        return self.session.facts


class Steps:
    """Takes the steps of one session."""

    __slots__ = ("_lock", "_observers", "_running")

    def __init__(self, observers: Observers) -> None:
        self._lock: anyio.Lock | None = None
        self._observers = observers
        self._running: Transaction | None = None

    @asynccontextmanager
    async def turn(
        self, session: str, what: Asked, step: Step | None = None, force: bool = False
    ) -> AsyncGenerator[None]:
        """Wait for the steps that came before, and keep later ones waiting until the end.

        Tracers are told who asks for what: `what`, `step` and `force` are for them alone.

        Raises:
            ReentrantTransition: Asked from within a hook of this session's own step (SPEC HOOK-7).
        """
        with self._observers.requested(session, what, "", step, force):
            self.refuse_reentry(session)
            if self._lock is None:
                self._lock = anyio.Lock(fast_acquire=True)
            lock = self._lock
            await lock.acquire()
            try:
                yield
            finally:
                if lock.statistics().tasks_waiting == 0:
                    self._lock = None
                lock.release()

    def refuse_reentry(self, session: str) -> None:
        """Raise `ReentrantTransition` if the caller runs within a hook of this session's step."""
        if self._running is not None and self._running in _under_way.get():
            raise ReentrantTransition(session)

    async def carry_out(
        self, session: Session, make_plan: MakePlan, commit: Commit, *, timeout: float | None, force: bool
    ) -> Change:
        """Return what a step changed, once it is committed; call it within a turn.

        If the catalog changes while hooks run, so that the step no longer means the same, the hooks are undone and the
        step is planned again.

        Args:
            session: Whose step it is; its snapshot is what plans are made for.
            make_plan: Plans the step for the present snapshot.
            commit: Makes a plan's outcome the session's state.
            timeout: Seconds that each hook may take; `None` for ever (SPEC HOOK-6).
            force: Pass over failing `on_deactivate` hooks (SPEC HOOK-8).

        Raises:
            HookFailed: A hook failed, and what had succeeded was undone (SPEC HOOK-4, HOOK-5).
            ToolfoldError: The step is refused.
        """
        while True:
            planned = make_plan()
            self._observers.planned(session.id, planned)
            if not planned.changes:
                return Change()
            transaction = _transaction(planned, session.inherited, force)
            interrupted = await self._run_hooks(session, transaction, timeout)
            if transaction.state == ABORTED:
                error = transaction.error()
                self._observers.tell(RolledBack(session.id, error))
                raise error if interrupted is None else _noted(interrupted, error.compensation)
            again, refused = _again(make_plan, planned, unchanged=planned.before is session.snapshot)
            if again is not None and _groups(again) == _groups(planned):
                change = commit(again, transaction)
                if interrupted is not None:
                    raise interrupted
                return change
            transaction.give_up(refused or RuntimeError("the catalog changed while hooks ran"))
            interrupted = await self._run_hooks(session, transaction, timeout) or interrupted
            if transaction.compensation_failures:
                self._observers.tell(HooksFailed(session.id, tuple(transaction.compensation_failures)))
            if (stop := interrupted or refused) is not None:
                raise _noted(stop, transaction.compensation_failures)

    async def _run_hooks(
        self, session: Session, transaction: Transaction, timeout: float | None
    ) -> BaseException | None:
        """Run the hooks that the transaction asks for; return the cancellation that met it, to be raised at its end."""
        interrupted: BaseException | None = None
        token = _under_way.set((*_under_way.get(), transaction))
        self._running = transaction
        try:
            while (call := transaction.next()) is not None:
                shielded = transaction.state == ROLLING_BACK or interrupted is not None
                try:
                    told = self._observers.hook(session.id, call.group.path, call.phase, call.undoes)
                    with told, anyio.CancelScope(shield=shielded):
                        await _run_hook(session, call, timeout)
                except BaseException as error:
                    if is_failure(error):
                        _log(session, call, error)
                    elif isinstance(error, GeneratorExit):
                        raise  # nothing can be awaited any more
                    else:
                        interrupted = interrupted or error
                    transaction.failed(call, error)
                else:
                    transaction.succeeded(call)
        finally:
            self._running = None
            _under_way.reset(token)
        return interrupted


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


def _log(session: Session, call: HookCall, error: BaseException) -> None:
    """Log the failure of a hook: the only place that does, since every failure comes by here."""
    undoing = "" if call.undoes is None else f", which was to undo {call.undoes},"
    log.error("session %s: %s of group %s%s failed", session.id, call.phase, call.group.path, undoing, exc_info=error)


def _transaction(planned: Plan, lent: Container[str], force: bool) -> Transaction:
    """Return the transaction of a plan: leaving groups from below, then entering ones from above (SPEC HOOK-3).

    The hooks of groups that are lent belong to the session that lends them.
    """
    leaving, entering = ([group for group in groups if group.path not in lent] for groups in _groups(planned))
    return Transaction(reversed(leaving), entering, force=force)


def _groups(planned: Plan) -> tuple[list[GroupSpec], list[GroupSpec]]:
    """Return the groups that leave and enter as they are registered: a path may come to name another group."""
    groups = planned.before.catalog.groups
    return [groups[number] for number in bits(planned.leaving)], [groups[number] for number in bits(planned.entering)]


def _again(make_plan: MakePlan, planned: Plan, *, unchanged: bool) -> tuple[Plan | None, ToolfoldError | None]:
    """Return the plan as it is now that the hooks have run, or why it is refused by now."""
    if unchanged:
        return planned, None
    try:
        return make_plan(), None
    except ToolfoldError as error:
        return None, error


def _noted(error: BaseException, failures: Iterable[BaseException]) -> BaseException:
    """Return `error` with the failures met while undoing attached, where it has no place of its own for them."""
    for failure in failures:
        error.add_note(f"while undoing the hooks that had run: {failure!r}")
    return error
