"""`MemoryStore`: records in the memory of one process; the reference of what a store does (SPEC STO-1)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Self

import anyio
from attrs import define

from toolfold import Created, Lease, Place, Record

LEASE = 10.0
"""Seconds for which leases are held by default."""
FORGOTTEN = 64
"""How many records that were deleted may still be among those that have changed, about."""


Owner = tuple[str, str | None]
"""A kind of sessions, and whose they are."""


@define(eq=False)
class _Row:
    data: object
    owner: Owner
    lifetime: float
    expires: float
    version: int
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
        self._used: dict[Owner, dict[str, None]] = {}
        self._counts = Counter[str]()
        self._changed: dict[str, int] = {}
        self._changes = 0
        self._numbers = 0
        self._more: anyio.Event | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        """Create a record; see `Store`."""
        if key in self._rows:
            return "exists"
        owner = place.kind, place.caller
        own = len(self._used.get(owner, ()))
        if place.per_caller is not None and place.caller is not None and own >= place.per_caller:
            return "caller_full"
        if place.total is not None and self._counts[place.kind] >= place.total:
            return "full"
        self._rows[key] = row = _Row(data, owner, lifetime, 0.0, self._next())
        self._counts[place.kind] += 1
        self._touch(key, row)
        return row.version

    async def read(self, key: str) -> Record | None:
        """Return a record; see `Store`."""
        row = self._rows.get(key)
        if row is None or row.expires <= self._clock():
            return None
        self._touch(key, row)
        return self._record(row)

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data; see `Store`."""
        row = self._rows.get(key)
        if row is None or row.version != version:
            return None
        if not self._holds(row, token) if token is not None else row.until > self._clock() or row.intent is not None:
            return None
        changed = data != row.data
        row.version, row.data, row.intent = self._next(), data, None
        row.until = 0.0
        self._touch(key, row)
        if changed:
            self._publish(key)
        return row.version

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record; see `Store`."""
        row = self._rows.get(key)
        if row is None:
            return None
        record = self._record(row)
        if record.held:
            return Lease(None, record)
        row.token, row.until = self._next(), self._clock() + seconds
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
        now = self._clock()
        row.until = now + seconds
        if row.expires > now:
            self._touch(key, row)
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
        del self._rows[key], self._used[row.owner][key]
        if not self._used[row.owner]:
            del self._used[row.owner]
        self._counts[row.owner[0]] -= 1
        self._publish(key)
        return True

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return keys of records that have expired, or were left in the middle of a transition; see `Store`."""
        now = self._clock()
        rows = [(key, row) for key, row in self._rows.items() if row.owner[0] == kind and row.until <= now]
        return [key for key, row in rows if row.expires <= now or row.intent is not None][:count]

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the caller's record that was used least recently; see `Store`."""
        now = self._clock()
        return next((key for key in self._used.get((kind, caller), ()) if self._rows[key].until <= now), None)

    async def expiry(self, kind: str, caller: str | None, *, own: bool) -> float | None:
        """Return the seconds until a record expires; see `Store`."""
        owners = [(kind, caller)] if own else [owner for owner in self._used if owner[0] == kind]
        idlest = [self._rows[key].expires for owner in owners for key in [*self._used.get(owner, ())][:1]]
        return min(idlest) - self._clock() if idlest else None

    async def changes(self) -> AsyncGenerator[str | None]:
        """Yield the keys of records whose data changes; see `Store`."""
        seen = self._changes
        while True:
            news: list[str] = []
            for key in reversed(self._changed):
                if self._changed[key] <= seen:
                    break
                news.append(key)
            seen = self._changes
            for key in reversed(news):
                yield key
            if seen == self._changes:
                self._more = self._more or anyio.Event()
                await self._more.wait()

    async def aclose(self) -> None:
        """Forget all records."""
        for records in (self._rows, self._used, self._counts, self._changed):
            records.clear()

    def _next(self) -> int:
        """Return a number for a version or a token that was not given before."""
        self._numbers += 1
        return self._numbers

    def _touch(self, key: str, row: _Row) -> None:
        row.expires = self._clock() + row.lifetime
        uses = self._used.setdefault(row.owner, {})
        uses.pop(key, None)
        uses[key] = None

    def _holds(self, row: _Row, token: int) -> bool:
        return row.token == token and row.until > self._clock()

    def _record(self, row: _Row) -> Record:
        return Record(row.version, row.data, row.intent, max(0.0, row.until - self._clock()))

    def _publish(self, key: str) -> None:
        self._changes += 1
        self._changed.pop(key, None)
        self._changed[key] = self._changes
        if len(self._changed) > 2 * len(self._rows) + FORGOTTEN:
            self._changed = {one: count for one, count in self._changed.items() if one in self._rows or one == key}
        if self._more is not None:
            self._more.set()
            self._more = None
