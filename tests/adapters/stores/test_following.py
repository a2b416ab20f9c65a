"""The changes of other processes are followed, whatever has happened to some of the records (SPEC STO-4, STO-5)."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import anyio
import pytest

from tests.blocked import all_blocked
from toolfold import ToolSet
from toolfold_adapters.stores import MemoryStore, SQLiteStore

PATIENCE = 60


def desk() -> ToolSet:
    tools = ToolSet("desk")
    tools.register_group("mail")
    tools.register("look", lambda: "seen", description="Look.", group="mail")
    return tools


@pytest.mark.spec("STO-4", "STO-5")
async def test_a_damaged_session_does_not_keep_others_from_being_followed() -> None:
    changed = anyio.Event()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(MemoryStore())
        here, there = [await stack.enter_async_context(desk().stored_sessions(store)) for _ in range(2)]
        damaged, whole = [await stack.enter_async_context(here.open(name)) for name in ("damaged", "whole")]
        damaged.on_list_changed(lambda _: None)
        whole.on_list_changed(lambda _: changed.set())
        await all_blocked()
        record = await store.read(damaged.id)
        assert record is not None
        assert await store.swap(damaged.id, record.version, "{")
        unknown, other = [await stack.enter_async_context(there.open(name)) for name in ("unknown", "whole")]
        await unknown.activate("mail")
        await other.activate("mail")
        with anyio.fail_after(PATIENCE):
            await changed.wait()


@pytest.mark.spec("STO-5")
async def test_whoever_follows_again_after_a_failure_learns_that_changes_may_have_been_missed(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "state.db") as store, aclosing(store.changes()) as changes:
        with anyio.fail_after(PATIENCE):
            assert await anext(changes) is None
