"""`RedisStore` does what a store does, on a real Redis."""

from __future__ import annotations

import pytest

from tests.adapters.stores.contract import CASES, Case
from tests.process.stores.servers import flushed
from toolfold import Place
from toolfold_adapters.stores import RedisStore

pytestmark = pytest.mark.spec("STO-1", "STO-2", "STO-7", "PER-3")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_in_redis(case: Case, redis_url: str) -> None:
    await flushed(redis_url)
    async with RedisStore(redis_url) as store, RedisStore(redis_url) as other:
        await case(store, other)


@pytest.mark.spec("STO-2")
async def test_the_fence_grows_also_after_redis_has_lost_its_data(redis_url: str) -> None:
    tokens = list[int]()
    async with RedisStore(redis_url) as store:
        for _ in range(3):
            await flushed(redis_url)
            assert isinstance(await store.create("desk/handle/1", "{}", Place("desk/handle"), 60), int)
            lease = await store.acquire("desk/handle/1", 10)
            assert lease is not None
            assert lease.token is not None
            tokens.append(lease.token)
    assert tokens == sorted(set(tokens))
