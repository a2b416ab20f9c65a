"""`toolfold serve --store`: processes that share a store, one of which is killed (SPEC STO-4)."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, received, through
from tests.cli.support import invoke
from tests.preloaded import forked_toolfold
from tests.process.ports import free_port
from tests.process.stores.servers import flushed

DESK = f"{Path(make_desk.__code__.co_filename)}:make_desk"

pytestmark = pytest.mark.spec("STO-1", "STO-4")


@asynccontextmanager
async def serving(store: str) -> AsyncGenerator[tuple[Process, str]]:
    """Serve a desk from a process of its own, and yield that and its URL."""
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "TOOLFOLD_STORE": store}
    command = [*forked_toolfold(), "serve", DESK, "--http", "--port", "0", "--separator", "."]
    async with await anyio.open_process(command, env=environment, stdout=None) as process:
        assert process.stderr is not None
        try:
            with anyio.fail_after(3 * PATIENCE):
                line = await BufferedByteReceiveStream(process.stderr).receive_until(b"/mcp\n", 10_000)
            yield process, line.decode().split()[-1] + "/mcp"
        finally:
            if process.returncode is None:
                process.terminate()


class Moving(httpx2.AsyncHTTPTransport):
    """Sends each request to the port that is set when it comes."""

    port: int | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(port=self.port)
        request.headers["host"] = f"{request.url.host}:{self.port}"
        return await super().handle_async_request(request)


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
async def test_clients_of_both_eras_go_on_when_a_server_is_killed(engine: str, tmp_path: Path, redis_url: str) -> None:
    await flushed(redis_url)
    store = redis_url if engine == "redis" else f"sqlite:///{tmp_path / 'state.db'}"
    async with serving(store) as (process, first), serving(store) as (_, second):
        transport = Moving()
        transport.port = httpx2.URL(first).port
        async with (
            httpx2.AsyncClient(transport=transport, timeout=PATIENCE) as http,
            Client(streamable_http_client(first, http_client=http), mode="legacy") as legacy,
        ):
            async with Client(first, mode=MODERN) as modern:
                handle = await opened(modern, "database")
            await legacy.call_tool("database.activate", {})
            process.kill()
            await process.wait()
            transport.port = httpx2.URL(second).port
            assert "database.query" in await names_of(legacy)
            assert received(await legacy.call_tool("database.query", {"sql": "x"})) == {"ran": "x"}
            async with Client(second, mode=MODERN) as modern:
                assert received(await through(modern, "database.query", {"sql": "x"}, handle)) == {"ran": "x"}


@pytest.mark.spec("STO-5")
@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("postgres://u:secret@h/d", "postgres://… is no store; use sqlite:///state.db"),
        ("sqlite:///{folder}/text.db", "can't be used as a store: file is not a database. Choose another file"),
        ("sqlite:///{folder}/other.db", "is no store of Toolfold; choose another file"),
        ("sqlite:///{folder}/none/state.db", "can't be created: No such file or directory. Choose another file"),
        ("redis://127.0.0.1:{port}/0", "The store of this server's sessions does not answer"),
        (
            "redis://nobody:wrong@{redis}",
            "The Redis store refuses the user or password of this server, so nothing was changed",
        ),
    ],
)
def test_a_store_that_is_none_is_refused_in_a_sentence(
    store: str, message: str, tmp_path: Path, redis_url: str
) -> None:
    (tmp_path / "text.db").write_text("no database, and long enough to be read as one by its header" * 50)
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE other (x)")
    db.close()
    url = store.format(folder=tmp_path, port=free_port(), redis=redis_url.removeprefix("redis://"))
    result = invoke("serve", DESK, "--http", "--port", "0", "--store", url)
    assert result.exit_code in (1, 2)
    assert message in re.sub(r"\s+", " ", result.stderr.replace("│", " "))
    assert "secret" not in result.stderr
