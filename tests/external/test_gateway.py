"""A real server behind `toolfold serve -- COMMAND`, compared with the same server without it.

How groups of real servers open, for clients of every kind, is in test_gateway_servers.py and test_gateway_clients.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from tests.adapters.mcp.support import client_of, names_of
from tests.external.support import DIVIDED, EVERYTHING, Upstream, run
from tests.preloaded import forked_toolfold
from toolfold_adapters.names import ALWAYS_LOAD_META

pytestmark = pytest.mark.usefixtures("node_packages")

LONG = "trigger-long-running-operation"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "Grüße ☃\n\u2028"}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-resource-links", {"count": 3}),
    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-sum", {"a": 1, "b": 2.5}),
    ("get-tiny-image", {}),
    ("gzip-file-as-resource", {"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resource"}),
    ("gzip-file-as-resource", {"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"}),
]
FAILING: list[tuple[str, dict[str, Any]]] = [
    ("gzip-file-as-resource", {"name": "x.gz", "data": "ftp://127.0.0.1/x", "outputType": "resource"}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
]
TASK_ALONE = ("simulate-research-query", {"topic": "tools"})
"""What the server runs as a task alone, which the gateway waits for."""


async def started(client: Client) -> None:
    """Wait until the server is known: a search waits for it, while the first list does not."""
    assert not (await client.call_tool("find_tools", {"query": "anything"})).is_error


async def open_all(client: Client) -> None:
    """Open every group that can be opened."""
    await started(client)
    tools = {tool.name: tool.description or "" for tool in (await client.list_tools()).tools}
    for line in tools["open_group"].splitlines():
        if line.startswith("- "):
            assert not (await client.call_tool("open_group", {"group": line[2:].partition(":")[0]})).is_error


def passed_on(definition: dict[str, Any]) -> dict[str, Any]:
    """Return what a gateway passes on of a definition: not that it has to be a task, nor what steers the client."""
    meta = {key: value for key, value in definition.get("_meta", {}).items() if key != ALWAYS_LOAD_META}
    passed = {key: value for key, value in definition.items() if key != "_meta"}
    if passed.get("execution", {}).get("taskSupport") == "required":
        passed["execution"] = {**passed["execution"], "taskSupport": "optional"}
    return {**passed, "_meta": meta} if meta else passed


async def outcome(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    """Return all that a client gets to see of a call: the result, or the error of the protocol."""
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return error.error.model_dump(mode="json")
    return result.model_dump(by_alias=True, exclude_none=True, mode="json")


@pytest.mark.spec("GWY-5")
async def test_the_report_counts_every_tool_of_a_real_server_and_what_is_saved() -> None:
    command = (*forked_toolfold(), "inspect", "--json", *DIVIDED, "--", *EVERYTHING.command)
    status, printed = await run(*command)
    assert status == 0
    report = json.loads(printed)
    async with client_of(EVERYTHING.directly, "legacy") as (direct, _):
        expected = set(await names_of(direct))
    counted = {tool["name"] for group in report["groups"] for tool in group["tools"]}
    assert counted >= expected  # a server may offer more to the gateway, which can do all that any client can
    assert report["tools"] == len(counted)
    assert report["tokens"]["after"] < report["tokens"]["before"]


@pytest.mark.spec("GWY-1", "GWY-18")
async def test_results_of_every_kind_and_errors_come_through_as_they_are() -> None:
    async with (
        client_of(EVERYTHING.directly, "legacy") as (direct, _),
        client_of(EVERYTHING.behind_toolfold, "legacy") as (client, _),
    ):
        await open_all(client)
        for tool, arguments in CALLS:
            expected = await outcome(direct, tool, arguments)
            assert not expected.get("isError", "code" in expected), expected
            assert await outcome(client, tool, arguments) == expected
        for tool, arguments in FAILING:
            expected = await outcome(direct, tool, arguments)
            assert expected.get("isError", "code" in expected), expected
            assert await outcome(client, tool, arguments) == expected
        assert (await outcome(direct, *TASK_ALONE)).get("isError")
        done = await outcome(client, *TASK_ALONE)
        assert not done.get("isError")
        assert "Research Report: tools" in str(done["content"])


@pytest.mark.spec("GWY-1")
async def test_progress_of_a_real_server_arrives_in_order_and_before_the_result() -> None:
    arguments = {"duration": 0.1, "steps": 5}
    reports: list[list[tuple[float, float | None, str | None]]] = []
    for direct in (True, False):
        received: list[tuple[float, float | None, str | None]] = []

        async def receive(
            progress: float,
            total: float | None,
            message: str | None,
            received: list[tuple[float, float | None, str | None]] = received,
        ) -> None:
            received.append((progress, total, message))

        async with client_of(EVERYTHING.directly if direct else EVERYTHING.behind_toolfold, "legacy") as (client, _):
            if not direct:
                await open_all(client)
            assert not (await client.call_tool(LONG, arguments, progress_callback=receive)).is_error
            reports.append(list(received))
    assert reports[0] == reports[1] == [(step, 5, None) for step in range(1, 6)]


@pytest.mark.spec("GWY-1")
async def test_a_call_that_is_cancelled_is_cancelled_at_the_real_server(tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    ear = os.open(said, os.O_RDWR | os.O_NONBLOCK)
    overheard = Upstream(("sh", "-c", 'tee "$0" | "$@"', str(said), *EVERYTHING.command))
    under_way = anyio.Event()

    async def receive(progress: float, total: float | None, message: str | None) -> None:
        under_way.set()

    async def work(client: Client) -> None:
        await client.call_tool(LONG, {"duration": 600, "steps": 6000}, progress_callback=receive)

    try:
        async with client_of(overheard.behind_toolfold, "legacy") as (client, _):
            await open_all(client)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work, client)
                await under_way.wait()
                tasks.cancel_scope.cancel()
            messages = [message async for message in until("notifications/cancelled", ear)]
            (call,) = [message for message in messages if message.get("method") == "tools/call"]
            assert messages[-1]["params"]["requestId"] == call["id"]
            assert not (await client.call_tool("echo", {"message": "still here"})).is_error
    finally:
        os.close(ear)


async def until(method: str, source: int) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages that come in, up to the first of a method."""
    text = b""
    while True:
        await anyio.wait_readable(source)
        text += os.read(source, 65536)
        *lines, text = text.split(b"\n")
        for line in lines:
            message = json.loads(line)
            yield message
            if message.get("method") == method:
                return
