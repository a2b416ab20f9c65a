"""A Redis that is away, slow, full, read-only or misconfigured, or fails over (SPEC STO-5).

Callers are answered in a sentence, what is known is still listed, nothing is lost, and no restart is needed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import frozen
from mcp import Client
from redis.asyncio import Redis

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, build_server, client_of, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of, through
from tests.adapters.mcp.test_legacy_replicas import balanced
from tests.process.stores.proxy import Proxy
from tests.process.stores.servers import RedisServer, flushed
from toolfold import Place, StoreError, StoreUnavailable
from toolfold_adapters.stores import RedisStore, redis

pytestmark = pytest.mark.spec("STO-5")

AWAY = "The store of this server's sessions does not answer, so nothing was changed; try again soon."
FULL = "The store of this server's sessions is full, so nothing was changed; try again later."
REFUSED = (
    "The Redis store refuses the user or password of this server, so nothing was changed; its operator has to correct "
    "the URL."
)
OTHER = "The Redis store has something else where this session belongs, so it can't be used. Open a new one."
Step = Callable[[Any], Awaitable[Any]]


@frozen
class Trouble:
    """What is wrong with a Redis: how that begins and ends, and what callers are answered."""

    name: str
    begin: Step
    end: Step
    text: str


async def lock(admin: Any) -> None:
    """Require a password, of all connections."""
    await admin.config_set("requirepass", "secret")
    await admin.client_kill_filter(_type="normal", skipme=True)


TROUBLES = (
    Trouble(
        "read-only", lambda admin: admin.replicaof("127.0.0.1", 1), lambda admin: admin.replicaof("NO", "ONE"), AWAY
    ),
    Trouble("locked", lock, lambda admin: admin.config_set("requirepass", ""), REFUSED),
    Trouble(
        "without replicas",
        lambda admin: admin.config_set("min-replicas-to-write", 1),
        lambda admin: admin.config_set("min-replicas-to-write", 0),
        AWAY,
    ),
    Trouble("hanging", lambda admin: admin.client_pause(60_000, all=False), lambda admin: admin.client_unpause(), AWAY),
)


@frozen
class User:
    """A client of either era that has opened the database."""

    client: Client
    handle: str | None

    async def names(self) -> list[str]:
        """Return what it is listed."""
        return (
            await names_of(self.client) if self.handle is None else list(await listed_under(self.client, self.handle))
        )

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool."""
        if self.handle is None or name.endswith("activate"):
            return await self.client.call_tool(name, {**arguments, **({"handle": self.handle} if self.handle else {})})
        return await through(self.client, name, arguments, self.handle)


@asynccontextmanager
async def user_of(era: str, store: RedisStore, events: list[str]) -> AsyncGenerator[User]:
    """Yield a client of a server with that store."""
    server = build_server(make_desk(events), store=store)
    if era == "legacy":
        async with balanced(server) as (client, _, _):
            await client.call_tool("database.activate", {})
            yield User(client, None)
    else:
        async with client_of(server, MODERN) as (client, _):
            yield User(client, await opened(client, "database"))


@pytest.mark.parametrize(
    ("trouble", "era"),
    list(zip(TROUBLES, ("legacy", "modern") * 2, strict=True)),
    ids=["read-only", "locked", "without replicas", "hanging"],
)
async def test_lists_go_on_and_transitions_and_calls_are_refused_until_it_is_over(
    era: str, trouble: Trouble, redis_url: str
) -> None:
    await flushed(redis_url)
    events: list[str] = []
    async with (
        Redis.from_url(redis_url) as admin,
        RedisStore(redis_url, timeout=0.5, retries=1) as store,
        user_of(era, store, events) as user,
    ):
        await trouble.begin(admin)
        try:
            assert "database.query" in await user.names()
            for name, arguments in (
                ("database.deactivate", {}),
                ("mode_a.activate", {}),
                ("database.query", {"sql": "x"}),
            ):
                refused = await user.call(name, arguments)
                assert refused.is_error
                assert text_of(refused) == trouble.text
        finally:
            await trouble.end(admin)
        assert events == ["database on"]
        assert received(await user.call("database.query", {"sql": "x"})) == {"ran": "x"}
        assert received(await user.call("database.deactivate", {}))["active"] == []
        assert events == ["database on", "database off"]


@pytest.mark.spec("STO-7")
async def test_while_it_is_full_sessions_go_on_and_end_and_new_ones_are_refused(redis_url: str) -> None:
    await flushed(redis_url)
    events: list[str] = []
    async with (
        Redis.from_url(redis_url) as admin,
        RedisStore(redis_url) as store,
        user_of("modern", store, events) as user,
    ):
        await admin.config_set("maxmemory", "1mb")
        try:
            assert text_of(await user.client.call_tool("mode_a.activate", {})) == FULL
            await user.call("database.write.activate", {})
            await user.call("database.deactivate", {})
            key = await store.idlest("desk/handle", None)
            assert key is not None
            lease = await store.acquire(key, 1)
            assert lease is not None
            assert lease.token is not None
            assert await store.delete(key, lease.token)
        finally:
            await admin.config_set("maxmemory", "0")
        assert events == ["database on", "database off"]
        await opened(user.client, "mode_a")


async def test_what_was_stored_is_there_after_a_restart_and_what_was_not_is_refused(tmp_path: Path) -> None:
    events: list[str] = []
    with RedisServer(tmp_path, "--appendfsync", "always") as server:
        async with RedisStore(server.url, retries=1) as store, user_of("modern", store, events) as user:
            server.kill()
            assert "database.query" in await user.names()
            assert text_of(await user.call("database.deactivate", {})) == AWAY
            server.start()
            assert received(await user.call("database.query", {"sql": "x"})) == {"ran": "x"}
            await flushed(server.url)  # as if it had no disk
            refused = await user.call("database.deactivate", {})
            assert text_of(refused).startswith("The handle is not one of this server for this caller, or has expired.")
            await opened(user.client, "database")
    assert events == ["database on", "database on"]


async def test_after_a_failover_the_new_primary_is_used_without_a_restart(tmp_path: Path) -> None:
    events: list[str] = []
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with RedisServer(folders[0], "--repl-diskless-sync-delay", "0") as first, RedisServer(folders[1]) as second:
        proxy = Proxy(first.port)
        async with (
            Redis.from_url(first.url) as old,
            Redis.from_url(second.url) as new,
            proxy.running(),
            RedisStore(f"redis://127.0.0.1:{proxy.port}/0") as store,
        ):
            await new.replicaof("127.0.0.1", first.port)
            async with user_of("modern", store, events) as user:
                with anyio.fail_after(PATIENCE):
                    while not await old.wait(1, 100):
                        pass
                proxy.target = second.port  # connections that are open stay with the old one
                await new.replicaof("NO", "ONE")
                await old.replicaof("127.0.0.1", second.port)
                assert received(await user.call("database.deactivate", {}))["active"] == []
                assert received(await user.call("database.activate", {}))["active"] == ["database"]
    assert events == ["database on", "database off", "database on"]


@pytest.mark.parametrize("answers", range(4))
async def test_a_transition_of_which_an_answer_is_lost_is_made_once(answers: int, redis_url: str) -> None:
    await flushed(redis_url)
    events: list[str] = []
    proxy = Proxy(int(redis_url.split(":")[2].split("/")[0]))
    async with (
        proxy.running(),
        RedisStore(f"redis://127.0.0.1:{proxy.port}/0") as store,
        user_of("modern", store, events) as user,
    ):
        proxy.lose = answers
        assert received(await user.call("database.deactivate", {}))["active"] == []
        while proxy.lose is not None:  # answers that came together counted as one
            assert received(await user.call("mode_a.activate", {}))["active"] == ["mode_a"]
        assert events == ["database on", "database off"]


@pytest.mark.spec("STO-2")
async def test_an_intent_that_was_stored_under_a_lease_that_has_ended_since_is_not_taken_for_granted(
    redis_url: str,
) -> None:
    await flushed(redis_url)
    proxy = Proxy(int(redis_url.split(":")[2].split("/")[0]))
    async with (
        Redis.from_url(redis_url) as admin,
        proxy.running(),
        RedisStore(f"redis://127.0.0.1:{proxy.port}/0", timeout=PATIENCE) as store,
    ):
        assert isinstance(await store.create("desk/handle/1", "{}", Place("desk/handle"), 60), int)
        assert not await store.intend("desk/handle/1", "[]", 0)  # now Redis knows the script
        lease = await store.acquire("desk/handle/1", 60)
        assert lease is not None

        async def end_lease() -> None:
            await admin.hset("toolfold1:{desk/handle}:/1", "until", "0")

        proxy.lose, proxy.meanwhile = 0, end_lease
        assert not await store.intend("desk/handle/1", "[]", lease.token or 0)
        record = await store.read("desk/handle/1")
        assert record is not None
        assert record.intent == "[]"


async def test_it_is_noticed_that_changes_are_no_longer_published(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis, "QUIET", 0.05)
    proxy = Proxy(int(redis_url.split(":")[2].split("/")[0]))
    async with proxy.running(), RedisStore(f"redis://127.0.0.1:{proxy.port}/0", timeout=0.2) as store:
        changes = store.changes()
        assert await anext(changes) is None
        proxy.silent = True
        with anyio.fail_after(PATIENCE), pytest.raises(StoreUnavailable):
            await anext(changes)


async def test_what_is_no_record_is_refused_for_its_session_alone(redis_url: str) -> None:
    await flushed(redis_url)
    async with (
        Redis.from_url(redis_url, decode_responses=True) as admin,
        RedisStore(redis_url) as store,
        user_of("modern", store, []) as user,
    ):
        (key,) = [one for one in await admin.keys("*handle*") if await admin.type(one) == "hash"]
        other = await opened(user.client, "database")
        await admin.delete(key)
        await admin.set(key, "text")
        refused = await user.call("database.query", {"sql": "x"})
        assert refused.is_error
        assert text_of(refused).startswith(OTHER)
        assert received(await through(user.client, "database.query", {"sql": "x"}, other)) == {"ran": "x"}
        with pytest.raises(StoreError, match="has something else"):
            await store.read(f"desk/handle/{str(key).rpartition('/')[2]}")


@pytest.mark.parametrize("field", ["version", "data", "intent", "until", "expires", "lifetime"])
async def test_a_record_with_a_damaged_field_is_refused_as_one(redis_url: str, field: str) -> None:
    await flushed(redis_url)
    async with Redis.from_url(redis_url) as admin, RedisStore(redis_url) as store:
        for key in ("desk/handle/damaged", "desk/handle/whole"):
            assert isinstance(await store.create(key, "{}", Place("desk/handle"), 60), int)
        await admin.hset("toolfold1:{desk/handle}:/damaged", field, b"\xff")
        with pytest.raises(StoreError, match="has something else") as raised:
            await store.read("desk/handle/damaged")
        assert not isinstance(raised.value, StoreUnavailable)
        assert (await store.read("desk/handle/whole")) is not None
        assert await store.idlest("desk/handle", None) == "desk/handle/damaged"
