"""Replicas that share a store and are killed: `python replicas.py` starts and ends them, a line of JSON for each.

`{"start": …}` has the arguments of `run`, and is answered by the process: a fork, so that nothing is imported twice.
`{"end": process, "signal": number}` is answered by its status.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import traceback
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import anyio
from attrs import frozen

from tests.simulation.desk import make_tools
from toolfold_adapters.mcp import Limit, Limits, serve
from toolfold_adapters.mcp.http.auth import Authentication, digest_of
from toolfold_adapters.stores import open_store
from toolfold_adapters.stores import redis as redis  # so that forks find it imported

CALLERS = tuple(f"caller{number}" for number in range(1000))
LIFETIME = 20.0
"""Seconds after its last use at which a handle's session ends."""


@frozen
class World:
    """What hooks have done outside of their processes: a file of lines for each session."""

    folder: Path

    def note(self, session: str, fence: int | None, line: str) -> None:
        """Add a line, in one write."""
        file = os.open(self.path(session), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def path(self, session: str) -> Path:
        """Return the file of a session."""
        return self.folder / sha256(session.encode()).hexdigest()[:16]

    def lines(self, session: str) -> list[str]:
        """Return the lines of a session so far."""
        path = self.path(session)
        return path.read_text().splitlines() if path.exists() else []


async def run(port: int, store: str, folder: str, lease: float, principals: bool) -> None:
    """Serve until killed; see `fleet.Options`."""
    opened: Any = open_store(store)
    opened.lease = lease
    await serve(
        make_tools(World(Path(folder)).note, str(os.getpid()), Random()),
        transport="http",
        port=port,
        separator=".",
        store=opened,
        delivery="principal" if principals else "auto",
        handle_lifetime=LIFETIME,
        limits=Limits(connections=Limit(10_000)),
        auth=Authentication.by_tokens({name: digest_of(name) for name in CALLERS}),
    )


def start(options: dict[str, Any]) -> int:
    """Start a replica, and return its process."""
    child = os.fork()
    if child:
        return child
    try:
        os.close(sys.stdin.fileno())
        logging.basicConfig(level=logging.WARNING, format="%(process)d %(levelname)s %(name)s: %(message)s")
        anyio.run(partial(run, **options))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def end(process: int, number: int) -> int:
    """Send a signal to a replica, and return how it ended."""
    os.kill(process, number)
    return os.waitpid(process, 0)[1]


def main() -> None:
    """Start and end replicas as asked; none outlives the standard input."""
    processes: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "start" in asked:
            processes.add(answer := start(asked["start"]))
        else:
            processes.remove(asked["end"])
            answer = end(asked["end"], asked["signal"])
        print(answer, flush=True)
    for process in processes:
        end(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
