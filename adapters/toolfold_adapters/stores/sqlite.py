"""`SQLiteStore`: records in a file, for any number of processes of one machine (SPEC STO-1)."""

from __future__ import annotations

import logging
import math
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import anyio
from anyio import to_thread

from toolfold import ConfigError, Created, Lease, Place, Record, StoreError, StoreUnavailable, records

from ..clock import elapsed
from .memory import LEASE

log = logging.getLogger("toolfold.stores")

APPLICATION = 0x70666C64
"""Marks a database as one of Toolfold."""
FORM = 2
"""The version of its tables."""
POLL = 0.25
"""Seconds between two looks for changes of other processes: one indexed query."""

_PERSISTENT = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""Errors of a file that is no database of this user: a folder, or one that can't be written."""
_NOW = "(julianday('now') - 2440587.5) * 86400.0"
_TABLES = f"""
CREATE TABLE session (
  key TEXT PRIMARY KEY, version INTEGER NOT NULL, data TEXT NOT NULL, intent TEXT,
  token INTEGER NOT NULL DEFAULT 0, until REAL NOT NULL DEFAULT 0,
  kind TEXT NOT NULL, caller TEXT NOT NULL, lifetime REAL NOT NULL, expires REAL NOT NULL, changed INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX session_use ON session (kind, caller, expires);
CREATE INDEX session_due ON session (kind, expires);
CREATE INDEX session_intent ON session (kind, until) WHERE intent IS NOT NULL;
CREATE INDEX session_changed ON session (changed);
CREATE TABLE counter (changes INTEGER NOT NULL, tokens INTEGER NOT NULL);
INSERT INTO counter VALUES (0, 0);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORM};
"""
_DELETED = "CREATE TABLE IF NOT EXISTS deleted (changed INTEGER PRIMARY KEY, key TEXT NOT NULL)"
"""Which records were deleted lately. It is no part of the form: what does not know it can do without."""
_LATELY = 60.0
"""Seconds for which it is known; whoever has not looked for so long is told that any record may have changed."""
_NEWS = """
SELECT key, changed FROM session WHERE changed > :seen UNION ALL
SELECT key, changed FROM deleted WHERE changed > :seen ORDER BY changed
"""
_LOOK = (
    f"SELECT {_NOW}, max(changes, tokens), version, data, kind, caller, lifetime, expires, intent, token, until "
    "FROM counter LEFT JOIN session ON key = ?"
)
"""Returns the time, the last number, and a record, whose fields are NULL if there is none."""

_OTHER = "The store has something else where this session belongs, so it can't be used. Open a new one."

T = TypeVar("T")


FRESH = 5.0
"""How many seconds what a sole process has read is good for: a use that is noted puts off the end of a session."""


def _is_at_rest(record: Record) -> bool:
    return record.intent is None and not record.held


class SQLiteStore:
    """A store in an SQLite database, opened when it is first used.

    Every process of the machine may open the same file, on a disk that the machine itself has: SQLite's locks don't
    work over networks. Changes of other processes are noticed within a quarter of a second.

    Args:
        path: The file; it is created if it does not exist, readable only for its owner.
        timeout: Seconds to wait for other processes that write.
        lease: Seconds for which a lease is held unless it is renewed.
        sole: Whether no other process uses the file as long as this one does: then what was read a moment ago, and not
            written since, is not read again.

    Every operation raises `StoreUnavailable` where the file can't be read or written now, and `ConfigError` if it is
    not a store of this version.
    """

    def __init__(
        self, path: str | os.PathLike[str], timeout: float = 5.0, lease: float = LEASE, *, sole: bool = False
    ) -> None:
        self.lease = lease
        self._sole = sole
        self._read: dict[str, tuple[float, Record]] = {}  # when each was read that nothing is under way with
        self._writes = 0
        self._path = Path(path)
        self._timeout = timeout
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        """Create a record; see `Store`."""
        operation = records.create(str(data), place, lifetime)

        def work(db: sqlite3.Connection) -> Created:
            count = "SELECT count(*) FROM session WHERE kind = ?"
            (own,) = db.execute(f"{count} AND caller = ?", (place.kind, place.caller or "")).fetchone()
            (total,) = db.execute(count, (place.kind,)).fetchone()
            return _applied(db, key, operation, total, own)

        return await self._written(key, work)

    async def read(self, key: str) -> Record | None:
        """Return a record; see `Store`."""

        def look(db: sqlite3.Connection) -> records.Decision[Record | None]:
            return records.read(*_found(db, key))

        now, writes = elapsed(), self._writes
        read, record = self._read.get(key, (-math.inf, None))
        if record is not None and now - read < FRESH:
            return record
        found = await self._run(look, writes=False)
        if found.answer is None or found.can_wait:  # not with every use, since that would be a write
            if self._sole and found.answer is not None and writes == self._writes and _is_at_rest(found.answer):
                self._read[key] = now, found.answer
            return found.answer
        return await self._apply(key, records.read)

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data; see `Store`."""
        return await self._apply(key, records.swap(version, str(data), token))

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record; see `Store`."""
        return await self._apply(key, records.acquire(seconds, version, intent))

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent; see `Store`."""
        return await self._apply(key, records.intend(intent, token))

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease; see `Store`."""
        return await self._apply(key, records.renew(token, seconds))

    async def release(self, key: str, token: int) -> None:
        """Release a lease; see `Store`."""
        await self._apply(key, records.release(token))

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record; see `Store`."""
        return await self._apply(key, records.delete(token))

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return keys of records that have expired, or were left in the middle of a transition; see `Store`."""

        def work(db: sqlite3.Connection) -> list[str]:
            found = db.execute(
                f"SELECT key FROM session WHERE kind = :kind AND expires <= {_NOW} AND until <= {_NOW} UNION "
                f"SELECT key FROM session WHERE kind = :kind AND intent IS NOT NULL AND until <= {_NOW} LIMIT :count",
                {"kind": kind, "count": count},
            )
            return [key for (key,) in found]

        return await self._run(work, writes=False)

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the caller's record that was used least recently; see `Store`."""

        def work(db: sqlite3.Connection) -> str | None:
            row = db.execute(
                f"SELECT key FROM session WHERE kind = ? AND caller = ? AND until <= {_NOW} ORDER BY expires LIMIT 1",
                (kind, caller or ""),
            ).fetchone()
            return None if row is None else str(row[0])

        return await self._run(work, writes=False)

    async def expiry(self, kind: str, caller: str | None, *, own: bool) -> float | None:
        """Return the seconds until a record expires; see `Store`."""

        def work(db: sqlite3.Connection) -> float | None:
            found = db.execute(
                f"SELECT min(expires) - {_NOW} FROM session WHERE kind = ? AND (NOT ? OR caller = ?)",
                (kind, own, caller or ""),
            )
            seconds: float | None = found.fetchone()[0]
            return seconds

        return await self._run(work, writes=False)

    async def changes(self) -> AsyncGenerator[str | None]:
        """Yield the keys of records whose data changes; see `Store`."""

        def count(db: sqlite3.Connection) -> int:
            return int(db.execute("SELECT changes FROM counter").fetchone()[0])

        def since(db: sqlite3.Connection) -> list[tuple[str, int]]:
            return [(key, changed) for key, changed in db.execute(_NEWS, {"seen": seen})]

        looked = elapsed()
        seen = await self._run(count, writes=False)
        yield None  # what changed before is unknown, also after a failure
        while True:
            before, looked = looked, elapsed()
            if looked - before > _LATELY / 2:
                yield None
            for key, changed in await self._run(since, writes=False):
                seen = changed
                yield key
            await anyio.sleep(POLL)

    async def aclose(self) -> None:
        """Close the database."""

        def close() -> None:
            with self._lock:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None

        await to_thread.run_sync(close)

    async def _apply(self, key: str, operation: records.Operation[T]) -> T:
        return await self._written(key, lambda db: _applied(db, key, operation))

    async def _written(self, key: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work on a record; what was read of it before, or while it is done, is not true any more."""
        self._wrote(key)
        try:
            return await self._run(work)
        finally:
            self._wrote(key)

    def _wrote(self, key: str) -> None:
        self._writes += 1
        self._read.pop(key, None)

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, writes: bool = True) -> T:
        return await to_thread.run_sync(self._in_transaction, work, writes)

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T], writes: bool) -> T:
        with self._lock:
            try:
                db = self._connection = self._connection or self._open()
                if not writes:
                    return work(db)
                db.execute("BEGIN IMMEDIATE")
                try:
                    result = work(db)
                    db.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        db.execute("ROLLBACK")
                    raise
                return result
            except OSError as error:
                raise ConfigError(f"{self._path} can't be created: {error.strerror}. Choose another file.") from error
            except sqlite3.DatabaseError as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the module's own errors have none
                lasts = not isinstance(error, sqlite3.OperationalError) or code in _PERSISTENT
                if self._connection is None and lasts:  # it never was one
                    problem = f"{self._path} can't be used as a store: {error}. Choose another file."
                    raise ConfigError(problem) from error
                log.warning("the store %s can't be used now: %s", self._path, error)
                is_full = code == sqlite3.SQLITE_FULL
                raise StoreUnavailable(StoreUnavailable.FULL if is_full else StoreUnavailable.AWAY) from error

    def _open(self) -> sqlite3.Connection:
        """Open the database, and make its tables if it is empty."""
        if not self._path.exists():
            self._path.touch(mode=0o600)
        db = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in _TABLES.split(";"):
                    db.execute(statement)
            db.execute(_DELETED)
            application, form = (
                db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            db.execute("COMMIT")
            if application != APPLICATION:
                raise ConfigError(f"The database {self._path} is no store of Toolfold; choose another file.")
            if form != FORM:
                raise ConfigError(
                    f"The store {self._path} has version {form}, and this Toolfold reads {FORM}: choose another file."
                )
        except BaseException:
            db.close()
            raise
        return db


def _found(
    db: sqlite3.Connection, key: str, total: int = 0, own: int = 0
) -> tuple[records.Entry | None, records.Moment]:
    """Return what is held under a key, and the time and the next number."""
    now, last, version, data, kind, caller, *rest = db.execute(_LOOK, (key,)).fetchone()
    entry = None if version is None else _entry(version, data, kind, caller, *rest)
    return entry, records.Moment(now, records.following(last, now), total, own)


def _entry(version: Any, data: Any, kind: str, caller: str, lifetime: Any, expires: Any, *leased: Any) -> records.Entry:
    """Return an entry by its columns, whose types SQLite does not check."""
    intent, token, until = leased
    try:
        times = float(lifetime), float(expires)
        return records.Entry(int(version), data, kind, caller or None, *times, intent, int(token), float(until))
    except ValueError as error:
        raise StoreError(_OTHER) from error


def _applied(db: sqlite3.Connection, key: str, operation: records.Operation[T], total: int = 0, own: int = 0) -> T:
    """Return the answer to an operation, in a transaction."""
    before, at = _found(db, key, total, own)
    decision = operation(before, at)
    if decision.entry is None:
        if before is not None:
            _delete(db, key, at)
    elif decision.entry is not before:
        _write(db, key, decision.entry, is_news=decision.is_news)
    return decision.answer


def _delete(db: sqlite3.Connection, key: str, at: records.Moment) -> None:
    """Delete a record, which others are told of."""
    db.execute("DELETE FROM session WHERE key = ?", (key,))
    db.execute("DELETE FROM deleted WHERE changed < ?", (at.number - _LATELY * 1e6,))
    db.execute("INSERT INTO deleted VALUES (?, ?)", (at.number, key))
    db.execute("UPDATE counter SET changes = max(changes, ?)", (at.number,))


def _write(db: sqlite3.Connection, key: str, entry: records.Entry, *, is_news: bool) -> None:
    """Write what is held under a key, and the last number, which only grows."""
    fields = (entry.version, entry.data, entry.kind, entry.caller or "", entry.lifetime, entry.expires, entry.intent)
    db.execute(
        "INSERT INTO session (key, version, data, kind, caller, lifetime, expires, intent, token, until, changed) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0) ON CONFLICT (key) DO UPDATE SET version = ?2, data = ?3, "
        "expires = ?7, intent = ?8, token = ?9, until = ?10, changed = iif(?11, ?2, changed)",
        (key, *fields, entry.token, entry.until, is_news),
    )
    db.execute("UPDATE counter SET changes = max(changes, ?), tokens = max(tokens, ?)", (entry.version, entry.token))
