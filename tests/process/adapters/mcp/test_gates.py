"""Gates and selection by URL, over HTTP."""

from __future__ import annotations

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import client_of, modern_body, modern_headers, names_of, over_http
from tests.adapters.mcp.test_disclosure import DECLARED, asked
from tests.adapters.mcp.test_gates import ERAS, gated, make_gated
from tests.adapters.mcp.test_handle_delivery import MODERN, through
from toolfold import InvalidDefinition, ToolSet

pytestmark = pytest.mark.spec("SES-6")


@pytest.mark.spec("DEL-4", "VIS-5")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("by", ["url", "header"])
async def test_a_request_cannot_select_what_events_or_code_alone_open(
    era: str, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools, ran = make_gated()
    names = "open,event,event.inner,code,code.inner,nowhere"
    query, headers = (f"?groups={names}", {}) if by == "url" else ("", {"toolfold-groups": names})
    async with (
        over_http(tools) as url,
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{url}{query}", http_client=http), mode=era) as client,
    ):
        assert [name for name in await names_of(client) if name.endswith(".go")] == ["open.go"]
        for name in gated(tools):
            with pytest.raises(MCPError, match=f"Unknown tool: {name}"):
                await client.call_tool(name, {})
            assert (await through(client, name)).is_error
    assert ran == []
    unknown = ", ".join(map(repr, names.split(",")[1:]))
    assert f"a request selected groups that do not exist: {unknown}" in caplog.text


@pytest.mark.spec("CTL-3", "DEL-4", "DEL-5")
async def test_groups_that_clients_cannot_open_are_not_selected_or_fetched_unless_the_author_allows_it() -> None:
    tools = ToolSet("t", control="none")
    tools.register_group("shut")
    tools.register_group("selectable", selectable=True)
    for path in ("shut", "selectable"):
        tools.register("go", lambda: "went", group=path, description="Go.")
    async with over_http(tools) as url:
        async with client_of(f"{url}?groups=shut,selectable", MODERN) as (client, _):
            assert await names_of(client) == ["call_tool", "selectable.go"]
        async with client_of(url, MODERN, extensions=DECLARED) as (client, _):
            assert [group["name"] for group in (await asked(client, "groups/list")).groups or []] == ["selectable"]


@pytest.mark.spec("DEL-4", "DEL-5")
async def test_an_author_can_let_requests_through_a_gate_and_keep_them_out_of_any_group() -> None:
    tools, _ = make_gated(selectable=True)
    tools.register_group("never", selectable=False)
    tools.register("go", lambda: "went", group="never", description="Go.")
    async with over_http(tools) as url:
        async with client_of(f"{url}?groups=event.inner,code,never", MODERN) as (client, _):
            listed = [name for name in await names_of(client) if name.endswith(".go")]
            assert listed == ["code.go", "event.go", "event.inner.go"]
        async with client_of(url, MODERN, extensions=DECLARED) as (client, _):
            assert not (await client.call_tool("event.inner.go", {})).is_error
    with pytest.raises(InvalidDefinition, match="selectable is 'yes'"):
        tools.register_group("other", selectable="yes")  # type: ignore[arg-type]


@pytest.mark.spec("DEL-4", "DEL-5", "PRO-1")
async def test_initial_groups_of_the_author_are_open_whatever_the_gate() -> None:
    tools, _ = make_gated()
    async with over_http(tools) as url, client_of(f"{url}?profile=through", MODERN) as (client, _):
        assert "event.go" in await names_of(client)
    async with over_http(tools, active=["code"]) as url:
        async with client_of(url, MODERN) as (client, _):
            assert "code.go" in await names_of(client)
        async with client_of(f"{url}?groups=code,event", MODERN) as (client, _):
            assert [name for name in await names_of(client) if name.endswith(".go")] == ["code.go"]
        async with client_of(url, MODERN, extensions=DECLARED) as (client, _):
            assert not (await client.call_tool("code.go", {})).is_error
            with pytest.raises(MCPError):
                await client.call_tool("code.inner.go", {})


@pytest.mark.spec("DEL-4", "DEL-7")
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_without_selection_answers_as_if_nothing_was_selected(era: str) -> None:
    tools, _ = make_gated()
    async with over_http(tools, selection=False, active=["code"]) as url:
        async with client_of(f"{url}?groups=open&profile=through", era) as (client, _):
            assert [name for name in await names_of(client) if name.endswith(".go")] == ["code.go"]
        async with httpx2.AsyncClient(headers={"toolfold-groups": "open"}) as http:
            body, headers = modern_body("tools/list"), modern_headers("tools/list")
            result = (await http.post(url, json=body, headers=headers)).json()["result"]
            assert result["cacheScope"] == "public"
            assert "open.go" not in {tool["name"] for tool in result["tools"]}
