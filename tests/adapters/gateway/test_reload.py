"""A configuration that is edited while it is served."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from tests.adapters.gateway.inprocess import House, config_of, gateway_of, opened
from toolfold import ConfigError
from toolfold_adapters.gateway import (
    BudgetsConfig,
    Difference,
    GatewayConfig,
    OptionsConfig,
    ProfileConfig,
    UpstreamConfig,
    difference,
)

pytestmark = pytest.mark.spec("GWY-9")


PROBLEMS = ("[profiles.p]: There is no group 'nowhere'", "gateway.toml is not valid TOML.", "names no server")


def url(address: str, **settings: object) -> UpstreamConfig:
    return UpstreamConfig.model_validate({"url": address, **settings})


def test_only_what_is_reached_in_another_way_is_stopped_and_started() -> None:
    old = GatewayConfig(upstreams={"a": url("http://a"), "b": url("http://b"), "c": url("http://c")})
    new = GatewayConfig(
        upstreams={"a": url("http://a", title="A", exclude_tools=["x"]), "b": url("http://new"), "d": url("http://d")},
        options=OptionsConfig(max_active=2),
        budgets=BudgetsConfig(answer_tokens=10),
    )
    assert difference(old, new) == Difference(
        removed=("b", "c"), added=("b", "d"), restart=("max_active", "answer_tokens")
    )
    assert difference(new, new) == Difference()


async def test_what_did_not_change_keeps_running_and_what_did_is_started_anew() -> None:
    house = House()
    async with opened(house, config_of("a", "b", "c")) as (gateway, session):
        for name in ("a", "b"):
            await session.call(f"{name}__cart")
        before = {name: house.count(name) for name in "abc"}
        changed = {**config_of("a").upstreams, "b": UpstreamConfig(command=("b",), start_timeout=5)}
        await gateway.reconfigure(GatewayConfig(upstreams=changed, hidden=("a__cart",)))
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

    with anyio.fail_after(20), caplog.at_level(logging.INFO, "toolfold.gateway"):
        async with gateway as tools:
            gateway.follow(read, changes())
            await done.wait()
            assert list(tools.catalog.index) == []
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert [problem in error for problem, error in zip(PROBLEMS, errors, strict=True)] == [True] * 3
