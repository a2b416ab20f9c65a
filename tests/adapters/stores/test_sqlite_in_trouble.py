"""An SQLite database that is full or damaged while it is used (SPEC STO-5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolfold import Place, StoreUnavailable
from toolfold_adapters.stores import SQLiteStore

pytestmark = pytest.mark.spec("STO-5")

PLACE = Place("desk/handle")


async def test_what_finds_no_room_is_refused_and_what_is_there_stays(tmp_path: Path) -> None:
    made: Any = SQLiteStore(tmp_path / "state.db")
    async with made as store:
        assert isinstance(await store.create("desk/handle/1", "{}", PLACE, 60), int)
        store._connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        with pytest.raises(StoreUnavailable, match="is full, so nothing was changed; try again later"):
            await store.create("desk/handle/2", "x" * 100_000, PLACE, 60)
        assert (await store.read("desk/handle/1")).data == "{}"
        assert await store.read("desk/handle/2") is None


async def test_a_database_that_is_damaged_while_it_is_used_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStore(path, timeout=0.1) as store:
        assert isinstance(await store.create("desk/handle/1", "{}", PLACE, 60), int)
        for one in (path, tmp_path / "state.db-wal", tmp_path / "state.db-shm"):
            one.write_bytes(b"no database" * 5_000)
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await store.create("desk/handle/2", "x" * 100_000, PLACE, 60)
