"""The executor of one session: plan, hooks, commit (SPEC 5).

`Executor.execute` makes every change of groups, and reads from top to bottom. It is the only place where hooks
are awaited, and `Executor._commit` the only one that makes a plan's result the state of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from ..errors import HookFailed, HookTimeout, LeaseLost, ToolError, ToolfoldError
from ..machine import Configuration, Plan, bits, catch_up, use
from ..machine.transaction import ABORTED, ROLLING_BACK, HookCall, Transaction
from .host import Host
from .observers import Committed, HooksFailed, NotificationFailed, Observers, RolledBack, log
from .queue import Queue
from .recorder import NOT_RECORDED, Recorder

Planner = Callable[[Configuration], Plan]
ContextOf = Callable[[str, str, str | None], Any]
Listener = Callable[[frozenset[str]], None]


class Executor(Queue):
    """Executes the transitions of one session, and holds its state.

    Attributes:
        inherited: The active groups that another session has set up and closes: their hooks don't run here.
        journal: Records the steps, where the session is in a store.
    """

    __slots__ = ("_listeners", "_state", "_tools", "inherited", "journal", "profile")

    def __init__(self, identity: str, tools: Host, profile: Profile | None) -> None:
        super().__init__(identity)
        self._tools = tools
        self.profile = profile
        self._state = Snapshot.of(tools.catalogs.under(profile))
        self._listeners: tuple[Listener, ...] = ()
        self.inherited: tuple[str, ...] = ()
        self.journal: Recorder = NOT_RECORDED

    # -- the state ----------------------------------------------------------------------------------------------------

    @property
    def observers(self) -> Observers:
        """The observers to notify."""
        return self._tools.observers

    @property
    def snapshot(self) -> Snapshot:
        """The present state, in the newest catalog (SPEC REG-7)."""
        if self.profile is None and self._state.catalog is self._tools.catalogs.newest:
            return self._state
        return self._in_newest_catalog()

    @on_loop
    def _in_newest_catalog(self) -> Snapshot:
        return self._state.moved_to(self._tools.catalogs.under(self.profile))

    def begin(self, snapshot: Snapshot) -> None:
        """Begin in a state whose active groups are all inherited."""
        self._state = snapshot.moved_to(self.snapshot.catalog)
        self.inherited = self._state.active

    def change_facts(self, facts: Mapping[str, Any], view: RequestView | None = None) -> None:
        """Replace the facts; with `view`, notify listeners of the lists that differ from its own."""
        self.journal.set_facts(facts)
        self._state = self.snapshot.with_facts(facts)
        if view is not None:
            self.notify(changes(view, view.of(self._state)))

    def replace(self, snapshot: Snapshot, inherited: tuple[str, ...]) -> None:
        """Take over a state that another process has committed, and notify the listeners of the lists that differ."""
        before, self._state, self.inherited = self.snapshot, snapshot, inherited
        if self._listeners and snapshot is not before:
            self.notify(changes(self._tools.view_of(before), self._tools.view_of(snapshot)))

    def use(self, paths: Iterable[str]) -> None:
        """Note that groups were used, for the order in which groups are evicted (SPEC FND-3)."""
        now = self.snapshot
        self._state = now.at(use(now.configuration, paths))

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
        """Plan a transition, run its hooks, commit it, and return what changed; call it within `queued`.

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
        async with self.journal.step():
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
            self.observers.planned(self.id, plan)
            if plan.after is plan.before:
                return _unless(interrupted, Change())

            transaction = self._transaction(before.catalog, plan, force)
            if transaction.has_hooks and await self.journal.hold():
                continue
            interrupted = await self._run_hooks(transaction, context_of, interrupted, shielded)
            if transaction.state == ABORTED:
                error = transaction.error()
                self.observers.notify(RolledBack(self.id, error))
                raise error if interrupted is None else _noted(interrupted, error.compensation)

            now, refused = self.snapshot, None
            if now.catalog is not before.catalog:
                plan, refused = _again(planner, plan, before.catalog, now)
            if refused is None:
                after = now.at(catch_up(plan, now.configuration))
                given = None if not compare else self._tools.view_of(now) if view is None else view.of(now)
                if await self.journal.save(after, given):
                    return _unless(interrupted, self._commit(now, after, given, plan, transaction))
                await self.journal.hold()
                continue

            transaction.give_up(refused)
            interrupted = await self._run_hooks(transaction, context_of, interrupted, shielded)
            if transaction.compensation_failures:
                self.observers.notify(HooksFailed(self.id, tuple(transaction.compensation_failures)))
            refusal = refused if isinstance(refused, ToolfoldError) else None
            if (stop := refusal if shielded else interrupted or refusal) is not None:
                raise _noted(stop, transaction.compensation_failures)

    def _transaction(self, catalog: Catalog, plan: Plan, force: bool) -> Transaction:
        """Return the transaction of a plan: deactivations bottom up, then activations top down (SPEC HOOK-3).

        The hooks of inherited groups run in the session that they are inherited from.
        """
        deactivated, activated = (
            [group for group in groups if group.path not in self.inherited] for groups in _groups(catalog, plan)
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
        self.observers.notify(Committed(self.id, change))
        if change.failures:
            self.observers.notify(HooksFailed(self.id, change.failures))
        self.notify(change.lists)
        return change

    async def _run_hooks(
        self, transaction: Transaction, context_of: ContextOf, interrupted: BaseException | None, shielded: bool
    ) -> BaseException | None:
        """Run the hooks that the transaction asks for; return the cancellation that arrived, to be raised at its end.

        From then on, and while hooks are undone, every hook finishes, however often the caller is cancelled.
        """
        if (call := transaction.next()) is None:
            return interrupted
        with self.running_hooks():
            while call is not None:
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
            if transaction.state == ABORTED:
                await self.journal.settle()
        return interrupted

    async def undo(self, transaction: Transaction, context_of: ContextOf) -> None:
        """Undo the hooks of a step whose process ended in the middle of it, and record that (SPEC STO-3)."""
        log.warning("session %s: a step whose process ended in the middle of it is rolled back", self.id)
        await self._run_hooks(transaction, context_of, None, shielded=True)
        if transaction.compensation_failures:
            self.observers.notify(HooksFailed(self.id, tuple(transaction.compensation_failures)))

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
            with self.observers.hook(self.id, call.group.path, call.phase, call.undoes):
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
        stopped, timeout = None, self._tools.hook_timeout
        with anyio.move_on_after(timeout) as scope:
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
        self.observers.list_changed(self.id, kinds, len(self._listeners))
        for listener in self._listeners:
            try:
                listener(kinds)
            except BaseException as error:
                if not is_failure(error):
                    raise
                log.exception("session %s: a listener could not be notified of a change", self.id)
                self.observers.notify(NotificationFailed(self.id, error))


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
