"""What a list, a call and a change of groups cost an agent's process: Toolfold, pydantic-ai and AgentScope.

Each has 500 tools in 50 groups, in a process of its own; they take turns. Time is processor time.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from subprocess import PIPE

import anyio
from anyio.abc import ByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import frozen

from .harness import Comparison, Row
from .peers.servers import Program, interpreter

FRAMEWORKS = ("toolfold", "pydantic-ai", "agentscope")


def measure(*, quick: bool) -> list[Row]:
    """Return the rows."""
    return compare(quick=quick).rows()


def compare(*, quick: bool) -> Comparison:
    """Return the costs by operation and framework."""
    return anyio.run(_compare, 3 if quick else 7, 50 if quick else 100, 300 if quick else 600)


@frozen
class Worker:
    """A process that measures one framework."""

    send: ByteSendStream
    receive: BufferedByteReceiveStream

    async def measured(self, operation: str, number: int) -> float:
        """Return what it measures."""
        await self.send.send(f"{operation} {number}\n".encode())
        return float(await self.line())

    async def line(self) -> bytes:
        """Return its next line of output."""
        return await self.receive.receive_until(b"\n", 1000)


@asynccontextmanager
async def _worker(framework: str) -> AsyncGenerator[Worker]:
    program = Program("agents", framework)
    async with await anyio.open_process(
        program.command(), stdin=PIPE, stdout=PIPE, stderr=None, **program.options
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        worker = Worker(process.stdin, BufferedByteReceiveStream(process.stdout))
        assert await worker.line() == b"ready"
        try:
            yield worker
        finally:
            await process.stdin.aclose()


async def _compare(rounds: int, times: int, many: int) -> Comparison:
    found = Comparison("agent")
    async with AsyncExitStack() as stack:
        workers = {name: await stack.enter_async_context(_worker(name)) for name in FRAMEWORKS if interpreter(name)}
        for operation in ("list", "call", "change"):
            seconds: dict[str, list[float]] = {name: [] for name in workers}
            for _ in range(rounds):
                for name, worker in workers.items():
                    seconds[name].append(await worker.measured(operation, times))
            for name in workers:
                found.add(operation, name, statistics.median(seconds[name]))
        for name, worker in workers.items():
            found.add("growth", name, await worker.measured("growth", many))
            found.add("memory", name, await worker.measured("memory", times))
    return found
