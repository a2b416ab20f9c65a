"""`RedisStore` does what a store does, on a real Redis."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import frozen
from redis.asyncio import Redis

from tests.process.stores.servers import flushed
from toolfold import Place
from toolfold_adapters.stores import STORE_CASES, RedisStore, Stores, check_store

pytestmark = pytest.mark.spec("STO-1", "STO-2", "STO-7", "PER-3")


@frozen
class RedisInTrouble:
    """A Redis that answers no script, and one that has lost what was written since a copy."""

    client: Any

    @asynccontextmanager
    async def stalled(self) -> AsyncGenerator[None]:
        await self.client.client_pause(60_000, all=False)
        try:
            yield
        finally:
            await self.client.client_unpause()

    async def copied(self) -> Callable[[], Awaitable[None]]:
        copy = {key: (await self.client.dump(key), await self.client.pttl(key)) for key in await self.client.keys()}

        async def put_back() -> None:
            await self.client.flushdb()
            for key, (value, left) in copy.items():
                await self.client.restore(key, max(left, 0), value)

        return put_back


@pytest.mark.spec("STO-5", "STO-9")
@pytest.mark.parametrize("case", STORE_CASES)
async def test_in_redis(case: str, redis_url: str) -> None:
    @asynccontextmanager
    async def in_redis() -> AsyncGenerator[Stores]:
        await flushed(redis_url)
        async with (
            RedisStore(redis_url) as store,
            RedisStore(redis_url) as other,
            Redis.from_url(redis_url) as client,
        ):
            yield Stores(store, other, RedisInTrouble(client))

    assert await check_store(in_redis, [case]) == [case]


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
