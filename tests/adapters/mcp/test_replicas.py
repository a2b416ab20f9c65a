"""Replicas that share a store: a client may meet another one with every request (SPEC STO-4)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
import pytest
from mcp import Client
from trio.testing import MockClock

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import build_server, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of, through
from toolfold import Context, HookContext, Session, Slot, Store, StoreUnavailable, ToolError, ToolSet
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.names import HANDLE_META
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("STO-1", "STO-4")


async def test_a_handle_of_one_replica_is_honoured_by_another(store: Store) -> None:
    journal: list[str] = []
    async with (
        client_of(build_server(make_desk(journal), store=store), MODERN) as (first, _),
        client_of(build_server(make_desk(journal), store=store), MODERN) as (second, _),
    ):
        handle = await opened(first, "database")
        assert received(await through(second, "database.query", {"sql": "x"}, handle)) == {"ran": "x"}
        assert await opened(second, "database.write", handle) == handle
        assert "database.write.insert" in await listed_under(first, handle)
        await second.call_tool("database.deactivate", {"handle": handle})
        refused = await through(first, "database.query", {"sql": "x"}, handle)
        assert refused.is_error
        assert "Unknown tool" in text_of(refused)
    assert journal == ["database on", "database off"]


async def test_a_restart_runs_no_hooks_and_loses_no_handle(store: Store) -> None:
    journal: list[str] = []
    async with client_of(build_server(make_desk(journal), store=store), MODERN) as (client, _):
        handle = await opened(client, "database")
    async with client_of(build_server(make_desk(journal), store=store), MODERN) as (client, _):
        assert received(await through(client, "database.query", {"sql": "x"}, handle)) == {"ran": "x"}
    assert journal == ["database on"]


async def test_what_another_process_opened_for_a_tool_is_opened_anew_with_its_group(store: Store) -> None:
    tools, slot = ToolSet("desk"), Slot[str]("books")

    def close(hook: HookContext) -> None:
        with suppress(LookupError):
            slot.empty(hook)

    tools.register_group("books", on_activate=lambda hook: slot.fill(hook, "open"), on_deactivate=close)
    tools.register_group("pages", parent="books")

    @tools.tool(group="books.pages")
    def read(context: Context) -> str:
        return slot.of(context)

    async with client_of(build_server(tools, store=store), MODERN) as (client, _):
        handle = await opened(client, "books.pages", await opened(client, "books"))
        assert text_of(await through(client, "books.pages.read", {}, handle)) == "open"
    async with client_of(build_server(tools, store=store), MODERN) as (client, _):
        failed = await through(client, "books.pages.read", {}, handle)
        assert failed.is_error
        assert "Close the group books and open it again." in text_of(failed)
        assert not (await client.call_tool("books.deactivate", {"handle": handle})).is_error
        handle = await opened(client, "books.pages", await opened(client, "books", handle))
        assert text_of(await through(client, "books.pages.read", {}, handle)) == "open"


async def test_a_call_that_opens_nothing_leaves_nothing_in_the_store(store: Store) -> None:
    async with client_of(build_server(make_desk(), store=store, limits=one_handle()), MODERN) as (client, _):
        await client.call_tool("ping", {})
        assert (await client.call_tool("vault.activate", {})).is_error
        await opened(client, "database")


def one_handle() -> Limits:
    return Limits(handles=Limit(1))


async def test_what_a_hook_created_is_made_anew_where_another_replica_takes_over(store: Store) -> None:
    events: list[str] = []

    def replica(name: str) -> ToolSet:
        connections: dict[Session, str] = {}
        tools = ToolSet("desk")

        async def connect(context: HookContext) -> None:
            connections[context.session] = name
            events.append(f"{name} {context.phase}")

        tools.register_group("database", on_activate=connect, on_deactivate=lambda: None, resume=connect)

        @tools.tool(group="database")
        async def where(context: Context) -> str:
            """Say which connection is used."""
            return connections[context.session]

        return tools

    async with (
        client_of(build_server(replica("first"), store=store), MODERN) as (first, _),
        client_of(build_server(replica("second"), store=store), MODERN) as (second, _),
    ):
        handle = await opened(first, "database")
        for _ in range(2):
            assert text_of(await through(first, "database.where", {}, handle)) == "first"
            assert text_of(await through(second, "database.where", {}, handle)) == "second"
    assert events == ["first on_activate", "second resume"]


async def test_a_session_whose_connection_can_not_be_made_anew_is_refused_there_and_goes_on_elsewhere() -> None:
    def replica(fails: bool) -> ToolSet:
        tools = ToolSet("desk")

        async def connect() -> None:
            if fails:
                raise ToolError("the database is away")

        tools.register_group("database", on_activate=lambda: None, resume=connect)
        return tools

    store = MemoryStore()
    async with (
        client_of(build_server(replica(fails=False), store=store), MODERN) as (first, _),
        client_of(build_server(replica(fails=True), store=store), MODERN) as (second, _),
    ):
        handle = await opened(first, "database")
        refused = await second.call_tool("database.deactivate", {"handle": handle})
        assert refused.is_error
        assert "The resume hook of group 'database' failed" in text_of(refused)
        assert received(await first.call_tool("database.deactivate", {"handle": handle}))["active"] == []


@pytest.mark.spec("DEL-6")
async def test_a_principals_list_and_its_subscribers_follow_the_store(store: Store) -> None:
    servers = [build_server(make_desk(), store=store, delivery="principal") for _ in range(2)]
    async with AsyncExitStack() as stack:
        endpoints = [await stack.enter_async_context(endpoint_of(one, authenticated=True)) for one in servers]
        ada, bob = {"authorization": "Bearer ada"}, {"authorization": "Bearer bob"}

        async def listed(replica: int, who: dict[str, str]) -> bool:
            return '"database.query"' in (await endpoints[replica].post("tools/list", headers=who)).text

        assert not await listed(1, ada)
        opening = {"name": "database.activate", "arguments": {}}
        assert "is open" in (await endpoints[0].post("tools/call", opening, headers=ada)).text
        assert await listed(1, ada)
        assert not await listed(1, bob)


# -- stores that fail -------------------------------------------------------------------------------------------------


class Fragile:
    """A store that can be away, and counts its operations."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.away = False
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("lease", "changes", "due"):
            return getattr(self._store, name)

        async def asked(*arguments: Any, **options: Any) -> Any:
            self.asked.append(name)
            if self.away:
                raise StoreUnavailable("The store is away.")
            return await getattr(self._store, name)(*arguments, **options)

        return asked


@pytest.mark.spec("STO-5")
async def test_while_the_store_is_away_lists_go_on_transitions_are_refused_and_nothing_is_lost() -> None:
    store: Any = Fragile(MemoryStore())
    journal: list[str] = []
    async with client_of(build_server(make_desk(journal), store=store), MODERN) as (client, _):
        handle = await opened(client, "database")
        store.away = True
        assert "database.query" in await listed_under(client, handle)
        assert await meta_under(client, handle) == {"dev.toolfold/store-away": True}
        for refused in (
            await client.call_tool("database.deactivate", {"handle": handle}),
            await client.call_tool("database.activate", {}),
            await through(client, "database.query", {"sql": "x"}, handle),
        ):
            assert refused.is_error
            assert text_of(refused).startswith("The store is away.")
        assert journal == ["database on"]
        store.away = False
        assert received(await through(client, "database.query", {"sql": "x"}, handle)) == {"ran": "x"}
        assert await meta_under(client, handle) == {}


async def meta_under(client: Client, handle: str) -> dict[str, Any]:
    meta: Any = {HANDLE_META: handle}
    return own_meta((await client.list_tools(meta=meta)).meta)


def own_meta(given: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (given or {}).items() if key.startswith("dev.toolfold/")}


async def test_a_list_or_a_call_without_a_transition_asks_the_store_once_and_under_a_signed_handle_never() -> None:
    store: Any = Fragile(MemoryStore())
    async with client_of(build_server(make_desk(), store=store), MODERN) as (client, _):
        handle = await opened(client, "database")
        store.asked.clear()
        await listed_under(client, handle)
        await through(client, "database.query", {"sql": "x"}, handle)
        assert store.asked == ["read", "read"]
        await client.call_tool("ping", {})
        await client.list_tools()
        assert store.asked == ["read", "read"]
        await opened(client, "database.write", handle)
        assert store.asked == ["read", "read", "read", "swap"]
        store.asked.clear()
        await client.call_tool("database.deactivate", {"handle": handle})
        assert store.asked == ["read", "acquire", "swap"]  # with a hook
    tools = ToolSet("plain")
    tools.register_group("a")
    store.asked.clear()
    async with client_of(build_server(tools, store=store), MODERN) as (client, _):
        handle = await opened(client, "a")
        await listed_under(client, handle)
        await through(client, "a.deactivate", {}, handle)
    assert store.asked == []


@pytest.mark.spec("STO-2")
@pytest.mark.parametrize("hangs", [False, True])
def test_a_process_whose_lease_has_expired_does_not_commit_and_the_next_one_rolls_back(hangs: bool) -> None:
    clock = MockClock(autojump_threshold=0)  # time passes only where everything waits for it
    anyio.run(lose_a_lease, hangs, backend="trio", backend_options={"clock": clock})


async def lose_a_lease(hangs: bool) -> None:
    ahead = [0.0]
    store = MemoryStore(lambda: anyio.current_time() + ahead[0])
    journal: list[str] = []

    def replica(slow: bool) -> ToolSet:
        tools = ToolSet("desk")

        async def on() -> None:
            journal.append("on")
            ahead[0] += 2 * store.lease if slow else 0
            if slow and hangs:  # until it is found out that the lease is lost
                await anyio.sleep_forever()

        tools.register_group("a", on_activate=on, on_deactivate=lambda: journal.append("off"), run_in_thread=False)
        tools.register_group("b")
        return tools

    async with (
        client_of(build_server(replica(slow=True), store=store), MODERN) as (first, _),
        client_of(build_server(replica(slow=False), store=store), MODERN) as (second, _),
    ):
        handle = received(await first.call_tool("b.activate", {}))["handle"]
        refused = await first.call_tool("a.activate", {"handle": handle})
        assert refused.is_error
        assert "nothing was changed; try again" in text_of(refused)
        assert journal == ["on"]
        assert received(await second.call_tool("a.activate", {"handle": handle}))["active"] == ["a", "b"]
        assert journal == ["on", "off", "on"]


@pytest.mark.spec("PER-3")
async def test_of_two_transitions_from_one_version_the_loser_is_planned_again(store: Store) -> None:
    async with (
        client_of(build_server(make_desk(), store=store), MODERN) as (first, _),
        client_of(build_server(make_desk(), store=store), MODERN) as (second, _),
    ):
        handle = await opened(first, "database")
        async with anyio.create_task_group() as tasks:
            for client, group in ((first, "mode_a"), (second, "database.write"), (first, "mode_b")):
                tasks.start_soon(opened, client, group, handle)
        names = await listed_under(second, handle)
        assert "database.write.insert" in names
        assert len({"mode_a.only_a", "mode_b.only_b"} & set(names)) == 1


@pytest.mark.spec("STO-5")
@pytest.mark.parametrize("data", ["nonsense", "{}", '{"version":99,"tools":"desk"}', '{"version":1,"tools":"other"}'])
async def test_a_record_that_is_damaged_or_of_another_version_or_tool_set_is_refused_alone(data: str) -> None:
    store = MemoryStore()
    async with client_of(build_server(make_desk(), store=store), MODERN) as (client, _):
        damaged, whole = await opened(client, "database"), await opened(client, "database")
        key = await store.idlest("desk/handle", None)
        assert key is not None
        assert await store.swap(key, 2, data) or await store.swap(key, 3, data)
        refused = await through(client, "ping", {}, damaged)
        assert refused.is_error
        assert "Open the groups that you need again" in text_of(refused)
        assert received(await through(client, "database.query", {"sql": "x"}, whole)) == {"ran": "x"}
