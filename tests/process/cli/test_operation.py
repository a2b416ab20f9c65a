"""`toolfold serve --http` in operation: probes, a shutdown that lets calls finish, callers, origins, logs, settings."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.adapters.mcp.support import RawLegacy, modern_body, modern_headers
from tests.cli.support import SECONDS, SHOP
from tests.preloaded import forked_toolfold

WAITING = """
import sys
import anyio
from toolfold import ToolSet

tools = ToolSet("waiting")

@tools.tool()
async def wait() -> str:
    "Wait for a file."
    print("began", file=sys.stderr, flush=True)
    async with await anyio.open_file("proceed") as proceed:
        await proceed.readline()
    return "done"

@tools.tool()
async def wait_forever() -> None:
    "Wait for nothing."
    print("began", file=sys.stderr, flush=True)
    await anyio.sleep_forever()
"""
TRACED = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from shop import tools

exporter = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.name + "\\n")
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
TOKEN = "0123456789abcdef"

Serving = Callable[..., AbstractContextManager["tuple[subprocess.Popen[str], str]"]]


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def base(url: str) -> str:
    return url.removesuffix("/mcp")


async def asked_to_end(process: subprocess.Popen[str], http: httpx2.AsyncClient, url: str) -> None:
    """Ask a server to end, and wait until it says so over a connection that was open before: it accepts no others."""
    assert (await http.get(f"{base(url)}/ready")).json() == {"status": "ready"}
    process.send_signal(signal.SIGTERM)
    while (await http.get(f"{base(url)}/ready")).status_code != 503:
        await anyio.lowlevel.checkpoint()


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """Starts `toolfold serve` with options, and returns the process and the URL that it prints."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "waiting.py").write_text(WAITING)
    (tmp_path / "traced.py").write_text(TRACED)
    os.mkfifo(tmp_path / "proceed")

    @contextmanager
    def serve(*options: str, **variables: str) -> Generator[tuple[subprocess.Popen[str], str]]:
        with subprocess.Popen(
            [*forked_toolfold(), "serve", *options],
            cwd=tmp_path,
            env={**os.environ, **variables},
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                found = re.search(r"serving (http://\S+)$", line_of(process))
                assert found
                yield process, found[1]
            finally:
                process.kill()

    return serve


@pytest.mark.spec("DEL-10", "SAF-5")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_call_finishes_before_the_server_ends_with_status_0(
    serving: Serving, tmp_path: Path, era: Literal["legacy", "2026-07-28"]
) -> None:
    with anyio.fail_after(SECONDS), serving("waiting:tools", "--http", "--port", "0") as (process, url):
        answers: list[str] = []

        async def call(client: Client) -> None:
            result = await client.call_tool("wait")
            answers.append(getattr(result.content[0], "text", ""))

        async with Client(url, mode=era) as client, httpx2.AsyncClient() as http, anyio.create_task_group() as tasks:
            await client.list_tools()
            tasks.start_soon(call, client)
            assert await anyio.to_thread.run_sync(line_of, process) == "began\n"
            await asked_to_end(process, http, url)
            assert (await http.get(f"{base(url)}/health")).status_code == 200
            assert process.poll() is None
            async with await anyio.open_file(tmp_path / "proceed", "w") as proceed:
                await proceed.write("\n")
        assert answers == ["done"]
        assert await anyio.to_thread.run_sync(process.wait) == 0


@pytest.mark.spec("SAF-5")
async def test_a_call_that_does_not_finish_in_time_does_not_hold_the_server_up(serving: Serving) -> None:
    options = ("waiting:tools", "--http", "--port", "0", "--shutdown-timeout", "0")
    with anyio.fail_after(SECONDS), serving(*options) as (process, url):

        async def post() -> None:
            body = modern_body("tools/call", {"name": "wait_forever", "arguments": {}})
            async with httpx2.AsyncClient(timeout=SECONDS) as http:
                assert (await http.post(url, json=body, headers=modern_headers("tools/call", "wait_forever"))).is_error

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            assert await anyio.to_thread.run_sync(line_of, process) == "began\n"
            process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(process.wait) == 0


@pytest.mark.spec("SAF-5")
async def test_a_second_signal_ends_the_server_without_waiting_for_calls(serving: Serving) -> None:
    options = ("waiting:tools", "--http", "--port", "0", "--shutdown-timeout", "600")
    body = modern_body("tools/call", {"name": "wait_forever", "arguments": {}})
    with anyio.fail_after(SECONDS), serving(*options) as (process, url):
        async with (
            httpx2.AsyncClient(timeout=SECONDS) as http,
            httpx2.AsyncClient() as probing,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(partial(http.post, url, json=body, headers=modern_headers("tools/call", "wait_forever")))
            assert await anyio.to_thread.run_sync(line_of, process) == "began\n"
            await asked_to_end(process, probing, url)
            process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True) == 0


@pytest.mark.spec("SAF-5")
async def test_a_stream_of_a_legacy_session_is_completed_when_the_server_ends(serving: Serving) -> None:
    with anyio.fail_after(SECONDS), serving("shop:tools", "--http", "--port", "0") as (process, url):
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            client = RawLegacy(http, url)
            await client.initialize()
            async with http.stream("GET", url, headers=client.headers) as stream:
                process.send_signal(signal.SIGTERM)
                async for _ in stream.aiter_lines():
                    pass
        assert await anyio.to_thread.run_sync(process.wait) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.spec("INT-5")
async def test_telemetry_is_recorded_by_the_providers_of_the_process(serving: Serving) -> None:
    with anyio.fail_after(SECONDS), serving("traced:tools", "--http", "--port", "0", "--telemetry") as (process, url):
        async with Client(url, mode="legacy") as client:
            await client.list_tools()
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert "list tool" in (await anyio.to_thread.run_sync(process.stderr.read)).splitlines()


@pytest.mark.spec("DEL-10")
async def test_probes_are_answered_for_any_host_name(serving: Serving) -> None:
    with serving("shop:tools", "--http", "--port", "0") as (_, url):
        async with httpx2.AsyncClient(headers={"host": "10.1.2.3:8000"}) as http:
            assert (await http.get(f"{base(url)}/health")).json() == {"status": "ok"}
            assert (await http.head(f"{base(url)}/ready")).status_code == 200
            assert (await http.post(url, json={})).status_code == 421


@pytest.mark.spec("DEL-6", "GWY-8")
async def test_only_callers_with_a_known_token_are_served(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "auth.toml").write_text('[tokens]\nalice = "${ALICE_TOKEN}"\n')
    options = ("shop:tools", "--http", "--port", "0", "--auth", "auth.toml", "--delivery", "principal")
    with anyio.fail_after(SECONDS), serving(*options, ALICE_TOKEN=TOKEN) as (_, url):
        for headers in ({}, {"authorization": f"Bearer {TOKEN}x"}):
            async with httpx2.AsyncClient(headers=headers) as http:
                refused = await http.post(url, json={})
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"].startswith("Bearer ")
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(url, http_client=http), mode="2026-07-28") as client,
        ):
            await client.call_tool("orders__open")
            assert "orders__place" in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.spec("DEL-10")
async def test_pages_of_allowed_origins_can_call_and_read(serving: Serving) -> None:
    options = ("shop:tools", "--http", "--port", "0", "--allow-origin", "https://app.example")
    preflight = {"access-control-request-method": "POST", "access-control-request-headers": "mcp-method, authorization"}
    with serving(*options) as (_, url):
        async with httpx2.AsyncClient() as http:
            allowed = await http.options(url, headers={"origin": "https://app.example", **preflight})
            assert allowed.status_code == 200
            assert allowed.headers["access-control-allow-origin"] == "https://app.example"
            assert "authorization" in allowed.headers["access-control-allow-headers"]
            read = await http.post(url, json={}, headers={"origin": "https://app.example"})
            assert read.headers["access-control-allow-origin"] == "https://app.example"
            assert "Mcp-Session-Id" in read.headers["access-control-expose-headers"]
            other = await http.options(url, headers={"origin": "https://evil.example", **preflight})
            assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)


@pytest.mark.spec("SAF-3", "SAF-6")
async def test_settings_come_from_the_environment_and_the_log_can_be_json(serving: Serving) -> None:
    with serving(
        "shop:tools", TOOLFOLD_HTTP="1", TOOLFOLD_PORT="0", TOOLFOLD_PATH="/x/mcp", TOOLFOLD_LOG_FORMAT="json"
    ) as (process, url):
        assert url.endswith("/x/mcp")
        async with httpx2.AsyncClient(headers={"host": "evil.example"}) as http:
            await http.post(url, json={})
        entry = json.loads(line_of(process))
        assert (entry["level"], entry["logger"]) == ("warning", "toolfold.mcp")
        assert "evil.example" in entry["message"]


@pytest.mark.spec("DEL-6", "DEL-10", "SAF-5")
async def test_the_live_page_is_for_the_operator_and_its_stream_ends_with_the_server(
    serving: Serving, tmp_path: Path
) -> None:
    (tmp_path / "auth.toml").write_text(f'operators = ["alice"]\n[tokens]\nalice = "{TOKEN}"\n')
    options = ("--http", "--port", "0", "--live", "--auth", "auth.toml")
    with anyio.fail_after(SECONDS), serving("shop:tools", *options) as (process, url):
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            assert (await http.get(f"{base(url)}/live/")).status_code == 401
            http.auth = httpx2.BasicAuth("anyone", TOKEN)
            assert "<title>shop, live</title>" in (await http.get(f"{base(url)}/live/")).text
            async with http.stream("GET", f"{base(url)}/live/events") as stream:
                lines = stream.aiter_lines()
                assert await anext(lines) == "event: head"
                process.send_signal(signal.SIGTERM)
                async for _ in lines:
                    pass
        assert await anyio.to_thread.run_sync(process.wait) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
