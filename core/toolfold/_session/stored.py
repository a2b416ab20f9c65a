"""The stored sessions of one kind: found, made and ended (SPEC STO-1 to STO-5, STO-7)."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from .._catalog.components import Profile
from .._limits import enumerated
from .._snapshot import Snapshot
from ..errors import ConfigError, KeyInUse, RecordDamaged, SessionClosed, StoreError, StoreUnavailable, ToolfoldError
from ..machine import Plan, TransitionRequest, paths_of
from ..machine.step import HookCall
from .events import SessionOpened
from .journal import Journal, Steps
from .observers import log
from .perform import begin, changing, hold, take_over
from .perform import resume as run_resume
from .session import Session
from .state import Content, decoded
from .store import Place, Record, Store

if TYPE_CHECKING:
    from .._toolset.toolset import ToolSet
from .upkeep import Caller, SessionKind, Upkeep, background

CACHED = 10_000
"""How many sessions a process caches."""
PAUSE = 0.1
"""Seconds until a session that another process creates is looked for."""
FIRST_PAUSE, LAST_PAUSE = 0.1, 10.0
"""Seconds until a store that does not answer is asked for changes again: they grow from the first to the last."""


class StoredSessions:
    """The stored sessions of one kind; `ToolSet.stored_sessions` yields those of a program.

    Args:
        tools: The tool set.
        store: Where they are.
        kind: What they are.
        owners: Those that sessions of this kind inherit groups from.
        local: Whether the store is this process's own, so that its sessions end with it. They also count as sessions of
            the tool set then.
    """

    def __init__(
        self,
        tools: ToolSet,
        store: Store,
        kind: SessionKind,
        owners: StoredSessions | None = None,
        *,
        local: bool = False,
    ) -> None:
        self._tools = tools
        self._store = store
        self._owners = owners
        self._local = local
        self._prefix = f"{tools.name}/{kind.name}"
        self._steps = Steps()
        self._cached: OrderedDict[str, Session] = OrderedDict()
        self._known: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._upkeep = Upkeep(
            kind,
            due=partial(store.due, self._prefix),
            idlest=partial(store.idlest, self._prefix),
            expiry=lambda caller, own: store.expiry(self._prefix, caller, own=own),
            end=self._take_over,
        )
        if owners is not None:
            owners._upkeep.heirs.append(self._upkeep)

    def key(self, name: str) -> str:
        """Return the key of a session; who can read the keys of a store with others does not learn the names."""
        if self._local:
            return f"{self._prefix}/{name}"
        return f"{self._prefix}/{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    # -- for programs -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(
        self, name: str, profile: str | Profile | None = None, active: Iterable[str] = (), *, caller: Caller = None
    ) -> AsyncGenerator[Session]:
        """Yield the session of a name, in the state that it was left in, or a new one.

        It outlives the context: the next caller to open it, here or in another process, continues with it. It ends by
        `end`, or after its lifetime without use. Within the context it is known here; `Session.request`, or opening it
        again, reads what other processes have changed. Listeners are removed at the end of the context.

        SPEC STO-1, STO-4.

        Args:
            name: What it is found by, such as the id of a conversation.
            profile: The profile of a new one.
            active: The groups that a new one starts with, or one.
            caller: Whose it is, where that is known. Another caller's session of the same name is another one, and
                each caller may have so many (SPEC STO-7).

        Raises:
            QuotaExceeded: There is no room for a new one.
            HookFailed: A hook failed, of a group to start with or one that is resumed; the state is as before.
            StoreError: The store can't be used, or what it has of the session is damaged or of another tool set.
            ToolfoldError: There is no such profile, or the groups can't be active.
        """
        chosen = self._tools.profile(profile)
        start = (*(chosen.active if chosen else ()), *paths_of(active))
        Snapshot.of(self._tools.runtime.catalogs.under(chosen)).after(
            TransitionRequest(activate=start)
        )  # or nothing is stored
        session = await self.get_or_create(_name(name, caller), chosen, start, caller)
        journal = session.state.stored
        journal.users += 1
        try:
            yield session
        finally:
            journal.users -= 1
            if not journal.users:
                session.state.listeners = ()
            await session.flush()

    async def end(self, name: str, *, caller: Caller = None) -> None:
        """End the session of a name, if there is one: its groups are closed, and hooks that fail are logged.

        Raises:
            StoreError: The store can't be used; the session goes on.
        """
        session = await self.get(_name(name, caller))
        if session is not None:
            await self._tools.pool.end(session)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Hold what runs beside requests, as `start` does; at the end, the sessions are left to other processes."""
        async with background() as tasks:
            self.start(tasks)
            try:
                yield
            finally:
                for session in self.known:
                    self._tools.pool.forget(session)

    def start(self, tasks: TaskGroup) -> None:
        """Start what runs beside requests: renewing leases, sweeping, and following the changes of other processes."""
        if not self._local:
            tasks.start_soon(self._steps.renew_leases, self._store.lease)
            tasks.start_soon(self._follow)
        if self._owners is None:  # whose sweeps are these ones', too
            self._upkeep.start(tasks)

    @property
    def known(self) -> tuple[Session, ...]:
        """Those that this process has."""
        return tuple(self._known.values())

    # -- finding and making -------------------------------------------------------------------------------------------

    async def get(self, name: str, *, reading: bool = False) -> Session | None:
        """Return the session of a name, as it is now; `None` if there is none, or what it inherits has been closed.

        With `reading`, the state that is known here will do while the store does not answer (SPEC STO-5); `is_away` of
        the session says so.

        Raises:
            HookFailed: A hook that resumes a group failed.
            StoreError: The record is damaged, or the store can't be used.
        """
        key = self.key(name)
        try:
            session = await self._get(key)
        except StoreUnavailable:
            session = self._known.get(key)
            if not reading or session is None or not session.is_open or not _is_settled(session):
                raise
            session.state.stored.is_away = True
            return session
        if session is not None:
            session.state.stored.is_away = False
        return session

    async def peek(self, name: str) -> Session | None:
        """Return the session of a name as its record says, where that is for no request; raises `StoreError`."""
        found = await self._read(self.key(name))
        return None if found is None else found[1]

    async def _get(self, key: str) -> Session | None:
        if (found := await self._read(key)) is None:
            return None
        record, session = found
        await self._find_owner(session)  # which is a use of it, too
        if record.is_abandoned or not _is_settled(session):
            async with self._turn(key):
                try:
                    await _recover(session, record)
                    await resume(session)
                except SessionClosed:
                    return None
        is_over = _is_orphaned(session) or not session.is_open or self._tools.pool.is_ending(session)
        return None if is_over else session

    async def _find_owner(self, session: Session) -> None:
        if (key := session.state.stored.content.owner) is not None and self._owners is not None:
            session.owner = await self._owners._get(key)

    async def _read(self, key: str) -> tuple[Record, Session] | None:
        known = 0 if (session := self._known.get(key)) is None else session.state.stored.version
        record, session = await self._store.read(key), self._known.get(key)
        if record is None:
            if session is not None and not self._local:  # where a sweep ends it, with its hooks
                self._tools.pool.forget(session)
            return None
        if session is None:
            async with self._turn(key):
                session = self._known.get(key) or await self._open(key, record)
        self._cache(key, session)
        await _load(session, record, known)
        return record, session

    def draft(
        self,
        name: str,
        profile: Profile | None = None,
        caller: Caller = None,
        *,
        snapshot: Snapshot | None = None,
        start: Iterable[str] = (),
        owner: Session | None = None,
        notifies: bool = False,
        about: Any = None,
        what: str = "",
        most: int | None = None,
    ) -> Session:
        """Return a session whose groups are all inherited from `owner`; its first transition creates its record.

        Args:
            name: What it is found by; not to be in use.
            profile: The profile that it is opened under.
            caller: Whose it is.
            snapshot: Its state; without groups unless given.
            start: The groups that are opened with its first use.
            owner: The session that has run the hooks of the active groups, if they have any.
            notifies: Whether it records which lists changed until they are claimed.
            about: What an adapter stores with it, as a JSON value.
            what: Part of its name in logs and events, where that is not its key, which other processes know.
            most: How many sessions of this kind its caller may have, if that is fewer than others may.
        """
        key = self.key(name)
        identity = self._tools.runtime.new_identity(what) if self._local else key
        session = Session(self._tools.runtime, identity, profile, snapshot, caller, owner)
        now = session.state.now
        content = Content(
            self._tools.name,
            None if profile is None else profile.name or None,
            now.active,
            now.facts,
            tuple(start) or None,
            session.state.inherited,
            None if owner is None else owner.state.stored.key,
            notifies=notifies,
            about=about,
        )
        self._store_under(key, session, content, most)
        self._tools.pool.meet(session)
        return session

    async def ensure(self, session: Session) -> None:
        """Create the record of a session if that was not done, so that it outlives its request; raises `QuotaExceeded`.

        In a store of the process's own, it counts as a session of the tool set from now on.
        """
        if not (journal := session.state.stored).version:
            async with journal.step():  # a cancellation that arrives meanwhile is this caller's
                await journal.ensure(session.snapshot)
        if not self._local:
            self._tools.pool.meet(session)
        else:
            try:
                await self._tools.pool.admit(session)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._tools.pool.end(session)
                raise

    async def get_or_create(
        self,
        name: str,
        profile: Profile | None,
        start: Iterable[str],
        caller: Caller = None,
        is_usable: Callable[[Session], bool] = lambda session: True,
        *,
        reading: bool = False,
        on_damage: Callable[[], None] | None = None,
    ) -> Session:
        """Return the session of a name, created with groups to start with if there is none; raises as those do.

        With `on_damage`, a record that is damaged is deleted, and that is called; without, it is refused.
        """
        groups = tuple(start)
        while True:
            try:
                session = await self.get(name, reading=reading)
            except RecordDamaged:
                if on_damage is None or not await self._discard(self.key(name)):
                    raise
                on_damage()
                continue
            if session is not None and is_usable(session):
                return session
            if session is not None:
                await self._tools.pool.end(session)
            try:
                await self.ensure(self.draft(name, profile, caller, start=groups))
            except KeyInUse:
                if not await self._take_over(self.key(name)):  # it has not expired, so another process was faster
                    await anyio.sleep(PAUSE)

    async def _admit(self, key: str, session: Session, most: int | None, content: Content) -> int:
        """Create the record of a session, after others have ended if that makes room; return its version (SES-4)."""
        limit, caller = self._upkeep.kind.limit, session.caller
        own = min((one for one in (limit.per_caller, most) if one is not None), default=None)
        place = Place(self._prefix, caller, limit.total, own)
        create = partial(self._store.create, key, content, place, self._upkeep.kind.lifetime)
        if (version := await self._upkeep.admit(create, caller, own)) is None:
            self._tools.pool.remove(session)
            raise KeyInUse("There is a stored session of that name already.")
        if not self._local:
            self._tools.observers.notify(SessionOpened(session.id))
        self._cache(key, self._known.setdefault(key, session))  # another request may have found it before this
        return version

    async def _open(self, key: str, record: Record) -> Session:
        """Return a session that is new to this process; raises `StoreError` if its record can't be used here."""
        content = decoded(self._tools.name, key, record.data)
        try:
            profile = self._tools.profile(content.profile)
        except ConfigError as error:
            raise StoreError(f"The profile of the stored session {key} does not exist any more.") from error
        session = Session(self._tools.runtime, key, profile, None)
        self._store_under(key, session, Content(self._tools.name, content.profile))
        await _load(session, record)
        await self._find_owner(session)
        self._tools.pool.meet(session)  # so that changes of the catalog reach it
        self._known[key] = session
        return session

    def _store_under(self, key: str, session: Session, content: Content, most: int | None = None) -> None:
        """Have the changes of a session recorded under a key, in a record with some content."""
        session.state.journal = Journal(
            store=self._store,
            key=key,
            tools=self._tools.name,
            steps=self._steps,
            admit=partial(self._admit, key, session, most),
            find=self._get,
            left=self._left,
            is_local=self._local,
            content=content,
        )

    def _cache(self, key: str, session: Session) -> None:
        """Cache a session as the one used last; beyond the limit, forget the idlest, which its users still have.

        In a store of the process's own, all are retained: what hooks have opened for a session is found by that object.
        """
        self._cached[key] = session
        self._cached.move_to_end(key)
        if len(self._cached) > CACHED and not self._local:
            self._cached.popitem(last=False)

    def _left(self, key: str) -> None:
        self._cached.pop(key, None)
        self._known.pop(key, None)

    def _turn(self, key: str) -> anyio.Lock:
        return self._turns.setdefault(key, anyio.Lock())

    # -- ending -------------------------------------------------------------------------------------------------------

    async def end_all(self) -> None:
        """End all sessions that this process has, side by side; hooks that fail are logged."""
        async with anyio.create_task_group() as tasks:
            for session in self.known:
                tasks.start_soon(self._tools.pool.end, session)

    async def end_if_over(self, name: str) -> None:
        """End the session of a name if what it inherits has been closed; sweeps end expired ones."""
        session = self._known.get(self.key(name))
        if session is not None and _is_orphaned(session):
            with suppress(StoreError):
                await self._tools.pool.end(session)

    async def _take_over(self, key: str, end: bool = False) -> bool:
        """Undo what a process left of a transition; end the session if it has expired or if asked; say whether so."""
        lease = await self._store.acquire(key, self._store.lease)
        if lease is None or lease.token is None:
            return False
        await self._store.release(key, lease.token)
        try:
            async with self._turn(key):
                session = self._known.get(key) or await self._open(key, lease.record)
            await _recover(session, lease.record)
        except StoreUnavailable:
            raise
        except ToolfoldError as error:
            log.warning("the stored session %s can't be used here: %s", key, error)
            if not end and lease.record.intent is not None:  # a process of another version may know what to do
                return False
            lease = await self._store.acquire(key, self._store.lease)
            return lease is not None and lease.token is not None and await self._store.delete(key, lease.token)
        if end or await self._store.read(key) is None:
            await self._tools.pool.end(session)
            return True
        return False

    async def _discard(self, key: str) -> bool:
        """Delete a damaged record, and return whether that was done; a session that is known here runs its hooks."""
        lease = await self._store.acquire(key, self._store.lease)
        if lease is None or lease.token is None:
            return False
        log.warning("the stored session %s is damaged, so it is discarded", key)
        if (session := self._known.get(key)) is None:
            return await self._store.delete(key, lease.token)
        content = session.state.stored.content
        if await self._store.swap(key, lease.record.version, content, lease.token) is None:
            return False
        await self._tools.pool.end(session)
        return True

    # -- following others ---------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Take over changes of the sessions that have listeners, as they happen."""
        pause = FIRST_PAUSE
        while True:
            try:
                async for key in self._store.changes():  # pragma: no branch - it goes on until it fails
                    pause = FIRST_PAUSE
                    for session in [self._known.get(key)] if key is not None else self.known:
                        if session is not None and _is_followed(session):
                            await self._refresh(session)
            except ToolfoldError as error:
                log.warning("changes of stored sessions can't be followed now: %s", error)
                await anyio.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE)

    async def _refresh(self, session: Session) -> None:
        journal = session.state.stored
        try:
            known = journal.version
            record = await self._store.read(journal.key)
            if record is None:
                return
            await _load(session, record, known)
        except StoreUnavailable:
            raise
        except Exception as error:  # its next request is refused for it; the others are followed on (SPEC STO-8)
            log.warning("changes of the stored session %s can't be followed: %s", journal.key, error)
            return
        if journal.client is not None and journal.content.pending:
            journal.client(frozenset())


def _is_orphaned(session: Session) -> bool:
    """Return whether a group that a session inherits is no longer open in its owner, or the owner has ended."""
    if (owner := session.owner) is None:
        return session.state.stored.content.owner is not None
    return not owner.is_open or not all(map(owner.snapshot.is_active, session.state.inherited))


def _is_followed(session: Session) -> bool:
    """Return whether anybody is to be notified of a session's changes here."""
    return bool(session.state.listeners) or session.state.stored.client is not None


# -- what a process does with the record of a session -----------------------------------------------------------------


async def _load(session: Session, record: Record, known: int = 0) -> None:
    """Take over what the record says, if that is newer than what is known; raises `StoreError` if it is damaged.

    `known` is the version that was known before the record was read.
    """
    if await session.state.stored.is_news(record, known):
        take_over(session, record)


async def _recover(session: Session, record: Record) -> None:
    """Undo what a process that ended in the middle of a transition had begun; raises `StoreError`."""
    if record.is_abandoned:
        async with changing(session, "start"), session.state.stored.step():
            await hold(session)


async def resume(session: Session) -> None:
    """Open the groups to start with, and run the `resume` hooks of groups that other processes have opened.

    Raises:
        HookFailed: A hook failed; the state is as before.
        StoreError: The store can't be used, or the session is to begin with groups that there are not.
    """
    journal = session.state.stored
    if missing := [path for path in journal.content.start or () if path not in session.catalog.index]:
        raise StoreError(
            f"The stored session was to begin with the groups {enumerated(missing)}, which are not there: they "
            "were renamed or removed, or the record is damaged. Open a new session."
        )

    def start(now: Snapshot) -> Plan:
        """Plan nothing if another process has been faster."""
        return now.plan(TransitionRequest(journal.content.start or ()))

    if journal.content.start is not None:
        await begin(session, start, ("start", TransitionRequest(journal.content.start)))
    for path in session.active:
        group = session.catalog.group(path)
        if group.resume is not None and path not in journal.present and path not in session.state.inherited:
            await run_resume(session, HookCall(group.hooks, "resume", group.resume))
    journal.present = frozenset(session.active)


def _is_settled(session: Session) -> bool:
    """Return whether a request can go on at once, with nothing to resume."""
    journal = session.state.stored
    return journal.content.start is None and journal.present.issuperset(session.active)


def _name(name: str, caller: Caller) -> str:
    """Return what a program's session is found by; a name that callers choose can't be that of another's session."""
    return json.dumps([name, caller])
