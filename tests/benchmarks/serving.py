"""Calls through `call_tool` against direct ones, and what many sessions over streamable HTTP take and give back."""

import json
from functools import partial
from time import perf_counter
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
from mcp import Client

from toolfold import ToolSet
from toolfold_adapters.mcp import build_server

from .harness import SCHEMA, Row, echo, turn_by_turn
from .peers.http_server import GROUPS
from .peers.servers import DEADLINE, Legacy, Server, client, served
from .processes import resident

ERAS: tuple[Literal["legacy", "auto"], ...] = ("legacy", "auto")
ARGUMENTS = {"path": "here"}
AT_ONCE = 20
IDLE_SECONDS = 2.0


def measure(*, quick: bool) -> list[Row]:
    """Return the rows of calls, of open sessions, and of abandoned ones."""
    return anyio.run(_measure, 300 if quick else 1000, 100 if quick else 1000)


async def _measure(samples: int, sessions: int) -> list[Row]:
    return [*await _calls(samples), *await _open(sessions), *await _abandoned(sessions)]


def _tools() -> ToolSet:
    """Return one tool at the root, and one in a group."""
    tools = ToolSet("serving")
    tools.register("echo", echo, input_schema=SCHEMA)
    tools.register_group("g0", "A group")
    tools.register("echo", echo, group="g0", input_schema=SCHEMA)
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
    opened = await client.call_tool("g0__open", {})
    handle = (opened.meta or {}).get("dev.toolfold/handle")
    under: dict[str, Any] = {"arguments": ARGUMENTS} if handle is None else {"arguments": ARGUMENTS, "handle": handle}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("echo", ARGUMENTS),
        ("call_tool", {"name": "echo", **under}),
        ("call_tool", {"name": "g0__echo", **under}),
    ]
    expected = [types.TextContent(text=json.dumps(ARGUMENTS))]

    async def call(name: str, arguments: dict[str, Any]) -> None:
        result = await client.call_tool(name, arguments)
        assert result.content == expected, result

    direct, root, grouped = await turn_by_turn([partial(call, *one) for one in calls], samples=samples)
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
    """Open as many sessions here and on a server of the bare SDK, and see how either grows."""
    ours, errors, took = await _growth("toolfold", sessions)
    bare, bare_errors, bare_took = await _growth("sdk", sessions)
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


async def _growth(framework: str, sessions: int) -> tuple[float, list[str], float]:
    """Return how many bytes the server has grown by for each session, what went wrong, and the seconds it took."""
    async with client() as http, served(framework) as server:
        errors = await _sessions(http, server, framework, len(GROUPS))  # the catalog caches each group
        before = await _state(http, server)
        start = perf_counter()
        errors += await _sessions(http, server, framework, sessions)
        took = perf_counter() - start
        after = await _state(http, server)
    opened = after["sessions"] - before["sessions"]
    if opened != sessions:
        errors.append(f"{opened} sessions are open")
    return (after["resident"] - before["resident"]) / sessions, errors, took


async def _abandoned(sessions: int) -> list[Row]:
    """Open sessions and leave them, then a quarter as many: what the first ones leave behind, these can use again."""
    more = sessions // 4
    async with client() as http, served("toolfold", "--idle", str(IDLE_SECONDS)) as server:
        errors = await _sessions(http, server, "toolfold", len(GROUPS))
        sizes = [(await _emptied(http, server))["resident"]]
        left = 0
        for number in (sessions, more):
            errors += await _sessions(http, server, "toolfold", number)
            state = await _emptied(http, server)
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


async def _emptied(http: httpx2.AsyncClient, server: Server) -> dict[str, int]:
    """Return the state of the server once no session is left, or when the time is up."""
    deadline = perf_counter() + DEADLINE
    while True:
        state = await _state(http, server)
        if not (state["sessions"] or state["transports"]) or perf_counter() > deadline:
            return state
        await anyio.sleep(0.2)


async def _state(http: httpx2.AsyncClient, server: Server) -> dict[str, int]:
    state: dict[str, int] = (await http.get(f"{server.url}/state")).raise_for_status().json()
    return {**state, "resident": resident(server.process)}


async def _sessions(http: httpx2.AsyncClient, server: Server, framework: str, number: int) -> list[str]:
    """Open sessions, 20 at a time, without ending them, and call one tool in each; return what went wrong."""
    errors: list[str] = []

    async def work(first: int) -> None:
        for index in range(first, number, AT_ONCE):
            group, session = GROUPS[index % len(GROUPS)], Legacy(http)
            try:
                await session.start(server.url)
                if framework == "toolfold":
                    await session.call(server.url, "open_group", group=group)
                else:
                    await session.call(server.url, f"{group}__read_0", **ARGUMENTS)
            except (httpx2.HTTPError, AssertionError) as error:
                errors.append(repr(error))

    async with anyio.create_task_group() as tasks:
        for first in range(AT_ONCE):
            tasks.start_soon(work, first)
    return errors
