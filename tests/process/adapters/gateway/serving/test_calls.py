"""Calls, there and back."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from tests.adapters.gateway.inprocess import wired
from tests.adapters.gateway.support import opened, raw
from tests.adapters.gateway.upstreams.raw import EVIL, EVIL_NAMES, EVIL_URIS
from toolfold import ProtocolError
from toolfold_adapters.gateway import GatewayConfig
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-1")

CONTENT = [
    {
        "type": "text",
        "text": "grüße \u2028\x00",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "_meta": {"a": 1},
    },
    {"type": "image", "data": "AAECAw==", "mimeType": "image/png"},
    {"type": "audio", "data": "AAECAw==", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "demo://x", "name": "x", "size": 12, "icons": [{"src": "https://example.org/i"}]},
    {"type": "resource", "resource": {"uri": "demo://y", "text": "y", "mimeType": "text/plain", "_meta": {"b": None}}},
    {"type": "resource", "resource": {"uri": "demo://z", "blob": "AAECAw=="}},
    {"type": "from_the_future", "anything": [1, 2.0, 10**20, True, None, {"deep": []}]},
]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_result_reaches_clients_of_either_era_as_it_was(mode: ConnectMode) -> None:
    result = {
        "content": CONTENT,
        "structuredContent": {"rows": [[1, None], []]},
        "isError": True,
        "_meta": {"example.org/trace": {"id": 7, "none": None}},
        "fromTheFuture": {"x": [None]},
    }
    async with opened(raw("plain")) as (gateway, _):
        server = build_server(gateway.tools, handles="stored", extend=gateway.extend)
        async with wired(server, mode) as wire:
            given = await wire.request("tools/call", {"name": "answer", "arguments": {"result": result}})
    own = {"io.modelcontextprotocol/serverInfo"}
    assert {key: value for key, value in given.pop("_meta").items() if key not in own} == result.pop("_meta")
    assert given.pop("resultType", None) == (None if mode == "legacy" else "complete")
    assert given == result


@pytest.mark.spec("GWY-18", "GWY-1")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("result", [{"content": []}, {}, {"content": [], "isError": True}], ids=repr)
async def test_structured_content_alone_reaches_clients_as_text_too(mode: ConnectMode, result: dict[str, Any]) -> None:
    result = {**result, "structuredContent": {"total": 3}}
    async with opened(raw("plain")) as (gateway, _):
        server = build_server(gateway.tools, handles="stored", extend=gateway.extend)
        async with wired(server, mode) as wire:
            given = await wire.request("tools/call", {"name": "answer", "arguments": {"result": result}})
    assert given["content"] == [{"type": "text", "text": '{"total": 3}'}]
    assert given["structuredContent"] == {"total": 3}
    assert given.get("isError", False) is result.get("isError", False)


BROKEN = [{"result": None}, {"result": [1]}, {}, {"error": "boom"}, {"error": {"message": "no code"}}]


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("answer", BROKEN, ids=[json.dumps(answer) for answer in BROKEN])
async def test_a_broken_answer_is_an_error_and_nobody_waits_for_it(answer: dict[str, Any]) -> None:
    async with opened(raw("plain")) as (_, session):
        with pytest.raises(ProtocolError, match="no message of the protocol"):
            await session.call("answer", {"answer": answer})
        assert not (await session.call("one")).is_error


async def test_half_a_character_in_a_result_is_replaced_and_the_rest_passes() -> None:
    """Some servers cut texts within an emoji."""
    async with opened(raw("plain")) as (_, session):
        given = await session.call("answer", {"line": '{"content": [{"type": "text", "text": "cut \\ud83d"}]}'})
    assert given.text == "cut ?"


async def test_arguments_arrive_as_they_are() -> None:
    arguments = {"ü": [1, 2.5, None, True, {"x": {}}], "big": 10**20, "text": "\u2028"}
    async with opened(raw("plain")) as (_, session):
        said = json.loads((await session.call("one", arguments)).text)
    assert (said["name"], said["arguments"]) == ("one", arguments)


async def test_arguments_that_no_message_can_hold_are_refused_and_harm_no_other_call() -> None:
    async with opened(raw("plain")) as (_, session):
        refused = await session.call("one", {"text": "\ud800"})
        assert refused.is_error
        assert "can't be written as JSON" in refused.text
        assert not (await session.call("one")).is_error


async def test_an_error_of_the_protocol_comes_back_with_code_message_and_data() -> None:
    async with opened(raw("plain")) as (_, session):
        for code in (-32602, -32000, 42):
            with pytest.raises(ProtocolError) as caught:
                await session.call("answer", {"error": {"code": code, "message": "Connection closed", "data": [1]}})
            assert (caught.value.code, caught.value.message, caught.value.data) == (code, "Connection closed", [1])
        assert not (await session.call("one")).is_error


async def test_meta_of_the_call_is_passed_on_but_for_what_belongs_to_the_connection() -> None:
    meta = {
        "example.org/trace": "t",
        "progressToken": 5,
        "progress_token": 5,
        "io.modelcontextprotocol/clientInfo": {"name": "c"},
        "dev.toolfold/handle": "h",
    }
    async with opened(raw("plain")) as (_, session):
        said = json.loads((await session.call("one", request=SimpleNamespace(meta=meta))).text)
    assert said["_meta"].pop("progressToken") != 5
    assert said["_meta"] == {"example.org/trace": "t"}


@pytest.mark.parametrize("result", [{"content": "text"}, {"content": [5]}, {"content": None}])
async def test_what_is_no_tool_result_is_an_error_result(result: Any) -> None:
    async with opened(raw("plain")) as (_, session):
        given = await session.call("answer", {"result": result})
    assert given.is_error
    assert "not a tool result" in given.text


async def test_a_call_that_never_ends_does_not_hold_up_another() -> None:
    async with opened(raw("silent")) as (_, session), anyio.create_task_group() as tasks:
        tasks.start_soon(session.call, "one")
        assert session.list_tools().tools
        tasks.cancel_scope.cancel()


@pytest.mark.spec("SAF-6")
async def test_texts_of_servers_pass_as_they_are_and_name_nothing_here() -> None:
    servers = {name: raw("hostile").upstreams["upstream"] for name in ("one", "other")}
    async with opened(GatewayConfig(upstreams=servers)) as (gateway, session):
        tools = [tool for tool in session.list_tools().tools if tool.control is None]
        assert {tool.definition["description"] for tool in tools} == {EVIL}
        assert sorted(gateway.report.tools.values()) == sorted([*EVIL_NAMES, *EVIL_NAMES])
        assert all(re.fullmatch(r"(one|other)__[A-Za-z0-9_-]+", tool.name) for tool in tools)
        assert [group.name for group in session.list_groups()] == ["one", "other"]
        for tool in tools[:2]:
            with pytest.raises(ProtocolError) as caught:
                await session.call(tool.name)
            assert caught.value.message == EVIL
        for uri in EVIL_URIS:
            if uri in session.list("resource").names:
                assert (await session.read(uri))["contents"] == [{"uri": uri, "text": EVIL}]
        assert session.list("resource").names
