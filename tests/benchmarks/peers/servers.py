"""Servers of `http_server.py` in processes of their own, and a small client, so that requests cost all the same.

Frameworks that don't fit into one environment run in others: `TESTS_FASTMCP`, `TESTS_PYDANTIC_AI` and
`TESTS_AGENTSCOPE` name their interpreters.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import httpx2
from attrs import frozen

from tests.adapters.mcp.support import modern_body, modern_headers

PACKAGES = {
    "fastmcp": "fastmcp",
    "pydantic-ai": "pydantic_ai",
    "agentscope": "agentscope",
    "lazy-mcp": "lazy_mcp",
    "mcp-compressor": "mcp_compressor",
}
"""The packages of frameworks that the environment of this project may lack."""
FOLDER = Path(__file__).parents[1]
DEADLINE = 30.0
LEGACY = "2025-11-25"
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


def interpreter(framework: str) -> str | None:
    """Return the Python that has a framework, if there is one: see the module."""
    package = PACKAGES.get(framework)
    own = sys.executable if package is None or find_spec(package) else None
    return own if package is None else os.environ.get(f"TESTS_{package.upper()}", own)


@frozen
class Program:
    """A program of this package, to be run by a framework's own interpreter: without this project on its path."""

    name: str
    framework: str

    def command(self, *arguments: str) -> list[str]:
        """Return how it is run."""
        return [interpreter(self.framework) or sys.executable, "-m", f"peers.{self.name}", self.framework, *arguments]

    @property
    def options(self) -> dict[str, Any]:
        """The folder that it is run in, and its environment."""
        own = interpreter(self.framework) == sys.executable
        return {
            "cwd": str(FOLDER),
            "env": {name: value for name, value in os.environ.items() if own or name != "PYTHONPATH"},
        }


@frozen
class Server:
    """A server in a process of its own."""

    url: str
    process: int


@asynccontextmanager
async def served(framework: str, *arguments: str) -> AsyncGenerator[Server]:
    """Run a server."""
    program = Program("http_server", framework)
    async with await anyio.open_process(
        program.command(*arguments), stdin=subprocess.DEVNULL, stderr=None, **program.options
    ) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(DEADLINE):
                port = int(await process.stdout.receive())
            yield Server(f"http://127.0.0.1:{port}", process.pid)
        finally:
            if process.returncode is None:
                process.kill()  # in good order it would end a thousand sessions first


def client() -> httpx2.AsyncClient:
    """Return a client for any of the servers."""
    return httpx2.AsyncClient(headers={"accept": "application/json, text/event-stream"}, timeout=DEADLINE)


async def modern(
    http: httpx2.AsyncClient, url: str, method: str, params: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the result of a request of the modern era, which needs no session of the protocol."""
    headers = modern_headers(method, (params or {}).get("name"))
    return _result(await http.post(f"{url}/mcp", json=modern_body(method, params), headers=headers))


async def called(http: httpx2.AsyncClient, url: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the result of a call of a tool in the modern era."""
    return await modern(http, url, "tools/call", {"name": tool, "arguments": arguments})


class Legacy:
    """A session of the legacy era, each of whose requests may go to another server."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._headers = {"mcp-protocol-version": LEGACY}

    async def start(self, url: str) -> None:
        """Open the session."""
        answer = await self._post(url, {"id": 1, "method": "initialize", "params": HELLO})
        _result(answer)
        self._headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        (await self._post(url, {"method": "notifications/initialized"})).raise_for_status()

    async def request(self, url: str, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a request."""
        return _result(await self._post(url, {"id": 2, "method": method, "params": params or {}}))

    async def call(self, url: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the result of a call of a tool."""
        return await self.request(url, "tools/call", {"name": tool, "arguments": arguments})

    async def _post(self, url: str, message: dict[str, Any]) -> httpx2.Response:
        return await self._http.post(f"{url}/mcp", json={"jsonrpc": "2.0", **message}, headers=self._headers)


def _result(answer: httpx2.Response) -> dict[str, Any]:
    """Return the result in an answer, or raise for that of a call that failed."""
    text = answer.raise_for_status().text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    message = json.loads(lines[-1] if lines else text)
    assert "result" in message, text
    assert not message["result"].get("isError"), text
    result: dict[str, Any] = message["result"]
    return result
