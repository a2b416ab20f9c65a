"""Sessions in a store: a transition with a hook on each engine, many sessions on three replicas, and the round trips.

It needs a redis-server. FastMCP is measured beside with the interpreter that `TESTS_FASTMCP` names, if that has
`py-key-value-aio[redis]`; else it is left out. Its sessions are what a tool reads and writes: they run no hooks, take
no lease, and the last writer wins.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import anyio
import httpx2
from attrs import define, field
from redis.asyncio import Redis

from tests.process.stores.servers import redis_server
from toolfold import ToolSet
from toolfold_adapters.stores import open_store

from .harness import Row
from .peers.http_server import GROUPS
from .peers.servers import Legacy, Server, called, client, interpreter, modern, served
from .processes import processor_seconds

REPLICAS = 3
AT_ONCE = 20
BATCHES = 10
REPEATS = 5

Step = Callable[[], Awaitable[Any]]


def measure(*, quick: bool) -> list[Row]:
    """Return the rows."""
    with TemporaryDirectory() as folder, redis_server(Path(folder)) as redis:
        return anyio.run(_measure, Path(folder), redis, 200 if quick else 2000, 100 if quick else 1000)


async def _measure(folder: Path, redis: str, steps: int, sessions: int) -> list[Row]:
    return [*await _steps(folder, redis, steps), *await _replicas(redis, sessions), *await _round_trips(redis)]


# -- a transition with a hook, in this process -------------------------------------------------------------------------


async def _steps(folder: Path, redis: str, number: int) -> list[Row]:
    engines = {"memory": "memory:", "SQLite": f"sqlite:///{folder / 'state.db'}", "Redis": redis}
    times: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        ways = {"no store": await stack.enter_async_context(_unstored())}
        for engine, url in engines.items():
            ways[engine] = await stack.enter_async_context(_stored(url))
        for index in range(number + 10):
            for engine, step in ways.items():
                start = perf_counter()
                await step()
                if index >= 10:
                    times.setdefault(engine, []).append(perf_counter() - start)
    return [row for engine, found in times.items() for row in _spread(f"a transition with a hook, {engine}", found)]


def _hooked() -> ToolSet:
    tools = ToolSet("stored")
    tools.register_group("g", "A group", on_activate=_hook, on_deactivate=_hook)
    return tools


async def _hook() -> None:
    """What runs in each transition."""


@asynccontextmanager
async def _unstored() -> AsyncGenerator[Step]:
    async with _hooked().open_session() as session:

        async def step() -> None:
            await (session.deactivate("g") if session.active else session.activate("g"))

        yield step


@asynccontextmanager
async def _stored(url: str) -> AsyncGenerator[Step]:
    """Yield what a request with a transition does: it finds the session, and opens or closes the group."""
    tools, store = _hooked(), open_store(url)
    try:
        async with tools.stored_sessions(store) as stored:

            async def step() -> None:
                async with stored.open("one") as session:
                    await (session.deactivate("g") if session.active else session.activate("g"))

            await step()
            yield step
    finally:
        await store.aclose()


# -- many sessions on three replicas ----------------------------------------------------------------------------------


@define
class Flow:
    """What each session of a framework does; every request goes to the next replica.

    Attributes:
        replicas: The servers.
        run: The requests of one session, given how each is made.
        times: The seconds of each kind of request.
        taken: The seconds of all batches.
        spent: The processor time of the replicas.
        errors: What went wrong.
    """

    replicas: Sequence[Server]
    run: Callable[[Flow, httpx2.AsyncClient, int], Awaitable[None]]
    times: dict[str, list[float]] = field(factory=dict)
    taken: float = 0.0
    spent: float = 0.0
    errors: list[str] = field(factory=list)
    _next: int = 0

    def replica(self) -> str:
        """Return the URL for the next request."""
        self._next += 1
        return self.replicas[self._next % len(self.replicas)].url

    async def timed(self, kind: str, request: Awaitable[Any]) -> Any:
        """Return the answer to a request, and record how long it took."""
        start = perf_counter()
        answer = await request
        self.times.setdefault(kind, []).append(perf_counter() - start)
        return answer

    async def batch(self, http: httpx2.AsyncClient, numbers: Sequence[int]) -> None:
        """Run sessions, some at once."""
        spent, start = self._spent(), perf_counter()
        async with anyio.create_task_group() as tasks:
            for first in range(AT_ONCE):
                tasks.start_soon(self._work, http, numbers[first::AT_ONCE])
        self.taken += perf_counter() - start
        self.spent += self._spent() - spent

    def _spent(self) -> float:
        return sum(processor_seconds(server.process) for server in self.replicas)

    async def _work(self, http: httpx2.AsyncClient, numbers: Sequence[int]) -> None:
        for number in numbers:
            try:
                await self.run(self, http, number)
            except (httpx2.HTTPError, AssertionError) as error:
                self.errors.append(repr(error))


async def _toolfold(flow: Flow, http: httpx2.AsyncClient, number: int) -> None:
    """Open a group with a hook, another one under the handle, and call a tool."""
    first, second = GROUPS[number % len(GROUPS)], GROUPS[(number + 1) % len(GROUPS)]
    handle = _handle(await flow.timed("transition", called(http, flow.replica(), "open_group", group=first)))
    await flow.timed("transition", called(http, flow.replica(), "open_group", group=second, handle=handle))
    arguments = {"name": f"{first}__read_0", "arguments": {"path": "x"}, "handle": handle}
    await flow.timed("call", called(http, flow.replica(), "call_tool", **arguments))


async def _toolfold_legacy(flow: Flow, http: httpx2.AsyncClient, number: int) -> None:
    """The same in a session of the legacy era."""
    first, second = GROUPS[number % len(GROUPS)], GROUPS[(number + 1) % len(GROUPS)]
    session = Legacy(http)
    await flow.timed("open", session.start(flow.replica()))
    await flow.timed("transition", session.call(flow.replica(), "open_group", group=first))
    await flow.timed("transition", session.call(flow.replica(), "open_group", group=second))
    await flow.timed("call", session.call(flow.replica(), f"{first}__read_0", path="x"))


async def _fastmcp(flow: Flow, http: httpx2.AsyncClient, number: int) -> None:
    """Create a session, write to its state, and read it."""
    made = await flow.timed("transition", called(http, flow.replica(), "create_session"))
    session = made["content"][0]["text"]
    await flow.timed("transition", called(http, flow.replica(), "set_group", group=f"g{number}", session_id=session))
    answer = await flow.timed("call", called(http, flow.replica(), "get_group", path="x", session_id=session))
    assert answer["content"][0]["text"] == f"g{number} x", answer


def _handle(answer: Mapping[str, Any]) -> str:
    handle: str = answer["_meta"]["dev.toolfold/handle"]
    return handle


async def _replicas(redis: str, sessions: int) -> list[Row]:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(client())
        ours = [await stack.enter_async_context(served("hooked", "--store", redis)) for _ in range(REPLICAS)]
        flows = {"Toolfold": Flow(ours, _toolfold), "Toolfold, legacy era": Flow(ours, _toolfold_legacy)}
        if interpreter("fastmcp"):
            theirs = [await stack.enter_async_context(served("fastmcp", "--store", redis)) for _ in range(REPLICAS)]
            flows["FastMCP"] = Flow(theirs, _fastmcp)
        for flow in flows.values():
            await flow.batch(http, range(len(GROUPS)))  # every group once, on each replica
            flow.times.clear()
            flow.taken = flow.spent = 0.0
        for batch in range(BATCHES):
            for flow in flows.values():
                await flow.batch(http, range(batch, sessions, BATCHES))
    rows: list[Row] = []
    for framework, flow in flows.items():
        what = f"{REPLICAS} replicas, {framework}"
        requests = sum(map(len, flow.times.values()))
        note = flow.errors[0] if flow.errors else f"{AT_ONCE} at once"
        rows.append(Row(what=f"{what}: errors", value=len(flow.errors), unit="errors", target=0, note=note))
        rows.append(Row(what=f"{what}: sessions", value=sessions, unit="sessions"))
        rows.append(Row(what=f"{what}: throughput", value=requests / flow.taken, unit="requests/s"))
        rows.append(Row(what=f"{what}: processor time of a request", value=flow.spent / requests, unit="ms"))
        for kind, found in flow.times.items():
            rows += _spread(f"{what}: a {kind}", found)
    return rows


def _spread(what: str, times: Sequence[float]) -> list[Row]:
    """Return the median, and what one in a hundred exceeds."""
    return [
        Row(what=f"{what}: p50", value=statistics.median(times), unit="ms"),
        Row(what=f"{what}: p99", value=statistics.quantiles(times, n=100)[98], unit="ms"),
    ]


# -- round trips ------------------------------------------------------------------------------------------------------


async def _round_trips(redis: str) -> list[Row]:
    """Return how many commands a server sends to Redis for each kind of request."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(client())
        observer: Any = await stack.enter_async_context(Redis.from_url(redis, decode_responses=True))
        plain = await stack.enter_async_context(served("toolfold", "--store", redis))
        hooked = await stack.enter_async_context(served("hooked", "--store", redis))
        requests = {**await _signed(http, plain.url), **await _stored_requests(http, hooked.url)}
        if interpreter("fastmcp"):
            theirs = await stack.enter_async_context(served("fastmcp", "--store", redis))
            requests.update(await _requests_of_fastmcp(http, theirs.url))
        return [
            Row(what=f"round trips: {what}", value=await _commands(observer, request), unit="", target=limit)
            for what, (limit, request) in requests.items()
        ]


Request = tuple[float | None, Step]


async def _signed(http: httpx2.AsyncClient, url: str) -> dict[str, Request]:
    """Return requests to a server without hooks, whose handles are the state."""
    handle = _handle(await called(http, url, "open_group", group="g0"))
    return {
        "a list without a handle": (0, lambda: modern(http, url, "tools/list")),
        "a list under a signed handle": (0, _listed(http, url, handle)),
        "a call under a signed handle": (0, _through(http, url, handle)),
    }


async def _stored_requests(http: httpx2.AsyncClient, url: str) -> dict[str, Request]:
    """Return requests to a server with hooks, each with its limit unless it makes a transition."""
    handle = _handle(await called(http, url, "open_group", group="g0"))
    legacy = Legacy(http)
    await legacy.start(url)
    await legacy.call(url, "open_group", group="g0")
    groups = iter(GROUPS[1:])
    return {
        "a list under a stored handle": (1, _listed(http, url, handle)),
        "a call under a stored handle": (1, _through(http, url, handle)),
        "a list of a legacy session": (1, lambda: legacy.request(url, "tools/list")),
        "a call of a legacy session": (1, lambda: legacy.call(url, "g0__read_0", path="x")),
        "a transition with a hook": (None, lambda: called(http, url, "open_group", group=next(groups), handle=handle)),
    }


def _listed(http: httpx2.AsyncClient, url: str, handle: str) -> Step:
    return lambda: modern(http, url, "tools/list", {"_meta": {"dev.toolfold/handle": handle}})


def _through(http: httpx2.AsyncClient, url: str, handle: str) -> Step:
    arguments = {"name": "g0__read_0", "arguments": {"path": "x"}, "handle": handle}
    return lambda: called(http, url, "call_tool", **arguments)


async def _requests_of_fastmcp(http: httpx2.AsyncClient, url: str) -> dict[str, Request]:
    made = await called(http, url, "create_session")
    session = made["content"][0]["text"]
    await called(http, url, "set_group", group="g0", session_id=session)
    legacy = Legacy(http)
    await legacy.start(url)
    await legacy.call(url, "open_group", group="g0")
    return {
        "a list of FastMCP's legacy session": (None, lambda: legacy.request(url, "tools/list")),
        "a call of FastMCP's legacy session": (None, lambda: legacy.call(url, "g0__read_0", path="x")),
        "a call that reads FastMCP's session state": (
            None,
            lambda: called(http, url, "get_group", path="x", session_id=session),
        ),
        "a call that writes FastMCP's session state": (
            None,
            lambda: called(http, url, "set_group", group="g1", session_id=session),
        ),
    }


async def _commands(observer: Any, request: Step) -> float:
    """Return the median of how many commands Redis got while a request was answered; those of scripts don't count."""
    counts: list[int] = []
    async with observer.monitor() as monitor:
        for _ in range(REPEATS):
            await request()
            await observer.echo("done")
            count = 0
            while "ECHO done" not in (seen := await monitor.next_command())["command"]:
                count += seen["client_type"] != "lua"
            counts.append(count)
    return statistics.median(counts)
