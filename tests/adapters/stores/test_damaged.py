"""Records that can't be read harm their own sessions alone (SPEC STO-8)."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from toolfold import Place, StoreError, ToolSet
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("STO-8")

PATIENCE = 60
LONG = 100 * PATIENCE
DEEP = "[" * 100_000
BESIDE: dict[str, Any] = {
    "start": None,
    "inherited": [],
    "owner": None,
    "pending": [],
    "notifies": False,
    "about": None,
}
WHOLE: dict[str, Any] = {"version": 1, "tools": "desk", "active": ["mail"], "facts": {}, "beside": BESIDE}


def desk(undone: anyio.Event) -> ToolSet:
    tools = ToolSet("desk")
    tools.register_group("mail", on_activate=lambda: None, on_deactivate=undone.set)
    return tools


@pytest.mark.parametrize(
    ("data", "intent"),
    [
        (json.dumps(WHOLE), DEEP),
        (DEEP, "[]"),
        (json.dumps(WHOLE).replace('"facts": {', '"facts": {"deep": ' + "[" * 900 + "]" * 900), "[]"),
        (json.dumps({**WHOLE, "beside": []}), "[]"),
    ],
    ids=["deep intent", "deep", "deep fact", "beside"],
)
async def test_a_sweep_passes_over_a_record_that_cannot_be_read(data: str, intent: str) -> None:
    undone, store = anyio.Event(), MemoryStore(lease=LONG)  # a quarter of which no process may wait when it ends
    for key, content, hooks in (("damaged", data, intent), ("whole", json.dumps(WHOLE), '[["on_activate", "mail"]]')):
        name = f"desk/session/{key}"
        assert isinstance(await store.create(name, content, Place("desk/session"), 3600), int)
        lease = await store.acquire(name, store.lease)
        assert lease is not None
        assert await store.intend(name, hooks, lease.token or 0)
        await store.release(name, lease.token or 0)
    async with desk(undone).stored_sessions(store):
        with anyio.fail_after(PATIENCE):
            await undone.wait()


async def opened_with(data: str) -> None:
    """Store a session, put other data in the place of its record, and open it in another process."""
    store = MemoryStore()
    async with desk(anyio.Event()).stored_sessions(store) as stored:
        async with stored.open("mine") as session:
            key = session.id
        found = await store.read(key)
        assert found is not None
        assert await store.swap(key, found.version, data)
    async with desk(anyio.Event()).stored_sessions(store) as stored, stored.open("mine"):
        pass


@pytest.mark.parametrize("data", [DEEP, "null"], ids=["deep", "null"])
async def test_a_session_whose_record_cannot_be_read_is_refused_in_a_sentence(data: str) -> None:
    with pytest.raises(StoreError, match=r"damaged|can't be restored"):
        await opened_with(data)


@pytest.mark.spec("STO-5")
@pytest.mark.parametrize("start", [["nothing"], [5], [None], "mail", {"a": 1}, [["mail"]]], ids=str)
async def test_a_session_that_was_to_begin_with_groups_that_are_not_there_is_refused_in_a_sentence(
    start: object,
) -> None:
    data = json.dumps({**WHOLE, "beside": {**BESIDE, "start": start}})
    with pytest.raises(StoreError, match=r"was to begin with the groups .*not there.*Open a new session"):
        await opened_with(data)
