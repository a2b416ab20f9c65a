"""Counters of use in a store, one record for each day, added to by every process (SPEC EXP-3)."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio

from toolfold import ConfigError, Place, Record, Store, StoreError, ToolSet, Usage

log = logging.getLogger("toolfold.usage")

DAYS = 30
"""For how many days records are retained."""
SOON = 3.0
"""Seconds between two looks at whether there is anything new to write."""
SHARE = 50
"""How many times as long as the last writing took to wait for the next one, at least."""
INTERVAL = 60.0
"""Seconds between two times of writing, at most, and after one that failed."""
WRITERS = 1000
"""How many processes a record names with the number of their last addition."""
FORMAT = 1
"""The latest format of records that is read here; one that says none has the first."""
KIND = "usage"
_PLACE = Place(KIND)
_LIFETIME = DAYS * 24 * 3600.0


@asynccontextmanager
async def writing(tools: ToolSet, store: Store) -> AsyncGenerator[None]:
    """Write what is used to a store within seconds while the block runs, and at its end.

    What can't be written is written the next time: a record stops no server. Each process adds what it has counted, so
    several can share a store.
    """
    writer = Writer(tools, store)

    async def write_from_time_to_time() -> None:
        pause = SOON
        while True:
            await anyio.sleep(pause)
            began = time.monotonic()
            written = await writer.write()
            pause = min(max(SOON, SHARE * (time.monotonic() - began)), INTERVAL) if written else INTERVAL

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

    A record has the number of each process's last addition, so that one whose answer was lost is not made again.

    Args:
        tools: The tool set, whose use is counted.
        store: Where the records are.
        today: Returns the date; by default, that in UTC.
    """

    def __init__(self, tools: ToolSet, store: Store, today: Callable[[], date] | None = None) -> None:
        self._tools = tools
        self._store = store
        self._today = today or today_in_utc
        self._id = secrets.token_hex(6)
        self._number = 1
        self._written: dict[str, Any] | None = None
        self._unanswered: tuple[str, dict[str, Any]] | None = None
        self._counted: tuple[int, ...] = ()
        self._problem = ""

    async def write(self) -> bool:
        """Add what is new, and return whether that could be done; why it could not is logged once."""
        usage = self._tools.usage
        if usage is None or (counted := _counted(usage)) == self._counted:
            return True
        now = json.loads(json.dumps(usage.dump()))
        try:
            if self._unanswered is not None:
                await self._add(*self._unanswered)
            if now != self._written:
                await self._add(key_of(self._today()), now)
                await self._forget()
        except (StoreError, ConfigError) as error:
            if str(error) != self._problem:
                log.warning("what was used could not be written, and will be the next time: %s", error)
            self._problem = str(error)
            return False
        self._counted, self._problem = counted, ""
        return True

    async def _add(self, key: str, now: dict[str, Any]) -> None:
        while not await self._is_added(key, now):
            pass
        self._written, self._unanswered = now, None
        self._number += 1

    async def _is_added(self, key: str, now: dict[str, Any]) -> bool:
        """Add what is new to a record, and return whether it has it: not if another process was faster."""
        record = await self._store.read(key)
        total = Usage(self._tools.name)
        numbers: dict[str, int] = {} if record is None else _add_record(total, key, record)["numbers"]
        if numbers.pop(self._id, None) == self._number:
            return True
        total.add(now)
        if self._written is not None:
            total.add(self._written, times=-1)
        last = [*numbers.items(), (self._id, self._number)][-WRITERS:]
        text = json.dumps({**total.dump(), "numbers": dict(last)}, separators=(",", ":"))
        self._unanswered = key, now
        if record is None:
            return isinstance(await self._store.create(key, text, _PLACE, _LIFETIME), int)
        return await self._store.swap(key, record.version, text) is not None

    async def _forget(self) -> None:
        for key in await self._store.due(KIND, 100):
            lease = await self._store.acquire(key, self._store.lease)
            if lease is not None and lease.token is not None:
                await self._store.delete(key, lease.token)


async def stored_usage(store: Store, days: int = DAYS, today: date | None = None) -> Usage:
    """Return what was used in the last days, as a store has it; raises `StoreError`."""
    usage, last = Usage(""), today or today_in_utc()
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
        if (form := data.get("format", FORMAT)) > FORMAT:
            raise StoreError(
                f"The record {key} of what was used is of a later version of Toolfold (format {form}, and this one "
                f"reads {FORMAT}): upgrade, or record in another place."
            )
        usage.add(data)
        data["numbers"] = dict(data.get("numbers", {}))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(f"The record {key} of what was used can't be read; delete it: {error!r}") from error
    return data


def _counted(usage: Usage) -> tuple[int, ...]:
    """Return numbers that are others once anything more was counted."""
    openings = sum([each.opened + each.closed + each.called for each in usage.groups.values()])
    searches = usage.searches.asked + usage.searches.called
    calls = sum([row.calls for row in usage.calls.values()])
    return calls, openings, searches, usage.lists.lists, usage.refused.total(), usage.sessions, len(usage.tools)


def usage_file() -> Path:
    """Return the file of the record that what `toolfold init` writes adds to, and that reports are of by default."""
    from platformdirs import user_data_path

    return user_data_path("toolfold") / "usage.db"


def usage_url() -> str:
    """Return the URL of the store in that file."""
    return f"sqlite:///{quote(usage_file().as_posix())}"


def today_in_utc() -> date:
    """Return the date."""
    return datetime.now(UTC).date()


def key_of(day: date) -> str:
    """Return the key of the record of a day."""
    return f"{KIND}/{day.isoformat()}"
