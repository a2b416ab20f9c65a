"""Disclosure by the draft extension over HTTP (SPEC DEL-5)."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import (
    PATIENCE,
    client_of,
    modern_body,
    modern_headers,
    over_http,
    target_of,
)
from tests.adapters.mcp.test_disclosure import (
    AROUND,
    DECLARED,
    EXTENSION,
    make_lab,
    refusal_of,
)
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from tests.adapters.mcp.test_stored_handles import Journal

pytestmark = pytest.mark.spec("DEL-5")


async def test_each_request_says_for_itself_whether_it_declares_the_extension() -> None:
    async with over_http(make_shop()) as url, httpx2.AsyncClient() as http:

        async def send(method: str, declared: bool, **params: Any) -> Any:
            body = modern_body(method, params)
            extensions: Any = {"extensions": {EXTENSION: {}}} if declared else {}
            body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = extensions
            headers = modern_headers(method, params.get("name") if method == "tools/call" else None)
            response = await http.post(url, json=body, headers=headers)
            lines = response.text.splitlines()
            return httpx2.Response(200, text=next(line for line in lines if "{" in line).removeprefix("data: ")).json()

        plain = [await send("tools/list", False)]
        listed = await send("tools/list", True)
        assert [tool["name"] for tool in listed["result"]["tools"]] == [
            "hello",
            "join",
            "open_everything",
            "open_stock",
        ]
        assert listed["result"]["resultType"] == "complete"
        assert (await send("groups/list", True))["result"]["resultType"] == "complete"
        assert (await send("groups/list", False))["error"]["code"] == -32021
        assert (await send("groups/get", True))["error"]["code"] == types.INVALID_PARAMS
        called = {"name": "cash.coins", "arguments": {}}
        assert "result" in await send("tools/call", True, **called)
        assert (await send("tools/call", False, **called))["error"]["code"] == types.INVALID_PARAMS
        assert plain == [await send("tools/list", False)]


@pytest.mark.spec("HOOK-5", "HOOK-6", "HOOK-9", "DEL-9")
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_hooks_of_the_group_are_undone_when_a_call_is_cancelled(transport: str) -> None:
    journal, blocked = Journal(), anyio.Event()
    tools = make_lab(journal, blocked)
    async with target_of(transport, tools) as target, client_of(target, MODERN, extensions=DECLARED) as (client, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "outer.inner.work", {"how": "block"})
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
            tasks.cancel_scope.cancel()
        await journal.reaches(len(AROUND))
        assert journal == AROUND
        assert not tools.sessions


@pytest.mark.spec("ACT-10", "DEL-4")
async def test_a_selection_that_cannot_be_is_refused() -> None:
    async with over_http(make_shop()) as url:
        async with client_of(f"{url}?groups=cash,credit", MODERN, extensions=DECLARED) as (client, _):
            refused = await client.call_tool("hello", {})
            assert refused.is_error
            assert "can't be active together" in text_of(refused)
            assert (await refusal_of(client, "groups/list")).code == types.INVALID_PARAMS
        async with client_of(f"{url}?groups=cash", MODERN, extensions=DECLARED) as (client, _):
            assert text_of(await client.call_tool("credit.card", {})) == "card"
