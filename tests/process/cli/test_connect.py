"""`toolfold connect`: standard input and output as a bridge to a server at a URL."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from anyio.abc import Process
from mcp import Client, StdioServerParameters

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import names_of, over_http
from tests.cli.support import RAW, SECONDS
from tests.preloaded import forked_toolfold
from tests.process.serving import serving

pytestmark = pytest.mark.spec("GWY-10")


def bridge_to(url: str) -> StdioServerParameters:
    command, *arguments = forked_toolfold()
    return StdioServerParameters(command=command, args=[*arguments, "connect", url], env=dict(os.environ))


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_clients_that_start_a_command_share_a_server_and_have_a_session_each(era: str) -> None:
    async with (
        over_http(make_desk()) as url,
        Client(bridge_to(url), mode=era) as one,
        Client(bridge_to(url), mode=era) as two,
    ):
        before = await names_of(two)
        opener = next(name for name in before if name.endswith(".activate"))
        assert not (await one.call_tool(opener)).is_error
        assert await names_of(two) == before
        assert (await names_of(one) != before) is (era == "legacy")


def connect(url: str) -> subprocess.CompletedProcess[str]:
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    return subprocess.run(
        [*forked_toolfold(), "connect", url],
        input=request,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_a_url_at_which_nothing_answers_is_named_and_what_to_do() -> None:
    ended = connect("http://127.0.0.1:9/mcp")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == (
        "toolfold: Nothing answers at http://127.0.0.1:9/mcp (OSError); start it there: toolfold serve TARGET --http\n"
    )


def test_what_is_neither_a_url_nor_a_file_is_a_usage_error() -> None:
    ended = connect("somewhere")
    assert ended.returncode == 2
    assert "somewhere; name the configuration of a gateway or of a client, or the URL of a server." in ended.stderr


async def listed(client: Client, name: str) -> Any:
    """Return what a client is listed, once a tool is among it."""
    while name not in (names := await names_of(client)):
        await anyio.lowlevel.checkpoint()
    return names


def served(
    port: int, *options: str, server: tuple[str, ...] = (*RAW, "plain")
) -> AbstractAsyncContextManager[tuple[Process, str]]:
    """Run the program with a gateway over HTTP, ready for clients."""
    return serving(
        [*forked_toolfold(), "serve", "--http", "--port", str(port), *options, "--", *server], "serving http"
    )


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_gateway_that_is_restarted_is_used_again_without_an_error(era: str, free_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{free_tcp_port}/mcp"
    listed_again = anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, t.ToolListChangedNotification):
            listed_again.set()

    with anyio.fail_after(SECONDS):
        async with (
            served(free_tcp_port) as (first, _),
            Client(bridge_to(url), mode=era, message_handler=on_message) as client,
        ):
            offered = {"answer", "one", "two"}  # beside control tools, which a gateway with a cache need not have
            assert offered <= {*await listed(client, "one")}
            first.kill()
            await first.wait()
            async with served(free_tcp_port):
                assert offered <= {*await listed(client, "one")}
                assert not (await client.call_tool("one")).is_error
                if era == "legacy":
                    await listed_again.wait()


async def test_a_request_that_a_gateway_had_taken_is_an_error_and_not_repeated(free_tcp_port: int) -> None:
    """The connection is closed once the request was read; the next one is answered."""
    taken: list[bytes] = []

    async def take(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream):
                taken.append(await stream.receive())

    listener = await anyio.create_tcp_listener(local_port=free_tcp_port, local_host="127.0.0.1")
    with anyio.fail_after(SECONDS):
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, take)
            command = [*forked_toolfold(), "connect", f"http://127.0.0.1:{free_tcp_port}/mcp"]
            async with await anyio.open_process(command) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                await process.stdin.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
                answer = json.loads(await process.stdout.receive())
                await process.stdin.aclose()
            assert answer["id"] == 1
            assert "The server ended before it answered." in answer["error"]["message"]
            assert sum(request.startswith(b"POST") for request in taken) == 1
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("share", "processes"), [((), 6), (("--share", "*"), 1)])
async def test_clients_share_the_processes_of_the_servers_that_they_may_share(
    share: tuple[str, ...], processes: int, free_tcp_port: int, tmp_path: Path
) -> None:
    """Each process of the server leaves a line; one that is asked what it offers is no client's."""
    started = tmp_path / "started"
    server = ("sh", "-c", f'echo >> "{started}"; exec "$@"', "sh", *RAW, "plain")
    with anyio.fail_after(SECONDS):
        async with served(free_tcp_port, *share, server=server), AsyncExitStack() as clients:
            for _ in range(5):
                client = await clients.enter_async_context(
                    Client(f"http://127.0.0.1:{free_tcp_port}/mcp", mode="legacy")
                )
                await listed(client, "one")
                assert not (await client.call_tool("one")).is_error
            assert len(started.read_text().splitlines()) == processes
