"""Stores that are slow or fail during a transition: leases hold, and answers say what is known (SPEC STO-2, STO-5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, build_server, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of, through
from tests.adapters.mcp.test_legacy_replicas import balanced
from tests.blocked import all_blocked
from toolfold import Context, StoreUnavailable, ToolSet
from toolfold_adapters.stores import MemoryStore

Operation = Callable[..., Coroutine[Any, Any, Any]]


class Altered:
    """A store of which some operations are other functions, which are given the real one first."""

    def __init__(self, store: Any, **operations: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._store = store
        self.operations = dict(operations)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name not in ("read", "swap", "acquire", "intend", "renew"):
            return real

        async def operation(*arguments: Any, **options: Any) -> Any:
            other = self.operations.get(name)
            return await (real(*arguments, **options) if other is None else other(real, *arguments, **options))

        return operation


async def away(real: Operation, *_: Any, **options: Any) -> Any:
    """Fail, without an answer."""
    raise StoreUnavailable("The store is away.")


def with_slow_group(events: list[str], begun: anyio.Event, proceed: anyio.Event) -> ToolSet:
    """Return a desk with one more group, whose hook waits."""
    tools = make_desk(events, hook_timeout=None)

    async def wait() -> None:
        events.append("slow on")
        begun.set()
        await proceed.wait()

    tools.register_group("slow", on_activate=wait, on_deactivate=lambda: events.append("slow off"))
    return tools


def with_unlocking() -> ToolSet:
    """Return a desk with a tool that sets a fact, and answers what it was."""
    tools = make_desk()

    @tools.tool()
    async def unlock(context: Context) -> str:
        before = context.session.facts.get("unlocked")
        context.session.set_fact("unlocked", True)
        return str(before)

    return tools


@pytest.mark.spec("STO-2", "NTF-1")
async def test_claiming_a_notification_does_not_release_the_lease_of_a_transition() -> None:
    claiming, proceed, begun, end = (anyio.Event() for _ in range(4))
    memory: Any = MemoryStore()
    keys: set[str] = set()

    async def swap(real: Operation, key: str, version: int, data: str, *rest: Any, **options: Any) -> Any:
        if '"pending":[]' in str(data) and '"active":["mode_a"]' in str(data):
            keys.add(key)
            claiming.set()
            await proceed.wait()
        return await real(key, version, data, *rest, **options)

    store: Any = Altered(memory, swap=swap)
    async with (
        balanced(build_server(with_slow_group([], begun, end), store=store)) as (client, _, _),
        anyio.create_task_group() as tasks,
    ):
        with anyio.fail_after(PATIENCE):
            tasks.start_soon(client.call_tool, "mode_a.activate", {})
            await claiming.wait()
            tasks.start_soon(client.call_tool, "slow.activate", {})
            await all_blocked()
            proceed.set()
            await begun.wait()
            await all_blocked()
            lease = await memory.acquire(keys.pop(), 1)
            assert lease is not None
            assert lease.token is None
            end.set()


@pytest.mark.spec("STO-2")
async def test_a_hook_does_not_begin_if_the_lease_has_ended_while_its_intent_was_stored() -> None:
    memory: Any = MemoryStore(lambda: 0.0, lease=0.05)  # in the store, no time passes

    async def slow(real: Operation, *arguments: Any, **options: Any) -> Any:
        result = await real(*arguments, **options)
        await anyio.sleep(2 * memory.lease)
        return result

    store: Any = Altered(memory)
    events: list[str] = []
    async with client_of(build_server(make_desk(events), store=store), MODERN) as (client, _):
        handle = await opened(client, "mode_a")
        store.operations = {"acquire": slow, "renew": away}
        refused = await client.call_tool("database.activate", {"handle": handle})
        assert refused.is_error
        assert "nothing was changed; try again" in text_of(refused)
        assert events == []


@pytest.mark.spec("STO-2")
@pytest.mark.parametrize("clock", [time.monotonic, lambda: 0.0], ids=["the store's ends too", "the store holds it on"])
async def test_a_hook_is_given_up_when_its_lease_ends_though_the_store_never_answers_the_renewal(
    clock: Callable[[], float],
) -> None:
    async def never(real: Operation, *_: Any) -> Any:
        await anyio.sleep_forever()

    events: list[str] = []
    tools = with_slow_group(events, anyio.Event(), anyio.Event())
    store: Any = Altered(MemoryStore(clock, lease=0.1), renew=never)
    async with client_of(build_server(tools, store=store), MODERN) as (client, _):
        handle = await opened(client, "mode_a")
        with anyio.move_on_after(PATIENCE / 2) as patience:
            assert (await client.call_tool("slow.activate", {"handle": handle})).is_error
        assert not patience.cancel_called
        assert received(await client.call_tool("database.activate", {"handle": handle}))["active"] == [
            "database",
            "mode_a",
        ]
        assert events == ["slow on", "slow off", "database on"]


@pytest.mark.spec("STO-5")
async def test_an_answer_says_so_if_nobody_knows_whether_a_transition_was_stored() -> None:
    async def lost(real: Operation, *arguments: Any, **options: Any) -> Any:
        await real(*arguments, **options)
        raise StoreUnavailable("The answer is lost.")

    store: Any = Altered(MemoryStore())
    async with client_of(build_server(make_desk(), store=store), MODERN) as (client, _):
        handle = await opened(client, "database")
        store.operations = {"swap": lost}
        refused = await client.call_tool("mode_a.activate", {"handle": handle})
        assert refused.is_error
        assert "it may or may not have been made; look before you repeat it" in text_of(refused)
        store.operations = {}
        assert text_of(await through(client, "mode_a.only_a", {}, handle)) == "a"


@pytest.mark.spec("STO-5")
async def test_a_fact_that_could_not_be_stored_is_not_said_to_be_unset_and_is_stored_with_the_next_request() -> None:
    memory: Any = MemoryStore()
    store: Any = Altered(memory)
    async with (
        client_of(build_server(with_unlocking(), store=store), MODERN) as (first, _),
        client_of(build_server(with_unlocking(), store=memory), MODERN) as (second, _),
    ):
        handle = await opened(first, "mode_a")
        await opened(second, "mode_b", handle)  # so that the first one has an old version
        store.operations = {"swap": away}
        assert "may or may not" in text_of(await through(first, "unlock", {}, handle))
        store.operations = {}
        await through(first, "ping", {}, handle)
        assert text_of(await through(second, "unlock", {}, handle)) == "True"


@pytest.mark.spec("STO-4", "SES-2")
async def test_what_another_replica_has_committed_is_visible_while_something_is_written_here() -> None:
    writing, proceed = anyio.Event(), anyio.Event()
    names: list[str] = []

    async def slow(real: Operation, *arguments: Any, **options: Any) -> Any:
        writing.set()
        await proceed.wait()
        return await real(*arguments, **options)

    memory: Any = MemoryStore()
    store: Any = Altered(memory)
    async with (
        client_of(build_server(with_unlocking(), store=store), MODERN) as (first, _),
        client_of(build_server(with_unlocking(), store=memory), MODERN) as (second, _),
        anyio.create_task_group() as tasks,
    ):
        with anyio.fail_after(PATIENCE):
            handle = await opened(first, "mode_a")
            store.operations = {"swap": slow}
            tasks.start_soon(through, first, "unlock", {}, handle)
            await writing.wait()
            await opened(second, "mode_b", handle)

            async def look() -> None:
                names.extend(await listed_under(first, handle))

            tasks.start_soon(look)
            await all_blocked()
            proceed.set()
    assert "mode_b.only_b" in names
