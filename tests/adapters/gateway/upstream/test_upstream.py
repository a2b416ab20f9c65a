"""Upstreams start when they are used, stop when they are not, and fail each on its own."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client, MCPError

from tests.adapters.gateway.inprocess import Clock, House, config_of, gateway_of, opened, served
from tests.adapters.gateway.upstreams.shop import Shop
from tests.adapters.mcp.asgi import callers_of
from toolfold import Limit
from toolfold_adapters.gateway import Gateway, GatewayConfig, UpstreamError
from toolfold_adapters.gateway.stored import DefinitionCache
from toolfold_adapters.gateway.upstream import definitions, notifications
from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import HANDLE_META


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until a condition holds; tests that need this end in time."""
    while not condition():
        await anyio.lowlevel.checkpoint()


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def tools_in(cache: DefinitionCache, config: GatewayConfig) -> int:
    (upstream,) = config.upstreams.values()
    known = cache.read(upstream)
    return 0 if known is None else len(known.definitions.tools)


def state_of(gateway: Gateway, name: str | None = None) -> str:
    return next(status.state for status in gateway.status if name in (status.name, None))


async def filled(folder: Path, *names: str) -> DefinitionCache:
    """Return a cache that has what upstreams of these names offer."""
    cache = DefinitionCache(folder)
    async with opened(House(), config_of(*names), cache=cache):
        return cache


# -- from a cache -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("GWY-4")
async def test_the_first_list_comes_from_the_cache_and_nothing_is_started(tmp_path: Path) -> None:
    cache, house = await filled(tmp_path, "a", "b"), House()
    async with gateway_of(house, config_of("a", "b"), cache=cache) as tools, tools.open_session() as session:
        assert session.list_tools().tools
        assert {"a__cart", "b__cart"} <= set(tools.catalog.tools)
        assert house.started == []


@pytest.mark.spec("GWY-4")
async def test_an_upstream_starts_when_its_group_is_opened(tmp_path: Path) -> None:
    cache, house = await filled(tmp_path, "a", "b"), House()
    gateway = gateway_of(house, config_of("a", "b"), cache=cache)
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session() as session:
            group = next(path for path in tools.catalog.index if path.startswith("b"))
            await session.activate(group)
            await until(lambda: state_of(gateway, "b") == "ready")
    assert house.count("a") == 0


@pytest.mark.spec("GWY-4", "DEL-2")
async def test_the_upstream_that_starts_when_a_handles_group_is_opened_is_the_one_that_its_calls_use(
    tmp_path: Path,
) -> None:
    cache, house = await filled(tmp_path, "a", "b"), House()
    gateway = gateway_of(house, config_of("a", "b", max_connections_per_caller=1), cache=cache)
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(tools, handles="stored", extend=gateway.extend)
            async with callers_of(server) as target, Client(target("ada")) as client:
                opening = await client.call_tool("open_group", {"group": "b"})
                await until(lambda: state_of(gateway, "b") == "ready")
                given = {"name": "b__cart", "handle": (opening.meta or {})[HANDLE_META]}
                assert not (await client.call_tool("call_tool", given)).is_error
    assert house.count("b") == 1


@pytest.mark.spec("GWY-3")
async def test_what_was_withdrawn_while_nobody_was_connected_is_gone_for_clients_that_can_do_less(
    tmp_path: Path,
) -> None:
    cache = DefinitionCache(tmp_path)
    config = config_of("a", mode="legacy")
    async with opened(House(lambda name: Shop(tools=("old",))), config, cache=cache):
        pass
    house = House()
    async with opened(house, config, cache=cache) as (gateway, session):
        assert "old" in gateway.tools.catalog.tools
        await session.call("cart")
        await until(lambda: "old" not in gateway.tools.catalog.tools)
        asked = house.count("a")
        async with gateway.tools.open_session(active=session.active) as other:
            await other.call("cart")
        assert house.count("a") == asked + 1  # what such clients are offered is known


@pytest.mark.spec("GWY-4")
async def test_a_change_since_the_cache_was_written_is_followed_when_the_upstream_starts(tmp_path: Path) -> None:
    cache, house = await filled(tmp_path, "a"), House(lambda name: Shop(tools=("new",)))
    config = config_of("a")
    async with opened(house, config, cache=cache) as (gateway, session):
        changed: list[Any] = []
        session.on_list_changed(changed.append)
        assert "new" not in session.catalog.tools
        await session.call("cart")
        await until(lambda: changed)
        assert "new" in gateway.tools.catalog.tools
        await until(lambda: tools_in(cache, config) == 13)


@pytest.mark.spec("GWY-11")
async def test_what_is_wrong_with_definitions_that_changed_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache, house = await filled(tmp_path, "a"), House(lambda name: Shop(tools=("not/allowed",)))
    async with opened(house, config_of("a"), cache=cache) as (_, session):
        assert caplog.records == []
        await session.call("cart")
        await until(lambda: caplog.records)
    (record,) = caplog.records
    assert record.getMessage().startswith("The tool 'not/allowed' is called 'not_allowed' here")


class Moody(Shop):
    """A server that answers each request for a list of tools as it is told: with all, with none, or without prompts."""

    def __init__(self, moods: list[str]) -> None:
        super().__init__()
        self.moods = moods
        self.mood = ""

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        self.mood = self.moods.pop(0) if self.moods else "all"
        return t.ListToolsResult(tools=[]) if self.mood == "none" else await super().list_tools(ctx, params)

    async def list_prompts(self, ctx: Any, params: Any) -> t.ListPromptsResult:
        if self.mood == "without prompts":
            raise MCPError(code=-32603, message="the database is away")
        return await super().list_prompts(ctx, params)


@pytest.mark.spec("GWY-4")
@pytest.mark.parametrize(("mood", "asked_again"), [("all", False), ("none", True), ("without prompts", True)])
async def test_what_may_not_be_all_is_asked_for_again_at_the_next_start(
    tmp_path: Path, mood: str, asked_again: bool
) -> None:
    cache, config = DefinitionCache(tmp_path), config_of("a")
    async with opened(House(lambda name: Moody([mood])), config, cache=cache) as (gateway, _):
        assert ("cart" in gateway.tools.catalog.tools) == (mood != "none")
    assert (tools_in(cache, config) == 0) == asked_again
    house = House()
    async with opened(house, config, cache=cache) as (gateway, _):
        catalog = gateway.tools.catalog
        assert "cart" in catalog.tools
        assert catalog.components["prompt"].by_name
    assert house.count("a") == int(asked_again)


@pytest.mark.spec("GWY-4")
@pytest.mark.parametrize(("moods", "tools"), [(["none"], 13), (["none", "none"], 0)])
async def test_a_list_without_tools_is_read_once_more_before_it_takes_the_place_of_one_that_has_some(
    tmp_path: Path, moods: list[str], tools: int
) -> None:
    cache, config, said = DefinitionCache(tmp_path), config_of("a", mode="auto"), list[str]()
    async with opened(House(lambda name: Moody(said)), config, cache=cache) as (gateway, session):
        await session.call("cart")
        said[:] = moods
        await session.call("grow", {"item": "new"})
        await until(lambda: not said)
        (upstream,) = gateway.upstreams.values()
        await until(lambda: upstream.known is not None and len(upstream.known.definitions.tools) == tools)
        await until(lambda: tools_in(cache, config) == tools)
    assert len(files_in(tmp_path)) == (1 if tools else 0)


@pytest.mark.spec("GWY-4")
def test_a_server_that_says_it_has_no_tools_is_known_without_any(tmp_path: Path) -> None:
    cache, (config,) = DefinitionCache(tmp_path), config_of("a").upstreams.values()
    cases: list[tuple[dict[str, Any], bool]] = [({"resources": {}}, True), ({"tools": {}}, False)]
    for capabilities, kept in cases:
        nothing = definitions.Known(
            definitions=definitions.Definitions(name="a"), modern=False, able=(), capabilities=capabilities
        )
        cache.write(config, nothing)
        assert (cache.read(config) is not None) is kept
        assert len(files_in(tmp_path)) == int(kept)


@pytest.mark.spec("GWY-4")
@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"format": 0}', b"\xff\xfe", b'{"format": 1, "definitions": 5}']
)
async def test_a_damaged_cache_is_as_none(tmp_path: Path, damage: bytes) -> None:
    cache = await filled(tmp_path, "a")
    only_file(tmp_path).write_bytes(damage)
    house = House()
    async with opened(house, config_of("a"), cache=cache) as (_, session):
        assert "cart" in session.catalog.tools
    assert house.count("a") == 1


@pytest.mark.spec("GWY-4", "GWY-8")
async def test_cache_files_are_for_their_owner_alone_and_tell_nothing_of_the_environment(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    cache = DefinitionCache(folder)
    async with opened(House(), config_of("a", env={"TOKEN": "secret-value"}), cache=cache):
        pass
    file = only_file(folder)
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "secret-value" not in file.read_text()
    assert "TOKEN" not in file.read_text()
    assert len(json.loads(file.read_text())["definitions"]["tools"]) == 12


@pytest.mark.spec("GWY-4")
async def test_another_environment_is_another_entry_of_the_cache(tmp_path: Path) -> None:
    cache = DefinitionCache(tmp_path)
    for value in ("1", "2", "1"):
        house = House()
        async with opened(house, config_of("a", env={"X": value}), cache=cache):
            pass
    assert len(files_in(tmp_path)) == 2
    assert house.started == []


# -- without a cache, side by side ------------------------------------------------------------------------------------


@pytest.mark.spec("GWY-3", "GWY-4")
async def test_a_slow_upstream_delays_no_other_and_comes_later() -> None:
    house = House(gates={"slow": anyio.Event()})
    gateway = gateway_of(house, config_of("fast", "slow"), wait=False)
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session() as session:
            gateway.ask_unknown()
            await until(lambda: "fast__cart" in tools.catalog.tools)
            assert "slow__cart" not in tools.catalog.tools
            changed: list[Any] = []
            session.on_list_changed(changed.append)
            house.gates["slow"].set()
            await until(lambda: "slow__cart" in tools.catalog.tools)
            await until(lambda: changed)


@pytest.mark.spec("GWY-3")
async def test_a_broken_upstream_harms_no_other_and_is_tried_again_with_backoff() -> None:
    house, clock = House(broken={"b"}), Clock()
    async with opened(house, config_of("a", "b"), clock=clock) as (gateway, session):
        assert (await session.call("a__cart")).text == "[]"
        broken = gateway.upstreams["b"]
        assert broken.status.state == "backing off"
        assert "b is not installed" in broken.status.reason
        broken.tick(clock.now)
        assert broken.status.state == "backing off"
        house.broken.clear()
        clock.now += 1
        broken.tick(clock.now)
        await until(lambda: "b__cart" in gateway.tools.catalog.tools)


@pytest.mark.spec("GWY-3")
async def test_if_none_can_be_started_opening_fails_and_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UpstreamError) as caught:
        async with opened(House(broken={"a", "b"}), config_of("a", "b")):
            pytest.fail("it should not have opened")
    reason = "is not installed; install it, or give its full path."
    assert str(caught.value).splitlines() == [
        f"The MCP server '{name}' did not start: the program {name} {reason}" for name in ("a", "b")
    ]
    assert caplog.records == []


@pytest.mark.spec("GWY-3")
async def test_a_server_that_does_not_start_is_reported_once_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(House(broken={"b"}), config_of("a", "b")):
        (record,) = caplog.records
    assert record.getMessage().startswith("The MCP server 'b' did not start: the program b is not installed")


@pytest.mark.spec("GWY-3", "GWY-9")
async def test_a_slow_server_and_one_that_was_added_are_reported_too(caplog: pytest.LogCaptureFixture) -> None:
    house = House(broken={"slow", "added"}, gates={"slow": anyio.Event()})
    gateway = gateway_of(house, config_of("fast", "slow"), wait=False)
    with anyio.fail_after(60):
        async with gateway:
            gateway.ask_unknown()
            house.gates["slow"].set()
            await until(lambda: len(caplog.records) == 1)
            await gateway.reconfigure(config_of("fast", "slow", "added"))
            await until(lambda: len(caplog.records) == 2)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the MCP server slow did not start",
        "the MCP server added did not start",
    ]


@pytest.mark.spec("GWY-4")
@pytest.mark.parametrize("fails", ["refused", "no answer"])
async def test_a_server_that_can_not_list_its_resources_loses_no_tools(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Shop):
        async def list_resources(self, ctx: Any, params: Any) -> t.ListResourcesResult:
            if fails == "refused":
                raise MCPError(code=-32603, message="connect ECONNREFUSED")
            await anyio.sleep_forever()
            raise AssertionError

    monkeypatch.setattr(definitions, "LIST_SECONDS", 1 if fails == "no answer" else 60)
    async with opened(House(lambda name: Away()), config_of("a")) as (gateway, session):
        assert (await session.call("cart")).text == "[]"
        assert gateway.registration.find("prompt", "greet") is not None
        assert any("resources/list" in warning for warning in gateway.report.warnings)


# -- while it runs ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("GWY-3")
async def test_an_upstream_that_dies_at_once_each_time_is_not_started_at_every_call() -> None:
    house, clock = House(), Clock()
    async with opened(house, config_of("a"), clock=clock) as (gateway, session):
        await session.call("cart")
        await house.kill("a")
        await until(lambda: state_of(gateway) == "backing off")
        started = house.count("a")
        refused = await session.call("cart")
        assert refused.is_error
        assert refused.text == "The MCP server 'shop' has stopped: it ended. It is tried again in 0.5 seconds."
        assert house.count("a") == started
        clock.now += 0.5
        assert (await session.call("cart")).text == "[]"


@pytest.mark.spec("GWY-4")
async def test_a_connection_that_nobody_uses_ends_and_starts_again_on_use() -> None:
    house, clock = House(), Clock()
    async with opened(house, config_of("a", idle_timeout=60), clock=clock) as (gateway, session):
        await session.call("cart")
        (upstream,) = gateway.upstreams.values()
        upstream.tick(clock.now + 59)
        assert upstream.status.state == "ready"
        upstream.tick(clock.now + 60)
        await until(lambda: upstream.status.state == "idle")
        started = house.count("a")
        assert (await session.call("cart")).text == "[]"
        assert house.count("a") == started + 1


@pytest.mark.spec("GWY-4")
async def test_a_connection_in_use_is_not_idle_however_long_the_call_takes() -> None:
    house, clock = House(), Clock()
    async with (
        opened(house, config_of("a", idle_timeout=60), clock=clock) as (gateway, session),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.call, "wait")
        await until(lambda: house.started[1:])
        await house.of("a")[-1].waiting.wait()
        clock.now += 1000
        next(iter(gateway.upstreams.values())).tick(clock.now)
        assert state_of(gateway) == "ready"
        tasks.cancel_scope.cancel()


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_list_that_an_upstream_changes_is_followed(mode: str) -> None:
    async with opened(House(), config_of("a", mode=mode)) as (gateway, session):
        await session.call("grow", {"item": "grown"})
        await until(lambda: "grown" in gateway.tools.catalog.tools)
        await session.call("shrink", {"item": "grown"})
        await until(lambda: "grown" not in gateway.tools.catalog.tools)
        assert "cart" in gateway.tools.catalog.tools


@pytest.mark.spec("GWY-3")
async def test_a_call_that_is_cut_off_says_that_it_may_have_been_done() -> None:
    house = House()
    async with opened(house, config_of("a")) as (_, session):
        outcome: list[Any] = []

        async def call() -> None:
            outcome.append(await session.call("wait"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await until(lambda: house.started[1:])
            await house.of("a")[-1].waiting.wait()
            await house.kill("a")
    assert outcome[0].is_error
    assert "may be done or not" in outcome[0].text


@pytest.mark.spec("SAF-4", "GWY-10")
async def test_one_connection_too_many_is_refused_and_ends_no_other() -> None:
    house = House()
    async with opened(house, config_of("a", mode="legacy", max_connections=2)) as (gateway, one):
        async with gateway.tools.open_session(active=one.active) as two:
            await one.call("add", {"item": "bread"})
            await two.call("cart")
            async with gateway.tools.open_session(active=one.active) as three:
                refused = await three.call("cart")
                assert refused.is_error
                assert (
                    "The limit of 2 connections to the MCP server 'shop' in all is reached: try again" in refused.text
                )
                assert (await one.call("cart")).text == '["bread"]'
        await until(lambda: gateway.status[0].connections < 2)
        async with gateway.tools.open_session(active=one.active) as four:
            assert (await four.call("cart")).text == "[]"


@pytest.mark.spec("SAF-4")
@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, Limit(200, 50)),
        ({"max_connections": 50}, Limit(50, 12)),
        ({"max_connections": 1}, Limit(1, 1)),
        ({"max_connections": 4000}, Limit(4000, 50)),
        ({"max_connections": 50, "max_connections_per_caller": 40}, Limit(50, 40)),
    ],
)
def test_where_there_are_fewer_connections_one_caller_may_have_a_quarter(given: dict[str, Any], limit: Limit) -> None:
    (upstream,) = config_of("a", **given).upstreams.values()
    assert upstream.connections == limit


@pytest.mark.spec("SAF-4", "SAF-7", "GWY-12")
async def test_the_connections_of_one_caller_leave_room_for_those_of_others(caplog: pytest.LogCaptureFixture) -> None:
    config = config_of("a", mode="legacy", max_connections_per_caller=1)
    async with (
        served(House(), config) as (_, server),
        callers_of(server) as target,
        Client(target("eve"), mode="legacy") as one,
        Client(target("eve"), mode="legacy") as two,
        Client(target("ada"), mode="legacy") as three,
    ):
        assert not (await one.call_tool("cart")).is_error
        refused = await two.call_tool("cart")
        assert refused.is_error
        assert "The limit of 1 connections to the MCP server 'shop' of one caller" in str(refused.content)
        assert "of one caller" in caplog.text
        assert not (await three.call_tool("cart")).is_error
        assert not (await one.call_tool("cart")).is_error


async def test_a_flood_that_a_client_can_not_receive_is_logged_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def note(progress: float, total: float | None, message: str | None) -> None:
        raise AssertionError("nothing was to be received")

    monkeypatch.setattr(notifications, "MOST_WAITING", 0)
    async with opened(House(), config_of("shop", mode="legacy")) as (_, session):
        assert (await session.call("steps", progress=note)).text == "[]"
    assert caplog.messages == ["the MCP server shop sends more than a client receives; the rest is lost"]
