"""Gates: no request opens a group that only events or code open, unless its author allows it (SPEC SES-6)."""

from __future__ import annotations

from functools import partial

import pytest
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import build_server, client_of, names_of
from tests.adapters.mcp.test_disclosure import DECLARED, EXTENSION, asked, refusal_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of, through
from toolfold import Profile, ToolSet, success_of

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


@pytest.mark.parametrize("era", ERAS)
async def test_a_gate_opens_by_its_event(era: str) -> None:
    tools, ran = make_gated()
    async with client_of(build_server(tools), era) as (client, _):
        observed = await client.call_tool("observe", {})
        handle = (observed.meta or {}).get("dev.toolfold/handle")
        assert not (await through(client, "event.go", {}, handle)).is_error
    assert ran == ["event"]


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
