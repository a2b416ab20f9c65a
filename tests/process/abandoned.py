"""What sessions that clients abandon take of a server's memory, and what is given back: figures for SECURITY.md.

    python -m tests.process.abandoned --sessions 4000

Each is begun over HTTP, in the era that has sessions, and left. Then all are ended, and a quarter as many are begun
again, which shows whether the memory of those that ended is used for others.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import anyio
import httpx2

from tests.benchmarks.processes import resident
from tests.process.serving import serving

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
BEGIN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}


async def abandoned(sessions: int) -> list[tuple[str, int]]:
    """Return the memory of a server, in bytes, after each step."""
    limits = ["--limit", f"sessions={sessions * 2}/{sessions * 2}"]
    command = [sys.executable, "-m", "toolfold_cli", "serve", "toolfold_cli.shop:tools", "--http", "--port", "0"]
    async with serving([*command, *limits], says="/mcp\n") as (process, said), httpx2.AsyncClient(timeout=60) as http:
        url = said.split("serving ")[1].strip()

        async def begin(number: int) -> list[str]:
            answers = [await http.post(url, json=BEGIN, headers=HEADERS) for _ in range(number)]
            return [answer.raise_for_status().headers["mcp-session-id"] for answer in answers]

        await begin(1)
        steps = [("at first", resident(process.pid))]
        begun = await begin(sessions)
        steps.append((f"{sessions:,} sessions abandoned", resident(process.pid)))
        for one in begun:
            await http.delete(url, headers={**HEADERS, "mcp-session-id": one})
        steps.append(("all ended", resident(process.pid)))
        await begin(sessions // 4)
        return [*steps, (f"{sessions // 4:,} begun again", resident(process.pid))]


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.process.abandoned", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--sessions", type=int, default=4_000, help="how many are begun (default: 4000)")
    for step, memory in anyio.run(abandoned, parser.parse_args().sessions):
        print(f"{memory / 1e6:6.0f} MB  {step}")


if __name__ == "__main__":
    main()
