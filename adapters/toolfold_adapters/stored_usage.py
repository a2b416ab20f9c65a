"""Counters of use in a store, one record for each day, added to by every process (SPEC EXP-3)."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import anyio

from toolfold import Place, Record, Store, StoreError, ToolSet, Usage

log = logging.getLogger("toolfold.usage")

DAYS = 30
"""For how many days records are retained."""
INTERVAL = 60.0
"""Seconds between two times of writing."""
KIND = "usage"
_PLACE = Place(KIND)
_LIFETIME = DAYS * 24 * 3600.0


@asynccontextmanager
async def writing(tools: ToolSet, store: Store, interval: float = INTERVAL) -> AsyncGenerator[None]:
    """Write what is used to a store from time to time while the block runs, and at its end.

    What can't be written is written the next time. Each process adds what it has counted, so several can share a store.
    """
    writer = Writer(tools, store)

    async def write_from_time_to_time() -> None:
        while True:
            await anyio.sleep(interval)
            await writer.write()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_from_time_to_time)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await writer.write()


class Writer:
    """Adds what a tool set has counted since the last time to the record of the day.

    Args:
        tools: The tool set, whose use is counted.
        store: Where the records are.
        today: Returns the date; by default, that in UTC.
    """

    def __init__(self, tools: ToolSet, store: Store, today: Callable[[], date] | None = None) -> None:
        self._tools = tools
        self._store = store
        self._today = today or today_in_utc
        self._written: dict[str, Any] | None = None

    async def write(self) -> None:
        """Add what is new; a store that does not answer is logged."""
        usage = self._tools.usage
        if usage is None or (now := usage.dump()) == self._written:
            return
        try:
            await self._add(json.loads(json.dumps(now)))
            await self._forget()
        except StoreError as error:
            log.warning("what was used could not be written, and will be the next time: %s", error)

    async def _add(self, now: dict[str, Any]) -> None:
        key = key_of(self._today())
        while True:
            record = await self._store.read(key)
            total = Usage(self._tools.name, lambda: 0.0)
            if record is not None:
                _add_record(total, key, record)
            total.add(now)
            if self._written is not None:
                total.add(self._written, times=-1)
            text = json.dumps(total.dump(), separators=(",", ":"))
            if record is None:
                done = isinstance(await self._store.create(key, text, _PLACE, _LIFETIME), int)
            else:
                done = await self._store.swap(key, record.version, text) is not None
            if done:
                self._written = now
                return

    async def _forget(self) -> None:
        for key in await self._store.due(KIND, 100):
            lease = await self._store.acquire(key, self._store.lease)
            if lease is not None and lease.token is not None:
                await self._store.delete(key, lease.token)


async def stored_usage(store: Store, days: int = DAYS, today: date | None = None) -> Usage:
    """Return what was used in the last days, as a store has it; raises `StoreError`."""
    usage, last = Usage("", lambda: 0.0), today or today_in_utc()
    for before in range(days):
        key = key_of(last - timedelta(before))
        if (record := await store.read(key)) is not None:
            data = _add_record(usage, key, record)
            usage.name = usage.name or data["name"]
    return usage


def _add_record(usage: Usage, key: str, record: Record) -> dict[str, Any]:
    """Add what a record has to counters and return it; raises `StoreError` where it can't be read (SPEC STO-8)."""
    try:
        data: dict[str, Any] = json.loads(str(record.data))
        usage.add(data)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(f"The record {key} of what was used can't be read; delete it: {error!r}") from error
    return data


def today_in_utc() -> date:
    """Return the date."""
    return datetime.now(UTC).date()


def key_of(day: date) -> str:
    """Return the key of the record of a day."""
    return f"{KIND}/{day.isoformat()}"
