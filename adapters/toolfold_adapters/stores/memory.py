"""`MemoryStore`: records in the memory of one process; the reference of what a store does (SPEC STO-1)."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from math import inf
from typing import Self

import anyio
from attrs import define

from toolfold import Lease, Place, Record
from toolfold.spi import Created

LEASE = 10.0
"""Seconds for which leases are held by default."""


@define
class _Row:
    data: str
    place: Place
    lifetime: float
    expires: float
    version: int = 1
    intent: str | None = None
    token: int = 0
    until: float = 0.0


class MemoryStore:
    """A store in memory, for servers in one process: tests, and a server that is replaced while it runs.

    Args:
        clock: Returns the time in seconds.
        lease: Seconds for which a lease is held unless it is renewed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, lease: float = LEASE) -> None:
        self.lease = lease
        self._clock = clock
        self._rows: dict[str, _Row] = {}
        self._changed: dict[str, int] = {}
        self._count = 0
        self._tokens = 0
        self._more = anyio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def create(self, key: str, data: str, place: Place, lifetime: float) -> Created:
        """Create a record; see `Store`."""
        if key in self._rows:
            return "exists"
        same = [row.place.caller for row in self._rows.values() if row.place.kind == place.kind]
        if place.per_caller is not None and place.caller is not None and same.count(place.caller) >= place.per_caller:
            return "caller_full"
        if place.total is not None and len(same) >= place.total:
            return "full"
        self._rows[key] = _Row(data, place, lifetime, self._clock() + lifetime)
        return "created"

    async def read(self, key: str) -> Record | None:
        """Return a record; see `Store`."""
        row = self._rows.get(key)
        if row is None or row.expires <= self._clock():
            return None
        self._touch(row)
        return self._record(row)

    async def swap(self, key: str, version: int, data: str, token: int | None = None) -> bool:
        """Replace the data; see `Store`."""
        row = self._rows.get(key)
        if row is None or row.version != version:
            return False
        if not self._holds(row, token) if token is not None else row.until > self._clock() or row.intent is not None:
            return False
        changed = data != row.data
        row.version, row.data, row.intent = version + 1, data, None
        row.until = 0.0
        self._touch(row)
        if changed:
            self._publish(key)
        return True

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record; see `Store`."""
        row = self._rows.get(key)
        if row is None:
            return None
        record = self._record(row)
        if record.held:
            return Lease(None, record)
        self._tokens += 1
        row.token, row.until = self._tokens, self._clock() + seconds
        if row.version == version and row.intent is None:
            row.intent = intent
        return Lease(row.token, record)

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent; see `Store`."""
        row = self._rows.get(key)
        if row is None or not self._holds(row, token):
            return False
        row.intent = intent
        if intent is None:
            row.until = 0.0
        return True

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease; see `Store`."""
        row = self._rows.get(key)
        if row is None or not self._holds(row, token):
            return False
        row.until = self._clock() + seconds
        return True

    async def release(self, key: str, token: int) -> None:
        """Release a lease; see `Store`."""
        row = self._rows.get(key)
        if row is not None and self._holds(row, token):
            row.until = 0.0

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record; see `Store`."""
        row = self._rows.get(key)
        if row is None or not self._holds(row, token):
            return False
        del self._rows[key]
        self._publish(key)
        return True

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return keys of records that have expired, or were left in the middle of a step; see `Store`."""
        now = self._clock()
        rows = [(key, row) for key, row in self._rows.items() if row.place.kind == kind and row.until <= now]
        return [key for key, row in rows if row.expires <= now or row.intent is not None][:count]

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the caller's record that was used least recently; see `Store`."""
        now, place = self._clock(), (kind, caller)
        rows = [(row.expires, key) for key, row in self._rows.items() if (row.place.kind, row.place.caller) == place]
        return min(((expires, key) for expires, key in rows if self._rows[key].until <= now), default=(inf, None))[1]

    async def changes(self) -> AsyncGenerator[str | None]:
        """Yield the keys of records whose data changes; see `Store`."""
        seen = self._count
        while True:
            for key in [key for key, count in self._changed.items() if count > seen]:
                yield key
            seen = self._count
            await self._more.wait()

    async def aclose(self) -> None:
        """Forget all records."""
        self._rows.clear()

    def _touch(self, row: _Row) -> None:
        row.expires = self._clock() + row.lifetime

    def _holds(self, row: _Row, token: int) -> bool:
        return row.token == token and row.until > self._clock()

    def _record(self, row: _Row) -> Record:
        return Record(row.version, row.data, row.intent, max(0.0, row.until - self._clock()))

    def _publish(self, key: str) -> None:
        self._count += 1
        self._changed.pop(key, None)
        self._changed[key] = self._count
        for gone in [one for one in self._changed if one not in self._rows and one != key]:
            del self._changed[gone]
        self._more.set()
        self._more = anyio.Event()
