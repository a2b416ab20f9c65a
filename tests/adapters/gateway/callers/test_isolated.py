"""What a shared server says of a call reaches who made it alone, over HTTP in both eras (SPEC GWY-19)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from tests.adapters.gateway.inprocess import SECONDS, config_of, without_extensions
from tests.adapters.gateway.upstreams.byhand import ByHand, Call
from tests.adapters.mcp.asgi import URL, Endpoint, endpoint_of
from tests.blocked import all_blocked
from toolfold_adapters.gateway import Runtime, open_gateway
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.link import Link
from toolfold_adapters.gateway.upstream.wire import Wire, connect
from toolfold_adapters.mcp import build_server
from toolfold_adapters.transport.http_client import http_transport

pytestmark = pytest.mark.spec("GWY-19")

LOG = {"io.modelcontextprotocol/logLevel": "debug"}
MESSAGE = {"level": "error", "data": "the PIN is 1234"}


PROGRESS, QUESTION = {"progress": 1, "total": 2, "message": "the PIN is 1234"}, "elicitation/create"
ASKED = {"message": "Your PIN?", "requestedSchema": {"type": "object", "properties": {}}}
ABLE: Mapping[str, Any] = {"elicitation": {"form": {}}}


@asynccontextmanager
async def caller(endpoint: Endpoint, name: str, era: ConnectMode, reached: list[str]) -> AsyncGenerator[Wire]:
    def note(method: str, params: Mapping[str, Any], cause: object) -> None:
        if method == "notifications/message":
            reached.append(name)

    async def answer(method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
        reached.append(name)
        return {"action": "accept", "content": {"by": name}}

    def client(**options: Any) -> httpx2.AsyncClient:
        headers = {**(options.pop("headers", None) or {}), "authorization": f"Bearer {name}"}
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(endpoint.app), headers=headers, **options)

    async with connect(http_transport(URL, {}, None, client), era, ABLE, answer, note) as wire:
        yield without_extensions(wire)


def said(what: str, call: Call) -> dict[str, Any]:
    """Return what the server sends about a call: a log message, its progress, or a question."""
    if what == "progress":
        return {"method": "notifications/progress", "params": {"progressToken": call.token, **PROGRESS}}
    if what == "question":
        return {"id": "question", "method": QUESTION, "params": ASKED}
    return {"method": "notifications/message", "params": MESSAGE}


async def heard(era: ConnectMode, *, modern: bool, through: bool, what: str = "log") -> list[str]:
    """Return whom something reaches that a call of Ada's causes, while Bob has a call there, too."""
    upstream, reached, answers = ByHand(modern, "http"), list[str](), dict[str, Any]()
    config = config_of("byhand", "spare", shared=True, mode="auto" if modern else "legacy")
    gateway = open_gateway(config, runtime=Runtime(clock=lambda: 0.0, transport=upstream.transport))
    with anyio.fail_after(SECONDS):
        async with gateway as tools:
            server = build_server(tools, active=[g.path for g in tools.catalog.groups], extend=gateway.extend)
            async with (
                endpoint_of(server, authenticated=True) as endpoint,
                caller(endpoint, "ada", era, reached) as ada,
                caller(endpoint, "bob", era, reached) as bob,
                anyio.create_task_group() as tasks,
            ):

                async def call(name: str, wire: Wire) -> None:
                    asked: dict[str, Any] = {"name": "byhand__hold", "arguments": {"who": name}}
                    asked = {"name": "call_tool", "arguments": asked} if through else asked

                    async def progressed(progress: float, total: float | None, message: str | None) -> None:
                        reached.append(name)

                    given = {**asked, "_meta": LOG}
                    answers[name] = await wire.request("tools/call", given, on_progress=progressed)

                for name, wire in (("ada", ada), ("bob", bob)):
                    tasks.start_soon(call, name, wire)
                    while name not in upstream.calls:
                        await anyio.lowlevel.checkpoint()
                upstream.calls["ada"].send({"jsonrpc": "2.0", **said(what, upstream.calls["ada"])})
                await all_blocked()
                for one in upstream.calls.values():
                    one.answer()
            reached += [name for name, answer in answers.items() if answer.get("inputRequests")]
    return reached


@pytest.mark.parametrize("what", ["progress", "question"])
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_progress_and_questions_reach_whose_call_they_are_of(era: ConnectMode, what: str) -> None:
    assert await heard(era, modern=False, through=False, what=what) == ["ada"]


@pytest.mark.parametrize("through", [False, True], ids=["by name", "by call_tool"])
@pytest.mark.parametrize("modern", [False, True], ids=["legacy server", "modern server"])
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_log_message_reaches_whose_call_it_is_about(era: ConnectMode, modern: bool, through: bool) -> None:
    assert await heard(era, modern=modern, through=through) == ["ada"]


@pytest.mark.parametrize("what", ["log", "question"])
async def test_a_gateway_that_addresses_whoever_called_last_is_found(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link, "_addressee", lambda link, cause: next(reversed(link._calls.values())))
    assert await heard("legacy", modern=False, through=False, what=what) == ["bob"]
