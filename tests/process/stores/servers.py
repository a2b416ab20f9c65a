"""A Redis server of the tests' own, on a free port of loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import ConstantBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError
from redis.exceptions import ConnectionError as ConnectionFailed
from redis.retry import Retry

from tests.process.ports import free_port

DATABASES = 100
"""How many databases a server has."""


class RedisServer:
    """A Redis server that has its data in a folder, and can be killed and started again; a context manager.

    Args:
        folder: Where its data is.
        options: Further options of `redis-server`.
        port: Its port; a free one unless given.
    """

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        given = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes"]
        self._command = ["redis-server", *given, "--databases", str(DATABASES), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and return once it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        retry = Retry(ConstantBackoff(0.05), 200)
        errors: list[Any] = [ConnectionFailed, BusyLoadingError]
        with Redis(port=self.port, retry=retry, retry_on_error=errors) as client, suppress(AuthenticationError):
            client.ping()

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def redis_server(folder: Path, port: int | None = None) -> Generator[str]:
    """Run a server that keeps its data in a folder, and yield its URL once it answers."""
    with RedisServer(folder, port=port) as redis:
        yield redis.url


async def flushed(url: str) -> None:
    """Delete all that a database of a server has."""
    async with AsyncRedis.from_url(url) as client:
        await client.flushdb()
