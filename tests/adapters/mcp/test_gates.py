"""Gates: no request opens a group that only events or code open, unless its author allows it (SPEC SES-6)."""

from __future__ import annotations

from functools import partial

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.support import build_server, client_of, names_of
from tests.adapters.mcp.test_disclosure import DECLARED, EXTENSION, asked, refusal_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of, through
from toolfold import InvalidDefinition, Profile, ToolSet, success_of

ERAS = ("legacy", MODERN)

pytestmark = pytest.mark.spec("SES-6")


def make_gated(selectable: bool | None = None) -> tuple[ToolSet, list[str]]:
    """Return tools of which some are behind gates, and which of those have run."""
    ran, tools = list[str](), ToolSet("gated")
    tools.register("observe", lambda: "observed", description="Look.")
    tools.register_group("open")
    tools.register_group("event", opens_on=success_of("observe"), selectable=selectable)
    tools.register_group("code", controls=False, selectable=selectable)
    for path in ("event", "code"):
        tools.register_group("inner", parent=path)
    for group in tools.catalog.groups:
        tools.register("go", partial(_note, ran, group.path), group=group.path, description="Go.")
        tools.register_prompt("ask", lambda: "Ask.", group=group.path)
    tools.register_profile(Profile(name="through", active=["event"], available=["*"]))
    return tools, ran


def _note(ran: list[str], group: str, /) -> str:
    ran.append(group)
    return "went"


def gated(tools: ToolSet) -> list[str]:
    return [f"{group.path}.go" for group in tools.catalog.groups if group.path != "open"]


@pytest.mark.spec("DEL-5", "VIS-5")
async def test_disclosure_neither_shows_nor_opens_gates() -> None:
    tools, ran = make_gated()
    async with client_of(build_server(tools), MODERN, extensions=DECLARED) as (client, _):
        assert [group["name"] for group in (await asked(client, "groups/list")).groups or []] == ["open"]
        for group in ("event", "event-inner", "code", "code-inner"):
            received = await refusal_of(client, "groups/get", name=group)
            assert (received.code, received.message) == (-32602, f"Unknown group: {group}")
        for name in gated(tools):
            with pytest.raises(MCPError, match=f"Unknown tool: {name}"):
                await client.call_tool(name, {})
            with pytest.raises(MCPError):
                await client.get_prompt(name.replace(".go", ".ask"))
        assert not (await client.call_tool("open.go", {})).is_error
    assert ran == ["open"]


# -- switched off -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DEL-5")
async def test_a_server_without_disclosure_does_not_know_the_extension() -> None:
    tools, _ = make_gated()
    async with client_of(build_server(tools, disclosure=False), MODERN, extensions=DECLARED) as (client, _):
        assert EXTENSION not in (client.server_capabilities.extensions or {})
        assert "open.activate" in await names_of(client)
        for method in ("groups/list", "groups/get"):
            assert (await refusal_of(client, method, name="open")).code == -32601
        with pytest.raises(MCPError, match=r"Unknown tool: open\.go"):
            await client.call_tool("open.go", {})
        assert text_of(await client.call_tool("observe", {})).startswith("observed")


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
        endpoint_of(build_server(tools)) as endpoint,
        Client(endpoint.target(query, **headers), mode=era) as client,
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
    async with endpoint_of(build_server(tools)) as endpoint:
        async with endpoint.client(MODERN, "?groups=shut,selectable") as client:
            assert await names_of(client) == ["call_tool", "selectable.go"]
        async with endpoint.client(MODERN, extensions=DECLARED) as client:
            assert [group["name"] for group in (await asked(client, "groups/list")).groups or []] == ["selectable"]


@pytest.mark.spec("DEL-4", "DEL-5")
async def test_an_author_can_let_requests_through_a_gate_and_keep_them_out_of_any_group() -> None:
    tools, _ = make_gated(selectable=True)
    tools.register_group("never", selectable=False)
    tools.register("go", lambda: "went", group="never", description="Go.")
    async with endpoint_of(build_server(tools)) as endpoint:
        async with endpoint.client(MODERN, "?groups=event.inner,code,never") as client:
            listed = [name for name in await names_of(client) if name.endswith(".go")]
            assert listed == ["code.go", "event.go", "event.inner.go"]
        async with endpoint.client(MODERN, extensions=DECLARED) as client:
            assert not (await client.call_tool("event.inner.go", {})).is_error
    with pytest.raises(InvalidDefinition, match="selectable is 'yes'"):
        tools.register_group("other", selectable="yes")  # type: ignore[arg-type]


@pytest.mark.spec("DEL-4", "DEL-5", "PRO-1")
async def test_initial_groups_of_the_author_are_open_whatever_the_gate() -> None:
    tools, _ = make_gated()
    async with endpoint_of(build_server(tools)) as endpoint, endpoint.client(MODERN, "?profile=through") as client:
        assert "event.go" in await names_of(client)
    async with endpoint_of(build_server(tools, active=["code"])) as endpoint:
        async with endpoint.client(MODERN) as client:
            assert "code.go" in await names_of(client)
        async with endpoint.client(MODERN, "?groups=code,event") as client:
            assert [name for name in await names_of(client) if name.endswith(".go")] == ["code.go"]
        async with endpoint.client(MODERN, extensions=DECLARED) as client:
            assert not (await client.call_tool("code.go", {})).is_error
            with pytest.raises(MCPError):
                await client.call_tool("code.inner.go", {})


@pytest.mark.spec("DEL-4", "DEL-7")
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_without_selection_answers_as_if_nothing_was_selected(era: str) -> None:
    tools, _ = make_gated()
    async with endpoint_of(build_server(tools, selection=False, active=["code"])) as endpoint:
        async with endpoint.client(era, "?groups=open&profile=through") as client:
            assert [name for name in await names_of(client) if name.endswith(".go")] == ["code.go"]
        result = (await endpoint.post("tools/list", headers={"toolfold-groups": "open"})).json()["result"]
        assert result["cacheScope"] == "public"
        assert "open.go" not in {tool["name"] for tool in result["tools"]}
