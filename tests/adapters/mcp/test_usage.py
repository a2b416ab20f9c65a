"""A server counts what its clients use, in both eras (SPEC EXP-3)."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from tests.adapters.mcp.support import build_server, change_of
from tests.core.support import with_groups
from toolfold import ToolSet


@pytest.mark.spec("EXP-3")
@pytest.mark.parametrize(("mode", "era"), [("legacy", "legacy"), ("2026-07-28", "modern")])
@pytest.mark.parametrize("with_hooks", [False, True])
async def test_calls_and_openings_are_counted_by_client_and_era(mode: str, era: str, with_hooks: bool) -> None:
    tools = ToolSet("desk", control="open_group")
    tools.register_group("mail", "Mail", on_activate=(lambda: None) if with_hooks else None)
    tools.register("read", lambda: "12345678", group="mail", description="Read mail.")
    async with Client(build_server(tools), mode=mode, client_info=Implementation(name="C" * 99, version="1")) as client:
        await client.list_tools()
        answer = await client.call_tool("open_group", {"group": "mail"})
        handle = {} if era == "legacy" else {"handle": change_of(answer)["handle"]}
        assert tools.usage is not None
        assert (tools.usage.groups["mail"].opened, tools.usage.groups["mail"].called) == (1, 0)
        for _ in range(2):
            result = await client.call_tool("call_tool", {"name": "mail.read", "arguments": {}, **handle})
            assert not result.is_error, result
        row = tools.usage.calls["mail.read", "mail", "C" * 64, era]
        assert (row.calls, row.errors, row.tokens) == (2, 0, 4)
        assert (tools.usage.groups["mail"].opened, tools.usage.groups["mail"].called) == (1, 1)
        assert tools.usage.lists.lists == 1


@pytest.mark.spec("EXP-1", "EXP-3")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_name_that_no_tool_has_on_the_wire_is_a_refusal_like_others(mode: str) -> None:
    tools = with_groups("a")
    tools.register("t", lambda: "done", group="a")
    async with Client(build_server(tools, call_tools=True, separator="__"), mode=mode) as client:
        for name in ("a.t", "a__t"):
            with pytest.raises(MCPError):
                await client.call_tool(name, {})
            await client.call_tool("call_tool", {"name": name})
            await client.call_tool("call_tools", {"calls": [{"name": name}]})
    assert tools.usage is not None
    assert tools.usage.refused == {"unknown": 3, "group": 3}
