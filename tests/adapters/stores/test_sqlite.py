"""`SQLiteStore` refuses files that are not stores of its version (SPEC STO-5)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from toolfold import ConfigError, Place
from toolfold_adapters.stores import SQLiteStore, sqlite


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


PLACE = Place("kind")


def altered(path: Path) -> None:
    """Write into the file what no store knows of."""
    with sqlite3.connect(path) as db:
        db.execute("UPDATE session SET data = 'altered'")
    db.close()


@pytest.mark.spec("GWY-14", "STO-1")
@pytest.mark.parametrize(("sole", "again"), [(True, "one"), (False, "altered")])
async def test_a_sole_process_does_not_read_again_what_it_has_read(sole: bool, again: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStore(path, sole=sole) as store:
        await store.create("key", "one", PLACE, 600)
        first = await store.read("key")
        altered(path)
        second = await store.read("key")
    assert first is not None
    assert second is not None
    assert (first.data, second.data) == ("one", again)


@pytest.mark.spec("GWY-14", "STO-1", "STO-2")
async def test_a_sole_process_reads_again_what_it_has_written_and_what_is_being_changed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStore(path, sole=True) as store:
        created = await store.create("key", "one", PLACE, 600)
        await store.read("key")
        assert isinstance(created, int)
        assert await store.swap("key", created, "two") is not None
        found = await store.read("key")
        assert found is not None
        assert found.data == "two"
        lease = await store.acquire("key", 60)
        assert lease is not None
        assert lease.token is not None
        await store.read("key")
        altered(path)
        held = await store.read("key")
        assert held is not None
        assert held.data == "altered"
        await store.release("key", lease.token)
        await store.read("key")
        lease = await store.acquire("key", 60)
        assert lease is not None
        assert lease.token is not None
        assert await store.delete("key", lease.token)
        assert await store.read("key") is None


@pytest.mark.spec("GWY-14", "STO-4")
async def test_a_sole_process_notes_every_few_seconds_that_a_record_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "state.db", [100.0]
    monkeypatch.setattr(sqlite, "elapsed", lambda: now[0])
    async with SQLiteStore(path, sole=True) as store:
        await store.create("key", "one", PLACE, 600)
        await store.read("key")
        altered(path)
        now[0] += sqlite.FRESH
        found = await store.read("key")
        assert found is not None
        assert found.data == "altered"
