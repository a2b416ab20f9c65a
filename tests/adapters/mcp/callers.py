"""Several callers of one server, each at its own address, and how to keep a server busy."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.test_handle_delivery import MODERN
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold import ToolSet

ERAS = ("legacy", MODERN)
ADA, BOB, EVE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
"""Three callers: addresses of this machine."""


@asynccontextmanager
async def web_from(host: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield an HTTP client whose requests come from an address."""
    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(local_address=host)) as http:
        yield http


@asynccontextmanager
async def client_from(host: str, url: str, era: str) -> AsyncGenerator[Client]:
    """Yield a client of an era whose requests come from an address."""
    async with web_from(host) as http, Client(streamable_http_client(url, http_client=http), mode=era) as client:
        yield client


def refused_at_once(received: str) -> Any:
    """What a client raises that can't connect: an error of the protocol, in the groups of its task groups."""
    error = pytest.RaisesExc(MCPError, match=received)
    return pytest.RaisesGroup(error, allow_unwrapped=True, flatten_subgroups=True)


class Patience(ToolSet):
    """A tool set whose tool `wait` and whose group `slow` take until they are let go."""

    def __init__(self) -> None:
        super().__init__("patience")
        self.begun = Journal()
        self.proceed = anyio.Event()
        self.register("wait", self.wait, input_schema={"type": "object"})
        self.register("ping", lambda: "pong", input_schema={"type": "object"})
        self.register_group("slow", on_activate=self.wait)
        self.register_group("lazy", on_deactivate=self.wait)
        self.register_group("quick", on_activate=lambda: None)

    async def wait(self) -> str:
        self.begun.append("begun")
        await self.proceed.wait()
        return "done"


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
