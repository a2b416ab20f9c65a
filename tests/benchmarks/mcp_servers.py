"""What a list, a call and a change of groups cost an MCP server over HTTP: Toolfold, FastMCP and the bare SDK.

Each serves 500 tools in 50 groups; the SDK has no groups and lists all. Sessions are of the legacy era, in which
FastMCP's visibility belongs to a session, and the client is the same for all. Time is the server's processor time.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx2
from attrs import define, field

from .harness import Comparison, Row
from .peers.http_server import GROUPS
from .peers.servers import Legacy, Server, client, interpreter, served
from .processes import processor_seconds, resident

FRAMEWORKS = ("toolfold", "fastmcp", "sdk")
TOOLS = 10


def measure(*, quick: bool) -> list[Row]:
    """Return the rows."""
    return compare(quick=quick).rows()


def compare(*, quick: bool) -> Comparison:
    """Return the costs by operation and framework."""
    return anyio.run(_compare, 2 if quick else 5, 50 if quick else 100, 100 if quick else 300)


@define
class Measured:
    """A server, and what was measured of it."""

    framework: str
    server: Server
    http: httpx2.AsyncClient
    seconds: dict[str, list[float]] = field(factory=dict)

    @property
    def has_groups(self) -> bool:
        """Whether its sessions can open groups."""
        return self.framework != "sdk"

    async def session(self) -> Legacy:
        """Open a session, with one group open if there are any."""
        session = Legacy(self.http)
        await session.start(self.server.url)
        if self.has_groups:
            await session.call(self.server.url, "open_group", group="g0")
        return session

    async def spent(self, times: int, request: Callable[[int], Awaitable[object]]) -> float:
        """Return the processor time that the server spends on each of some requests."""
        before = processor_seconds(self.server.process)
        for number in range(times):
            await request(number)
        return (processor_seconds(self.server.process) - before) / times

    async def round(self, times: int) -> None:
        """Measure each operation in a new session."""
        session, url = await self.session(), self.server.url

        async def listed(_: int = 0) -> None:
            page = await session.request(url, "tools/list")
            assert (len(page["tools"]) < 20) == self.has_groups

        async def call(_: int) -> None:
            await session.call(url, "g0__read_0", path="here")

        async def change(number: int) -> None:
            previous, following = GROUPS[number % len(GROUPS)], GROUPS[(number + 1) % len(GROUPS)]
            await session.call(url, "close_group", group=previous)
            await session.call(url, "open_group", group=following)
            await listed()

        def note(operation: str, seconds: float) -> None:
            self.seconds.setdefault(operation, []).append(seconds)

        note("list", await self.spent(times, listed))
        note("call", await self.spent(times, call))
        if self.has_groups:
            note("change", await self.spent(times // 2, change))

    async def growth(self, changes: int, times: int) -> float:
        """Return how a list compares after many changes of groups with one before."""
        session, url = await self.session(), self.server.url

        async def listed(_: int) -> None:
            await session.request(url, "tools/list")

        before = await self.spent(times, listed)
        for _ in range(changes):
            await session.call(url, "close_group", group="g0")
            await session.call(url, "open_group", group="g0")
        return await self.spent(times, listed) / before

    async def memory(self, sessions: int) -> float:
        """Return the bytes by which the process grows for each open session."""
        for _ in range(len(GROUPS)):
            await self.session()
        before = resident(self.server.process)
        for _ in range(sessions):
            await self.session()
        return (resident(self.server.process) - before) / sessions


@asynccontextmanager
async def _measured(framework: str) -> AsyncGenerator[Measured]:
    async with client() as http, served(framework, "--tools", str(TOOLS)) as server:
        yield Measured(framework, server, http)


async def _compare(rounds: int, times: int, many: int) -> Comparison:
    found = Comparison("MCP server")
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(_measured(name)) for name in FRAMEWORKS if interpreter(name)]
        for _ in range(rounds):
            for peer in peers:
                await peer.round(times)
        for peer in peers:
            for operation, seconds in peer.seconds.items():
                found.add(operation, peer.framework, statistics.median(seconds))
            if peer.has_groups:
                found.add("growth", peer.framework, await peer.growth(many, times))
    for peer in peers:
        async with _measured(peer.framework) as fresh:  # what the other measurements left could be used again
            found.add("memory", peer.framework, await fresh.memory(many))
    return found
