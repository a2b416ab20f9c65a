"""Every engine does what a store does."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from attrs import frozen

from tests.adapters.stores.contract import CASES, CASES_IN_TROUBLE, Case, CaseInTrouble
from toolfold_adapters.stores import MemoryStore, SQLiteStore

pytestmark = pytest.mark.spec("STO-1", "STO-2", "STO-7", "PER-3")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_in_memory(case: Case) -> None:
    store = MemoryStore()
    await case(store, store)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_in_sqlite(case: Case, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "state.db") as store, SQLiteStore(tmp_path / "state.db") as other:
        await case(store, other)


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


@pytest.mark.spec("STO-5", "STO-9")
@pytest.mark.parametrize("case", CASES_IN_TROUBLE, ids=lambda case: case.__name__)
async def test_in_sqlite_in_trouble(case: CaseInTrouble, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "state.db") as store:
        await case(store, FileInTrouble(store, tmp_path / "state.db"))
