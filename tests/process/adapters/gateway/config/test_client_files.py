"""What the configurations of clients say, as the servers get it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from toolfold_adapters.gateway import GatewayConfig, UpstreamError, load_config, open_gateway

SECONDS = 60


@contextmanager
def recorded() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the URL of a server that is none of MCP, and the headers of the requests that it gets."""
    headers: list[dict[str, str]] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", headers
        finally:
            server.shutdown()


async def start(config: GatewayConfig) -> None:
    """Start the servers of a configuration, in vain."""
    with anyio.fail_after(SECONDS), pytest.raises(UpstreamError):
        async with open_gateway(config):
            raise AssertionError("it starts")


@pytest.mark.spec("GWY-8", "GWY-2")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "config.toml",
            "[mcp_servers.web]\nurl = 'URL'\nbearer_token_env_var = 'TOKEN'\nhttp_headers = { X-A = 'a' }\n"
            "env_http_headers = { X-B = 'KEY' }\n",
        ),
        (
            ".mcp.json",
            '{"mcpServers": {"web": {"type": "http", "url": "URL", "headers": '
            '{"Authorization": "Bearer ${TOKEN}", "X-A": "${A:-a}", "X-B": "${KEY}"}}}}',
        ),
        (
            "mcp.json",
            '{"inputs": [{"type": "promptString", "id": "token"}], "servers": {"web": {"type": "http", "url": "URL", '
            '"headers": {"Authorization": "Bearer ${input:token}", "X-A": "a", "X-B": "${env:KEY}"}}}}',
        ),
    ],
    ids=["codex", "claude-code", "vs-code"],
)
async def test_headers_have_what_the_environment_says(tmp_path: Path, name: str, text: str) -> None:
    with recorded() as (url, headers):
        (tmp_path / name).write_text(text.replace("URL", url))
        environ = {"TOKEN": "t0ken", "KEY": "k", "TOOLFOLD_INPUT_TOKEN": "t0ken"}
        await start(load_config(tmp_path / name, environ))
    sent = headers[0]
    assert (sent["authorization"], sent["x-a"], sent["x-b"]) == ("Bearer t0ken", "a", "k")


@pytest.mark.spec("GWY-8", "GWY-2")
async def test_a_process_gets_the_environment_of_its_host_its_file_and_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    monkeypatch.setenv("TOOLFOLD_STORE", "redis://:pw@store")
    (tmp_path / ".env").write_text("FROM_FILE=1\nBOTH=file\n")
    code = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    entry = {
        "command": sys.executable,
        "args": ["-c", code, "${workspaceFolder}/environment.json"],
        "envFile": "${workspaceFolder}/.env",
        "env": {"BOTH": "entry", "GIVEN": "${env:SECRET}"},
    }
    folder = tmp_path / ".vscode"
    folder.mkdir()
    (folder / "mcp.json").write_text(json.dumps({"servers": {"reporter": entry}}))
    await start(load_config(folder / "mcp.json"))
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert {name: environment.get(name) for name in ("FROM_FILE", "BOTH", "GIVEN", "SECRET", "TOOLFOLD_STORE")} == {
        "FROM_FILE": "1",
        "BOTH": "entry",
        "GIVEN": "s3cret",
        "SECRET": "s3cret",
        "TOOLFOLD_STORE": None,
    }


@pytest.mark.spec("GWY-2")
def test_a_program_that_has_secrets_may_write_them_into_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")
    threading.Thread(target=(tmp_path / ".env").write_text, args=("A=1\n",), daemon=True).start()
    entry = {"command": "x", "envFile": ".env"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry}}), encoding="utf-8")
    assert dict(load_config(tmp_path / "mcp.json").upstreams["a"].env) == {"A": "1"}
