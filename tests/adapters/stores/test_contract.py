"""Every engine does what a store does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.stores.contract import CASES, Case
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
