"""Changes of the catalog and of other sessions during modern requests, and their effect on handles (SPEC 18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.support import PATIENCE, build_server, client_of
from tests.adapters.mcp.test_disclosure import DECLARED
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of, through
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold import (
    Context,
    ExclusionConflict,
    QuotaExceeded,
    Session,
    Snapshot,
    StoredSessions,
    ToolSet,
    TransitionRequest,
)
from toolfold.spi import SessionKind, background
from toolfold_adapters.mcp import Limit
from toolfold_adapters.mcp import handlers as handlers_module
from toolfold_adapters.stores import MemoryStore


class Waiting:
    """A tool set with a tool that opens two groups and then waits; its hooks write down what they do."""

    def __init__(self, *, hooks: bool = True) -> None:
        self.journal = Journal()
        self.arrived, self.leave = anyio.Event(), anyio.Event()
        self.tools = tools = ToolSet("waiting")
        on = self.journal.append if hooks else None
        for path in ("a", "b"):
            tools.register_group(
                path,
                on_activate=on and partial(on, f"{path} on"),
                on_deactivate=on and partial(on, f"{path} off"),
            )

        @tools.tool(group="a")
        async def wait(context: Context) -> str:
            """Wait, and return the groups that are open then."""
            return await self._wait(context)

        @tools.tool()
        async def open_and_wait(context: Context) -> str:
            """Open both groups and wait."""
            await context.activate("a")
            await context.activate("b")
            return await self._wait(context)

    async def _wait(self, context: Context) -> str:
        self.arrived.set()
        await self.leave.wait()
        return f"open: {', '.join(context.session.active)}"

    @asynccontextmanager
    async def during(self, client: Client, name: str) -> AsyncGenerator[list[Any]]:
        """Call a tool that waits, and let it go on after the block; the list is then given its result."""
        results: list[Any] = []

        async def call() -> None:
            results.append(await client.call_tool(name, {}))

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await self.arrived.wait()
                yield results
                self.leave.set()


@pytest.mark.spec("REG-5", "HOOK-1")
@pytest.mark.parametrize("hooks", [True, False])
@pytest.mark.parametrize("disclosed", [False, True])
async def test_a_group_that_is_removed_is_closed_in_requests_in_progress(hooks: bool, disclosed: bool) -> None:
    waiting = Waiting(hooks=hooks)
    options: dict[str, Any] = {"extensions": DECLARED} if disclosed else {}
    async with client_of(build_server(waiting.tools), MODERN, **options) as (client, _):
        async with waiting.during(client, "a.wait" if disclosed else "open_and_wait") as results:
            await waiting.tools.unregister_group("a")
            assert waiting.journal == (
                [] if not hooks else ["a on", "a off"] if disclosed else ["a on", "b on", "a off"]
            )
        assert results[0].content[0].text == ("open: " if disclosed else "open: b")
        assert waiting.journal.count("a off") == (1 if hooks else 0)


@pytest.mark.spec("REG-3")
async def test_an_exclusion_of_groups_that_a_request_in_progress_has_both_open_is_refused() -> None:
    waiting = Waiting()
    async with client_of(build_server(waiting.tools), MODERN) as (client, _), waiting.during(client, "open_and_wait"):
        with pytest.raises(ExclusionConflict, match="waiting-request-1"):
            waiting.tools.register_exclusion("a", "b")
    waiting.tools.register_exclusion("a", "b")


# -- groups that a handle inherits ------------------------------------------------------------------------------------


def inheriting() -> tuple[ToolSet, Journal]:
    """Return a tool set with two groups that have hooks, and a tool in each."""
    journal, tools = Journal(), ToolSet("heirs")
    for path in ("shared", "own"):
        tools.register_group(
            path,
            on_activate=partial(journal.append, f"{path} on"),
            on_deactivate=partial(journal.append, f"{path} off"),
        )
        tools.register("ask", lambda: "answer", group=path, description="Ask.")
    return tools, journal


@pytest.mark.spec("DEL-4", "HOOK-1")
async def test_an_inherited_group_that_a_handle_closes_is_its_own_when_it_opens_it_again() -> None:
    tools, journal = inheriting()
    async with client_of(build_server(tools, active=["shared"]), MODERN) as (client, _):
        handle = await opened(client, "own")
        assert received(await client.call_tool("shared.deactivate", {"handle": handle}))["active"] == ["own"]
        assert journal == ["shared on", "own on"]
        await opened(client, "shared", handle)
        assert journal == ["shared on", "own on", "shared on"]
    assert sorted(journal[3:]) == ["own off", "shared off", "shared off"]


@pytest.mark.spec("DEL-4", "SES-3")
async def test_a_session_that_others_inherit_from_stays_open_while_one_of_them_is_used() -> None:
    tools, journal = inheriting()
    now = [0.0]
    store = MemoryStore(lambda: now[0])
    owners, heirs = kinds_of(tools, store)
    async with background() as tasks:
        owner = await owners.get_or_create("owner", None, ["shared"])
        heir = heirs.draft("heir", snapshot=owner.snapshot, owner=owner)
        await heir.activate("own")
        await heirs.ensure(heir)
        for _ in range(3):
            now[0] += 40
            assert await heirs.get("heir") is heir
            assert [await store.due(kind, 10) for kind in ("heirs/shared", "heirs/handle")] == [[], []]
        now[0] += 61
        for kind in (owners, heirs):
            kind.start(tasks)
        await journal.reaches(4)
        assert journal == ["shared on", "own on", "own off", "shared off"]


def kinds_of(tools: ToolSet, store: MemoryStore) -> tuple[StoredSessions, StoredSessions]:
    """Return the sessions that own groups, and those that inherit them, as a server without a store has them."""
    owners = StoredSessions(tools, store, SessionKind("shared", "sessions", Limit(10), 60), local=True)
    return owners, StoredSessions(tools, store, SessionKind("handle", "sessions", Limit(10), 60), owners, local=True)


@pytest.mark.spec("SES-3", "SES-4")
async def test_a_session_that_others_inherit_from_is_neither_idle_nor_ended_to_make_room_for_them() -> None:
    now = [0.0]
    tools = ToolSet("t", idle_timeout=60, max_sessions=2, when_full="end_idlest", clock=lambda: now[0])
    tools.register_group("shared")
    start = Snapshot.of(tools.catalog).after(TransitionRequest(["shared"]))
    async with tools.open_session(active=["shared"]) as owner, tools.open_session() as other:
        async with tools.request_session(start, None, owner) as heir:
            now[0] = 40
            await heir.call("shared.activate")
            await tools.pool.admit(heir)
            assert (owner.is_open, other.is_open) == (True, False)
            now[0] = 90
            heir.list_tools()
        now[0] = 140
        assert await tools.end_idle_sessions() == 0
        assert heir.is_open
    small = ToolSet("t", max_sessions=1, when_full="end_idlest")
    async with small.open_session() as owner, small.request_session(Snapshot.of(small.catalog), None, owner) as heir:
        with pytest.raises(QuotaExceeded):
            await small.pool.admit(heir)
        assert owner.is_open


# -- hooks that hang --------------------------------------------------------------------------------------------------


@pytest.mark.spec("HOOK-6", "SES-3")
async def test_a_hook_that_hangs_delays_the_end_of_no_other_idle_session() -> None:
    now, journal, leave = [0.0], Journal(), anyio.Event()
    tools = ToolSet("t", idle_timeout=0.04, clock=lambda: now[0])
    tools.register_group("slow", on_deactivate=leave.wait)
    tools.register_group("own", on_deactivate=partial(journal.append, "own off"))
    async with client_of(build_server(tools), MODERN):
        async with tools.open_session(active=["slow"]), tools.open_session(active=["own"]):
            now[0] = 1
            await journal.reaches(1)
            leave.set()
        assert journal == ["own off"]


@pytest.mark.spec("HOOK-6", "HOOK-9", "SAF-5")
async def test_a_hook_that_hangs_delays_neither_the_end_of_a_server_nor_other_hooks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handlers_module, "ENDING_SECONDS", 0.2)
    tools, journal = inheriting()
    leave = anyio.Event()
    tools.register_group("slow", on_deactivate=leave.wait)
    with anyio.fail_after(PATIENCE):
        async with client_of(build_server(tools), MODERN) as (client, _):
            await opened(client, "slow")
            await opened(client, "own")
    assert journal == ["own on", "own off"]
    assert "heirs-request-1" in caplog.text
    assert "heirs-request-2" not in caplog.text
    leave.set()


@pytest.mark.spec("HOOK-9")
def test_sessions_end_at_last_on_trio_too() -> None:
    async def run() -> list[str]:
        tools, journal = inheriting()
        owners, _ = kinds_of(tools, MemoryStore())
        await owners.get_or_create("key", None, ["shared"])
        await handlers_module.end_all([owners], 1)
        return journal

    assert anyio.run(run, backend="trio") == ["shared on", "shared off"]


@pytest.mark.spec("DEL-3", "DEL-4", "HOOK-1", "VIS-5")
@pytest.mark.parametrize("tear_down", [Session.close, partial(Session.deactivate, path="shared")])
async def test_a_handle_is_refused_once_a_group_that_it_inherits_is_torn_down(tear_down: Any) -> None:
    tools, journal = inheriting()
    async with endpoint_of(build_server(tools)) as endpoint, endpoint.client(MODERN, "?groups=shared") as client:
        handle = await opened(client, "own")
        assert text_of(await through(client, "shared.ask", {}, handle)) == "answer"
        assert journal == ["shared on", "own on"]
        owner = next(session for session in tools.sessions if session.active == ("shared",))
        await tear_down(owner)
        for name in ("shared.ask", "own.ask"):
            refused = await through(client, name, {}, handle)
            assert refused.is_error
            assert "Open the groups that you need again" in text_of(refused)
        with pytest.raises(MCPError, match="Open the groups"):
            await listed_under(client, handle)
        await journal.reaches(4)
        assert journal == ["shared on", "own on", "shared off", "own off"]
        again = await opened(client, "own")
        assert journal[4:] == ["shared on", "own on"]
        assert text_of(await through(client, "shared.ask", {}, again)) == "answer"


@pytest.mark.spec("HOOK-6", "DEL-4")
async def test_a_hook_that_hangs_delays_only_the_requests_that_select_its_group() -> None:
    tools, journal = inheriting()
    arrived, leave = anyio.Event(), anyio.Event()

    async def hang() -> None:
        arrived.set()
        await leave.wait()

    tools.register_group("slow", on_activate=hang)
    async with (
        endpoint_of(build_server(tools)) as endpoint,
        endpoint.client(MODERN, "?groups=slow") as slow,
        endpoint.client(MODERN, "?groups=shared") as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(slow.call_tool, "own.activate", {})
        with anyio.fail_after(PATIENCE):
            await arrived.wait()
            assert text_of(await client.call_tool("shared.ask", {})) == "answer"
        assert journal == ["shared on"]
        leave.set()
