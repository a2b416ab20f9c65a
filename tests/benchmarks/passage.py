"""How many files a request passes through, and how often it goes from one to another, counted by a profiler.

`python -m tests.benchmarks.passage [FOLDER]` counts in the checkout, or in the packages under another one.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import anyio

PACKAGES = ("/toolfold/", "/toolfold_adapters/")


class Passage:
    """The files of the project that run, in order; generated code such as that of attrs is not counted."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def note(self, frame: FrameType | None, event: str, _: Any) -> None:
        """Record a call, or a return to the caller."""
        if event == "return" and frame is not None:
            frame = frame.f_back
        elif event != "call":
            return
        if frame is None:
            return
        name = frame.f_code.co_filename
        if any(package in name for package in PACKAGES) and (not self.files or self.files[-1] != name):
            self.files.append(name)

    async def of(self, request: Callable[[], Awaitable[Any]]) -> str:
        """Return the counts of a request, after one that fills the caches."""
        await anyio.wait_all_tasks_blocked()  # what other requests have begun is not this one's
        sys.setprofile(self.note)
        try:
            await request()
        finally:
            sys.setprofile(None)
        names = [Path(name).stem for name in dict.fromkeys(self.files)]
        return f"{len(names)} files, {len(self.files) - 1} changes: {', '.join(names)}"


async def in_process() -> None:
    """Count a session's requests."""
    from toolfold import ToolSet

    async def hook() -> None:
        pass

    async def answer() -> str:
        return "yes"

    tools = ToolSet("passage")
    tools.register_group("plain")
    tools.register_group("hooked", on_activate=hook, on_deactivate=hook)
    tools.register("ping", answer)
    tools.register("inside", answer, group="hooked")
    async with tools.open_session() as session:

        async def listed() -> Any:
            return session.list_tools()

        for _ in range(2):
            await session.activate("hooked")
            await session.call("ping")
            session.list_tools()
            await session.deactivate("hooked")
        print("activation with one hook:", await Passage().of(lambda: session.activate("hooked")))
        print("activation without hooks:", await Passage().of(lambda: session.activate("plain")))
        print("call:", await Passage().of(lambda: session.call("ping")))
        print("list:", await Passage().of(listed))


async def over_mcp() -> None:
    """Count a client's requests over MCP, in both eras, in one event loop."""
    from mcp import Client

    from toolfold import ToolSet
    from toolfold_adapters.mcp import build_server

    async def hook() -> None:
        pass

    tools = ToolSet("passage")
    tools.register_group("hooked", on_activate=hook, on_deactivate=hook)
    tools.register("ping", hook)
    for mode in ("legacy", "auto"):
        async with Client(build_server(tools), mode=mode) as client:
            requests: dict[str, Callable[[], Awaitable[Any]]] = {
                "activation": partial(client.call_tool, "hooked__open", {}),
                "call": partial(client.call_tool, "ping", {}),
                "list": partial(client.list_tools, cache_mode="bypass"),
            }
            for what, request in requests.items():
                await request()
                if mode == "legacy":
                    await client.call_tool("hooked__close", {})
                print(f"{what} over MCP, {mode}:", await Passage().of(request))


async def through_a_gateway() -> None:
    """Count a call of an upstream's tool, in a session of the gateway and of a client over MCP, in one event loop."""
    from mcp import Client

    from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
    from toolfold_adapters.mcp import build_server

    config = GatewayConfig().with_upstream(UpstreamConfig(command=("upstream",)))
    gateway = open_gateway(config, runtime=Runtime(clock=perf_counter, transport=upstream))
    async with gateway as tools, tools.open_session() as session:
        await session.call("ping")
        print("gateway call:", await Passage().of(lambda: session.call("ping")))
    for mode in ("legacy", "auto"):
        gateway = open_gateway(config, runtime=Runtime(clock=perf_counter, transport=upstream))
        async with gateway as tools, Client(build_server(tools, extend=gateway.extend), mode=mode) as client:
            await client.call_tool("ping", {})
            count = await Passage().of(lambda client=client: client.call_tool("ping", {}))  # type: ignore[misc]
            print(f"gateway call over MCP, {mode}:", count)


@asynccontextmanager
async def upstream(config: Any, name: str) -> AsyncGenerator[tuple[Any, Any]]:
    """Carry messages to a server of the SDK alone, which has one tool."""
    from mcp.server import MCPServer
    from mcp.shared.memory import create_client_server_memory_streams

    server = MCPServer("upstream")
    server.add_tool(lambda: "yes", name="ping", description="Answer")
    low = server._lowlevel_server
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
        tasks.start_soon(low.run, *theirs, low.create_initialization_options())
        yield ours
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(in_process)
    anyio.run(over_mcp)
    anyio.run(through_a_gateway)
