"""What the tests of the MCP adapter share: a store of each engine that needs no server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from toolfold import Store
from toolfold_adapters.stores import MemoryStore, SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    """Yield a store of each engine that needs no server."""
    async with MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "state.db") as made:
        yield made
