"""What can be done to the file of a store."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

from attrs import frozen

from toolfold_adapters.stores import SQLiteStore


@frozen
class FileInTrouble:
    """The file of a store, while another process writes to it, and while an older one is put in its place."""

    store: SQLiteStore
    path: Path

    @asynccontextmanager
    async def stalled(self) -> AsyncGenerator[None]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield
            db.execute("ROLLBACK")

    async def copied(self) -> Callable[[], Awaitable[None]]:
        await self.store.aclose()
        copy = self.path.read_bytes()

        async def put_back() -> None:
            await self.store.aclose()
            self.path.write_bytes(copy)

        return put_back
