"""`offer`: an extension in the shape of the SDK's `Extension` for a low-level server; only `MCPServer` takes those."""

from __future__ import annotations

from typing import Any

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding, RequestHandler
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND


def offer(server: Server[Any], extension: Extension) -> None:
    """Have a server answer the methods of an extension, and say in introductions that it has it."""
    for method in extension.methods():
        server.add_request_handler(method.method, method.params_type, _in_its_versions(method))
    server.extensions[extension.identifier] = extension.settings()


def _in_its_versions(method: MethodBinding) -> RequestHandler:
    """Return the handler of a method that other versions of the protocol do not know."""
    versions = method.protocol_versions
    if versions is None:
        return method.handler

    async def handle(ctx: ServerRequestContext[Any, Any], params: Any) -> HandlerResult:
        if ctx.protocol_version not in versions:
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=method.method)
        return await method.handler(ctx, params)

    return handle
