"""Nothing is ever empty: what is listed and answered while servers start, and when they fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.adapters.gateway.inprocess import House, config_of, gateway_of, wired
from tests.blocked import all_blocked
from toolfold import ProtocolError
from toolfold.spi import table
from toolfold_adapters.gateway import Gateway, GatewayConfig, UpstreamConfig
from toolfold_adapters.gateway.config.settings import BudgetsConfig
from toolfold_adapters.gateway.serving import requests
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.life import without_secrets
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-4")

ERAS: list[ConnectMode] = ["legacy", "auto"]


@asynccontextmanager
async def served_cold(
    house: House, config: GatewayConfig, mode: ConnectMode = "legacy"
) -> AsyncGenerator[tuple[Gateway, Wire]]:
    """A client of a gateway that knows nothing of its servers; the block has to end in time."""
    gateway = gateway_of(house, config, wait=False)
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(tools, handles="stored", extend=gateway.extend)
            async with wired(server, mode) as wire:
                yield gateway, wire


async def listed(wire: Wire) -> dict[str, Any]:
    answer = await wire.request("tools/list", {})
    return {tool["name"]: tool for tool in answer["tools"]}


async def called(wire: Wire, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return await wire.request("tools/call", {"name": name, "arguments": dict(arguments or {})})


def text_of(answer: dict[str, Any]) -> str:
    return "\n".join(str((table(block) or {}).get("text")) for block in answer["content"])


@pytest.mark.parametrize("mode", ERAS)
async def test_control_tools_and_servers_are_listed_while_no_server_answers(mode: ConnectMode) -> None:
    house = House(gates={"git": anyio.Event(), "files": anyio.Event()})
    async with served_cold(house, config_of("git", "files"), mode) as (_, wire):
        tools = await listed(wire)
        assert {"open_group", "close_group", "find_tools", "call_tool"} <= tools.keys()
        for server in ("git", "files"):
            assert server in tools["open_group"]["description"]


async def test_no_server_is_started_before_the_first_request_is_answered() -> None:
    house = House()
    gateway = gateway_of(house, config_of("a", "b"), wait=False)
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(tools, handles="stored", extend=gateway.extend)
            await all_blocked()
            assert house.started == []
            async with wired(server, "legacy"):
                await all_blocked()
                assert {name for name, _ in house.started} == {"a", "b"}


AS_HOSTS_WRITE = [
    ("open_group", {"group": "git"}),
    ("open_group", {"group": '["git"]'}),
    ("call_tool", {"name": "open_group", "arguments": '{"group": "git"}'}),
]


@pytest.mark.spec("GWY-20")
@pytest.mark.parametrize(("name", "arguments"), AS_HOSTS_WRITE, ids=str)
@pytest.mark.parametrize("mode", ERAS)
async def test_opening_the_group_of_a_server_waits_for_it_and_for_no_other(
    mode: ConnectMode, name: str, arguments: Mapping[str, Any]
) -> None:
    house = House(gates={"git": anyio.Event(), "slow": anyio.Event()})
    async with served_cold(house, config_of("git", "slow"), mode) as (_, wire):
        answers: list[dict[str, Any]] = []

        async def open_group() -> None:
            answers.append(await called(wire, name, arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_group)
            await all_blocked()
            assert answers == []
            house.gates["git"].set()
        assert "git__cart" in text_of(answers[0])


async def test_a_call_of_a_tool_waits_for_its_server_and_is_answered_as_if_that_had_been_known() -> None:
    async with served_cold(House(), config_of("git", "files")) as (_, wire):
        with pytest.raises(ProtocolError, match=r"git__cart \(it needs the group git"):
            await called(wire, "git__cart")


async def test_a_search_goes_without_servers_that_are_slow_or_failed_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "SEARCH_SECONDS", 0.01)
    house = House(gates={"slow": anyio.Event()}, broken={"postgres"})
    async with served_cold(house, config_of("shop", "slow", "postgres")) as (gateway, wire):
        await gateway.upstreams["shop"].found_out()
        await gateway.upstreams["postgres"].found_out()
        text = text_of(await called(wire, "find_tools", {"query": "cart"}))
    assert "shop__cart" in text
    assert "slow is starting. postgres failed: the program postgres is not installed" in text


@pytest.mark.spec("GWY-4")
async def test_why_a_server_failed_is_said_once_a_session_beside_other_answers_and_whenever_it_is_asked_for() -> None:
    house = House(broken={"postgres"})
    async with served_cold(house, config_of("shop", "postgres")) as (gateway, wire):
        for upstream in gateway.upstreams.values():
            await upstream.found_out()
        found = [text_of(await called(wire, "find_tools", {"query": "cart"})) for _ in range(3)]
        opened = [text_of(await called(wire, "open_group", {"group": "postgres"})) for _ in range(2)]
    assert ["postgres failed" in text for text in found] == [True, False, False]
    assert all("shop__cart" in text for text in found)
    assert ["postgres failed" in text for text in opened] == [True, True]


@pytest.mark.spec("GWY-3")
async def test_a_server_that_failed_stays_listed_and_says_the_reason_when_it_is_opened() -> None:
    house = House(broken={"postgres"})
    async with served_cold(house, config_of("shop", "postgres")) as (_, wire):
        answer = await called(wire, "open_group", {"group": "postgres"})
        assert answer["isError"] is True
        assert text_of(answer).startswith("postgres failed: the program postgres is not installed; install it")
        assert "- postgres: its tools are known once it is opened" in (await listed(wire))["open_group"]["description"]


async def test_the_only_server_has_a_group_if_it_comes_later_so_that_clients_that_list_once_reach_its_tools() -> None:
    house = House(gates={"shop": anyio.Event()})
    config = GatewayConfig().with_upstream(UpstreamConfig(command=("shop",)))
    async with served_cold(house, config) as (_, wire):
        assert {"open_group", "call_tool"} <= (await listed(wire)).keys()
        house.gates["shop"].set()
        await called(wire, "open_group", {"group": "upstream"})
        assert "cart" in text_of(await called(wire, "find_tools", {"query": "cart"}))
        assert text_of(await called(wire, "call_tool", {"name": "cart"})) == "[]"


@pytest.mark.parametrize("mode", ERAS)
async def test_opening_the_only_server_says_which_groups_it_has_once_it_is_divided(mode: ConnectMode) -> None:
    config = GatewayConfig(budgets=BudgetsConfig(group_tokens=1)).with_upstream(UpstreamConfig(command=("shop",)))
    async with served_cold(House(), config, mode) as (gateway, wire):
        assert "upstream" in (await listed(wire))["open_group"]["description"]
        for _ in range(2):
            answer = await called(wire, "open_group", {"group": "upstream"})
            groups = [group.path for group in gateway.tools.catalog.groups]
            assert not answer.get("isError")
            assert groups
            assert "upstream" not in groups
            assert [line[2:].partition(":")[0] for line in text_of(answer).splitlines()[1:]] == groups


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tools_of_the_only_server_are_listed_and_called_as_if_it_had_not_come_later(
    mode: ConnectMode,
) -> None:
    config = GatewayConfig().with_upstream(UpstreamConfig(command=("shop",)))
    async with served_cold(House(), config, mode) as (_, wire):
        assert text_of(await called(wire, "cart")) == "[]"
        assert "cart" in await listed(wire)


async def test_groups_of_a_server_that_is_not_known_yet_can_be_in_profiles_and_exclusions() -> None:
    settings = {"exclusions": [["git.a", "git.b"]], "profiles": {"few": {"active": ["git.a"]}}}
    config = GatewayConfig.model_validate({**config_of("git", "files").model_dump(), **settings})
    house = House(gates={"git": anyio.Event(), "files": anyio.Event()})
    async with gateway_of(house, config, wait=False) as tools:
        assert {group.path for group in tools.catalog.groups} == {"git", "files"}


def test_a_reason_that_models_read_has_nothing_that_the_server_was_given() -> None:
    config = UpstreamConfig(command=("run", "--key=topsecret1"), env={"DSN": "postgres://me:topsecret2@db/x", "N": "1"})
    said = "no login with topsecret1 at postgres://me:topsecret2@db/x nor https://you:topsecret3@elsewhere/1"
    assert without_secrets(said, config) == "no login with … at … nor https://…@elsewhere/1"
    config = UpstreamConfig(command=("run --key=topsecret1",))
    said = "the program run --key=topsecret1 is not installed"
    assert without_secrets(said, config) == "the program run … is not installed"
