"""The state of one session, with its listeners and, if it is in a store, its record (SPEC 5).

`perform` changes it, one change at a time. `Executor.commit` is the only place that makes a plan's result the state of
the session. With a journal, the session is in a store (SPEC STO-1 to STO-4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

from attrs import evolve

from .._catalog.components import Profile
from .._limits import enumerated
from .._snapshot import Change, Snapshot
from .._usercode import on_loop
from .._view.listing import changes
from .._view.visibility import RequestView
from ..errors import HookFailed, StoreError, StoreUnavailable
from ..machine import Plan, TransitionRequest, use
from ..machine.step import HookCall
from .events import Committed, HooksFailed
from .journal import Journal
from .observers import Listener
from .perform import ContextOf, HookRunner, Planner, Queue, changing, hold, transition, unless_busy
from .runtime import Runtime
from .store import UNCERTAIN, Record


class Executor:
    """Executes the transitions of one session, and holds its state.

    Attributes:
        status: Whether the session is still to be opened, open, or closed.
        inherited: The active groups that another session has set up and closes: their hooks don't run here.
        journal: Records the changes, where the session is in a store.
        queue: The queue of changes; there is none, which would cost memory, while there are no changes.
    """

    __slots__ = ("_listeners", "_state", "id", "inherited", "journal", "profile", "queue", "runtime", "status")

    def __init__(self, identity: str, runtime: Runtime, profile: Profile | None) -> None:
        self.id = identity
        self.profile = profile
        self.status: Literal["new", "open", "closed"] = "new"
        self.inherited: tuple[str, ...] = ()
        self.journal: Journal | None = None
        self.runtime = runtime
        self._state = Snapshot.of(runtime.catalogs.under(profile))
        self._listeners: tuple[Listener, ...] = ()
        self.queue: Queue | None = None

    # -- the state ----------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The present state, in the newest catalog (SPEC REG-7)."""
        if self.profile is None and self._state.catalog is self.runtime.catalogs.newest:
            return self._state
        return self._in_newest_catalog()

    @on_loop
    def _in_newest_catalog(self) -> Snapshot:
        return self._state.moved_to(self.runtime.catalogs.under(self.profile))

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

    # -- changes ------------------------------------------------------------------------------------------------------

    async def set_up(self, paths: Iterable[str], context_of: ContextOf) -> None:
        """Activate the groups that the session begins with; raises as `transition` does.

        Nothing was listed yet that could change, so the application state is not read (SPEC MOD-3).
        """
        await self.begin_with(partial(Snapshot.plan, request=TransitionRequest(paths)), context_of)

    async def begin_with(self, planner: Planner, context_of: ContextOf) -> None:
        """Make the transition that the session begins with; raises as `transition` does."""
        async with changing(self, "start"):
            await transition(self, planner, context_of, compare=False)

    def commit(
        self,
        now: Snapshot,
        after: Snapshot,
        before: RequestView | None,
        plan: Plan,
        failures: tuple[HookFailed, ...],
    ) -> Change:
        """Make a plan's result the state, and send the notifications; `before` is the view that lists were given in."""
        facts = self._state.facts  # they may be set while the state is stored
        self._state = after if facts is now.facts else after.with_facts(facts)
        if self.inherited:
            self.inherited = tuple(filter(self._state.is_active, self.inherited))
        lists = frozenset[str]() if before is None else changes(before, before.of(self._state))
        change = Change(*plan.paths, lists, failures)
        if Committed in self.runtime.observers.listeners:
            self.runtime.observers.notify(Committed(self.id, change))
        if failures:
            self.runtime.observers.notify(HooksFailed(self.id, failures))
        self.notify(lists)
        return evolve(change, states=(now, self._state))

    def hook_runner(self, context_of: ContextOf) -> HookRunner:
        """Return what runs hooks of the session."""
        return HookRunner(self.id, self.runtime, self.journal, context_of)

    # -- in a store ---------------------------------------------------------------------------------------------------

    @property
    def stored(self) -> Journal:
        """The journal of a session that is in a store."""
        assert self.journal is not None
        return self.journal

    @property
    def is_stored(self) -> bool:
        """Whether a store has the session."""
        return self.journal is not None and bool(self.journal.version)

    @property
    def oldest_first(self) -> tuple[str, ...]:
        """The active groups, the longest-active first where that is known, else in canonical order."""
        now = self.snapshot
        return now.configuration.oldest_first if self.journal is None else now.in_order(self.journal.content.active)

    @property
    def is_away(self) -> bool:
        """Whether the state is the one that was known last, since the store did not answer (SPEC STO-5)."""
        return self.journal is not None and self.journal.is_away

    async def ensure(self) -> None:
        """Create the record, if that was not done; raises `QuotaExceeded`."""
        if not (journal := self.stored).version:
            async with journal.step():  # a cancellation that arrives meanwhile is this caller's
                await journal.ensure(self.snapshot)

    async def load(self, record: Record, known: int = 0) -> None:
        """Take over what the record says, if that is newer than what is known; raises `StoreError` if it is damaged.

        `known` is the version that was known before the record was read.
        """
        if await self.stored.is_news(record, known):
            self.take_over(record)

    async def recover(self, record: Record) -> None:
        """Undo what a process that ended in the middle of a transition had begun; raises `StoreError`."""
        if record.is_abandoned:
            async with changing(self, "start"), self.stored.step():
                await hold(self)

    async def resume(self) -> None:
        """Open the groups to start with, and run the `resume` hooks of groups that other processes have opened.

        Raises:
            HookFailed: A hook failed; the state is as before.
            StoreError: The store can't be used, or the session is to begin with groups that there are not.
        """
        journal = self.stored
        if missing := [path for path in journal.content.start or () if path not in self.snapshot.catalog.index]:
            raise StoreError(
                f"The stored session was to begin with the groups {enumerated(missing)}, which are not there: they "
                "were renamed or removed, or the record is damaged. Open a new session."
            )

        def start(now: Snapshot) -> Plan:
            """Plan nothing if another process has been faster."""
            return now.plan(TransitionRequest(journal.content.start or ()))

        if journal.content.start is not None:
            await self.begin_with(start, journal.context_of)
        runner = self.hook_runner(journal.context_of)
        for path in self.snapshot.active:
            group = self.snapshot.catalog.group(path)
            if group.resume is not None and path not in journal.present and path not in self.inherited:
                await runner.resume(HookCall(group.hooks, "resume", group.resume))
        journal.present = frozenset(self.snapshot.active)

    @property
    def is_settled(self) -> bool:
        """Whether a request can go on at once, with nothing to resume."""
        return self.stored.content.start is None and self.stored.present.issuperset(self.snapshot.active)

    @asynccontextmanager
    async def request(self) -> AsyncGenerator[None]:
        """Run the block as one request, which may give out facts, and `flush` at its end; raises `StoreError`."""
        abandoned = 0 if self.journal is None else self.journal.abandoned
        try:
            yield
        finally:
            await self.flush(abandoned)

    async def flush(self, abandoned: int | None = None) -> None:
        """Store the facts that were set, if the session is open and in a store; raises `StoreError`.

        If that can't be done now, they stay set, and are stored with the next request, unless the record has changed
        since a save of them was not answered: it is unknown whether they were stored, though they may have been given
        out. Such facts count from the time when the journal had `abandoned` of them; from now on, unless given.
        """
        if (journal := self.journal) is None or self.status != "open":
            return
        abandoned = journal.abandoned if abandoned is None else abandoned
        if journal.has_facts():
            async with changing(self, "set_fact"), journal.step():
                try:
                    while journal.has_facts() and not await journal.write(self.snapshot):
                        await hold(self)
                except StoreUnavailable as error:
                    raise StoreUnavailable(UNCERTAIN) from error
        if journal.abandoned != abandoned:
            raise StoreUnavailable(UNCERTAIN)

    async def claim(self) -> tuple[frozenset[str], ...]:
        """Return the kinds of lists, for each transition, of which only the caller is to notify the client.

        There are none if another process was faster, or while another request changes the session: that one claims what
        there is at its end (SPEC NTF-1).
        """
        if not self.stored.content.pending:
            return ()
        with unless_busy(self) as alone:
            return await self.stored.claim(self.snapshot) if alone else ()

    def take_over(self, record: Record) -> None:
        """Make the state of a record the present one, and notify the listeners of the lists that differ."""
        journal, before = self.stored, self.snapshot
        now = self._state = journal.take_over(record, before.catalog)
        self.inherited = tuple(filter(now.is_active, journal.content.inherited))
        if self._listeners and now is not before:
            self.notify(changes(self.runtime.view_of(before), self.runtime.view_of(now)))

    # -- listeners ----------------------------------------------------------------------------------------------------

    @on_loop
    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener and return a function that removes it."""
        self._listeners = (*self._listeners, listener)

        @on_loop
        def remove() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return remove

    def leave(self) -> None:
        """End the session for this process alone, without hooks; one in a store goes on for others."""
        self.status = "closed"
        self.silence()
        if self.journal is not None:
            self.journal.left(self.journal.key)

    def silence(self) -> None:
        """Remove all listeners."""
        self._listeners = ()

    @property
    def is_followed(self) -> bool:
        """Whether anybody is to be notified of its changes here."""
        return self.has_listeners or (self.journal is not None and self.journal.client is not None)

    @property
    def has_listeners(self) -> bool:
        """Whether there are listeners: a connection may continue with another session."""
        return bool(self._listeners)

    def notify(self, kinds: frozenset[str]) -> None:
        """Notify the listeners that lists of some kinds have changed (SPEC NTF-1, NTF-2)."""
        if kinds and (self._listeners or self.runtime.observers.is_traced):
            self.runtime.observers.list_changed(self.id, kinds, self._listeners)
