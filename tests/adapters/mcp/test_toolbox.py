"""Groups for clients of `com.google.cloud/toolbox.v1`: other lists, other answers, the same calls (SPEC DEL-5)."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.client import advertise
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server, client_of, names_of
from tests.adapters.mcp.test_disclosed_views import guarded
from tests.adapters.mcp.test_disclosure import TOOLBOX, asked, refusal_of
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, received, text_of
from toolfold_adapters.mcp.extensions.groups import GroupParams

pytestmark = pytest.mark.spec("DEL-5")

ONLY = [advertise(TOOLBOX, {})]


class Fetch(types.Request[GroupParams, str]):
    """A request for a group."""

    method: str = "groups/get"


async def test_every_group_is_on_one_page_and_has_its_contents_at_the_top() -> None:
    tools = make_shop(page_size=1)
    async with client_of(build_server(tools), MODERN, extensions=ONLY) as (client, _):
        listed = await asked(client, "groups/list", cursor="whatever")
        assert listed.groups == [
            {"name": "cash", "description": "Paying in coins"},
            {"name": "credit", "description": "Paying by card"},
            {"name": "stock", "description": "What there is"},
            {"name": "stock-0d-orders", "description": "What is to come"},
        ]
        assert listed.next_cursor is None
        request: Any = Fetch(params=GroupParams(name="stock"))
        anything: Any = TypeAdapter(dict[str, Any])
        said: dict[str, Any] = await client.session.send_request(request, anything)
        assert "contents" not in said
        assert (said["name"], said["ttlMs"], said["cacheScope"]) == ("stock", 0, "private")
        assert [tool["name"] for tool in said["tools"]] == ["stock.count", "stock.fail", "stock.reject"]
        assert [prompt["name"] for prompt in said["prompts"]] == ["stock.advise"]
        assert [resource["uri"] for resource in said["resources"]] == ["shop:///shelves"]
        assert said["resourceTemplates"] == []
        assert (await refusal_of(client, "groups/get", name="absent")).code == types.INVALID_PARAMS


async def test_its_lists_are_those_of_any_client_and_what_is_in_groups_is_called_directly() -> None:
    server = build_server(make_shop())
    async with client_of(server, MODERN, extensions=ONLY) as (client, _), client_of(server, MODERN) as (plain, _):
        assert await names_of(client) == await names_of(plain)
        assert received(await client.call_tool("stock.count", {"item": "x"})) == {"item": "x", "shelf": 1}
        assert (await client.get_prompt("stock.advise")).messages
        assert (await client.read_resource("shop:///shelves")).contents
        handle = await opened(client, "stock")
        called = {"handle": handle, "name": "stock.orders.place", "arguments": {"items": {}}}
        assert (await client.call_tool("call_tool", called)).is_error
        assert text_of(await client.call_tool("hello", {})) == "hello"
        with pytest.raises(MCPError, match="Unknown tool: absent"):
            await client.call_tool("absent", {})


async def test_what_a_caller_may_not_see_is_neither_in_a_group_nor_callable() -> None:
    tools, allowed = guarded()
    allowed["read"] = allowed["write"] = False
    async with client_of(build_server(tools), MODERN, extensions=ONLY) as (client, _):
        assert [group["name"] for group in (await asked(client, "groups/list")).groups or []] == [
            "admin",
            "admin-0d-keys",
        ]
        with pytest.raises(MCPError, match=r"Unknown tool: files\.read"):
            await client.call_tool("files.read", {})
