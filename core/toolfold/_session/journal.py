"""The journal of one stored session: what its process reads and writes, under which version and lease.

`Journal` makes transitions safe with the operations of a `Store` (SPEC PER-3, STO-2, STO-3):

- A transition without hooks is saved by a swap. If it loses, it is planned again under the lease, where it can't lose.
- A transition with hooks takes the lease before its first hook. Before each hook, it records an intent: the hooks to
  undo if the process ends during that one; the first comes with the lease. One swap saves the state, removes the intent
  and releases the lease.
- Whoever takes the lease and finds an intent undoes its hooks first.
- A transition whose lease is lost, or whose store fails, stops and undoes nothing: the lease's next process does.

The session holds the state, which is passed in; `state.py` has what a store has of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
from attrs import define, field

from .._catalog.catalog import Catalog
from .._snapshot import Snapshot
from .._usercode import uninterrupted
from .._view.listing import changes
from .._view.visibility import RequestView
from ..errors import LeaseLost, StoreError, StoreUnavailable, ToolfoldError
from ..machine.step import HookCall, Hooks, Phase
from .state import Content, decoded, intent_of, to_undo
from .store import UNCERTAIN, Record, Store

PATIENCE = 60.0
"""Seconds to wait for the hooks that another process runs."""
FIRST_PAUSE, LAST_PAUSE = 0.005, 0.25
"""Seconds between two attempts to get a lease that is held: they grow from the first to the last."""

T = TypeVar("T")


class Steps:
    """The transitions that run in this process, by their journals; what they hold leases of is renewed."""

    def __init__(self) -> None:
        self._journals: dict[Journal, None] = {}
        self._last: anyio.Event | None = None

    def begin(self, journal: Journal) -> None:
        """Note that a transition begins."""
        self._journals[journal] = None

    def end(self, journal: Journal) -> None:
        """Note that a transition has ended."""
        del self._journals[journal]
        if self._last is not None and not self._journals:
            self._last.set()

    async def renew_leases(self, seconds: float) -> None:
        """Renew leases for some time, at the end until the last transition has ended: some hooks can't be stopped.

        The end of that transition is the end of this, without a pause.
        """
        try:
            await self._renew_repeatedly(seconds / 4)
        finally:
            if self._journals:
                self._last = anyio.Event()
                with anyio.CancelScope(shield=True):
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._renew_repeatedly, seconds / 4)
                        await self._last.wait()
                        tasks.cancel_scope.cancel()

    async def _renew_repeatedly(self, pause: float) -> None:
        while True:
            await anyio.sleep(pause)
            async with anyio.create_task_group() as tasks:  # one that is not answered must not delay the others
                for journal in tuple(self._journals):
                    tasks.start_soon(journal.renew)


@define(eq=False)
class Journal:
    """The journal of one session.

    Attributes:
        store: Where the record is.
        key: Its key there.
        tools: The name of the tool set.
        steps: The transitions of this process, whose leases it renews.
        admit: Creates the record with its first content, and returns its version.
        find: Returns the session of a key as it is now, for its next request; `None` if it has ended.
        left: Notes that this process has no more to do with the session.
        is_local: Whether the store is this process's own, which answers at once.
        content: What the record says.
        version: The version that is known here; 0 before the record is created.
        discarded: The groups of the record that the catalog here does not allow (SPEC PER-2).
        present: The active groups that were set up, or resumed, in this process.
        token: The token of the lease, while it is held.
        client: Notifies the client, if this process is connected to it, of kinds of lists that are announced to all;
            without any, the record has changes for the first process to claim them. Set by an adapter.
        users: How many have the session open here, beside requests.
        is_away: Whether the store did not answer when it was last looked up, so that its state may be older.
        facts: The facts that were set here, and are still to be stored.
        abandoned: How often a newer record lacked facts that were set here, and that may have been stored before it.
    """

    store: Store
    key: str
    tools: str
    steps: Steps
    admit: Callable[[Content], Coroutine[Any, Any, int]]
    find: Callable[[str], Coroutine[Any, Any, Any]]
    left: Callable[[str], None]
    is_local: bool
    content: Content
    version: int = 0
    discarded: tuple[str, ...] = ()
    present: frozenset[str] = frozenset()
    token: int | None = None
    client: Callable[[frozenset[str]], None] | None = None
    users: int = 0
    is_away: bool = False
    facts: dict[str, Any] = field(factory=dict[str, Any])
    abandoned: int = 0
    _intent: str | None = None
    _until: float = 0.0
    _lost: bool = False
    _unanswered: frozenset[str] = frozenset()
    _writing: anyio.Event | None = None
    _interruption: BaseException | None = None
    _hook: anyio.CancelScope | None = None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def is_news(self, record: Record, known: int) -> bool:
        """Return whether a record is to be taken over, since it is newer than what is known.

        `known` is the version that was known before the record was read: if nothing was written here meanwhile, an
        older record says that the store has lost the newer one. A newer state may be the one that is being written
        here, so this waits for the end of the write. The same state is read again as long as the catalog lacks some of
        its groups: they may still be registered.
        """
        while self._writing is not None and record.version > self.version:
            await self._writing.wait()
        incomplete = bool(self.discarded) and self.token is None and record.version == self.version
        is_lost = record.version < self.version == known
        return self._writing is None and (record.version > self.version or is_lost or incomplete)

    def take_over(self, record: Record, catalog: Catalog) -> Snapshot:
        """Return the state of a record in a catalog, with the facts that are still to be stored.

        Raises `StoreError` if the record is damaged.
        """
        content = decoded(self.tools, self.key, record.data)
        after, self.discarded = content.restored(catalog)
        if record.version > self.version:  # which may be due to the write that was not answered: never write twice
            unanswered = {name: self.facts.pop(name) for name in self._unanswered & self.facts.keys()}
            self.abandoned += any(after.facts.get(name, ...) != value for name, value in unanswered.items())
        self.version, self.content = record.version, content
        if self.facts:
            after = after.with_facts({**after.facts, **self.facts})
        self.present = frozenset(filter(after.is_active, self.present))
        return after

    # -- the lease ----------------------------------------------------------------------------------------------------

    async def acquire(self, to_undo: Collection[HookCall]) -> Record | None:
        """Take the lease, and return the record as it is now; `None` if there is none any more.

        What `intend` would record is recorded at once, if there is anything to undo and the record is the one that is
        known.

        Raises `StoreUnavailable` if another process has held it for too long, or the store does not answer.
        """
        pause, left, version = FIRST_PAUSE, PATIENCE, self.version  # another request may read a newer one meanwhile
        intent = intent_of(to_undo) if to_undo else None
        while True:
            now = 0.0 if self.is_local else anyio.current_time()
            lease = await self._whole(partial(self.store.acquire, self.key, self.store.lease, version, intent))
            if lease is None:
                self.facts.clear()  # the next session of that name is another one
                return None
            if lease.token is not None:
                self.token, self._until, self._lost = lease.token, now + self.store.lease, False
                known = lease.record.version == version and lease.record.intent is None
                self._intent = intent if known else lease.record.intent
                return lease.record
            if left <= 0:
                raise StoreUnavailable("Another process still runs hooks of this session; try again later.")
            await anyio.sleep(pause)
            left, pause = left - pause, min(2 * pause, LAST_PAUSE)

    def begun(self, intent: str, catalog: Catalog) -> tuple[HookCall, ...]:
        """Return the hooks to undo that another process has left; raises `StoreError`."""
        groups: list[tuple[Hooks, Phase]] = [
            (catalog.group(path).hooks, phase) for path, phase in to_undo(intent) if path in catalog.index
        ]
        return tuple(HookCall.begun(hooks, phase) for hooks, phase in groups)

    async def renew(self) -> None:
        """Renew the lease; if it is lost, cancel the hook that runs under it (SPEC STO-2).

        A store that does not answer is asked again until the lease ends. The store may hold it for a while longer, but
        the cancelled hook is to be undone, so that its transition writes nothing any more.
        """
        token, held = self.token, False
        if token is None or self._lost:
            return
        now = anyio.current_time()
        with anyio.move_on_after(self._until - now):
            while True:
                with suppress(ToolfoldError):
                    held = await self.store.renew(self.key, token, self.store.lease)
                    break
                await anyio.sleep(LAST_PAUSE)
                now = anyio.current_time()
        if self.token != token:
            return
        if held:
            self._until = now + self.store.lease
        else:
            self._lost = True
            if self._hook is not None:
                self._hook.cancel()

    @asynccontextmanager
    async def step(self) -> AsyncGenerator[None]:
        """Release the lease at the end, if it is held, and raise the cancellation that arrived meanwhile.

        An intent that is left is undone by the next process with the lease.
        """
        self.steps.begin(self)
        try:
            yield
        finally:
            if (token := self._let_go()) is not None:
                with suppress(StoreError):  # otherwise it expires
                    await self._whole(partial(self.store.release, self.key, token))
            self.steps.end(self)
            interruption, self._interruption = self._interruption, None
        if interruption is not None:
            raise interruption

    def _let_go(self) -> int | None:
        token, self.token, self._intent = self.token, None, None
        return token

    # -- writing ------------------------------------------------------------------------------------------------------

    async def intend(self, to_undo: Collection[HookCall]) -> None:
        """Record the hooks to undo if this process ends during the next one; raises `LeaseLost`."""
        await self._intend(intent_of(to_undo))

    def hook_begins(self, scope: anyio.CancelScope) -> int | None:
        """Note the scope in which a hook runs, to be cancelled once the lease is lost, and return the fencing token.

        That is the token of the lease; `None` if tokens begin anew with each process.
        """
        self._hook = scope
        return None if self.is_local else self.token

    async def settle(self) -> None:
        """Record that nothing is to be undone, if something was, and release the lease then; raises `LeaseLost`."""
        if self._intent is not None:
            await self._intend(None)

    async def _intend(self, intent: str | None) -> None:
        if (token := self.token) is None or self._lost:
            raise LeaseLost
        if intent is None or intent != self._intent:
            done = await self._whole(partial(self.store.intend, self.key, intent, token))
            self._intent = intent
            if intent is None or not done:
                self._let_go()
            if not done:
                raise LeaseLost
        if intent is not None and not self.is_local and anyio.current_time() >= self._until:
            raise LeaseLost

    async def save(self, after: Snapshot, before: RequestView | None, inherited: tuple[str, ...]) -> bool:
        """Store a state, and return whether that was done: not if another process has changed the record.

        Args:
            after: The state to store.
            before: The view that lists were given in; `None` if there are none.
            inherited: The groups that another session has set up.

        Raises:
            LeaseLost: The lease under which it was to be written has expired.
            QuotaExceeded: The record would be too long.
        """
        pending = self.content.pending
        if self.content.notifies and before is not None:
            pending = self.content.pending_with(changes(before, before.of(after)))
        content = self.content.at(after, None, tuple(filter(after.is_active, inherited)), pending)
        if done := await self._write(content):
            self.present = frozenset(after.active)
        return done

    def set_facts(self, before: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Note the facts that differ from those before, which are to be stored."""
        changed = {name: value for name, value in facts.items() if before.get(name, ...) is not value}
        self.facts |= changed
        self._unanswered -= changed.keys()

    async def claim(self, snapshot: Snapshot) -> tuple[frozenset[str], ...]:
        """Take out and return the changes of lists that are still to be reported; none if another process was faster.

        If the store does not answer, they may have been taken out, so they are returned: a client that is notified
        twice lists again in vain, one that never is knows an old list for ever. Nothing else may write meanwhile.
        """
        now, pending = self.content, self.content.pending
        async with self.step():
            with suppress(StoreUnavailable):
                return pending if await self._write(now.at(snapshot, now.start, now.inherited, ())) else ()
            return pending

    async def delete(self) -> None:
        """Delete the record, whose lease is held."""
        await self._whole(partial(self.store.delete, self.key, self._let_go() or 0))

    async def ensure(self, snapshot: Snapshot) -> None:
        """Create the record if that was not done; raises `QuotaExceeded`."""
        if not self.version:
            await self.write(snapshot)

    async def write(self, snapshot: Snapshot) -> bool:
        """Store a state, in a new record if there is none, and return whether that was done, as `save` does."""
        now = self.content
        return await self._write(now.at(snapshot, now.start, now.inherited, now.pending))

    async def _write(self, content: Content) -> bool:
        written = dict(self.facts)
        if not self.version:
            self.version = await self._written(partial(self.admit, content))
        elif not await self._commit(content, written):
            return False
        self.content, self.discarded, self._unanswered = content, (), frozenset()
        self.facts = {name: value for name, value in self.facts.items() if written.get(name, ...) is not value}
        return True

    async def _commit(self, content: Content, written: Mapping[str, Any]) -> bool:
        try:
            return await self._swap(content)
        except LeaseLost:
            raise
        except StoreUnavailable as error:  # whose answer may have been lost
            self._unanswered = frozenset(name for name, value in written.items() if self.facts.get(name) is value)
            raise StoreUnavailable(UNCERTAIN) from error

    async def _swap(self, content: Content) -> bool:
        token = self.token
        if token is not None and self._lost:
            raise LeaseLost
        version = await self._written(partial(self.store.swap, self.key, self.version, content, token))
        if version is not None:
            self.version = version
        if token is not None:
            self._let_go()
            if version is None:
                raise LeaseLost
        return version is not None

    async def _written(self, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await a write to its end, until which no record is taken for news."""
        self._writing = None if self.is_local else anyio.Event()
        try:
            return await self._whole(operation)
        finally:
            if self._writing is not None:
                self._writing.set()
                self._writing = None

    async def _whole(self, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await an operation to its end, since it would be unknown whether a cancelled one was done."""
        if self.is_local:
            return await operation()
        result, interruption = await uninterrupted(operation)
        self._interruption = self._interruption or interruption
        return result
