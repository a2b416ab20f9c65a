"""`SQLiteStore`: records in a file, for any number of processes of one machine (SPEC STO-1)."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import anyio
from anyio import to_thread

from toolfold import ConfigError, Created, Lease, Place, Record, StoreUnavailable

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
_COLUMNS = f"version, data, intent, max(0.0, until - {_NOW})"

T = TypeVar("T")


class SQLiteStore:
    """A store in an SQLite database, opened when it is first used.

    Every process of the machine may open the same file, on a disk that the machine itself has: SQLite's locks don't
    work over networks. Changes of other processes are noticed within a quarter of a second.

    Args:
        path: The file; it is created if it does not exist, readable only for its owner.
        timeout: Seconds to wait for other processes that write.
        lease: Seconds for which a lease is held unless it is renewed.

    Every operation raises `StoreUnavailable` where the file can't be read or written now, and `ConfigError` if it is
    not a store of this version.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 5.0, lease: float = LEASE) -> None:
        self.lease = lease
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
        text = str(data)

        def work(db: sqlite3.Connection) -> Created:
            if db.execute("SELECT 1 FROM session WHERE key = ?", (key,)).fetchone():
                return "exists"
            count = "SELECT count(*) FROM session WHERE kind = ?"
            caller = place.caller or ""
            if place.per_caller is not None and place.caller is not None:
                (own,) = db.execute(f"{count} AND caller = ?", (place.kind, caller)).fetchone()
                if own >= place.per_caller:
                    return "caller_full"
            if place.total is not None and db.execute(count, (place.kind,)).fetchone()[0] >= place.total:
                return "full"
            version = _next(db, "changes")
            db.execute(
                "INSERT INTO session (key, version, data, kind, caller, lifetime, expires, changed) "
                f"VALUES (?, ?, ?, ?, ?, ?, {_NOW} + ?, 0)",
                (key, version, text, place.kind, caller, lifetime, lifetime),
            )
            return version

        return await self._run(work)

    async def read(self, key: str) -> Record | None:
        """Return a record; see `Store`."""

        def look(db: sqlite3.Connection) -> tuple[Record | None, bool]:
            row = db.execute(
                f"SELECT {_COLUMNS}, expires < {_NOW} + 0.9 * lifetime FROM session WHERE key = ? AND expires > {_NOW}",
                (key,),
            ).fetchone()
            return (None, False) if row is None else (Record(*row[:4]), bool(row[4]))

        def touch(db: sqlite3.Connection) -> None:
            db.execute(f"UPDATE session SET expires = {_NOW} + lifetime WHERE key = ?", (key,))

        record, old = await self._run(look, writes=False)
        if old:  # not with every use, since that would be a write
            await self._run(touch)
        return record

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data; see `Store`."""
        text = str(data)

        def work(db: sqlite3.Connection) -> int | None:
            row = db.execute(f"SELECT version, data, intent, token, until > {_NOW} FROM session WHERE key = ?", (key,))
            found = row.fetchone()
            if found is None or found[0] != version:
                return None
            _, before, pending, holder, leased = found
            if not (leased and holder == token) if token is not None else leased or pending is not None:
                return None
            after = _next(db, "changes")
            db.execute(
                f"UPDATE session SET version = ?, data = ?, intent = NULL, expires = {_NOW} + lifetime, "
                "changed = coalesce(?, changed), until = 0 WHERE key = ?",
                (after, text, after if text != before else None, key),
            )
            return after

        return await self._run(work)

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record; see `Store`."""

        def work(db: sqlite3.Connection) -> Lease | None:
            row = db.execute(f"SELECT {_COLUMNS} FROM session WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            record = Record(*row)
            if record.held:
                return Lease(None, record)
            token = _next(db, "tokens")
            hooks = intent if record.version == version and record.intent is None else record.intent
            db.execute(
                f"UPDATE session SET token = ?, until = {_NOW} + ?, intent = ? WHERE key = ?",
                (token, seconds, hooks, key),
            )
            return Lease(token, record)

        return await self._run(work)

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent; see `Store`."""
        change = "UPDATE session SET intent = ?, until = iif(?, 0, until) WHERE "
        return await self._change(change, (intent, intent is None), key, token)

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease; see `Store`."""
        expires = f"CASE WHEN expires > {_NOW} THEN {_NOW} + lifetime ELSE expires END"
        change = f"UPDATE session SET until = {_NOW} + ?, expires = {expires} WHERE "
        return await self._change(change, (seconds,), key, token)

    async def release(self, key: str, token: int) -> None:
        """Release a lease; see `Store`."""
        await self._change("UPDATE session SET until = 0 WHERE ", (), key, token)

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record; see `Store`."""
        return await self._change("DELETE FROM session WHERE ", (), key, token)

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
            found = db.execute("SELECT key, changed FROM session WHERE changed > ? ORDER BY changed", (seen,))
            return [(key, changed) for key, changed in found]

        seen = await self._run(count, writes=False)
        yield None  # what changed before is unknown, also after a failure
        while True:
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

    async def _change(self, statement: str, arguments: tuple[Any, ...], key: str, token: int) -> bool:
        condition = f"key = ? AND token = ? AND until > {_NOW}"
        return await self._run(lambda db: db.execute(statement + condition, (*arguments, key, token)).rowcount == 1)

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


def _next(db: sqlite3.Connection, what: str) -> int:
    """Return the next of the numbers that only grow, also if the file is replaced by an older copy."""
    later = f"max({what} + 1, CAST({_NOW} * 1e6 AS INTEGER))"
    return int(db.execute(f"UPDATE counter SET {what} = {later} RETURNING {what}").fetchone()[0])
