"""How a client begins over streams of messages, where its first requests are of both eras (SPEC DEL-12)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import SHAKING_HANDS, build_server, modern_body
from toolfold_adapters.mcp.serve import serve_streams


@pytest.mark.spec("DEL-12", "GWY-4")
async def test_a_client_that_asked_what_there_is_and_then_begins_in_the_older_era_is_served_in_that() -> None:
    discover = modern_body("server/discover") | {"id": "d"}
    sent = [
        discover,
        {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": SHAKING_HANDS},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "l", "method": "tools/list"},
        modern_body("tools/list") | {"id": "m"},
    ]
    answers: dict[Any, dict[str, Any]] = {}
    async with create_client_server_memory_streams() as ((read, write), served), anyio.create_task_group() as tasks:
        tasks.start_soon(serve_streams, build_server(make_desk()), "auto", *served)

        async def send() -> None:
            for message in sent:
                await write.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

        tasks.start_soon(send)
        while len(answers) < 4:
            received = await read.receive()
            assert isinstance(received, SessionMessage)
            answer = jsonrpc_message_adapter.dump_python(received.message)
            answers[answer.get("id")] = answer
        await write.aclose()
    assert "2026-07-28" in answers["d"]["result"]["supportedVersions"]
    assert answers["i"]["result"]["protocolVersion"] == "2025-11-25"
    assert "database.activate" in str(answers["l"]["result"])
    assert "not accepted" in answers["m"]["error"]["message"]
