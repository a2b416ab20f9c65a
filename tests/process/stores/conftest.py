"""One Redis server for the tests of a process."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.process.stores.servers import redis_server


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Return the URL of a Redis server."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url
