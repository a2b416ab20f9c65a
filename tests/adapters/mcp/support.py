"""Clients and servers for the tests of the MCP delivery: all real, in the transports and eras that there are."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import Client, StdioServerParameters
from mcp.client import IncomingMessage
from mcp.server import Server

from tests.preloaded import forked
from toolfold import ToolSet
from toolfold_adapters import mcp
from toolfold_adapters.names import CHANGE_META

DESK = Path(__file__).with_name("desk.py")
CHANGED = "notifications/tools/list_changed"
PATIENCE = 60


def build_server(tools: ToolSet, **options: Any) -> Server[TaskGroup]:
    """Return the server of `toolfold_adapters.mcp`, with the catalog's names on the wire by default.

    Tests about state then have one name for each tool.
    """
    options.setdefault("separator", ".")
    return mcp.build_server(tools, **options)


class Listener:
    """The notifications of a client, in order."""

    def __init__(self) -> None:
        self.notified: list[str] = []
        self._send, self._receive = anyio.create_memory_object_stream[str](1000)

    async def __call__(self, message: IncomingMessage) -> None:
        method = getattr(message, "method", None)
        if isinstance(method, str):
            self.notified.append(method)
            self._send.send_nowait(method)

    async def next(self) -> str:
        """Return the next notification, which must come soon."""
        with anyio.fail_after(PATIENCE):
            return await self._receive.receive()

    @property
    def changes(self) -> int:
        """How often a changed list of tools was notified."""
        return self.notified.count(CHANGED)

    def close(self) -> None:
        """Close the stream."""
        self._send.close()
        self._receive.close()


def change_of(result: types.CallToolResult) -> dict[str, Any]:
    """Return the change in the meta of a control tool's answer, and check that there is no structured content."""
    assert not result.is_error
    assert result.structured_content is None
    return dict((result.meta or {})[CHANGE_META])


def schemas_in(text: str) -> dict[str, Any]:
    """Return the input schemas in a text, by the line that names their tool; none may occur twice."""
    lines = text.splitlines()
    found = [(lines[number - 1], json.loads(line)) for number, line in enumerate(lines) if line.startswith("  {")]
    assert len(dict(found)) == len(found)
    return dict(found)


def without_schemas(text: str) -> list[str]:
    """Return the lines of a text without those that are input schemas."""
    return [line for line in text.splitlines() if not line.startswith("  {")]


@asynccontextmanager
async def over_http(tools: ToolSet, **options: Any) -> AsyncGenerator[str]:
    """Serve over HTTP on a free port of this machine, and yield the URL."""
    send, receive = anyio.create_memory_object_stream[str](1)

    given: dict[str, Any] = {"separator": ".", **options}

    async def run() -> None:
        await mcp.serve(tools, transport="http", port=0, on_ready=send.send_nowait, **given)

    with send, receive:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(PATIENCE):
                url = await receive.receive()
            yield url
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def target_of(transport: str, tools: ToolSet, **options: Any) -> AsyncGenerator[Any]:
    """Yield what `mcp.Client` connects to for a transport; over stdio that is a process that serves its own desk."""
    if transport == "memory":
        yield build_server(tools, **options)
    elif transport == "stdio":
        yield stdio_desk()
    else:
        async with over_http(tools, **options) as url:
            yield url


def stdio_desk(*arguments: str) -> StdioServerParameters:
    """Return how to start the desk as a process of its own."""
    path = ":".join(p for p in sys.path if p)
    command, *rest = forked(str(DESK), *arguments)
    return StdioServerParameters(command=command, args=rest, env={"PYTHONPATH": path})


@asynccontextmanager
async def client_of(target: Any, era: str, **options: Any) -> AsyncGenerator[tuple[Client, Listener]]:
    """Yield a client of one era and its notifications."""
    listener = Listener()
    try:
        async with Client(target, mode=era, message_handler=listener, **options) as client:
            yield client, listener
    finally:
        listener.close()


async def names_of(client: Client) -> list[str]:
    """Return the names that a client is listed."""
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


SHAKING_HANDS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}
"""The parameters of a handshake."""


class RawLegacy:
    """A legacy client over HTTP that posts requests and opens no standing stream."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._id = 0
        self.headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}

    async def initialize(self) -> dict[str, Any]:
        """Shake hands and return the server's answer."""
        messages = await self.request("initialize", SHAKING_HANDS)
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._http.post(self._url, json=body, headers=self.headers)
        result: dict[str, Any] = messages[-1]["result"]
        return result

    async def request(self, method: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return all messages on the response's stream: notifications, then the answer."""
        self._id += 1
        body = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params or {}}
        response = await self._http.post(self._url, json=body, headers=self.headers)
        if "mcp-session-id" in response.headers:
            self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
        lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
        return [json.loads(line.removeprefix("data: ")) for line in lines if line != "data: "]

    async def end(self) -> None:
        """End the session."""
        await self._http.delete(self._url, headers=self.headers)


def modern_body(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a request of the modern era."""
    params = params or {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    }
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": {**meta, **params.get("_meta", {})}},
    }


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    """Return the headers of a request of the modern era."""
    named = {"mcp-name": name} if name else {}
    return {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **named,
    }
