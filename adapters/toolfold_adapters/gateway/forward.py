"""Forwards calls of a gateway's tools, and their results back (SPEC GWY-1).

Nothing of an answer is validated or changed: that is between the client and the server.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import anyio
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from pydantic_core import to_json

from toolfold import Context, ProtocolError, ToolError, ToolfoldError, ToolResult
from toolfold.spi import table

from .upstream import Upstream, UpstreamError

log = logging.getLogger("toolfold.gateway")

# Each of the two connections has its own.
_HOP_BY_HOP = frozenset(
    {
        CLIENT_CAPABILITIES_META_KEY,
        CLIENT_INFO_META_KEY,
        LOG_LEVEL_META_KEY,
        PROTOCOL_VERSION_META_KEY,
        SERVER_INFO_META_KEY,
        "progressToken",
        "progress_token",
    }
)
_OWN_PREFIX = "dev.toolfold/"

Handler = Callable[[dict[str, Any], Context], Awaitable[ToolResult]]


def forwarder(upstream: Upstream, tool: str) -> Handler:
    """Return the handler that calls `tool`, by the upstream's name for it."""

    async def forward(arguments: dict[str, Any], context: Context) -> ToolResult:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if meta := _end_to_end(getattr(context.request, "meta", None)):
            params["_meta"] = meta
        _check_json(tool, params)
        try:
            return _result(await _call(upstream, params, context))
        except UpstreamError as error:
            raise ToolError(f"{error} Its tools can be used again once the gateway has been restarted.") from error

    return forward


async def _call(upstream: Upstream, params: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Return the result of a call, after all progress that came before it has been reported, in its order."""
    updates, reported = anyio.create_memory_object_stream[tuple[float, float | None, str | None]](math.inf)
    outcome: dict[str, Any] | ToolfoldError | None = None

    async def report() -> None:
        async with reported:
            async for update in reported:
                try:
                    await context.report_progress(*update)
                except Exception:
                    log.debug("progress could not be reported", exc_info=True)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        updates.send_nowait((progress, total, message))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(report)
        async with updates:
            try:
                outcome = await upstream.request("tools/call", params, on_progress)
            except (ProtocolError, UpstreamError) as error:
                outcome = error
    if isinstance(outcome, ToolfoldError):
        raise outcome
    return outcome or {}


def _check_json(tool: str, params: Mapping[str, Any]) -> None:
    """Refuse what can't be written as JSON; the connection, which others share, would end on it."""
    try:
        to_json(params)
    except ValueError as error:
        raise ToolError(f"The arguments of {tool} can't be written as JSON in UTF-8; mend them.") from error


def _result(answer: Mapping[str, Any]) -> ToolResult:
    if answer.get("resultType") == "input_required":
        raise ToolError("The tool asks for more input from the user, which can't be passed on here.")
    content: Any = answer.get("content", [])
    blocks = cast("list[dict[str, Any]]", content) if isinstance(content, list) else None
    if blocks is None or any(table(block) is None for block in blocks):
        raise ToolError("The server's answer is not a tool result; its operator should look at the server.")
    structured = answer.get("structuredContent")
    return ToolResult(blocks, structured, answer.get("isError") is True, _end_to_end(answer.get("_meta")))


def _end_to_end(meta: Any) -> dict[str, Any] | None:
    given = table(meta) or {}
    return {key: given[key] for key in given if key not in _HOP_BY_HOP and not key.startswith(_OWN_PREFIX)} or None
