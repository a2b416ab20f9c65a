"""Real servers behind `toolfold serve -- COMMAND`, compared with the same servers without it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from tests.adapters.mcp.support import change_of, client_of, names_of, schemas_in
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.external.support import (
    DIVIDED,
    EVERYTHING,
    GITHUB,
    Upstream,
    definitions,
    names_in,
    over_http,
    run,
    typescript,
)
from tests.preloaded import forked_toolfold
from toolfold_adapters.names import ALWAYS_LOAD_META, HANDLE_META

pytestmark = pytest.mark.usefixtures("node_packages")

UPSTREAMS = pytest.mark.parametrize("upstream", [EVERYTHING, GITHUB], ids=["everything", "github"])
RESULT = ("content", "structuredContent", "isError")
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
    ("simulate-research-query", {"topic": "tools"}),
]


async def inspected(upstream: Upstream) -> Any:
    """Return what `toolfold inspect --json` says of a server."""
    status, printed = await run(
        *forked_toolfold(), "inspect", "--json", *DIVIDED, "--", *upstream.command, env=upstream.env
    )
    assert status == 0
    return json.loads(printed)


async def started(client: Client) -> None:
    """Wait until the server is known: a search waits for it, while the first list does not."""
    assert not (await client.call_tool("find_tools", {"query": "anything"})).is_error


async def open_all(client: Client) -> None:
    """Open every group."""
    await started(client)
    for path in await groups_of(client):
        assert not (await client.call_tool("open_group", {"group": path})).is_error


async def groups_of(client: Client) -> list[str]:
    """Return the groups that can be opened."""
    tools = {tool.name: tool.description or "" for tool in (await client.list_tools()).tools}
    return [line[2:].partition(":")[0] for line in tools["open_group"].splitlines() if line.startswith("- ")]


def passed_on(definition: dict[str, Any]) -> dict[str, Any]:
    """Return what a gateway passes on of a definition: not how it is called as a task, nor what steers the client."""
    meta = {key: value for key, value in definition.get("_meta", {}).items() if key != ALWAYS_LOAD_META}
    passed = {key: value for key, value in definition.items() if key not in ("execution", "_meta")}
    return {**passed, "_meta": meta} if meta else passed


async def outcome(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    """Return all that a client gets to see of a call: the result, or the error of the protocol."""
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return error.error.model_dump(mode="json")
    return result.model_dump(by_alias=True, exclude_none=True, mode="json")


@pytest.mark.spec("GWY-1", "GWY-2", "NTF-1", "LST-5", "DEL-1")
@UPSTREAMS
async def test_a_group_of_a_real_server_opens_and_closes_with_one_notification_each(upstream: Upstream) -> None:
    report = await inspected(upstream)
    groups = {group["path"]: {tool["name"] for tool in group["tools"]} for group in report["groups"] if group["path"]}
    async with client_of(upstream.behind_toolfold, "legacy") as (client, listener):
        await started(client)
        closed = await names_of(client)
        assert len(closed) < report["tools"]
        for path, members in groups.items():
            listener.notified.clear()
            assert not members & set(closed)
            await client.call_tool("open_group", {"group": path})
            assert listener.changes == 1
            assert set(await names_of(client)) - set(closed) == members
            await client.call_tool("close_group", {"group": path})
            assert listener.changes == 2
            assert await names_of(client) == closed


@pytest.mark.spec("GWY-5")
@UPSTREAMS
async def test_the_report_counts_every_tool_of_a_real_server_and_what_is_saved(upstream: Upstream) -> None:
    report = await inspected(upstream)
    async with client_of(upstream.directly, "legacy") as (direct, _):
        expected = set(await names_of(direct))
    counted = {tool["name"] for group in report["groups"] for tool in group["tools"]}
    assert counted >= expected  # a server may offer more to the gateway, which can do all that any client can
    assert report["tools"] == len(counted)
    assert report["tokens"]["after"] < report["tokens"]["before"]


@pytest.mark.spec("GWY-1")
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


@pytest.mark.spec("GWY-1")
async def test_a_server_that_answers_with_errors_of_the_protocol_has_them_passed_on() -> None:
    async with (
        client_of(GITHUB.directly, "legacy") as (direct, _),
        client_of(GITHUB.behind_toolfold, "legacy") as (client, _),
    ):
        await open_all(client)
        found = await outcome(direct, "search_repositories", {"query": "toolfold"})
        assert "total_count" in found["content"][0]["text"]
        assert await outcome(client, "search_repositories", {"query": "toolfold"}) == found
        issue = {"owner": "nobody", "repo": "nothing", "issue_number": 1}
        error = await outcome(direct, "get_issue", issue)
        assert "Not Found" in error["message"]
        assert await outcome(client, "get_issue", issue) == error


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
            (call,) = [message for message in messages if message["method"] == "tools/call"]
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
            if message["method"] == method:
                return


@pytest.mark.spec("GWY-1", "DEL-1", "NTF-1")
@pytest.mark.parametrize("package", ["sdk", "client"])
async def test_the_typescript_client_works_with_a_real_server_behind_the_gateway(package: str) -> None:
    def call(name: str, **arguments: Any) -> list[Any]:
        return ["callTool", {"name": name, "arguments": arguments}]

    async with over_http(*DIVIDED, "--", *EVERYTHING.command) as url:
        said = await typescript(
            package,
            "legacy",
            url,
            call("find_tools", query="anything"),
            ["listTools"],
            call("get-structured-content", location="Chicago"),
            call("open_group", group="sampling_simulated_logging"),
            ["listTools"],
            call("get-structured-content", location="Chicago"),
            call("open_group", group="long_running_operation"),
            call(LONG, duration=0.1, steps=3),
            call("close_group", group="long_running_operation"),
            call("close_group", group="sampling_simulated_logging"),
            ["listTools"],
        )
    # A search waits until the server is known, so that what starts it changes no list below.
    _, closed, refused, _, opened, weather, _, long, _, _, after = said["steps"]
    assert "Unknown tool" in refused["error"]["message"]
    assert "get-structured-content" in names_in(opened["result"]) - names_in(closed["result"])
    assert set(weather["result"]["structuredContent"]) == {"temperature", "conditions", "humidity"}
    # What comes with the answer may be lost: this client forgets the progress handler as soon as it reads an answer.
    assert [update["progress"] for update in long["progress"]] in ([1, 2], [1, 2, 3])
    assert after["result"] == closed["result"]
    received = [step["received"] - closed["received"] for step in said["steps"][1:]]
    assert received == [0, 0, 1, 1, 1, 2, 2, 3, 4, 4]


@pytest.mark.spec("GWY-1", "DEL-2", "DEL-7")
async def test_a_modern_client_of_a_real_legacy_server_calls_by_handle_and_is_always_listed_the_same() -> None:
    async with (
        client_of(EVERYTHING.directly, "legacy") as (direct, _),
        client_of(EVERYTHING.behind_toolfold, "2026-07-28") as (client, listener),
    ):
        expected = await definitions(direct)
        first = await definitions(client)
        handle: dict[str, Any] = {}
        lines: dict[str, Any] = {}
        new: set[str] = set()
        for path in await groups_of(client):
            answer = await client.call_tool("open_group", {"group": path, **handle})
            opened = change_of(answer)
            handle = {"handle": opened["handle"]}
            lines |= schemas_in(text_of(answer))
            new |= set(opened["tools"])
        meta: Any = {HANDLE_META: handle["handle"]}
        page = await client.list_tools(meta=meta, cache_mode="bypass")
        under = {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in page.tools}
        for name in new & set(expected):
            assert under[name] == passed_on(expected[name])
            line = f"- {name}: {' '.join(expected[name]['description'].split())}"
            assert lines[line] == {
                key: value for key, value in expected[name]["inputSchema"].items() if key != "$schema"
            }
        assert new | set(first) > set(expected)
        for tool, arguments in CALLS:
            through = {**handle, "name": tool, "arguments": arguments}
            result = await outcome(client, "call_tool", through)
            same = await outcome(direct, tool, arguments)
            assert {key: result.get(key) for key in RESULT} == {key: same.get(key) for key in RESULT}
        assert await definitions(client) == first
        assert listener.changes == 0
