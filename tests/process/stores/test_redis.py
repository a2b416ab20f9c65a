"""`RedisStore` does what a store does, on a real Redis."""

from __future__ import annotations

import pytest

from tests.adapters.stores.contract import CASES, Case
from tests.process.stores.servers import flushed
from toolfold_adapters.stores import RedisStore

pytestmark = pytest.mark.spec("STO-1", "STO-2", "STO-7", "PER-3")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_in_redis(case: Case, redis_url: str) -> None:
    await flushed(redis_url)
    async with RedisStore(redis_url) as store, RedisStore(redis_url) as other:
        await case(store, other)
