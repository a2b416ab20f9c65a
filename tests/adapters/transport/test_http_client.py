"""Messages over HTTP: how long each request may take."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from toolfold_adapters.transport.http_client import END_SECONDS, http_transport

HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}


@pytest.mark.spec("GWY-4")
async def test_the_end_of_a_session_waits_for_little_and_an_answer_for_as_long_as_it_takes() -> None:
    allowed: dict[str, Any] = {}

    def answer(request: httpx2.Request) -> httpx2.Response:
        allowed[request.method] = request.extensions["timeout"]["read"]
        if request.method != "POST":
            return httpx2.Response(405)
        headers = {"mcp-session-id": "1"}
        return httpx2.Response(200, headers=headers, json={"jsonrpc": "2.0", "id": 1, "result": HANDSHAKE})

    def make(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answer), **options)

    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "y", "version": "1"}}
    asked = JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params=params)
    with anyio.fail_after(10):
        async with http_transport("http://site.test/mcp", {}, None, make) as (read, write):
            await write.send(SessionMessage(asked))
            await read.receive()
    assert allowed["POST"] is None
    assert allowed["DELETE"] == END_SECONDS
