"""`MemoryStore`: records in the memory of one process; the reference of what a store does (SPEC STO-1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Self, TypeVar

import anyio

from toolfold import Created, Lease, Place, Record, records

from ..clock import elapsed

LEASE = 10.0
"""Seconds for which leases are held by default."""
FORGOTTEN = 64
"""How many records that were deleted may still be among those that have changed, about."""


Owner = tuple[str, str | None]
"""A kind of sessions, and whose they are."""

A = TypeVar("A")


class MemoryStore:
    """A store in memory, for servers in one process: tests, and a server that is replaced while it runs.

    Args:
        clock: Returns the time in seconds.
        lease: Seconds for which a lease is held unless it is renewed.
    """

    def __init__(self, clock: Callable[[], float] = elapsed, lease: float = LEASE) -> None:
        self.lease = lease
        self._clock = clock
        self._entries: dict[str, records.Entry] = {}
        self._used: dict[Owner, dict[str, None]] = {}
        self._counts = Counter[str]()
        self._changed: dict[str, int] = {}
        self._changes = 0
        self._last = 0
        self._more: anyio.Event | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        """Create a record; see `Store`."""
        total, own = self._counts[place.kind], len(self._used.get((place.kind, place.caller), ()))
        return self._apply(key, records.create(data, place, lifetime), total, own)

    async def read(self, key: str) -> Record | None:
        """Return a record; see `Store`."""
        return self._apply(key, records.read)

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data; see `Store`."""
        return self._apply(key, records.swap(version, data, token))

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record; see `Store`."""
        return self._apply(key, records.acquire(seconds, version, intent))

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent; see `Store`."""
        return self._apply(key, records.intend(intent, token))

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease; see `Store`."""
        return self._apply(key, records.renew(token, seconds))

    async def release(self, key: str, token: int) -> None:
        """Release a lease; see `Store`."""
        self._apply(key, records.release(token))

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record; see `Store`."""
        return self._apply(key, records.delete(token))

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return keys of records that have expired, or were left in the middle of a transition; see `Store`."""
        now = self._clock()
        return [key for key, entry in self._entries.items() if entry.kind == kind and entry.is_due(now)][:count]

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the caller's record that was used least recently; see `Store`."""
        now = self._clock()
        return next((key for key in self._used.get((kind, caller), ()) if self._entries[key].until <= now), None)

    async def expiry(self, kind: str, caller: str | None, *, own: bool) -> float | None:
        """Return the seconds until a record expires; see `Store`."""
        owners = [(kind, caller)] if own else [owner for owner in self._used if owner[0] == kind]
        idlest = [self._entries[key].expires for owner in owners for key in [*self._used.get(owner, ())][:1]]
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
        for held in (self._entries, self._used, self._counts, self._changed):
            held.clear()

    def _apply(self, key: str, operation: records.Operation[A], total: int = 0, own: int = 0) -> A:
        """Return the answer to an operation, which nothing interrupts."""
        before = self._entries.get(key)
        decision = operation(before, records.Moment(self._clock(), self._last + 1, total, own))
        after = decision.entry
        if after is not before:
            self._write(key, before, after, is_use=decision.is_use)
            if decision.is_news:
                self._publish(key)
        return decision.answer

    def _write(self, key: str, before: records.Entry | None, after: records.Entry | None, *, is_use: bool) -> None:
        if after is None:
            if before is not None:
                self._forget(key, before)
            return
        self._entries[key] = after
        self._last = max(self._last, after.version, after.token)
        if before is None:
            self._counts[after.kind] += 1
        if is_use:
            uses = self._used.setdefault((after.kind, after.caller), {})
            uses.pop(key, None)
            uses[key] = None  # the one used last is the last

    def _forget(self, key: str, entry: records.Entry) -> None:
        owner = entry.kind, entry.caller
        del self._entries[key], self._used[owner][key]
        if not self._used[owner]:
            del self._used[owner]
        self._counts[entry.kind] -= 1

    def _publish(self, key: str) -> None:
        self._changes += 1
        self._changed.pop(key, None)
        self._changed[key] = self._changes
        if len(self._changed) > 2 * len(self._entries) + FORGOTTEN:
            self._changed = {
                other: count for other, count in self._changed.items() if other in self._entries or other == key
            }
        if self._more is not None:
            self._more.set()
            self._more = None
