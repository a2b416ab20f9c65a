"""How a test starts a server as a process of its own, and knows that it serves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.abc import Process

SECONDS = 180
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
"""An environment in which other processes find what this one finds."""


@asynccontextmanager
async def serving(
    command: Sequence[str], says: str = "\n", environment: Mapping[str, str] = ENVIRONMENT
) -> AsyncGenerator[tuple[Process, str]]:
    """Run a server, and yield it with what it has printed once that contains `says`; it is killed at the end."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    async with await anyio.open_process(command, env=environment, **streams) as process:
        assert process.stdout is not None
        try:
            said = b""
            with anyio.fail_after(SECONDS):
                while says.encode() not in said:
                    said += await process.stdout.receive()
            yield process, said.decode()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
