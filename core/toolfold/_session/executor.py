"""The executor of one session: plan, hooks, commit (SPEC 5).

`Executor.execute` makes every change of groups, and reads from top to bottom. It is the only place where hooks
are awaited, and `Executor._commit` the only one that makes a plan's result the state of the session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from inspect import isawaitable
from typing import Any

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from attrs import evolve, frozen

from .._catalog.catalog import Catalog
from .._catalog.components import GroupSpec, Profile
from .._limits import quoted
from .._snapshot import Change, Snapshot
from .._usercode import InThread, is_failure, on_loop, uninterrupted
from .._view.listing import changes
from .._view.visibility import RequestView
from ..errors import (
    HookFailed,
    HookTimeout,
    LeaseLost,
    SessionClosed,
    ToolError,
    ToolfoldError,
)
from ..machine import Configuration, Plan, TransitionRequest, bits, catch_up, use
from ..machine.transaction import ABORTED, ROLLING_BACK, HookCall, Transaction
from .events import Asked, Committed, HooksFailed, NotificationFailed, RolledBack
from .journal import Journal
from .observers import log
from .reentry import Queue
from .runtime import Runtime
from .store import Record

Planner = Callable[[Configuration], Plan]
ContextOf = Callable[[str, str, str | None], Any]
Listener = Callable[[frozenset[str]], None]


class Executor:
    """Executes the transitions of one session, and holds its state.

    Attributes:
        inherited: The active groups that another session has set up and closes: their hooks don't run here.
        journal: Records the changes, where the session is in a store.
    """

    __slots__ = ("_listeners", "_queue", "_runtime", "_state", "id", "inherited", "journal", "profile")

    def __init__(self, identity: str, runtime: Runtime, profile: Profile | None) -> None:
        self.id = identity
        self.profile = profile
        self.inherited: tuple[str, ...] = ()
        self.journal: Journal | None = None
        self._runtime = runtime
        self._state = Snapshot.of(runtime.catalogs.under(profile))
        self._listeners: tuple[Listener, ...] = ()
        self._queue: Queue | None = None

    # -- the state ----------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The present state, in the newest catalog (SPEC REG-7)."""
        if self.profile is None and self._state.catalog is self._runtime.catalogs.newest:
            return self._state
        return self._in_newest_catalog()

    @on_loop
    def _in_newest_catalog(self) -> Snapshot:
        return self._state.moved_to(self._runtime.catalogs.under(self.profile))

    def begin(self, snapshot: Snapshot) -> None:
        """Begin in a state whose active groups are all inherited."""
        self._state = snapshot.moved_to(self.snapshot.catalog)
        self.inherited = self._state.active

    def change_facts(self, facts: Mapping[str, Any], view: RequestView | None = None) -> None:
        """Replace the facts; with `view`, notify listeners of the lists that differ from its own."""
        before = self.snapshot
        if self.journal is not None:
            self.journal.set_facts(before.facts, facts)
        self._state = before.with_facts(facts)
        if view is not None:
            self.notify(changes(view, view.of(self._state)))

    def use(self, paths: Iterable[str]) -> None:
        """Note that groups were used, for the order in which groups are evicted (SPEC FND-3)."""
        now = self.snapshot
        self._state = now.at(use(now.configuration, paths))

    # -- one change at a time -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def change(
        self, what: Asked, request: TransitionRequest | None = None, force: bool = False
    ) -> AsyncGenerator[None]:
        """Wait for the changes that came before, and keep later ones waiting until the end.

        `what`, `request` and `force` are for tracers. The end of a session is not abandoned because its caller is
        cancelled: the cancellation is raised after it (SPEC HOOK-9).

        Raises:
            ReentrantTransition: It would deadlock (SPEC HOOK-7).
        """
        with self._runtime.observers.requested(self.id, what, "", request, force):
            queue = self.queue
            interrupted = await queue.enter(self.id, patient=what == "close")
            try:
                yield
            finally:
                queue.leave()
                self._rest()
            if interrupted is not None:
                raise interrupted

    @contextmanager
    def unless_busy(self) -> Generator[bool]:
        """Keep later changes waiting until the end; yield `False`, and do nothing, if there is one already."""
        try:
            with self.queue.unless_busy() as alone:
                yield alone
        finally:
            self._rest()

    @property
    def queue(self) -> Queue:
        """The queue of changes; there is none, which would cost memory, while there are no changes."""
        if self._queue is None:
            self._queue = Queue()
        return self._queue

    def _rest(self) -> None:
        if self._queue is not None and not self._queue.under_way:
            self._queue = None

    def refuse_reentry(self) -> None:
        """Raise `ReentrantTransition` if the caller runs within a hook of this session."""
        if self._queue is not None:
            self._queue.refuse_reentry(self.id)

    # -- transitions --------------------------------------------------------------------------------------------------

    async def execute(
        self,
        planner: Planner,
        context_of: ContextOf,
        *,
        force: bool = False,
        view: RequestView | None = None,
        compare: bool = True,
        shielded: bool = False,
    ) -> Change:
        """Plan a transition, run its hooks, commit it, and return what changed; call it within `change`.

        If the catalog changes while hooks run, so that the plan would differ, the hooks are undone and the transition
        is planned again.

        Args:
            planner: Plans the transition for a configuration.
            context_of: Makes the context of a hook from its group, its phase, and the phase that it undoes.
            force: Continue past failing `on_deactivate` hooks (SPEC HOOK-8).
            view: The view of the request that this is part of, if there is one (SPEC MOD-3).
            compare: Whether a list was given out that may differ afterwards.
            shielded: Let every hook finish before a cancellation is raised (SPEC HOOK-9).

        Raises:
            HookFailed: A hook failed, and what had succeeded was undone (SPEC HOOK-4, HOOK-5).
            ToolfoldError: The transition is refused.
            StoreError: The session is in a store, which can't be used; nothing has changed (SPEC STO-5).
        """
        async with _NOTHING if self.journal is None else self.journal.step():
            return await self._execute(planner, context_of, force, view, compare, shielded)

    async def _execute(
        self,
        planner: Planner,
        context_of: ContextOf,
        force: bool,
        view: RequestView | None,
        compare: bool,
        shielded: bool,
    ) -> Change:
        interrupted: BaseException | None = None
        while True:
            before = self.snapshot
            plan = planner(before.configuration)
            self._runtime.observers.planned(self.id, plan)
            if plan.after is plan.before:
                return _unless(interrupted, Change())

            transaction = self._transaction(before.catalog, plan, force)
            call = transaction.next()
            if call is not None and await self.hold(transaction):
                continue
            interrupted = await self._run_hooks(call, transaction, context_of, interrupted, shielded)
            if transaction.state == ABORTED:
                error = transaction.error()
                self._runtime.observers.notify(RolledBack(self.id, error))
                raise error if interrupted is None else _noted(interrupted, error.compensation)

            now, refused = self.snapshot, None
            if now.catalog is not before.catalog:
                plan, refused = _again(planner, plan, before.catalog, now)
            if refused is None:
                after = now.at(catch_up(plan, now.configuration))
                given = None if not compare else self._runtime.view_of(now) if view is None else view.of(now)
                if self.journal is None or await self.journal.save(after, given, self.inherited):
                    return _unless(interrupted, self._commit(now, after, given, plan, transaction))
                await self.hold()
                continue

            transaction.give_up(refused)
            interrupted = await self._run_hooks(transaction.next(), transaction, context_of, interrupted, shielded)
            if transaction.compensation_failures:
                self._runtime.observers.notify(HooksFailed(self.id, tuple(transaction.compensation_failures)))
            refusal = refused if isinstance(refused, ToolfoldError) else None
            if (stop := refusal if shielded else interrupted or refusal) is not None:
                raise _noted(stop, transaction.compensation_failures)

    def _transaction(self, catalog: Catalog, plan: Plan, force: bool) -> Transaction:
        """Return the transaction of a plan: deactivations bottom up, then activations top down (SPEC HOOK-3).

        The hooks of inherited groups run in the session that they are inherited from.
        """
        deactivated, activated = (
            [group.hooks for group in groups if group.has_hooks and group.path not in self.inherited]
            for groups in _groups(catalog, plan)
        )
        return Transaction(reversed(deactivated), activated, force=force)

    def _commit(
        self, now: Snapshot, after: Snapshot, before: RequestView | None, plan: Plan, transaction: Transaction
    ) -> Change:
        """Make a plan's result the state, and send the notifications; `before` is the view that lists were given in."""
        transaction.commit()
        facts = self._state.facts  # they may be set while the state is stored
        self._state = after if facts is now.facts else after.with_facts(facts)
        if self.inherited:
            self.inherited = tuple(filter(self._state.is_active, self.inherited))
        lists = frozenset[str]() if before is None else changes(before, before.of(self._state))
        change = Change(*plan.paths, lists, tuple(transaction.failures))
        self._runtime.observers.notify(Committed(self.id, change))
        if change.failures:
            self._runtime.observers.notify(HooksFailed(self.id, change.failures))
        self.notify(change.lists)
        return change

    async def _run_hooks(
        self,
        call: HookCall | None,
        transaction: Transaction,
        context_of: ContextOf,
        interrupted: BaseException | None,
        shielded: bool,
    ) -> BaseException | None:
        """Run a hook and those that follow it; return the cancellation that arrived, to be raised at the end.

        From then on, and while hooks are undone, every hook finishes, however often the caller is cancelled.
        """
        if call is None:
            return interrupted
        with self.queue.running_hooks():
            while call is not None:
                if self.journal is not None:
                    await self.journal.intend(transaction)
                attempt = partial(self._attempt, call, context_of)
                if shielded or interrupted is not None or transaction.state == ROLLING_BACK:
                    ended, cancelled = await uninterrupted(attempt)
                elif isinstance(call.hook, InThread):  # it can't be stopped, so only its end shows whether it failed
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
            if self.journal is not None and transaction.state == ABORTED:
                await self.journal.settle()
        return interrupted

    async def resume(self, call: HookCall, context_of: ContextOf) -> None:
        """Run the hook that sets up in this process what a group needs; raises `HookFailed` (SPEC STO-4)."""
        ended = await self._attempt(call, context_of)
        if ended.interruption is not None:
            raise ended.interruption
        if ended.error is not None:
            raise HookFailed(call.group.path, call.phase, ended.error)

    async def _attempt(self, call: HookCall, context_of: ContextOf) -> _Ended:
        """Run a hook and return how it ended; this is the one place that logs failures of hooks (SPEC SAF-3).

        A `ToolError` is a refusal that was foreseen, so where it was raised is not logged.
        """
        try:
            with self._runtime.observers.hook(self.id, call.group.path, call.phase, call.undoes):
                await self._run_hook(call, context_of)
        except BaseException as error:
            if isinstance(error, ToolError):
                log.info("session %s: %s refused: %s", self.id, call, quoted(repr(str(error))))
                return _Ended(error)
            if is_failure(error):
                log.error("session %s: %s failed", self.id, call, exc_info=error)
                return _Ended(error)
            if isinstance(error, GeneratorExit):  # nothing can be awaited any more
                raise
            return _Ended(error, error)
        return _Ended()

    async def _run_hook(self, call: HookCall, context_of: ContextOf) -> None:
        stopped, timeout = None, self._runtime.hook_timeout
        with anyio.move_on_after(timeout) as scope:
            if self.journal is not None:
                self.journal.hook_begins(scope)
            try:
                answer = call.hook(context_of(call.group.path, call.phase, call.undoes))
                if isawaitable(answer):
                    await answer
            except anyio.get_cancelled_exc_class() as error:
                stopped = error
                raise
        if scope.cancelled_caught:
            if timeout is None or anyio.current_time() < scope.deadline:
                raise LeaseLost from stopped
            raise HookTimeout(timeout) from stopped  # which says where it was

    # -- in a store ---------------------------------------------------------------------------------------------------

    def take_over(self, journal: Journal, record: Record) -> None:
        """Make the state of a record the present one, and notify the listeners of the lists that differ."""
        before = self.snapshot
        now = self._state = journal.take_over(record, before.catalog)
        self.inherited = tuple(filter(now.is_active, journal.content.inherited))
        if self._listeners and now is not before:
            self.notify(changes(self._runtime.view_of(before), self._runtime.view_of(now)))

    async def hold(self, transaction: Transaction | None = None) -> bool:
        """Take the lease of the record, if there is one, and return whether the state differs from the known one.

        The change of a process that ended in the middle of it is undone first (SPEC STO-3). The first hook of
        `transaction` is recorded with the lease.

        Raises:
            SessionClosed: There is no such record any more.
            StoreUnavailable: Another process has held it for too long, or the store does not answer.
            StoreError: The record is damaged.
        """
        if (journal := self.journal) is None:
            return False
        before = self.snapshot
        await journal.ensure(before)
        while journal.token is None:
            if (record := await journal.acquire(transaction)) is None:
                raise SessionClosed(self.id)
            if record.version != journal.version:
                self.take_over(journal, record)
            if record.intent is not None:
                log.warning("session %s: a step whose process ended in the middle of it is rolled back", self.id)
                left = journal.interrupted(record.intent, self.snapshot.catalog)
                await self._run_hooks(left.next(), left, journal.context_of, None, shielded=True)
                if left.compensation_failures:
                    self._runtime.observers.notify(HooksFailed(self.id, tuple(left.compensation_failures)))
        if self.snapshot is before:
            return False
        await journal.withdraw()
        return True

    # -- listeners ----------------------------------------------------------------------------------------------------

    @on_loop
    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener and return a function that removes it."""
        self._listeners = (*self._listeners, listener)

        @on_loop
        def remove() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return remove

    def silence(self) -> None:
        """Remove all listeners."""
        self._listeners = ()

    @property
    def has_listeners(self) -> bool:
        """Whether there are listeners: a connection may continue with another session."""
        return bool(self._listeners)

    def notify(self, kinds: frozenset[str]) -> None:
        """Notify the listeners that lists of some kinds have changed (SPEC NTF-1, NTF-2)."""
        if not kinds:
            return
        self._runtime.observers.list_changed(self.id, kinds, len(self._listeners))
        for listener in self._listeners:
            try:
                listener(kinds)
            except BaseException as error:
                if not is_failure(error):
                    raise
                log.exception("session %s: a listener could not be notified of a change", self.id)
                self._runtime.observers.notify(NotificationFailed(self.id, error))


_NOTHING = nullcontext()


@frozen
class _Ended:
    """How a hook ended: the error that it raised, and the cancellation that interrupted it."""

    error: BaseException | None = None
    interruption: BaseException | None = None


async def _cancellation() -> BaseException | None:
    """Return the cancellation that arrived while a hook was shielded from it, if there was one."""
    try:
        await checkpoint_if_cancelled()
    except anyio.get_cancelled_exc_class() as error:
        return error
    return None


def _groups(catalog: Catalog, plan: Plan) -> tuple[list[GroupSpec], list[GroupSpec]]:
    """Return the groups to deactivate and to activate, as objects: a path may name another later."""
    groups = catalog.groups
    return [groups[number] for number in bits(plan.deactivated)], [groups[number] for number in bits(plan.activated)]


def _again(planner: Planner, plan: Plan, catalog: Catalog, now: Snapshot) -> tuple[Plan, Exception | None]:
    """Return the plan in a catalog that has changed since, and why it can't be committed, if it differs."""
    try:
        again = planner(now.configuration)
    except ToolfoldError as error:
        return plan, error
    same = _groups(now.catalog, again) == _groups(catalog, plan)
    return again, None if same else RuntimeError("the catalog changed while hooks ran")


def _unless(interrupted: BaseException | None, change: Change) -> Change:
    """Return what a transition changed, or raise the cancellation that waited for its end."""
    if interrupted is not None:
        raise interrupted
    return change


def _noted(error: BaseException, failures: Iterable[BaseException]) -> BaseException:
    """Return `error`, with the failures of the hooks that undid others as notes."""
    for failure in failures:
        error.add_note(f"while undoing the hooks that had run: {failure!r}")
    return error
