"""Pinned groups and tools in each delivery (SPEC FND-4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.mcp.support import build_server, change_of, client_of, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of, through
from toolfold import ToolSet
from toolfold_adapters.gateway import GatewayConfig
from toolfold_adapters.gateway.registration import UpstreamRegistration
from toolfold_adapters.gateway.upstream.definitions import Definitions
from toolfold_adapters.names import ALWAYS_LOAD_META
from toolfold_adapters.search import bm25

pytestmark = pytest.mark.spec("FND-4")
ERAS = ("legacy", MODERN)


def using(group: str) -> Callable[[], str]:
    return lambda: f"used {group}"


def desk(**options: Any) -> ToolSet:
    tools = ToolSet("desk", control="open_group", max_active=2, evict="idlest", search=bm25, **options)
    for group in ("base", "a", "b"):
        tools.register_group(group, pinned=group == "base")
        tools.register("use", using(group), group=group, input_schema={"type": "object"})
    tools.register("help", lambda: "helped", group="a", always=True, input_schema={"type": "object"})
    return tools


@pytest.mark.parametrize("era", ERAS)
async def test_they_are_in_the_first_list_and_after_every_change(era: str) -> None:
    async with client_of(build_server(desk(), handles="stored"), era) as (client, _):
        assert {"base.use", "a.help"} <= set(await names_of(client))
        handle: dict[str, str] = {}
        for group in ("a", "b", "a"):
            opened = await client.call_tool("open_group", {"group": group, **handle})
            assert change_of(opened)["active"] == [group, "base"], "the other one was evicted"
            handle = {"handle": change_of(opened)["handle"]} if era == MODERN else {}
            assert {"base.use", "a.help"} <= set(await names_of(client))
        assert (await client.call_tool("close_group", {"group": "base", **handle})).is_error
        assert text_of(await client.call_tool("base.use", {})) == "used base"
        if era == MODERN:
            assert text_of(await through(client, "base.use", {}, handle["handle"])) == "used base"


@pytest.mark.spec("GWY-2", "GWY-6")
@pytest.mark.parametrize("era", ERAS)
async def test_the_gateway_lists_what_its_configuration_pins_and_tells_clients_to_load_it(era: str) -> None:
    groups = {"issues": {"tools": ["s__issue_*"]}, "issues.open": {"tools": ["s__open_*"], "pinned": True}}
    config = GatewayConfig.model_validate(
        {"upstreams": {"s": {"command": ["s"]}}, "groups": {**groups, "rest": {"tools": ["*"]}}, "pins": ["s__help"]}
    )
    tools = config.new_tool_set("gateway")
    names = ("issue_get", "open_one", "help", "other")
    offered = Definitions(tools=[{"name": name, "inputSchema": {"type": "object"}} for name in names])
    UpstreamRegistration(tools, config, lambda server, kind, original: lambda: original).register_tools({"s": offered})
    async with client_of(build_server(tools), era) as (client, _):
        listed = {tool.name.removeprefix("s__"): tool for tool in (await client.list_tools()).tools}
        assert set(listed) & set(names) == {"issue_get", "open_one", "help"}, "what contains a pinned group is pinned"
        for name in ("issue_get", "open_one", "help"):
            assert (listed[name].meta or {})[ALWAYS_LOAD_META] is True
        assert "rest" in (listed["open_group"].description or "")
        assert "issues" not in (listed["open_group"].description or "")
