"""The library's own server with the driver protocol over MCP, over stdio or HTTP.

    python -m verification.library.server
    python -m verification.library.server --http 0

`toolfold_adapters.mcp.build_server` builds it for a tool set that each setup replaces.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast
from unittest.mock import patch

import anyio
import anyio.lowlevel

from toolfold import Context, HookContext, ToolError, ToolfoldError, ToolSet, View, Visibility
from toolfold.spi import extras_named
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp import handlers as delivered
from toolfold_adapters.mcp.extensions.tags import Extend
from toolfold_specs.driver import Setup, Tool
from toolfold_specs.drivers.messages import VERSION
from toolfold_specs.drivers.protocol import CLAIMED, TOOL

with extras_named():
    import uvicorn
    from mcp.server import Server
    from mcp.server.stdio import stdio_server

CALL_TOOL = "call_tool"
HOST = "127.0.0.1"
NAME = "fixture"
EXPIRED = 1_000_000.0
"""Seconds after which no handle is valid."""
QUIET_STEPS = 100
"""Steps of the event loop without activity after which everything has ended or is blocked."""


class Replaceable:
    """A proxy for a tool set that can be replaced while it is served."""

    def __init__(self) -> None:
        self.present = ToolSet(NAME)
        self._guards: list[tuple[Callable[[str], None], ...]] = []
        self._observers: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.present, name)

    def guard_names(self, *guards: Callable[[str], None]) -> None:
        """Guard the names of the present tool set and of its replacements."""
        self._guards.append(guards)
        self.present.guard_names(*guards)

    def observe(self, *how: Any) -> Callable[[], None]:
        """Have the events of the present tool set observed, and those of its replacements; see `ToolSet.observe`."""
        self._observers.append(how)
        self.present.observe(*how)
        return lambda: self._observers.remove(how)

    async def replace(self, tools: ToolSet) -> None:
        """Replace the tool set and end its sessions; each client continues with a new one."""
        for guards in self._guards:
            tools.guard_names(*guards)
        for how in self._observers:
            tools.observe(*how)
        for session in self.present.sessions:
            with suppress(ExceptionGroup):  # of hooks that fail as scripted
                await session.close()
        tools.pool = tools.runtime.pool = self.present.pool  # which the server sweeps
        self.present = tools


class Hooks:
    """The scripts of a setup's hooks, and the hooks that have begun."""

    def __init__(self) -> None:
        self.began: list[tuple[str, str]] = []
        self.scripts: dict[tuple[str, str], str] = {}
        self.blocked: dict[tuple[str, str], anyio.Event] = {}
        self._failing: set[tuple[str, str]] = set()

    async def run(self, phase: str, group: str, context: HookContext) -> None:
        """Run a hook as scripted."""
        self.began.append((phase, group))
        match self.scripts.get((phase, group)):
            case "fail":
                raise RuntimeError("fails as scripted")
            case "ask":
                await context.session.activate(context.session.catalog.groups[0].path)
            case "block":
                await self._block((phase, group))
            case _:
                pass

    async def _block(self, hook: tuple[str, str]) -> None:
        self.blocked[hook] = anyio.Event()
        try:
            await self.blocked[hook].wait()
            if hook in self._failing:
                raise RuntimeError("fails as scripted")
        finally:
            del self.blocked[hook]
            self._failing.discard(hook)

    def release(self, hook: tuple[str, str], fail: bool) -> None:
        """Release a blocked hook."""
        if hook not in self.blocked:
            raise ToolError(f"The {hook[0]} hook of {hook[1]} is not blocked.")
        if fail:
            self._failing.add(hook)
        self.blocked[hook].set()

    def release_all(self) -> None:
        """Release every blocked hook and forget the scripts."""
        self.scripts.clear()
        for event in self.blocked.values():
            event.set()


class Clock:
    """The module `time`, by which handles are dated, with a time that can be moved on."""

    shift = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        """Return the present time, or a later one."""
        return time.time() + self.shift


class Fixture:
    """The server, and the kit's tool on it."""

    def __init__(self, call_tool: bool, extend: Extend | None = None) -> None:
        self._legacy_call_tool = call_tool
        self._tools = Replaceable()
        self._hooks = Hooks()
        self._under_way = 0
        self._add_own(self._tools.present)
        self._clock = Clock()
        with patch.object(delivered, "time", self._clock):
            self.server: Server[Any] = build_server(
                cast(ToolSet, self._tools),
                separator=".",
                max_name_length=128,
                call_tool=CALL_TOOL,
                legacy_call_tool=call_tool,
                extend=extend,
            )
        self.server.middleware.append(self._count)

    async def _count(self, ctx: Any, call_next: Any) -> Any:
        """Count the calls under way, other than those of the kit's tool."""
        params: Mapping[str, Any] = ctx.params or {}
        if ctx.method != "tools/call" or params.get("name") == TOOL:
            return await call_next(ctx)
        self._under_way += 1
        try:
            return await call_next(ctx)
        finally:
            self._under_way -= 1

    def _add_own(self, tools: ToolSet) -> None:
        hidden = tools.runtime.page_size is not None  # the kit expects only the setup's tools on a page
        tools.register(
            TOOL, self._respond, description="For the conformance kit.", input_schema=_REQUEST, hidden=hidden
        )

    async def _respond(self, request: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
        arguments: Mapping[str, Any] = request.get("arguments", {})
        match request["verb"]:
            case "hello":
                return self._introduction(context)
            case "configure":
                return await self._configure(arguments)
            case "observe":
                return await self._observe(arguments, context)
            case "set_fact":
                context.set_fact(arguments["fact"], arguments["value"])
                if arguments.get("wait"):
                    await anyio.sleep_forever()
            case "script":
                self._hooks.scripts[arguments["phase"], arguments["group"]] = arguments["outcome"]
            case "expire":
                self._clock.shift += EXPIRED
            case "release":
                self._hooks.release((arguments["phase"], arguments["group"]), arguments["fail"])
            case _:
                return {"error": "NotSupported"}
        return {}

    def _introduction(self, context: Context) -> Mapping[str, Any]:
        modern = context.request is not None and context.request.protocol_version >= "2026"
        named = {"call_tool": CALL_TOOL} if modern or self._legacy_call_tool else {}
        return {"protocol": VERSION, "capabilities": sorted(CLAIMED), **named}

    async def _configure(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        setup = Setup.from_json(arguments["setup"])
        hooks = Hooks()
        try:
            tools = tool_set(setup, hooks)
        except ToolfoldError as error:
            return {"error": type(error).__name__}
        self._add_own(tools)
        self._hooks.release_all()
        await self._tools.replace(tools)
        self._hooks = hooks
        tools.notify_list_changed()
        return {}

    async def _observe(self, arguments: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
        if arguments.get("settled"):
            await self._settled()
        hooks, self._hooks.began = self._hooks.began, []
        blocked = sorted(self._hooks.blocked)
        return {"hooks": hooks, "active": context.session.active, "blocked": blocked, "under_way": self._under_way}

    async def _settled(self) -> None:
        """Return once the event loop has made many steps without activity.

        `anyio.wait_all_tasks_blocked` may never return, because the ticks of an HTTP server can coincide with its own.
        """
        before, quiet = self._activity(), 0
        while quiet < QUIET_STEPS:
            await anyio.lowlevel.checkpoint()
            now = self._activity()
            before, quiet = now, quiet + 1 if now == before else 0

    def _activity(self) -> tuple[object, ...]:
        return self._under_way, len(self._hooks.began), tuple(self._hooks.blocked)


_REQUEST: Mapping[str, Any] = {
    "type": "object",
    "properties": {"verb": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["verb"],
}


def tool_set(setup: Setup, hooks: Hooks) -> ToolSet:
    """Return the tool set of a setup, or raise the error that refuses it."""
    tools = ToolSet(
        setup.name or NAME,
        page_size=setup.page_size,
        max_active=setup.max_active,
        evict="idlest" if setup.evict_idlest else "oldest" if setup.evict_oldest else None,
        control_visibility="relevant" if setup.relevant_controls else "always",
        run_in_thread=False,
    )
    for group in setup.groups:
        tools.register_group(
            group.path,
            group.description,
            show_deactivator=group.deactivator,
            pinned=group.path in setup.pinned,
            **cast("dict[str, Any]", {phase: partial(hooks.run, phase, group.path) for phase in group.hooks}),
        )
    for members in setup.exclusions:
        tools.register_exclusion(*members)
    for tool in setup.tools:
        schema = dict(tool.input_schema or {"type": "object"})
        handler = partial(_handle, tool)
        tools.register(
            tool.name,
            handler,
            input_schema=schema,
            group=tool.group,
            visibility=_rule(tool),
            hidden=tool.hidden,
            replaces_control=True,
        )
    return tools


def _handle(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if tool.does == "refuse":
        raise ToolError("refused on purpose")
    if tool.does == "crash":
        raise RuntimeError("secret")
    return {"tool": tool.full_name, "arguments": dict(arguments)}


def _rule(tool: Tool) -> Visibility | None:
    """Return the visibility rule of a tool, or None for that of its group."""
    if tool.when == "group":
        return None
    if tool.when == "raises":
        return Visibility.when(_raising)
    fact = tool.when.removeprefix("fact ")
    return Visibility.always() if tool.when == "always" else Visibility.when(lambda view: bool(view.facts.get(fact)))


def _raising(view: View) -> bool:
    raise RuntimeError("a rule that raises")


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over stdio."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(server: Server[Any], port: int) -> None:
    """Serve over HTTP on loopback and print the URL; port 0 is any free port."""
    # asyncio sets TCP_NODELAY only on sockets that name their protocol; without it, delayed ACKs hold back responses
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
        print(f"http://{HOST}:{listener.getsockname()[1]}/mcp", flush=True)
        app = server.streamable_http_app(host=HOST)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none")).serve(sockets=[listener])


def main() -> None:
    """Serve over the transport chosen on the command line."""
    parser = argparse.ArgumentParser(prog="python -m verification.library.server", description=__doc__)
    parser.add_argument("--http", type=int, metavar="PORT", help="serve over HTTP; 0 is any free port")
    parser.add_argument("--no-call-tool", action="store_true", help=f"do not offer {CALL_TOOL} to legacy clients")
    options = parser.parse_args()
    server = Fixture(call_tool=not options.no_call_tool).server
    if options.http is None:
        anyio.run(serve_stdio, server)
    else:
        anyio.run(serve_http, server, options.http)


if __name__ == "__main__":
    main()
