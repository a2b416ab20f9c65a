"""Stored sessions: those whose state is in a `Store`, so that any process that shares it can go on with them (SPEC 25).

A process caches the sessions that it has served. Each request reads its session's record, once, and takes over what
other processes have changed. Only a session's own end, by a client or by time, runs the hooks that close its groups: a
process that ends leaves its stored sessions to the others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

from .._catalog.components import Kind, Profile, kinds_of
from .._quota import Caller
from .._snapshot import Snapshot
from ..errors import SessionClosed, StoreError, StoreUnavailable
from ..machine import close
from ..machine.transaction import HookCall
from .events import SessionEnded
from .executor import ContextOf
from .journal import Journal
from .runtime import Runtime
from .session import HookContext, Session
from .store import UNCERTAIN, Record


class KeyInUse(StoreError):
    """There is a record of that key."""


class Client(Protocol):
    """The client of a stored session, as far as this process is connected to it."""

    def owed(self) -> None:
        """Lists have changed, of which the client is to be notified by whoever claims that."""

    def announced(self, kinds: frozenset[str]) -> None:
        """The owner of the tool set announced that lists changed."""


class StoredSession(Session):
    """A session whose state is in a store. Made by `StoredSessions`.

    Attributes:
        journal: Records its steps.
        client: Its client, if that is to be notified of changes; set by an adapter.
        users: How many have it open here, beside requests.
        store_away: Whether the store did not answer when this was last looked up, so that its state may be older.
    """

    __slots__ = ("_find", "client", "journal", "store_away", "users")

    def __init__(
        self,
        runtime: Runtime,
        profile: Profile | None,
        caller: Caller,
        make_journal: Callable[[ContextOf], Journal],
        find: Callable[[str], Coroutine[Any, Any, StoredSession | None]],
        snapshot: Snapshot | None = None,
        owner: Session | None = None,
    ) -> None:
        super().__init__(runtime, "", profile, (), caller)
        self.journal = make_journal(partial(HookContext, self))
        self.id = self._executor.id = self.journal.key
        self._executor.journal = self.journal
        self._find = find
        self.client: Client | None = None
        self.users = 0
        self.store_away = False
        self.begin(snapshot, owner)

    @asynccontextmanager
    async def request(self) -> AsyncGenerator[None]:
        """Hold what runs within for one request: read the record first, and store the facts that were set."""
        self._check_open()
        if await self._find(self.journal.key) is not self:
            raise SessionClosed(self.id)
        try:
            yield
        finally:
            await self.flush()

    @property
    def fence(self) -> int | None:
        """The fencing token of the lease that is held now (SPEC STO-2)."""
        return self.journal.token

    @property
    def oldest_first(self) -> tuple[str, ...]:
        """The active groups, in the order in which they were opened, in whichever process."""
        return self.snapshot.in_order(self.journal.content.opened)

    @property
    def discarded(self) -> tuple[str, ...]:
        """The groups of its record that this catalog does not allow (SPEC PER-2)."""
        return self.journal.discarded

    def notify(self, kinds: Kind | Iterable[Kind] = "tool") -> None:
        """Notify its listeners and its client of an announcement that lists changed."""
        super().notify(kinds)
        if self.client is not None:
            self.client.announced(kinds_of(kinds))

    async def recover(self, record: Record) -> None:
        """Undo what a process that ended in the middle of a step had begun; raises `StoreError`."""
        if is_abandoned(record):
            async with self._executor.change("start"), self.journal.step():
                await self._executor.hold()

    async def load(self, record: Record) -> None:
        """Take over what its record says, if that is newer than what is known.

        Raises `StoreError` if it is damaged.
        """
        if await self.journal.is_news(record):
            self._executor.take_over(self.journal, record)

    async def ensure(self) -> None:
        """Create its record if that was not done; raises `QuotaExceeded`."""
        await self.journal.ensure(self.snapshot)

    async def resume(self) -> None:
        """Open the groups to start with, and run the `resume` hooks of groups that other processes have opened.

        Raises:
            HookFailed: A hook failed; the state is as before.
            StoreError: The store can't be used.
        """
        if self.journal.content.start is not None:
            await self.set_up(self.journal.content.start)
        for path in self.active:
            hook = self.catalog.group(path).resume
            if hook is None or path in self.journal.present or path in self.inherited:
                continue
            await self._executor.resume(
                HookCall(self.catalog.group(path).hooks, "resume", hook), self.journal.context_of
            )
        self.journal.present = frozenset(self.active)

    @property
    def is_orphaned(self) -> bool:
        """Whether a group that this session inherits is no longer open in its owner, or that has ended."""
        return super().is_orphaned or (self.journal.content.owner is not None and self._owner is None)

    @property
    def is_followed(self) -> bool:
        """Whether anybody is to be notified of its changes here."""
        return self._executor.has_listeners or self.client is not None

    @property
    def is_settled(self) -> bool:
        """Whether a request can go on at once."""
        return self.journal.content.start is None and self.journal.present.issuperset(self.active)

    async def flush(self) -> None:
        """Store the facts that were set; raises `StoreError`.

        If that can't be done now, they stay set, and are stored with the next request.
        """
        if not self.is_open or not self.journal.has_facts():
            return
        async with self._executor.change("set_fact"), self.journal.step():
            try:
                while self.journal.has_facts() and not await self.journal.write(self.snapshot):
                    await self._executor.hold()
            except StoreUnavailable as error:
                raise StoreUnavailable(UNCERTAIN) from error

    async def claim(self) -> tuple[frozenset[str], ...]:
        """Return the kinds of lists, for each step, of which the caller, and nobody else, is to notify the client.

        There are none if another process was faster, or while another request changes the session: that one claims what
        there is at its end (SPEC NTF-1).
        """
        if not self.is_open or not self.journal.content.owed:
            return ()
        with self._executor.unless_busy() as alone:
            return await self.journal.claim(self.snapshot) if alone else ()

    async def close(self) -> None:
        """End the session, and delete its record; raises as `Session.close` does.

        Raises `StoreError` where the store can't be used: then the record stays, and a sweep ends the session.
        """
        if not self.is_open:
            return
        failures: list[ExceptionGroup] = []
        gone = False
        while not gone:
            self._status = "open"
            try:
                await super().close()
            except ExceptionGroup as error:  # of hooks that failed
                failures.append(error)
            async with self._executor.change("close"):
                gone = await self._delete()
        self._runtime.observers.notify(SessionEnded(self.id))
        if failures:
            raise failures[-1]

    async def _delete(self) -> bool:
        """Delete the record, and return whether it is gone: not if another process has opened groups meanwhile.

        The change of a process that ended in the middle of it is undone first.
        """
        if not self.journal.version:
            return True
        async with self.journal.step():
            try:
                await self._executor.hold()
            except SessionClosed:
                return True
            left = close(self.snapshot.configuration, keep=self.inherited)
            if left.after is not left.before:
                return False
            await self.journal.delete()
            return True

    def silence(self) -> None:
        """Remove its listeners, where nobody has it open here any more."""
        self._executor.silence()

    def forget(self) -> None:
        """End it for this process alone."""
        self._status = "closed"
        self.silence()
        self._runtime.pool.discard(self)


def is_abandoned(record: Record) -> bool:
    """Return whether a process ended in the middle of a step."""
    return record.intent is not None and not record.held
