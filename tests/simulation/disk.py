"""The store that all replicas share: slow, away, or without its last writes.

A store of the product has the records, whose operations are done at once; `Connection` is what a replica has of it.
What a request or its answer takes is drawn for each operation, and either may be lost.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Callable
from copy import copy
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

import anyio
from attrs import define, field, frozen

from tests.simulation.audit import Audit
from tests.simulation.loop import EPOCH, Loop
from toolfold import Created, Lease, Place, Record, StoreUnavailable
from toolfold_adapters.stores import MemoryStore, SQLiteStore

T = TypeVar("T")

LEASE = 2.0
"""Seconds for which a lease is held unless it is renewed."""
WRITES = frozenset({"create", "swap", "acquire", "intend", "renew", "release", "delete"})
OPERATIONS = WRITES | {"read", "due", "idlest", "expiry"}
REMEMBERED = 12
"""How many writes may be lost."""


@frozen
class Weather:
    """How well a store and a network work.

    Attributes:
        slow: Seconds that a message takes at most.
        lost: How likely a message is lost.
        engine: What has the records: `memory` or `sqlite`.
    """

    slow: float = 0.01
    lost: float = 0.0
    engine: str = "memory"


class Forgetful(MemoryStore):
    """Records that are texts, as all other engines have them, and that can be what they were."""

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        return await super().create(key, str(data), place, lifetime)

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        return await super().swap(key, version, str(data), token)

    def texts(self) -> dict[str, str]:
        """Return the text of each record."""
        return {key: str(entry.data) for key, entry in self._entries.items()}

    def rows(self) -> tuple[dict[str, Any], Any, Any]:
        """Return a copy of what it has."""
        return dict(self._entries), {owner: dict(uses) for owner, uses in self._used.items()}, copy(self._counts)

    def restore(self, rows: tuple[dict[str, Any], Any, Any]) -> None:
        """Have what it had then."""
        self._entries, self._used, self._counts = rows


@define(eq=False)
class Disk:
    """The store, as it is where it is.

    Attributes:
        loop: The time.
        random: What is drawn.
        weather: How well it works.
        keeps: Whether it may lose writes.
        away: Until when it does not answer.
        lost: How many writes were lost.
        writes: How many there were.
        log: What it was asked.
        subscriptions: Who is notified of changes.
        audit: What is wrong with what it was asked, or answered.
    """

    loop: Loop
    random: Random
    weather: Weather
    keeps: bool = False
    away: float = 0.0
    lost: int = 0
    writes: int = 0
    log: list[str] = field(factory=list[str])
    engine: Any = field(init=False)
    _before: deque[Any] = field(factory=lambda: deque[Any](maxlen=REMEMBERED))
    subscriptions: list[Subscription] = field(factory=list["Subscription"])
    audit: Audit = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.audit = Audit(self.loop.time)
        if self.weather.engine == "sqlite":
            self.engine = Database(self.loop)
        else:
            self.engine = Forgetful(self.loop.time, LEASE)

    def go_away(self, seconds: float) -> None:
        """Answer nobody for some seconds."""
        self.away = self.loop.time() + seconds
        for one in self.subscriptions:
            one.put(None)
        self.subscriptions.clear()

    def lose(self, writes: int, seconds: float) -> None:
        """Lose the last writes, and answer nobody for some seconds, as an engine does that is restarted.

        The numbers of versions and tokens that it gives go on, as they do by the time in engines that may lose writes.
        """
        self.go_away(seconds)
        if not self._before:
            return
        rows = self._before[-min(writes, len(self._before))]
        self._before.clear()
        self.lost += writes
        self.engine.restore(rows)
        self.audit.forget()

    def keep(self) -> None:
        """Remember what there was before a write."""
        self.writes += 1
        if self.keeps:
            self._before.append(self.engine.rows())

    async def publish(self) -> None:
        """Tell replicas what changes."""
        async for key in self.engine.changes():
            if key is not None:
                for one in self.subscriptions:
                    one.put(key)


class Subscription:
    """What one replica is notified of; `None` is the end."""

    def __init__(self) -> None:
        self._keys = deque[str | None]()
        self._more = anyio.Event()

    def put(self, key: str | None) -> None:
        """Add a key."""
        self._keys.append(key)
        self._more.set()

    async def next(self) -> str:
        """Return the next key; raises `StoreUnavailable` at the end."""
        while not self._keys:
            self._more = anyio.Event()
            await self._more.wait()
        if (key := self._keys.popleft()) is None:
            raise StoreUnavailable(StoreUnavailable.AWAY)
        return key


@define(eq=False)
class Connection:
    """What one replica has of the store: a `Store`, whose operations are those of the engine."""

    disk: Disk
    random: Random
    process: str
    lease: float = LEASE

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS:
            raise AttributeError(name)
        return partial(self._ask, name)

    async def changes(self) -> AsyncGenerator[str | None]:
        """Yield what changes, until the store is away."""
        await self._travel("changes")
        changes = Subscription()
        self.disk.subscriptions.append(changes)
        yield None
        while True:
            key = await changes.next()
            await anyio.sleep(self.random.random() * self.disk.weather.slow)
            yield key

    async def aclose(self) -> None:
        """Leave the store as it is."""

    async def _ask(self, name: str, *arguments: Any, **named: Any) -> Any:
        await self._travel(name, "is not asked")
        if name in WRITES:
            self.disk.keep()
        result = await getattr(self.disk.engine, name)(*arguments, **named)
        self._log(name, *arguments, "->", result)
        self.disk.audit.done(self.process, name, (*arguments, *named.values()), result)
        await self._travel(name, "is not answered")
        self.disk.audit.answered(self.process, name, arguments, result)
        return result

    def _log(self, *what: object) -> None:
        self.disk.log.append(f"{self.disk.loop.time():.3f} {self.process} {' '.join(map(_short, what))}")

    async def _travel(self, *what: str) -> None:
        """Take what a message takes, and lose it if that is drawn."""
        weather = self.disk.weather
        await anyio.sleep(self.random.random() * weather.slow)
        if self.disk.away > self.disk.loop.time() or (weather.lost and self.random.random() < weather.lost):
            await anyio.sleep(weather.slow * 10)
            self._log(*what)
            raise StoreUnavailable(StoreUnavailable.AWAY)


def _short(value: object) -> str:
    """Return a value as it is shown to people."""
    if isinstance(value, Lease):
        return f"lease {value.token} of {_short(value.record)}"
    if isinstance(value, Record):
        return f"{value.version} {_short(value.data)} intent={value.intent}"
    text = str(value)
    if text.startswith('{"version"'):
        data = json.loads(text)
        return f"{data['active']} {data['facts']} {data['beside']['pending']}"
    return text.rpartition("/")[2][:8] if "/" in text else text


class Clock(Protocol):
    """What says which time it is."""

    def time(self) -> float:
        """Return it in seconds."""
        ...


class Database(SQLiteStore):
    """A database in memory, by the clock of the world, and without threads."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(":memory:", lease=LEASE)
        self._path: Any = _Nowhere()
        self._clock = clock

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, writes: bool = True) -> T:
        return self._in_transaction(work, writes)

    def _open(self) -> sqlite3.Connection:
        db = super()._open()
        db.create_function("julianday", 1, lambda _: (EPOCH + self._clock.time()) / 86400 + 2440587.5)
        return db


class _Nowhere:
    """The path of a database in memory."""

    def exists(self) -> bool:
        """Say so, or a file would be made."""
        return True

    def __fspath__(self) -> str:
        return ":memory:"
