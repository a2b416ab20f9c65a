"""Handles of tool sets with hooks: each names a stored session; hooks run once and in pairs (SPEC DEL-3, HOOK)."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import pytest
from anyio.lowlevel import checkpoint
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import callers_of
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import PATIENCE, build_server, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of, through
from toolfold import Context, HookContext, ProtocolError, Session, StoredSessions, ToolSet
from toolfold.spi import SessionKind
from toolfold_adapters.mcp import Limit
from toolfold_adapters.mcp import handlers as handlers_module
from toolfold_adapters.mcp.address.handle import shared_session
from toolfold_adapters.mcp.request import Selection
from toolfold_adapters.names import HANDLE_META
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("DEL-3")


class Journal(list[str]):
    """What hooks did; one can wait until they have done so much."""

    def __init__(self) -> None:
        super().__init__()
        self._more = anyio.Event()

    def append(self, event: str) -> None:
        super().append(event)
        self._more.set()
        self._more = anyio.Event()

    async def reaches(self, length: int) -> None:
        with anyio.fail_after(PATIENCE):
            while len(self) < length:
                await self._more.wait()


async def left(tools: ToolSet, number: int) -> None:
    """Wait until just that many sessions are open: one ends after its last hook."""
    with anyio.fail_after(PATIENCE):
        while len(tools.sessions) != number:
            await checkpoint()


@pytest.mark.spec("HOOK-9", "SES-3")
async def test_a_session_ends_when_its_handle_has_not_been_used_for_its_lifetime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(handlers_module, "time", SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr(handlers_module, "elapsed", lambda: now[0])
    journal = Journal()
    tools = make_desk(journal)
    async with client_of(build_server(tools, handle_lifetime=0.5), MODERN) as (client, _):
        handle = await opened(client, "database")
        for _ in range(3):
            now[0] += 0.4
            assert received(await through(client, "database.query", {"sql": "x"}, handle)) == {"ran": "x"}
        now[0] += 0.6
        refused = await through(client, "ping", {}, handle)
        assert refused.is_error
        assert "Open the groups that you need again" in text_of(refused)
        await journal.reaches(2)
        assert journal == ["database on", "database off"]
        await left(tools, 0)


@pytest.mark.spec("SES-4", "HOOK-9")
async def test_a_session_that_would_be_one_too_many_is_refused_and_undone() -> None:
    journal = Journal()
    tools = make_desk(journal, max_sessions=1)
    async with client_of(build_server(tools), MODERN) as (client, _):
        handle = await opened(client, "mode_a")
        refused = await client.call_tool("database.activate", {})
        assert refused.is_error
        assert "The limit of 1 open sessions is reached" in text_of(refused)
        assert journal == ["database on", "database off"]
        assert text_of(await client.call_tool("ping", {})) == "pong"
        assert text_of(await through(client, "mode_a.only_a", {}, handle)) == "a"


@pytest.mark.parametrize("hooks", [False, True])
async def test_a_stored_handle_is_valid_only_for_its_caller(hooks: bool) -> None:
    tools, group, name = (make_desk(), "mode_a", "mode_a.only_a") if hooks else (make_shop(), "cash", "cash.coins")
    async with (
        callers_of(build_server(tools)) as target,
        Client(target("ada"), mode=MODERN) as ada,
        Client(target("ada"), mode=MODERN) as ada_elsewhere,
        Client(target("bob"), mode=MODERN) as bob,
    ):
        handle = await opened(ada, group)
        assert not (await through(ada_elsewhere, name, {}, handle)).is_error
        for refused in (
            await through(bob, name, {}, handle),
            await bob.call_tool(f"{group}.deactivate", {"handle": handle}),
        ):
            assert refused.is_error
            assert "for this caller" in text_of(refused)
        with pytest.raises(MCPError, match="for this caller"):
            await listed_under(bob, handle)
        assert name in await listed_under(ada, handle)


@pytest.mark.spec("HOOK-9", "HOOK-6")
@pytest.mark.parametrize("ending", ["cancelled", "an error of the protocol"])
async def test_groups_opened_by_a_call_are_closed_again_if_no_answer_can_have_the_handle(ending: str) -> None:
    journal, blocked = Journal(), anyio.Event()
    tools = make_desk(journal)

    @tools.tool()
    async def open_and_leave(context: Context) -> None:
        await context.activate("database")
        blocked.set()
        if ending != "cancelled":
            raise ProtocolError(-32050, "not today")
        await anyio.sleep_forever()

    async with client_of(build_server(tools), MODERN) as (client, _):
        if ending == "cancelled":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "open_and_leave", {})
                with anyio.fail_after(PATIENCE):
                    await blocked.wait()
                tasks.cancel_scope.cancel()
        else:
            with pytest.raises(MCPError, match="not today"):
                await client.call_tool("open_and_leave", {})
        await journal.reaches(2)
        assert journal == ["database on", "database off"]
        await left(tools, 0)


@pytest.mark.spec("HOOK-1", "HOOK-9", "DEL-4")
async def test_groups_that_requests_begin_with_are_set_up_once_for_all_and_torn_down_at_the_end() -> None:
    journal = Journal()
    tools = make_desk(journal)
    async with client_of(build_server(tools, active=["database"]), MODERN) as (client, _):
        await client.list_tools()
        assert journal == []
        assert received(await client.call_tool("database.query", {"sql": "x"})) == {"ran": "x"}
        assert received(await client.call_tool("database.query", {"sql": "y"})) == {"ran": "y"}
        handle = await opened(client, "mode_a")
        assert received(await through(client, "database.query", {"sql": "x"}, handle)) == {"ran": "x"}
        assert received(await client.call_tool("database.deactivate", {"handle": handle}))["active"] == ["mode_a"]
        assert received(await client.call_tool("database.query", {"sql": "z"})) == {"ran": "z"}
        assert journal == ["database on"]
    assert journal == ["database on", "database off"]
    async with client_of(build_server(make_desk(), active=["vault"]), MODERN) as (client, _):
        assert (await client.call_tool("ping", {})).is_error


@pytest.mark.spec("DEL-4", "HOOK-1")
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_a_tool_finds_the_resources_of_its_group_s_hook_also_if_the_group_is_open_for_everybody(
    era: str,
) -> None:
    connections: dict[tuple[Session, str], str] = {}

    def connect(context: HookContext) -> None:
        connections[context.session, context.group] = f"to {context.group}"

    def disconnect(context: HookContext) -> None:
        del connections[context.session, context.group]

    def ask(arguments: dict[str, str], context: Context) -> str:
        group = arguments["of"]
        return connections[context.session.owner_of(group), group]

    tools = ToolSet("desk")
    for path in ("shared", "own"):
        tools.register_group(path, on_activate=connect, on_deactivate=disconnect)
        tools.register("ask", ask, group=path, description="Ask.", input={"of": "string"})
    async with client_of(build_server(tools, active=["shared"]), era) as (client, _):
        assert text_of(await client.call_tool("shared.ask", {"of": "shared"})) == "to shared"
        handle = ((await client.call_tool("own.activate", {})).meta or {}).get(HANDLE_META)
        for path in ("own", "shared"):
            assert text_of(await through(client, f"{path}.ask", {"of": path}, handle)) == f"to {path}"
    assert not connections


@pytest.mark.spec("DEL-4", "HOOK-9")
async def test_groups_of_a_selection_are_closed_when_idle_before_they_are_set_up_again() -> None:
    journal, now = Journal(), [0.0]
    tools = make_desk(journal)
    selection = Selection(tools.catalog, groups=("database",))
    kind = SessionKind("shared", "sessions", Limit(10), 60)
    stored = StoredSessions(tools, MemoryStore(lambda: now[0]), kind, local=True)
    for moment, expected in (
        (0, ["database on"]),
        (59, ["database on"]),
        (118, ["database on"]),
        (178, ["database on", "database off", "database on"]),
    ):
        now[0] = moment
        owner = await shared_session(stored, selection, None)
        assert owner is not None
        assert owner.is_open
        assert owner.active == ("database",)
        assert journal == expected


@pytest.mark.spec("REG-5")
async def test_a_group_that_is_removed_is_closed_under_every_handle_first() -> None:
    journal = Journal()
    tools = make_desk(journal)
    async with client_of(build_server(tools), MODERN) as (client, _):
        handle = await opened(client, "database.write", await opened(client, "database"))
        await tools.unregister_group("database")
        assert journal == ["database on", "database off"]
        assert received(await client.call_tool("mode_a.activate", {"handle": handle}))["active"] == ["mode_a"]
