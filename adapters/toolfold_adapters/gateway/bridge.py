"""A bridge from standard input and output to a server at a URL, for clients that can only start commands (SPEC GWY-10).

Messages pass as they are, in either era. What HTTP asks for beside them, its headers, follows from what passes: the
version that was agreed on, and in the modern era the method, the name and the marked arguments of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.server.stdio import stdio_server
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolfold import ToolfoldError
from toolfold.spi import table

from .headers import ModernHeaders
from .transports import CONNECT_SECONDS, http_transport


class ServerAway(ToolfoldError):
    """Nothing answers at the URL of a bridge."""


class Headers:
    """What goes with each message over HTTP, learned from the messages themselves."""

    def __init__(self) -> None:
        self._version: str | None = None
        self._asked: dict[RequestId, str] = {}
        self._modern = ModernHeaders()

    def of(self, message: Any) -> dict[str, str]:
        """Return the headers of a message of the client, and note what it asks for."""
        if not isinstance(message, JSONRPCRequest | JSONRPCNotification):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        params = message.params or {}
        if isinstance(message, JSONRPCRequest) and message.method in ("initialize", "tools/list"):
            self._asked[message.id] = message.method
        version = (table(params.get("_meta")) or {}).get(PROTOCOL_VERSION_META_KEY)
        if not isinstance(version, str):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        return self._modern.of(version, message.method, params)

    def learn(self, message: Any) -> None:
        """Take note of an answer of the server: which version it speaks, and which arguments are headers."""
        if not isinstance(message, JSONRPCResponse):
            return
        asked = self._asked.pop(message.id, None)
        if asked == "initialize":
            version = message.result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None
        elif asked == "tools/list":
            tools: list[Any] = message.result.get("tools") or []
            for tool in map(table, tools):
                self._modern.learn(str((tool or {}).get("name")), (tool or {}).get("inputSchema"))


async def bridge(url: str, headers: Mapping[str, str], close_stdin: Callable[[], None]) -> None:
    """Pass messages between standard input and output and the server at `url`, until either ends.

    Args:
        url: The URL of the server.
        headers: More for the headers of each request.
        close_stdin: Ends the input, for which a thread waits that can't be cancelled.

    Raises:
        ServerAway: Nothing answers there, or no longer.
    """
    await _knock(url)
    try:
        async with stdio_server() as (incoming, outgoing):
            try:
                await carry(incoming, outgoing, http_transport(url, dict(headers), None))
            finally:
                close_stdin()
    except* httpx2.TransportError as group:
        raise ServerAway(_away(url, group.exceptions[0])) from None


async def carry(incoming: Any, outgoing: Any, transport: Any) -> None:
    """Pass messages between a client's streams and a transport to a server, until either ends."""
    known = Headers()

    async def up(write: Any, tasks: TaskGroup) -> None:
        async with incoming:
            async for item in incoming:
                if isinstance(item, SessionMessage):
                    metadata = ClientMessageMetadata(headers=known.of(item.message))
                    await write.send(SessionMessage(item.message, metadata))
        tasks.cancel_scope.cancel()

    async with transport as (read, write), anyio.create_task_group() as tasks:
        tasks.start_soon(up, write, tasks)
        async for item in read:
            if isinstance(item, SessionMessage):
                known.learn(item.message)
                await outgoing.send(SessionMessage(item.message))
        tasks.cancel_scope.cancel()


async def _knock(url: str) -> None:
    """Find out whether anything listens at a URL, before a client waits for it."""
    parsed = httpx2.URL(url)
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            await (await anyio.connect_tcp(parsed.host, port)).aclose()
    except (OSError, TimeoutError) as error:
        raise ServerAway(_away(url, error)) from error


def _away(url: str, error: BaseException) -> str:
    return f"Nothing answers at {url} ({type(error).__name__}); start it there: toolfold serve TARGET --http"
