"""Changing a session: one change at a time, the effects that its step asks for, and the hooks (SPEC 5).

`machine.step` is the life of a change of groups. `Performer.perform` is the loop over it, and its other methods are the
effects, whose outcomes are the events. `Performer.commit` is the only place that makes a plan's result the state of a
session. `attempt` is the only place where hooks are awaited: each is bounded in time and logged once, and shielded
where it must finish (SPEC HOOK-3 to HOOK-6, SAF-3). A `Queue` keeps the changes of a session apart, without deadlocks
(SPEC SES-2, HOOK-7).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from functools import partial
from inspect import isawaitable
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from attrs import define, evolve, field

from .._catalog.catalog import Catalog
from .._catalog.components import Group
from .._limits import quoted
from .._snapshot import Change, Snapshot
from .._usercode import InThread, is_failure, uninterrupted
from .._values import frozen
from .._view.listing import changes
from .._view.visibility import RequestView
from ..errors import HookFailed, HookTimeout, LeaseLost, ReentrantTransition, SessionClosed, ToolError, ToolfoldError
from ..machine import Plan, TransitionRequest, bits, catch_up, close
from ..machine.step import EFFECTS, Effect, Event, HookCall, State, Step
from .context import HookContext
from .events import Asked, Committed, HookBegan, HooksFailed, ListChanged, Planning, Reason, RolledBack, Stepped
from .journal import Journal
from .observers import UNTRACED, Observers, log
from .store import Record

if TYPE_CHECKING:
    from .session import Session

Planner = Callable[[Snapshot], Plan]
Outcome = tuple[Event, Any]
"""The event that an effect ends with, and what is given to it."""


@asynccontextmanager
async def changing(
    session: Session, what: Asked, request: TransitionRequest | None = None, force: bool = False
) -> AsyncGenerator[None]:
    """Wait for the changes of a session that came before, and keep later ones waiting until the end.

    `what`, `request` and `force` are for tracers. The end of a session is not abandoned because its caller is
    cancelled: the cancellation is raised after it (SPEC HOOK-9).

    Raises:
        ReentrantTransition: It would deadlock (SPEC HOOK-7).
    """
    observers = session.runtime.observers
    with observers.requested(session.id, what, "", request, force) if observers.is_traced else UNTRACED:
        queue = _queue_of(session)
        interrupted = await queue.enter(session.id, patient=what == "close")
        try:
            yield
        finally:
            queue.leave()
            _rest(session)
        if interrupted is not None:
            raise interrupted


@contextmanager
def unless_busy(session: Session) -> Generator[bool]:
    """Keep later changes waiting until the end; yield `False`, and do nothing, if there is one already."""
    try:
        with _queue_of(session).unless_busy() as alone:
            yield alone
    finally:
        _rest(session)


def refuse_reentry(session: Session) -> None:
    """Raise `ReentrantTransition` if the caller runs within a hook of this session."""
    if (queue := session.state.queue) is not None:
        queue.refuse_reentry(session.id)


def _queue_of(session: Session) -> Queue:
    if (queue := session.state.queue) is None:
        queue = session.state.queue = Queue()
    return queue


def _rest(session: Session) -> None:
    if (queue := session.state.queue) is not None and not queue.under_way:
        session.state.queue = None


async def transition(
    session: Session, request: TransitionRequest, *, force: bool = False, view: RequestView | None = None
) -> Change:
    """Plan a transition, run its hooks, commit it, and return what changed.

    If the catalog changes while hooks run, so that the plan would differ, the hooks are undone and the transition
    is planned again.

    Args:
        session: The session.
        request: What is asked for.
        force: Continue past failing `on_deactivate` hooks (SPEC HOOK-8).
        view: The view of the request that this is part of, if there is one (SPEC MOD-3).

    Raises:
        HookFailed: A hook failed, and what had succeeded was undone (SPEC HOOK-4, HOOK-5).
        ReentrantTransition: It would deadlock (SPEC HOOK-7).
        SessionClosed: The session takes no requests.
        StoreError: The session is in a store, which can't be used; nothing has changed (SPEC STO-5).
        ToolfoldError: The transition is refused.
    """
    async with changing(session, "transition", request, force):
        if session.state.status != "open":
            raise session.state.refusal(session.id)
        performer = Performer(session, partial(Snapshot.plan, request=request), view, asked=("transition", request))
        return await _performed(performer, force=force)


async def begin(session: Session, planner: Planner, asked: Reason) -> None:
    """Make the transition that a session begins with; raises as `transition` does.

    Nothing was listed yet that could change, so the application state is not read (SPEC MOD-3).
    """
    async with changing(session, "start"):
        await _performed(Performer(session, planner, compare=False, asked=asked))


async def _performed(performer: Performer, *, force: bool = False) -> Change:
    journal = performer.session.state.journal
    async with _NOTHING if journal is None else journal.step():
        change = await performer.perform(Step.begin(force=force, stored=journal is not None))
    if performer.interruption is not None:
        raise performer.interruption
    return change


async def end(session: Session) -> tuple[Exception, ...]:
    """Close all groups but those that are inherited, delete the record, and return the failures of hooks.

    Call it within `changing`. A cancellation is raised after it (SPEC HOOK-9). The record is deleted under its lease
    once nothing is open: another process may have opened groups, or have ended while it did.

    Raises:
        StoreError: The session is in a store, which can't be used; a sweep ends it later.
    """

    def planner(now: Snapshot) -> Plan:
        return close(now.configuration, keep=state.inherited)

    state, journal = session.state, session.state.journal
    compare = bool(state.listeners)
    performer = Performer(session, planner, compare=compare, shielded=True, asked=("close", None))
    async with _NOTHING if journal is None else journal.step():
        failures = (await performer.perform(Step.begin(force=True, stored=journal is not None))).failures
        while journal is not None and journal.version:
            try:
                failures += (await performer.perform(Step.hold(force=True))).failures
            except SessionClosed:
                break
            if performer.state == "unchanged" and journal.token is not None:
                await journal.delete()
                break
    if performer.interruption is not None:
        raise performer.interruption
    return failures


async def hold(session: Session) -> None:
    """Take the lease of a session's record, and its state, if another process has changed it.

    The change of a process that ended in the middle of it is undone first, which releases the lease (SPEC STO-3).

    Raises:
        SessionClosed: There is no such record any more.
        StoreUnavailable: Another process has held it for too long, or the store does not answer.
        StoreError: The record is damaged.
    """
    await Performer(session, None).perform(Step.hold())


def take_over(session: Session, record: Record) -> None:
    """Make the state of a record the present one, and notify the listeners of the lists that differ."""
    state, before = session.state, session.snapshot
    journal = state.stored
    state.now = now = journal.take_over(record, before.catalog)
    state.inherited = tuple(filter(now.is_active, journal.content.inherited))
    if state.listeners and now is not before:
        notify(session, changes(session.runtime.view_of(before), session.runtime.view_of(now)))


def notify(session: Session, kinds: frozenset[str]) -> None:
    """Notify the listeners of a session that lists of some kinds have changed (SPEC NTF-1, NTF-2)."""
    observers, listeners = session.runtime.observers, session.state.listeners
    if kinds and (listeners or ListChanged in observers.listeners):
        observers.list_changed(session.id, kinds, listeners)


_NOTHING = nullcontext()


# -- a step -----------------------------------------------------------------------------------------------------------


@define(eq=False)
class Trail:
    """What a step has done so far, for who listens to `Stepped`: the events, and what was planned."""

    events: list[Event] = field(factory=list[Event])
    plans: list[Planning] = field(factory=list[Planning])


@define(eq=False)
class Performer:
    """Performs one step of a session after the other.

    Attributes:
        session: The session.
        planner: Plans the transition for a state of the session; `None` to plan nothing.
        view: The view of the request that this is part of, if there is one (SPEC MOD-3).
        compare: Whether a list was given out that may differ afterwards.
        shielded: Whether every hook finishes, and nothing is given up for a cancellation (SPEC HOOK-9).
        asked: What is asked for, for who listens to `Stepped`.
        interruption: The cancellation that arrived, which is still to be raised.
        state: How the last step has ended.
    """

    session: Session
    planner: Planner | None
    view: RequestView | None = None
    compare: bool = True
    shielded: bool = False
    asked: Reason = ("hold", None)
    interruption: BaseException | None = None
    state: State = "new"
    _mark: Mark | None = None
    _trail: Trail | None = None
    _before: Snapshot = field(init=False)
    _plan: Plan = field(init=False)
    _saved: tuple[Snapshot, Snapshot, RequestView | None] = field(init=False)

    async def perform(self, step: Step) -> Change:
        """Perform a step to its end, and return what has changed.

        From a cancellation on, and while hooks are undone, every hook finishes, however often the caller is cancelled.

        Raises:
            HookFailed: A hook failed, and what had succeeded was undone (SPEC HOOK-4, HOOK-5).
            ToolfoldError: The transition is refused.
            StoreError: The session is in a store, which can't be used; nothing has changed (SPEC STO-5).
        """
        if step.state != "new":
            self._before = self.session.snapshot
        self._trail = trail = Trail() if Stepped in self._observers.listeners else None
        raised: BaseException | None = None
        try:
            while (effect := _EFFECTS.get(step.state)) is not None:
                try:
                    event, given = await effect(self, step)
                except BaseException as error:
                    event, given = "lost", error
                if trail is not None:
                    trail.events.append(event)
                step = step.on(event, given)
            self.state = step.state
            return self._change(step)
        except BaseException as error:
            raised = error
            raise
        finally:
            self._end_hooks()
            if trail is not None:
                self._notify(step, trail, raised)

    def _notify(self, step: Step, trail: Trail, error: BaseException | None) -> None:
        """Notify observers of what a step has done."""
        session, journal, (what, request) = self.session, self.session.state.journal, self.asked
        event = Stepped(
            session.id,
            what,
            request,
            step.work.force,
            tuple(trail.events),
            tuple(trail.plans),
            step.state,
            session.state.now,
            None if journal is None else journal.version,
            journal is not None and not journal.is_local,
            self.interruption is not None,
            error,
        )
        self._observers.notify(event)

    def _change(self, step: Step) -> Change:
        if step.state == "committed":
            return self.commit(step.work.failures)
        if step.state == "unchanged":
            return Change(states=(self._before, self._before))
        raise self._error(step)

    def commit(self, failures: tuple[HookFailed, ...]) -> Change:
        """Make the plan's result the state, and send the notifications."""
        now, after, before = self._saved
        session, state, observers = self.session, self.session.state, self._observers
        facts = state.now.facts  # they may be set while the state is stored
        state.now = after = after if facts is now.facts else after.with_facts(facts)
        if state.inherited:
            state.inherited = tuple(filter(after.is_active, state.inherited))
        lists = frozenset[str]() if before is None else changes(before, before.of(after))
        change = Change(*self._plan.paths, lists, failures)
        if Committed in observers.listeners:
            observers.notify(Committed(session.id, change))
        if failures:
            observers.notify(HooksFailed(session.id, failures))
        notify(session, lists)
        return evolve(change, states=(now, state.now))

    def _error(self, step: Step) -> BaseException:
        """Return why a step has changed nothing; what failed while hooks were undone is noted there."""
        cause, undoing = step.work.cause, step.work.compensation_failures
        assert cause is not None
        if step.state == "abandoned":
            return cause
        if (failed := step.error) is not None:
            self._observers.notify(RolledBack(self.session.id, failed))
            return failed if self.interruption is None else _noted(self.interruption, undoing)
        self._report(undoing)
        return _noted(cause if self.shielded else self.interruption or cause, undoing)

    # -- the effects --------------------------------------------------------------------------------------------------

    async def plan(self, step: Step) -> Outcome:
        """Plan the transition for the present state; nothing is planned again for a caller who is cancelled."""
        self._end_hooks()
        self._report(undoing := step.work.compensation_failures)
        if self.interruption is not None and not self.shielded:
            raise _noted(self.interruption, undoing)
        self._before = before = self.session.snapshot
        if self.planner is None:
            return "unchanged", None
        if self._trail is not None:
            journal = self.session.state.journal
            known = 0 if journal is None else journal.version
            self._trail.plans.append(Planning(before, known, self.session.state.inherited))
        self._plan = plan = self.planner(before)
        if self._trail is not None:
            self._trail.plans[-1] = evolve(self._trail.plans[-1], plan=plan)
        if self._observers.is_traced:
            self._observers.planned(self.session.id, plan)
        if plan.after is plan.before:
            return "unchanged", None
        return "planned", _hooks(before.catalog, plan, self.session.state.inherited)

    async def lease(self, step: Step) -> Outcome:
        """Take the lease of the record, and with it record the first hook, if record and state are those of the plan.

        Raises:
            SessionClosed: There is no such record any more.
            StoreUnavailable: Another process has held it for too long, or the store does not answer.
            StoreError: The record is damaged.
        """
        session, before, journal = self.session, self._before, self._journal
        await journal.ensure(before)
        known, recorded = journal.version, tuple[HookCall, ...]()
        if journal.token is None:
            recorded = step.to_undo if session.snapshot is before else ()
            if (record := await journal.acquire(recorded)) is None:
                raise SessionClosed(session.id)
            if record.version != journal.version:
                take_over(session, record)
            if record.intent is not None:
                log.warning("session %s: a transition whose process ended in the middle of it is undone", session.id)
                return "left", journal.begun(record.intent, session.snapshot.catalog)
        if session.snapshot is not before or journal.version != known:
            return "news", None
        return await self._intend(recorded) if recorded else ("leased", None)  # the lease may have ended meanwhile

    async def intend(self, step: Step) -> Outcome:
        """Record the hook that is next; raises `LeaseLost`."""
        return await self._intend(step.to_undo)

    async def _intend(self, to_undo: tuple[HookCall, ...]) -> Outcome:
        await self._journal.intend(to_undo)
        return "intended", None

    async def hook(self, step: Step) -> Outcome:
        """Run the hook that is next."""
        session, call = self.session, step.hook
        if self._mark is None:
            self._mark = _queue_of(session).begin_hooks()
        shielded = self.shielded or self.interruption is not None or step.state == "rolling_back"
        if shielded:
            ended, cancelled = await uninterrupted(partial(attempt, session, call))
        elif isinstance(call.hook, InThread):  # it can't be stopped, so only its end shows whether it failed
            ended, cancelled = await uninterrupted(partial(attempt, session, call))
            cancelled = cancelled or await _cancellation()
        else:
            ended, cancelled = await attempt(session, call), None
        self.interruption = self.interruption or ended.interruption or cancelled
        if ended.error is not None:
            return "failed", ended.error
        return ("succeeded", None) if cancelled is None or shielded else ("cancelled", cancelled)

    async def save(self, step: Step) -> Outcome:
        """Save the result of the plan, if that is the same in the catalog of now; raises `StoreError`."""
        self._end_hooks()
        session = self.session
        now = session.snapshot
        if now.catalog is not self._before.catalog and (differs := self._plan_differs(now)) is not None:
            return differs
        after, before = now.at(catch_up(self._plan, now.configuration)), None
        if self.compare:
            before = session.runtime.view_of(now) if self.view is None else self.view.of(now)
        state = session.state
        if state.journal is not None and not await state.journal.save(after, before, state.inherited):
            return "conflict", None
        self._saved = now, after, before
        return "saved", None

    def _plan_differs(self, now: Snapshot) -> Outcome | None:
        """Plan in a catalog that has changed since, and return how that differs, if it does."""
        assert self.planner is not None
        try:
            again = self.planner(now)
        except ToolfoldError as error:
            return "refused", error
        if _groups(now.catalog, again) != _groups(self._before.catalog, self._plan):
            return "changed", None
        self._plan = again
        return None

    async def settle(self, step: Step) -> Outcome:
        """Record that nothing is to be undone any more; raises `LeaseLost`."""
        self._end_hooks()
        await self._journal.settle()
        return "settled", None

    @property
    def _journal(self) -> Journal:
        journal = self.session.state.journal
        assert journal is not None
        return journal

    def _end_hooks(self) -> None:
        """What runs in this task from now on is no hook of the session."""
        if self._mark is not None:
            _queue_of(self.session).end_hooks(self._mark)
            self._mark = None

    def _report(self, failures: tuple[BaseException, ...]) -> None:
        """Notify observers of what failed while hooks were undone of a transition that no hook has ended."""
        if failures:
            self._observers.notify(HooksFailed(self.session.id, failures))

    @property
    def _observers(self) -> Observers:
        return self.session.runtime.observers


_METHODS: Final[Mapping[Effect, Callable[[Performer, Step], Awaitable[Outcome]]]] = MappingProxyType(
    {
        "plan": Performer.plan,
        "lease": Performer.lease,
        "intend": Performer.intend,
        "hook": Performer.hook,
        "save": Performer.save,
        "settle": Performer.settle,
    }
)
_EFFECTS: Final = MappingProxyType({state: _METHODS[effect] for state, effect in EFFECTS.items()})


def _hooks(catalog: Catalog, plan: Plan, inherited: Iterable[str]) -> tuple[HookCall, ...]:
    """Return the hooks of a plan: deactivations bottom up, then activations top down (SPEC HOOK-3).

    Those of inherited groups run in the session that they are inherited from.
    """
    if not (hooked := (plan.deactivated | plan.activated) & catalog.hooked):
        return ()
    found = [(at, hooks) for at in bits(hooked) if (hooks := catalog.hooks[at]) and hooks.path not in inherited]
    down = [hooks for at, hooks in found if plan.deactivated >> at & 1]
    up = [hooks for at, hooks in found if plan.activated >> at & 1]
    return (
        *(HookCall(hooks, "on_deactivate", hooks.on_deactivate) for hooks in reversed(down) if hooks.on_deactivate),
        *(HookCall(hooks, "on_activate", hooks.on_activate) for hooks in up if hooks.on_activate),
    )


def _groups(catalog: Catalog, plan: Plan) -> tuple[list[Group], list[Group]]:
    """Return the groups to deactivate and to activate, as objects: a path may name another later."""
    groups = catalog.groups
    return [groups[number] for number in bits(plan.deactivated)], [groups[number] for number in bits(plan.activated)]


def _noted(error: BaseException, failures: Iterable[BaseException]) -> BaseException:
    """Return `error`, with the failures of the hooks that undid others as notes."""
    for failure in failures:
        error.add_note(f"while undoing the hooks that had run: {failure!r}")
    return error


# -- hooks ------------------------------------------------------------------------------------------------------------


async def resume(session: Session, call: HookCall) -> None:
    """Run the hook that sets up in this process what a group needs; raises `HookFailed` (SPEC STO-4)."""
    ended = await attempt(session, call)
    if ended.error is not None:
        raise ended.interruption or HookFailed(call.group.path, call.phase, ended.error)


async def attempt(session: Session, call: HookCall) -> Ended:
    """Run a hook of a session and return how it ended; this is the one place that logs failures of hooks (SPEC SAF-3).

    A `ToolError` is a refusal that was foreseen, so where it was raised is not logged.
    """
    observers = session.runtime.observers
    try:
        with observers.hook(session.id, call) if HookBegan in observers.listeners else UNTRACED:
            await _run(session, call)
    except BaseException as error:
        if isinstance(error, ToolError):
            log.info("session %s: %s refused: %s", session.id, call, quoted(repr(str(error))))
            return Ended(error)
        if is_failure(error):
            log.error("session %s: %s failed", session.id, call, exc_info=error)
            return Ended(error)
        if isinstance(error, GeneratorExit):  # nothing can be awaited any more
            raise
        return Ended(error, error)
    return Ended()


async def _run(session: Session, call: HookCall) -> None:
    stopped, timeout, fence = None, session.runtime.hook_timeout, None
    with anyio.move_on_after(timeout) as scope:
        if (journal := session.state.journal) is not None:
            fence = journal.hook_begins(scope)
        try:
            answer = call.hook(HookContext(session, call.group.path, call.phase, call.undoes, fence))
            if isawaitable(answer):
                await answer
        except anyio.get_cancelled_exc_class() as error:
            stopped = error
            raise
    if scope.cancelled_caught:
        if timeout is None or anyio.current_time() < scope.deadline:
            raise LeaseLost from stopped
        raise HookTimeout(timeout) from stopped  # which says where it was


@frozen
class Ended:
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


# -- one change at a time --------------------------------------------------------------------------------------------

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

    def begin_hooks(self) -> Mark:
        """Mark what runs in this task from now on as hooks of this session, for `ReentrantTransition`."""
        self._running = _Hooks()
        return _under_way.set((*_under_way.get(), self._running))

    def end_hooks(self, mark: Mark) -> None:
        """End what `begin_hooks` began."""
        self._running = None
        _under_way.reset(mark)

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

    __slots__ = ("thread", "waits")

    def __init__(self) -> None:
        self.thread = get_ident()
        self.waits: list[Queue] = []


Mark = Token[tuple[_Hooks, ...]]
"""What ends what is marked as hooks."""
_under_way: ContextVar[tuple[_Hooks, ...]] = ContextVar("toolfold_under_way", default=())
