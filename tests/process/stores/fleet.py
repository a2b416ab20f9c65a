"""Replicas in processes of their own, for a test that kills them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import to_thread
from attrs import define, field, frozen

from tests.preloaded import forked
from tests.process.ports import free_port
from tests.process.stores import replicas

SIZE = 3
LEASE = 1.5


@frozen(kw_only=True)
class Options:
    """What all replicas are given.

    Attributes:
        store: The URL of their store.
        folder: Where their hooks write.
        principals: Whether each caller has a session of its own in the modern era.
    """

    store: str
    folder: Path
    principals: bool = False


@define
class Fleet:
    """Some replicas, each at a port of its own."""

    options: Options
    ports: list[int] = field(factory=lambda: [free_port() for _ in range(SIZE)])
    _processes: list[int] = field(factory=lambda: [0] * SIZE)
    _starter: subprocess.Popen[str] | None = None

    @asynccontextmanager
    async def running(self, log: Path) -> AsyncGenerator[None]:
        """Run them; what they log is written to a file."""
        path = ":".join(part for part in sys.path if part)
        command, env = forked(replicas.__file__), {"PYTHONPATH": path}
        pipe = subprocess.PIPE
        with (
            log.open("w") as stderr,
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, env=env) as self._starter,  # noqa: ASYNC220
        ):
            try:
                for index in range(SIZE):
                    await self.start(index)
                yield
            finally:
                assert self._starter.stdin is not None
                self._starter.stdin.close()

    async def start(self, index: int) -> None:
        """Start a replica."""
        given = {
            "port": self.ports[index],
            "store": self.options.store,
            "folder": str(self.options.folder),
            "lease": LEASE,
            "principals": self.options.principals,
        }
        self._processes[index] = await self._ask({"start": given})

    async def end(self, index: int, number: int = signal.SIGKILL) -> int:
        """Send a signal to a replica, and return how it ended."""
        return await self._ask({"end": self._processes[index], "signal": number})

    async def _ask(self, asked: dict[str, Any]) -> int:
        assert self._starter is not None
        assert self._starter.stdout is not None
        print(json.dumps(asked), file=self._starter.stdin, flush=True)
        return int(await to_thread.run_sync(self._starter.stdout.readline))
