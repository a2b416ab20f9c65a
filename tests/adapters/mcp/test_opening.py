"""How a client begins over streams of messages: in which era (SPEC DEL-12), and in which trace."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from opentelemetry import trace

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import SHAKING_HANDS, build_server, modern_body
from toolfold import ToolSet
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


@pytest.mark.parametrize("meta", [{}, {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}], ids=["alone", "in a trace"])
async def test_a_request_is_in_the_trace_of_its_client_if_that_has_one(meta: Any) -> None:
    tools = ToolSet("traced")
    tools.register("trace", lambda: format(trace.get_current_span().get_span_context().trace_id, "x"))
    async with Client(build_server(tools), mode="legacy") as client:
        result = await client.call_tool("trace", {}, meta=meta or None)
    assert getattr(result.content[0], "text", None) == ("a" * 32 if meta else "0")
