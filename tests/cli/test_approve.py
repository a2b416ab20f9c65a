"""`toolfold approve` where a server answers only who has logged in: the rest is approved, and its status says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as t
import pytest
from mcp.server import Server
from mcp.shared.memory import create_client_server_memory_streams

from tests.cli.support import invoke
from toolfold_adapters.gateway.config.read import load_config
from toolfold_adapters.gateway.config.settings import UpstreamConfig
from toolfold_adapters.gateway.stored import Approvals, stored_folder
from toolfold_adapters.gateway.upstream.definitions import Definitions

pytestmark = pytest.mark.spec("GWY-11", "GWY-19")

WHOSE = '["https://login.example", "alice"]'
CONFIG = """
[upstreams.board]
url = "https://board.example/mcp"

[upstreams.files]
url = "https://files.example/mcp"

[profiles.desk]
available = ["board", "files"]
active = ["board"]

[rights."*"]
access = "read"
servers = ["board"]
"""


@asynccontextmanager
async def transport_to(url: str, config: UpstreamConfig, auth: httpx2.Auth) -> AsyncGenerator[tuple[Any, Any]]:
    """Reach a server that lists no tools, unless it wants a login, or there is none."""
    request = httpx2.Request("POST", url)
    if "board" in url:
        flow = auth.async_auth_flow(request)
        await anext(flow)
        await flow.asend(httpx2.Response(401, request=request))
    if "gone" in url:
        raise ConnectionError("there is none")

    async def listed(ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[])

    server = Server[Any]("files", on_list_tools=listed)
    async with create_client_server_memory_streams() as ((read, write), streams), anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, *streams, server.create_initialization_options())
        yield read, write
        tasks.cancel_scope.cancel()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of a server of each caller, and one of all, with what names the first."""
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setattr("toolfold_adapters.gateway.upstream.http.transport_to", transport_to)
    path = tmp_path / "gateway.toml"
    path.write_text(CONFIG)
    return path


def test_a_server_of_each_caller_is_left_out_and_named_and_the_rest_is_approved(file: Path) -> None:
    done = invoke("approve", str(file))
    assert done.exit_code == 0, done.output
    assert "files: 0 changes since it was approved. All is approved." in done.stdout
    assert "board: left out, since it answers nobody who has not logged in." in done.stdout


def test_a_server_that_can_not_be_asked_is_a_failure_and_the_rest_is_approved(file: Path) -> None:
    file.write_text(f'{CONFIG}\n[upstreams.gone]\nurl = "https://gone.example/mcp"\n')
    done = invoke("approve", str(file))
    assert done.exit_code == 1
    assert "files: 0 changes since it was approved. All is approved." in done.stdout
    assert "'gone' could not be asked, so nothing of that is approved." in " ".join(done.stderr.split())


def test_what_waits_of_a_caller_is_approved_although_a_profile_names_his_server(file: Path) -> None:
    approvals = Approvals(stored_folder("approved"))
    entry = load_config(file).entry("board").of(WHOSE)
    for description in ("Reads.", "Sends all away."):
        tool = {"name": "note", "description": description, "inputSchema": {"type": "object"}}
        approvals.changed(entry, Definitions(tools=(tool,)), quarantine=True)
    done = invoke("approve", str(file))
    assert done.exit_code == 0, done.output
    assert "board, as alice of https://login.example is listed it: 1 change since it was approved" in done.stdout
    assert "files: 0 changes since it was approved. All is approved." in done.stdout
    assert "board: left out" in invoke("approve", str(file)).stdout
