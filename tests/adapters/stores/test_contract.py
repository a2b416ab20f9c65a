"""Every engine does what a store does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.adapters.stores.trouble import FileInTrouble
from toolfold_adapters.stores import STORE_CASES, MemoryStore, SQLiteStore, Stores, check_store

pytestmark = pytest.mark.spec("STO-1", "STO-2", "STO-5", "STO-7", "STO-9", "PER-3")


@asynccontextmanager
async def in_memory() -> AsyncGenerator[Stores]:
    async with MemoryStore() as store:
        yield Stores(store, store)


async def test_in_memory_without_an_engine_that_could_be_in_trouble() -> None:
    assert len(await check_store(in_memory)) == len(STORE_CASES) - 2


@pytest.mark.parametrize("case", STORE_CASES)
async def test_in_sqlite(case: str, tmp_path: Path) -> None:
    @asynccontextmanager
    async def in_sqlite() -> AsyncGenerator[Stores]:
        path = tmp_path / "state.db"
        async with SQLiteStore(path) as store, SQLiteStore(path) as other:
            yield Stores(store, other, FileInTrouble(store, path))

    assert await check_store(in_sqlite, [case]) == [case]
