"""The fixture server with one fault on the wire, named by the first argument: what it answers is altered on its way."""

import itertools
import sys
from collections.abc import Mapping
from typing import Any

import anyio
from mcp.server import NotificationOptions
from mcp.shared.exceptions import MCPError

from toolfold_specs.drivers.protocol import CHANGE_META, HANDLE, HANDLE_META, PREFIX
from toolfold_specs.fixture_server import Fixture, serve_stdio

FAULT = sys.argv[1]
numbers = itertools.count()
fixture = Fixture(call_tool=True)
server = fixture.server


def is_unknown(error: MCPError) -> bool:
    return error.message.startswith("Unknown tool")


def refusal(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def altered(ctx: Any, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return another result than the one that is right."""
    name = str(params.get("name", ""))
    if ctx.method == "tools/call" and name.endswith(".activate"):
        if FAULT == "CTL-5" and result.get("isError"):
            raise MCPError(code=-32000, message="refused")
        return result if result.get("isError") else activated(result)
    if ctx.method == "tools/call" and name == "crash" and FAULT == "CALL-3":
        return refusal("RuntimeError: secret")
    if ctx.method == "tools/call" and name == "strict" and FAULT == "CALL-2":
        return {**result, "isError": False}
    if ctx.method == "tools/call" and name == "call_tool" and FAULT == "DEL-8" and "unknown" in str(result).lower():
        return {"content": [], "isError": False}
    if ctx.method == "tools/list":
        return listed(params, result)
    return result


def activated(result: dict[str, Any]) -> dict[str, Any]:
    told = result["_meta"]
    if FAULT == "CTL-4":
        return {**result, "_meta": {**told, CHANGE_META: {**told[CHANGE_META], "displaced": []}}}
    if FAULT == "CTL-4 text":
        return {**result, "content": [{"type": "text", "text": "done"}]}
    if FAULT in ("CTL-4 schemas", "DEL-2"):
        lines = result["content"][0]["text"].splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith("{"))
        return {**result, "content": [{"type": "text", "text": text}]}
    return result


def listed(params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    carried = HANDLE_META in (params.get("_meta") or {})
    if FAULT == "CTL-6":
        tools = [{key: value for key, value in tool.items() if key != "annotations"} for tool in result["tools"]]
        return {**result, "tools": tools}
    if FAULT == "DEL-7" and not carried and next(numbers) % 2:
        return {**result, "tools": result["tools"][::-1]}
    if FAULT == "DEL-11" and carried:
        return {**result, "cacheScope": "public"}
    return result


async def break_it(ctx: Any, call_next: Any) -> Any:
    params = ctx.params or {}
    if FAULT == "LST-3" and ctx.method == "tools/list":
        params.pop("cursor", None)
    try:
        result = await call_next(ctx)
    except MCPError as error:
        if FAULT == "DEL-5" and ctx.method == "groups/get":
            raise MCPError(code=-32002, message=error.message) from error
        if FAULT == "DEL-9" and is_unknown(error):
            return refusal(error.message)
        if FAULT == "CALL-1" and is_unknown(error) and params.get("name") == "a.tool":
            raise MCPError(code=error.code, message="a.tool is not available: activate a first") from error
        raise
    if FAULT == "DEL-3" and isinstance(result, dict) and result.get("isError") and "handle" in str(result["content"]):
        params.get("_meta", {}).pop(HANDLE_META, None)  # one that is refused is overlooked
        params.get("arguments", {}).pop(HANDLE, None)
        result = await call_next(ctx)
    if FAULT == "DEL-1" and ctx.method == "tools/call" and not params["name"].startswith(PREFIX):
        await ctx.session.send_tool_list_changed()
    return altered(ctx, params, result) if isinstance(result, dict) else result


server.middleware.append(break_it)
if FAULT == "NTF-4":
    options = server.create_initialization_options
    server.create_initialization_options = lambda *_, **__: options(NotificationOptions())  # type: ignore[method-assign]
anyio.run(serve_stdio, server)
