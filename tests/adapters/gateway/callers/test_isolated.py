"""What a shared server says of a call reaches the principal who made it alone, over HTTP in both eras (SPEC GWY-19)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from tests.adapters.gateway.inprocess import SECONDS, config_of, refuse, without_extensions
from tests.adapters.gateway.upstreams.byhand import ByHand
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


@asynccontextmanager
async def caller(endpoint: Endpoint, name: str, era: ConnectMode, reached: list[str]) -> AsyncGenerator[Wire]:
    def note(method: str, params: Mapping[str, Any], cause: object) -> None:
        if method == "notifications/message":
            reached.append(name)

    def client(**options: Any) -> httpx2.AsyncClient:
        headers = {**(options.pop("headers", None) or {}), "authorization": f"Bearer {name}"}
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(endpoint.app), headers=headers, **options)

    async with connect(http_transport(URL, {}, None, client), era, {}, refuse, note) as wire:
        yield without_extensions(wire)


async def heard(era: ConnectMode, *, modern: bool, through: bool) -> list[str]:
    """Return whom a log message reaches that a call of Ada's causes, while Bob has a call there, too."""
    upstream, reached = ByHand(modern, "http"), list[str]()
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
                for name, wire in (("ada", ada), ("bob", bob)):
                    asked: dict[str, Any] = {"name": "byhand__hold", "arguments": {"who": name}}
                    asked = {"name": "call_tool", "arguments": asked} if through else asked
                    tasks.start_soon(wire.request, "tools/call", {**asked, "_meta": LOG})
                    while name not in upstream.calls:
                        await anyio.lowlevel.checkpoint()
                message = {"jsonrpc": "2.0", "method": "notifications/message", "params": MESSAGE}
                upstream.calls["ada"].send(message)
                await all_blocked()
                for call in upstream.calls.values():
                    call.answer()
    return reached


@pytest.mark.parametrize("through", [False, True], ids=["by name", "by call_tool"])
@pytest.mark.parametrize("modern", [False, True], ids=["legacy server", "modern server"])
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_log_message_reaches_whose_call_it_is_about(era: ConnectMode, modern: bool, through: bool) -> None:
    assert await heard(era, modern=modern, through=through) == ["ada"]


async def test_a_gateway_that_logs_to_whoever_called_last_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "_addressee", lambda link, cause: next(reversed(link._calls.values())))
    assert await heard("legacy", modern=False, through=False) == ["bob"]
