"""`SQLiteStore` refuses files that are not stores of its version (SPEC STO-5)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from toolfold import ConfigError
from toolfold_adapters.stores import SQLiteStore


@pytest.mark.spec("STO-5")
async def test_a_store_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStore(path) as store:
        assert await store.read("key") is None
    with sqlite3.connect(path) as db:
        (form,) = db.execute("PRAGMA user_version").fetchone()
        db.execute("PRAGMA user_version = 99")
    db.close()
    async with SQLiteStore(path) as store:
        with pytest.raises(ConfigError, match=f"has version 99, and this Toolfold reads {form}: choose another file"):
            await store.read("key")


@pytest.mark.spec("STO-5")
async def test_a_path_that_can_never_be_a_store_is_refused_as_such(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path) as store:
        with pytest.raises(ConfigError, match="can't be used as a store: unable to open database file"):
            await store.read("key")
