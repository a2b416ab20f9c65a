"""Notifications over real connections: they reach a client's streams on whichever replica (SPEC STO-4, NTF-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import CHANGED
from tests.process.adapters.mcp.test_principals import listening, principals
from tests.process.stores.servers import flushed
from toolfold import Store
from toolfold_adapters.stores import RedisStore, SQLiteStore

pytestmark = pytest.mark.spec("STO-4")


@pytest.fixture(params=["sqlite", "redis"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[list[Store]]:
    """Yield two stores on the same records, as two replicas have them."""
    if request.param == "sqlite":
        made: list[Any] = [SQLiteStore(tmp_path / "state.db") for _ in range(2)]
    else:
        url: str = request.getfixturevalue("redis_url")
        await flushed(url)
        made = [RedisStore(url) for _ in range(2)]
    async with made[0], made[1]:
        yield made


@pytest.mark.spec("DEL-6", "NTF-2")
async def test_a_change_reaches_the_callers_streams_on_every_replica(stores: list[Store]) -> None:
    async with (
        principals(make_desk(), store=stores[0]) as first,
        principals(make_desk(), store=stores[1]) as second,
        listening(first("ada")) as (ada, here),
        listening(second("ada")) as (_, there),
        listening(second("bob")) as (bob, others),
    ):
        await ada.call_tool("database.activate", {})
        assert await here.next() == await there.next() == CHANGED
        await bob.call_tool("mode_a.activate", {})
        assert await others.next() == CHANGED
        assert (here.changes, there.changes, others.changes) == (1, 1, 1)
