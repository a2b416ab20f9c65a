"""Calls through `call_tool` against direct ones, and what many sessions over streamable HTTP take and give back."""

import gc
import json
import socket
import statistics
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
import uvicorn
from mcp import Client
from mcp.server import Server
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolfold import ToolSet
from toolfold_adapters.mcp import build_server

from .harness import SCHEMA, Row, echo

ERAS: tuple[Literal["legacy", "auto"], ...] = ("legacy", "auto")
ARGUMENTS = {"path": "here"}
GROUPS = 50
AT_ONCE = 20
TIMEOUT_SECONDS = 600.0
IDLE_SECONDS = 2.0
DEADLINE = 20.0
VERSION = "2025-11-25"
HEADERS = {"accept": "application/json, text/event-stream"}
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}

Which = Literal["toolfold", "bare"]


def measure(*, quick: bool) -> list[Row]:
    """Return the rows of calls, of open sessions, and of abandoned ones."""
    return anyio.run(_measure, 300 if quick else 1000, 100 if quick else 1000)


async def _measure(samples: int, sessions: int) -> list[Row]:
    return [*await _calls(samples), *await _open(sessions), *await _abandoned(sessions)]


def _tools() -> ToolSet:
    """Return one tool at the root, and 50 groups side by side with a tool each."""
    tools = ToolSet("serving")
    tools.register("echo", echo, input_schema=SCHEMA)
    for number in range(GROUPS):
        tools.register_group(f"g{number}", "A group")
        tools.register("echo", echo, group=f"g{number}", input_schema=SCHEMA)
    return tools


# -- calls through `call_tool` ----------------------------------------------------------------------------------------


async def _calls(samples: int) -> list[Row]:
    rows = []
    for era in ERAS:
        async with Client(build_server(_tools()), mode=era, cache=None) as client:
            rows += await _compare(client, samples)
    return rows


async def _compare(client: Client, samples: int) -> list[Row]:
    """Call the root tool directly and through, and a group's tool through, alternately."""
    await client.list_tools()  # a client lists automatically before it calls a tool that it has not listed
    opened = await client.call_tool("g0__activate", {})
    handle = (opened.meta or {}).get("dev.toolfold/handle")
    under: dict[str, Any] = {"arguments": ARGUMENTS} if handle is None else {"arguments": ARGUMENTS, "handle": handle}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("echo", ARGUMENTS),
        ("call_tool", {"name": "echo", **under}),
        ("call_tool", {"name": "g0__echo", **under}),
    ]
    expected = [types.TextContent(text=json.dumps(ARGUMENTS))]
    times: list[list[float]] = [[] for _ in calls]
    for number in range(samples):
        for offset in range(len(calls)):
            which = (number + offset) % len(calls)
            name, arguments = calls[which]
            start = perf_counter()
            result = await client.call_tool(name, arguments)
            times[which].append(perf_counter() - start)
            assert result.content == expected, result
    direct, root, grouped = map(statistics.median, times)
    how = f"{client.protocol_version}, {'no handle' if handle is None else 'under a handle'}"
    return [
        Row(
            what=f"call_tool of a {whose} tool against a direct call",
            value=through / direct,
            unit="×",
            target=1.3,
            note=f"{how}: {through * 1e6:,.0f} µs against {direct * 1e6:,.0f} µs",
        )
        for whose, through in (("root", root), ("group's", grouped))
    ]


# -- sessions over HTTP -----------------------------------------------------------------------------------------------


async def _open(sessions: int) -> list[Row]:
    """Open as many sessions here and on a bare server, and see how either grows."""
    ours, errors, took = await _growth("toolfold", sessions)
    bare, bare_errors, bare_took = await _growth("bare", sessions)
    assert not bare_errors, bare_errors[0]
    return [
        Row(
            what=f"{sessions:,} sessions open at once over HTTP",
            value=len(errors),
            unit="errors",
            target=0,
            note=errors[0] if errors else f"in {took:.1f} s against {bare_took:.1f} s, each with a group of its own",
        ),
        Row(
            what="resident set per open session against the bare SDK",
            value=ours / bare,
            unit="×",
            target=1.2,
            note=f"{ours:,.0f} against {bare:,.0f} bytes",
        ),
    ]


async def _growth(which: Which, sessions: int) -> tuple[float, list[str], float]:
    """Return how many bytes the server has grown by for each session, what went wrong, and the seconds it took."""
    async with _server(which, TIMEOUT_SECONDS) as url:
        errors = await _sessions(url, which, GROUPS)  # every group once, since the catalog caches each
        before = await _state(url)
        start = perf_counter()
        errors += await _sessions(url, which, sessions)
        took = perf_counter() - start
        after = await _state(url)
        opened = after["sessions"] - before["sessions"]
        if opened != sessions:
            errors.append(f"{opened} sessions are open")
        return (after["resident"] - before["resident"]) / sessions, errors, took


async def _abandoned(sessions: int) -> list[Row]:
    """Open sessions and leave them, then a quarter as many: what the first ones leave behind, these can use again."""
    more = sessions // 4
    async with _server("toolfold", IDLE_SECONDS) as url:
        errors = await _sessions(url, "toolfold", GROUPS)
        sizes = [(await _emptied(url))["resident"]]
        left = 0
        for number in (sessions, more):
            errors += await _sessions(url, "toolfold", number)
            state = await _emptied(url)
            left += state["sessions"] + state["transports"]
            sizes.append(state["resident"])
    assert not errors, errors[0]
    before, first, second = sizes
    return [
        Row(
            what=f"left of {sessions + more:,} abandoned sessions",
            value=left,
            unit="sessions",
            target=0,
            note=f"each ends after {IDLE_SECONDS:g} s without a request",
        ),
        Row(
            what=f"growth of the resident set by {sessions:,} abandoned sessions",
            value=first - before,
            unit="bytes",
            note=f"from {before / 1e6:.1f} MB before to {first / 1e6:.1f} MB after",
        ),
        Row(
            what=f"growth of the resident set by {more:,} more",
            value=second - first,
            unit="bytes",
            note=f"to {second / 1e6:.1f} MB",
        ),
    ]


async def _emptied(url: str) -> dict[str, int]:
    """Return the state of the server once no session is left, or when the time is up."""
    deadline = perf_counter() + DEADLINE
    while True:
        state = await _state(url)
        if not (state["sessions"] or state["transports"]) or perf_counter() > deadline:
            return state
        await anyio.sleep(0.2)


async def _state(url: str) -> dict[str, int]:
    async with httpx2.AsyncClient() as http:
        state: dict[str, int] = (await http.get(f"{url}/state", timeout=DEADLINE)).raise_for_status().json()
    return state


async def _sessions(url: str, which: Which, number: int) -> list[str]:
    """Open sessions, 20 at a time, without ending them; return what went wrong."""
    errors: list[str] = []

    async def work(first: int) -> None:
        for index in range(first, number, AT_ONCE):
            tool = f"g{index % GROUPS}__activate" if which == "toolfold" else "echo"
            arguments = {} if which == "toolfold" else ARGUMENTS
            try:
                await _session(http, f"{url}/mcp", tool, arguments)
            except (httpx2.HTTPError, AssertionError) as error:
                errors.append(repr(error))

    async with httpx2.AsyncClient(headers=HEADERS, timeout=DEADLINE) as http, anyio.create_task_group() as tasks:
        for first in range(AT_ONCE):
            tasks.start_soon(work, first)
    return errors


async def _session(http: httpx2.AsyncClient, url: str, tool: str, arguments: dict[str, Any]) -> None:
    """Open a session as a legacy client does, and call one tool."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    answer = await http.post(url, json=hello)
    _check(answer)
    headers = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": VERSION}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    (await http.post(url, json=ready, headers=headers)).raise_for_status()
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    _check(await http.post(url, json=call, headers=headers))


def _check(answer: httpx2.Response) -> None:
    """Raise unless the last message of a stream is a result, and not of a call that failed."""
    data = [line for line in answer.raise_for_status().text.splitlines() if line.startswith("data: {")]
    message = json.loads(data[-1].removeprefix("data: ")) if data else {}
    assert "result" in message, answer.text
    assert not message["result"].get("isError"), answer.text


# -- the server, in a process of its own ------------------------------------------------------------------------------


@asynccontextmanager
async def _server(which: Which, idle_seconds: float) -> AsyncGenerator[str]:
    """Run a server in a process of its own, and yield its URL."""
    command = [sys.executable, "-m", "tests.benchmarks.serving", which, str(idle_seconds)]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(DEADLINE):
                port = int(await process.stdout.receive())
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()  # in good order it would end a thousand sessions first


async def _call(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    """What the one tool of the bare server does: the same as the other's at the root."""
    return types.CallToolResult(content=[types.TextContent(text=await echo(params.arguments or {}))])


def _run(which: Which, idle_seconds: float) -> None:
    """Serve until the process is killed; `/state` reports what is open and the size of the process."""
    tools = _tools() if which == "toolfold" else None
    server: Server[Any] = Server("bare", on_call_tool=_call) if tools is None else build_server(tools)
    app = server.streamable_http_app(session_idle_timeout=idle_seconds)

    async def state(_: Request) -> JSONResponse:
        gc.collect()
        transports = len(server.session_manager._server_instances)
        sessions = transports if tools is None else len(tools.sessions)
        return JSONResponse({"sessions": sessions, "transports": transports, "resident": _resident_bytes()})

    app.router.routes.append(Route("/state", state))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none")).run(sockets=[listener])


def _resident_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) * 1024


if __name__ == "__main__":
    _run("toolfold" if sys.argv[1] == "toolfold" else "bare", float(sys.argv[2]))
