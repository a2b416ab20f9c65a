"""A configuration that is edited while it is served."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client
from mcp.server import Server

from tests.adapters.gateway.inprocess import Clock, House, config_of, gateway_of, opened, served
from tests.adapters.gateway.upstreams.shop import Shop
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.blocked import all_blocked
from toolfold import ConfigError, ToolNotFound
from toolfold_adapters.gateway import GatewayConfig, GroupConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.config.read import changes_of
from toolfold_adapters.gateway.config.settings import OptionsConfig, ProfileConfig
from toolfold_adapters.gateway.stored import Approvals
from toolfold_adapters.gateway.upstream.definitions import Definitions
from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import ONE_SERVER

pytestmark = pytest.mark.spec("GWY-9")


PROBLEMS = ("[profiles.p]: There is no group 'nowhere'", "gateway.toml is not valid TOML.", "names no server")


def url(address: str, **settings: object) -> UpstreamConfig:
    return UpstreamConfig.model_validate({"url": address, **settings})


def test_only_what_is_reached_in_another_way_is_stopped_and_started() -> None:
    old = GatewayConfig(upstreams={"a": url("http://a"), "b": url("http://b"), "c": url("http://c")})
    new = GatewayConfig(
        upstreams={"a": url("http://a", title="A", exclude_tools=["x"]), "b": url("http://new"), "d": url("http://d")},
    )
    assert old.same_upstreams(new) == {"a"}
    assert new.same_upstreams(new) == {*new.upstreams}


async def test_what_did_not_change_keeps_running_and_what_did_is_started_anew() -> None:
    house = House()
    async with opened(house, config_of("a", "b", "c")) as (gateway, session):
        for name in ("a", "b"):
            await session.call(f"{name}__cart")
        before = {name: house.count(name) for name in "abc"}
        upstreams = {"a": UpstreamConfig(command=("a",)), "b": UpstreamConfig(command=("b",), start_timeout=5)}
        await gateway.reconfigure(GatewayConfig(upstreams=upstreams, hidden=("a__cart",)))
        assert session.active == ("a", "b")
        names = {tool.name for tool in session.list_tools().tools}
        assert "a__cart" not in names
        assert "b__cart" in names
        assert not any(name.startswith("c__") for name in gateway.tools.catalog.tools)
        await session.call("a__cart")
        assert house.count("a") == before["a"]
        assert (await session.call("b__cart")).text == "[]"
        assert house.count("b") > before["b"]
        assert sorted(gateway.upstreams) == ["a", "b"]


async def test_a_server_that_is_added_is_served_once_it_is_known() -> None:
    house = House()
    async with opened(house, config_of("a", "b")) as (gateway, session):
        await gateway.reconfigure(config_of("a", "b", "c"))
        while "c__cart" not in gateway.tools.catalog.tools:
            await anyio.lowlevel.checkpoint()
        assert session.active == ("a", "b")


async def test_a_wrong_configuration_is_reported_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    gateway = gateway_of(house, config_of("a", "b"))
    wrong = config_of("a", "b").model_copy(update={"profiles": {"p": ProfileConfig(active=("nowhere",))}})
    steps: Iterator[GatewayConfig | ConfigError] = iter(
        [wrong, ConfigError("gateway.toml is not valid TOML."), GatewayConfig(), config_of("a")]
    )
    done = anyio.Event()

    def read() -> GatewayConfig:
        step = next(steps)
        if isinstance(step, ConfigError):
            raise step
        return step

    async def changes() -> AsyncIterator[object]:
        for _ in range(3):
            before = gateway.tools.catalog
            yield None
            assert gateway.tools.catalog is before
        yield None
        done.set()

    with anyio.fail_after(60), caplog.at_level(logging.INFO, "toolfold.gateway"):
        async with gateway as tools:
            gateway.follow(read, changes())
            await done.wait()
            assert list(tools.catalog.index) == ["upstream"]
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert [problem in error for problem, error in zip(PROBLEMS, errors, strict=True)] == [True] * 3


def changed(config: GatewayConfig, **options: Any) -> GatewayConfig:
    return config.model_copy(update={"options": OptionsConfig.model_validate(options)})


async def test_options_have_an_effect_without_a_restart_and_sessions_stay_as_they_are() -> None:
    config = config_of("a", "b", "c")
    gateway = gateway_of(House(), config)
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session(active=["a", "b"]) as session:
            notified: list[Any] = []
            session.on_list_changed(notified.append)

            await gateway.reconfigure(changed(config, control="load_tool_group", search="none"))
            names = {tool.name for tool in session.list_tools().tools}
            assert {"load_tool_group", "a__cart", "b__cart"} <= names
            assert {"open_group", "close_group", "find_tools"}.isdisjoint(names)
            assert (session.active, notified) == (("a", "b"), [{"tool"}])

            await gateway.reconfigure(changed(config, max_active=2, page_size=3, on_hidden="opaque"))
            assert len(session.list_tools().tools) == 3
            refused = await session.call("open_group", {"group": "c"})
            assert (refused.is_error, session.active) == (True, ("a", "b"))
            with pytest.raises(ToolNotFound) as caught:
                await session.call("c__cart")
            assert "needs the group" not in str(caught.value)

            await gateway.reconfigure(changed(config, max_active=2, evict="oldest"))
            assert not (await session.call("open_group", {"group": "c"})).is_error
            assert session.active == ("b", "c")


async def test_a_tool_with_the_name_of_a_new_control_tool_is_renamed() -> None:
    config = changed(config_of("a"), control="none", search="none")
    house = House(lambda name: Shop(tools=("open_group",)))
    async with opened(house, config) as (gateway, session):
        assert (await session.call("open_group")).text == "[]"
        grouped = config_of("a").model_copy(update={"groups": {"g": GroupConfig(tools=("add",))}})
        await gateway.reconfigure(grouped)
        names = {tool.name for tool in session.list_tools().tools}
        (renamed,) = (name for name in names if name.startswith("open_group_"))
        assert (await session.call(renamed)).text == "[]"
        await gateway.reconfigure(config)
        assert (await session.call("open_group")).text == "[]"
        assert renamed not in {tool.name for tool in session.list_tools().tools}


async def test_an_option_that_is_wrong_changes_nothing() -> None:
    async with opened(House(), config_of("a", "b")) as (gateway, session):
        before = gateway.tools.catalog
        with pytest.raises(ConfigError, match=r"\[options\].*no control style 'nonsense'"):
            await gateway.reconfigure(changed(config_of("a", "b"), control="nonsense"))
        assert gateway.tools.catalog is before
        assert session.is_active("a")


@pytest.mark.spec("FND-4", "PRO-1", "CTL-4")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_new_clients_get_the_pinned_groups_the_profile_and_the_budget_that_are_configured_now(era: str) -> None:
    def config(pinned: str, available: str, tokens: int) -> GatewayConfig:
        groups = {name: {"tools": [f"{name}__*"], "pinned": name == pinned} for name in "abc"}
        rest = {"groups": groups, "profiles": {"p": {"available": [pinned, available]}}}
        return GatewayConfig.model_validate(
            {"upstreams": config_of(*"abc").upstreams, **rest, "budgets": {"answer_tokens": tokens}}
        )

    house = House(lambda name: Shop(tools=tuple(f"tool_{number}" for number in range(60))))
    gateway = gateway_of(house, config("a", "b", 8000))
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(
                tools,
                profile="p",
                answer_tokens=lambda: gateway.config.budgets.answer_tokens,
                handles="stored",
            )

            async def first_list_and_length_of(group: str) -> tuple[set[str], int]:
                async with Client(server, mode=era) as client:
                    names = {tool.name.partition("__")[0] for tool in (await client.list_tools()).tools}
                    opened_group = await client.call_tool("open_group", {"group": group})
                    assert not opened_group.is_error, opened_group
                    return names & set("abc"), len(text_of(opened_group))

            listed, long = await first_list_and_length_of("b")
            assert listed == {"a"}
            await gateway.reconfigure(config("b", "c", 1200))
            assert (await first_list_and_length_of("c"))[0] == {"b"}
            await gateway.reconfigure(config("a", "b", 1200))
            assert (await first_list_and_length_of("b"))[1] <= 4800 < long


class Plain:
    """A server that has tools alone."""

    def __init__(self) -> None:
        self.server: Server[Any] = Server("plain", on_list_tools=self.list_tools)

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="one", input_schema={"type": "object"})])


async def test_new_clients_are_offered_what_a_server_can_do_that_was_added() -> None:
    house = House(lambda name: Plain() if name == "plain" else Shop())
    async with served(house, config_of("plain")) as (gateway, server):
        async with Client(server, mode="legacy") as before:
            assert before.server_capabilities.completions is None
        await gateway.reconfigure(config_of("plain", "shop"))
        while "shop__cart" not in gateway.tools.catalog.tools:
            await anyio.lowlevel.checkpoint()
        async with Client(server, mode="legacy") as after:
            assert after.server_capabilities.completions is not None
            ref = t.ResourceTemplateReference(uri="shop://items/{name}")
            assert (await after.complete(ref, {"name": "name", "value": "x"})).completion.values == ["ref/resource x"]


async def test_an_approval_is_served_at_once(tmp_path: Path) -> None:
    house = House(lambda name: Shop(tools=("new",)))
    config = config_of("a").model_copy(update={"on_change": "quarantine"})
    approvals = Approvals(tmp_path)
    entry = config.entry(ONE_SERVER)
    approvals.approve(entry, Definitions(tools=[{"name": "cart", "inputSchema": {"type": "object"}}]))
    runtime = Runtime(clock=Clock(), transport=house.transport, approvals=approvals)
    gateway = open_gateway(config, runtime=runtime)
    approved = anyio.Event()

    async def changes() -> AsyncIterator[object]:
        await approved.wait()
        yield None

    with anyio.fail_after(60):
        async with gateway as tools:
            gateway.follow(lambda: config, changes())
            assert "new" not in tools.catalog.tools
            approvals.approve(entry, gateway.registration.definitions[ONE_SERVER])
            approved.set()
            while "new" not in tools.catalog.tools:
                await anyio.lowlevel.checkpoint()


async def test_changes_of_a_file_and_in_a_folder_are_noticed_and_others_are_not(tmp_path: Path) -> None:
    file, folder = tmp_path / "mcp.json", tmp_path / "approved"
    folder.mkdir()
    file.touch()
    seen: list[object] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                async for change in changes_of(file, folder):
                    seen.append(change)

            tasks.start_soon(follow)
            for path in (folder / "one", file):
                before = len(seen)
                while len(seen) == before:
                    path.write_text("x")
                    (tmp_path / "other").write_text("x")
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
    paths = {name for change in seen for _, name in change}  # type: ignore[attr-defined]
    assert paths == {str(folder / "one"), str(file)}


async def test_watching_a_file_ends_as_soon_as_it_is_cancelled(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.touch()

    async def watch() -> None:
        async for _ in changes_of(file):
            pass

    with anyio.fail_after(4):  # it would wait for five seconds
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await all_blocked()
            tasks.cancel_scope.cancel()
