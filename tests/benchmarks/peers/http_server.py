"""Serve the same tools with one framework over streamable HTTP, in 50 groups: `peers.http_server FRAMEWORK`.

It prints its port; of `toolfold` and `sdk`, `/state` says how many sessions are open. A framework is `toolfold`,
`hooked` (Toolfold with hooks), `sdk` or `fastmcp`; only its own packages are imported, so that any interpreter runs
this that has them.
"""
# pyright: reportMissingImports=false

import argparse
import gc
import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

GROUPS = [f"g{number}" for number in range(50)]


async def read(path: str) -> str:
    """Read what is there."""
    return path


def toolfold(number: int, store: str | None, idle: float, **options: Any) -> Any:
    """Return an app of groups with tools."""
    from toolfold import ToolSet
    from toolfold_adapters.mcp import Limit, Limits, build_server
    from toolfold_adapters.stores import open_store

    tools = ToolSet("peers", control="open_group")
    for group in GROUPS:
        tools.register_group(group, "A group", **options)
        for index in range(number):
            tools.register(f"read_{index}", read, group=group)
    key = "the key that all replicas have"
    opened = None if store is None else open_store(store)
    limits = Limits(sessions=Limit(10_000), handles=Limit(10_000))  # all sessions are those of one caller
    server = build_server(tools, store=opened, handle_key=key, limits=limits)
    return _stated(server, idle, lambda: len(tools.sessions))


def _stated(server: Any, idle: float, sessions: Callable[[], int] | None = None) -> Any:
    """Return the app of a server that says what is open: its sessions, or else its transports."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def state(_: Request) -> JSONResponse:
        gc.collect()
        transports = len(server.session_manager._server_instances)
        return JSONResponse({"sessions": sessions() if sessions else transports, "transports": transports})

    app = server.streamable_http_app(session_idle_timeout=idle)
    app.router.routes.append(Route("/state", state))
    return app


def hooked(number: int, store: str | None, idle: float) -> Any:
    """Return an app of groups with a hook."""
    return toolfold(number, store, idle, on_activate=_begin)


async def _begin() -> None:
    """The hook."""


def sdk(number: int, _: str | None, idle: float) -> Any:
    """Return an app of the same tools, all of which are always listed."""
    from mcp.server import MCPServer

    server = MCPServer("peers")
    for group in GROUPS:
        for index in range(number):
            server.add_tool(read, name=f"{group}__read_{index}")
    return _stated(server, idle)


def fastmcp(number: int, store: str | None, _: float) -> Any:
    """Return an app of tools that a session can enable by their tags, and of tools that use the state of a session."""
    from fastmcp import Context, FastMCP
    from fastmcp.server.sessions import SessionId, SessionProvider, get_session
    from fastmcp.tools import Tool

    options: dict[str, Any] = {}
    if store is not None:
        from key_value.aio.stores.redis import RedisStore  # type: ignore[import-not-found]

        options["session_state_store"] = RedisStore(url=store)
    server: Any = FastMCP("peers", **options)
    server.add_provider(SessionProvider())
    for group in GROUPS:
        for index in range(number):
            server.add_tool(Tool.from_function(read, name=f"{group}__read_{index}", tags={group}))
    server.disable(tags=set(GROUPS))
    tool: Callable[[Any], Any] = server.tool

    @tool
    async def open_group(group: str, ctx: Context) -> str:
        """Enable the tools of a group for this session."""
        await ctx.enable_components(tags={group})
        return "open"

    @tool
    async def close_group(group: str, ctx: Context) -> str:
        """Disable them again."""
        await ctx.disable_components(tags={group})
        return "closed"

    @tool
    async def set_group(group: str, session_id: SessionId) -> str:
        """Write to the state of a session."""
        await (await get_session(session_id)).set("group", group)
        return "set"

    @tool
    async def get_group(path: str, session_id: SessionId) -> str:
        """Read the state of a session."""
        return f"{await (await get_session(session_id)).get('group')} {path}"

    return server.http_app()


FRAMEWORKS: dict[str, Callable[[int, str | None, float], Any]] = {
    "toolfold": toolfold,
    "hooked": hooked,
    "sdk": sdk,
    "fastmcp": fastmcp,
}


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("--tools", type=int, default=1, help="how many tools each group has")
    parser.add_argument("--store", help="the URL of the Redis that has the sessions")
    parser.add_argument("--idle", type=float, default=600.0, help="the seconds after which an unused session ends")
    options = parser.parse_args()
    app = FRAMEWORKS[options.framework](options.tools, options.store, options.idle)
    logging.disable()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none")).run(sockets=[listener])


if __name__ == "__main__":
    main()
