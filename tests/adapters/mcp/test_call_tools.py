"""`call_tools`: several calls in one request, each with its own result (SPEC COD-2)."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp_types import CallToolResult

from tests.adapters.mcp.support import PATIENCE, build_server, client_of, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN
from toolfold import ConfigError, Context, ToolError, ToolSet
from toolfold_adapters.mcp import group_server
from toolfold_adapters.names import HANDLE_META, RESULTS_META
from toolfold_adapters.tokens import CHARACTERS_PER_TOKEN, LEAST_ANSWER_TOKENS

pytestmark = pytest.mark.spec("COD-2")

ERAS = ("legacy", MODERN)


class Desk:
    """Tools of a group, one of which waits until it is let go; `ran` has what was called, in order."""

    def __init__(self, **settings: Any) -> None:
        self.ran: list[str] = []
        self.cancelled: list[str] = []
        self.waiting = anyio.Semaphore(0)
        self.let_go = anyio.Event()
        self.tools = tools = ToolSet("desk", control="open_group", **settings)
        tools.register_group("files", "Files")
        tools.register_group("other", "Closes files")
        tools.register_exclusion("files", "other")

        @tools.tool(group="files")
        async def read(name: str, context: Context) -> str:
            """Read a file."""
            await context.report_progress(1, 2, "half")
            self.ran.append(name)
            if name == "missing":
                raise ToolError("There is no such file.")
            return name * (1 if name.isalpha() else 5_000)

        @tools.tool(group="files")
        async def wait(name: str) -> str:
            """Wait for the others."""
            self.waiting.release()
            try:
                await self.let_go.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled.append(name)
                raise
            self.ran.append(name)
            return name

        @tools.tool()
        async def stop_itself() -> None:
            """Be cancelled."""
            raise anyio.get_cancelled_exc_class()


def call(name: str, after: list[int] | None = None, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **({"after": after} if after else {})}


OPEN = call("open_group", group="files")


async def several(client: Client, *calls: Any, progress: Any = None, **more: Any) -> CallToolResult:
    return await client.call_tool("call_tools", {"calls": [*calls], **more}, progress_callback=progress)


def parts(result: CallToolResult) -> list[tuple[bool, str]]:
    """Return of each result whether it is under a heading that says that it failed, and its text."""
    whole = "".join(block.text for block in result.content if block.type == "text")
    found = list(re.finditer(r"^\[\d+\] .+?( failed)?:\n", whole, re.MULTILINE))
    ends = [*(one.start() for one in found[1:]), len(whole)]
    return [(bool(one[1]), whole[one.end() : end].strip()) for one, end in zip(found, ends, strict=True)]


def texts(result: CallToolResult) -> list[str]:
    return [text for _, text in parts(result)]


def failed(result: CallToolResult) -> list[int]:
    return [number for number, (is_error, _) in enumerate(parts(result), 1) if is_error]


@pytest.mark.parametrize("era", ERAS)
async def test_a_group_that_one_call_opens_is_used_by_the_next_and_has_one_handle(era: str) -> None:
    desk = Desk()
    async with client_of(build_server(desk.tools, call_tools=True), era) as (client, _):
        result = await several(client, OPEN, call("files.read", name="a"), call("files.read", name="b"))
        assert texts(result)[1:] == ["a", "b"]
        assert not result.is_error
        assert result.structured_content is None
        handle = (result.meta or {}).get(HANDLE_META)
        assert (handle is None) == (era == "legacy")
        shown = "".join(block.text for block in result.content if block.type == "text")
        assert shown.count("Handle: ") == (0 if era == "legacy" else 1)
        again = await several(client, call("files.read", name="c"), **({"handle": handle} if handle else {}))
        assert texts(again) == ["c"]
        assert HANDLE_META not in (again.meta or {})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_failure_stops_what_depends_on_it_and_nothing_else(era: str, parallel: bool) -> None:
    desk = Desk()
    async with client_of(build_server(desk.tools, call_tools=True), era) as (client, _):
        calls = [
            OPEN,
            call("files.read", name="missing"),
            call("files.read", [2], name="a"),
            call("files.read", [3], name="b"),
            call("files.read", [1], name="c"),
            call("nothing"),
            call("files.read", wrong=1),
            call("stop_itself"),
        ]
        result = await several(client, *calls, parallel=parallel)
    told = texts(result)
    assert sorted(desk.ran) == ["c", "missing"]
    assert failed(result) == [2, 3, 4, 6, 7, 8]
    assert told[1:4] == [
        "There is no such file.",
        "It was not made, because call 2 failed.",
        "It was not made, because call 3 failed.",
    ]
    assert told[4] == "c"
    assert told[5].startswith("Unknown tool: nothing")
    assert '"name"' in told[6]  # the schema: through call_tool, too, a caller may not have seen it
    assert not result.is_error
    about = (result.meta or {})[RESULTS_META]
    assert [one["isError"] for one in about] == [is_error for is_error, _ in parts(result)]
    assert sum(one["blocks"] for one in about) == len(result.content) - (0 if era == "legacy" else 1)  # the handle


@pytest.mark.parametrize("era", ERAS)
async def test_calls_are_made_in_order_or_at_the_same_time(era: str) -> None:
    desk = Desk()
    async with client_of(build_server(desk.tools, call_tools=True), era) as (client, _):
        calls = [OPEN, call("files.wait", name="slow"), call("files.read", name="quick")]
        async with anyio.create_task_group() as tasks:

            async def let_go() -> None:
                with anyio.fail_after(PATIENCE):
                    await desk.waiting.acquire()
                desk.let_go.set()

            tasks.start_soon(let_go)
            assert texts(await several(client, *calls))[1:] == ["slow", "quick"]
        assert desk.ran == ["slow", "quick"]
        desk.ran.clear()
        desk.let_go = anyio.Event()

        async def when_read(progress: float, total: float | None, message: str | None) -> None:
            if desk.ran == ["quick"]:
                desk.let_go.set()

        result = await several(client, *calls, parallel=True, progress=when_read)
        assert texts(result)[1:] == ["slow", "quick"]
        assert desk.ran == ["quick", "slow"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_progress_of_each_is_that_of_the_request_and_grows(era: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with client_of(build_server(Desk().tools, call_tools=True), era) as (client, _):
        await several(client, OPEN, call("files.read", name="a"), call("files.read", name="b"), progress=note)
    assert told == [
        (1, 3, "open_group"),
        (1.5, 3, "files.read: half"),
        (2, 3, "files.read"),
        (2.5, 3, "files.read: half"),
        (3, 3, "files.read"),
    ]


@pytest.mark.parametrize("total", [None, 2])
async def test_progress_below_nothing_is_nothing(total: float | None) -> None:
    told: list[float] = []
    tools = ToolSet("below", control="open_group")
    tools.register_group("low", "Low")

    @tools.tool(group="low")
    async def dig(context: Context) -> str:
        for progress in (-1, -3, 1):
            await context.report_progress(progress, total)
        return "deep"

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with client_of(build_server(tools, call_tools=True), ERAS[0]) as (client, _):
        done = await several(client, call("open_group", group="low"), call("low.dig"), progress=note)
    assert texts(done)[1] == "deep"
    assert told == [1, 1.5, 2]


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_that_is_cancelled_cancels_each_of_its_calls(era: str) -> None:
    desk = Desk(idle_timeout=None)
    async with client_of(build_server(desk.tools, call_tools=True), era) as (client, _):
        calls = [OPEN, *(call("files.wait", name=name) for name in "abc")]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(several, client, *calls, parallel=True))
            with anyio.fail_after(PATIENCE):
                for _ in "abc":
                    await desk.waiting.acquire()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            while len(desk.cancelled) < 3:
                await anyio.lowlevel.checkpoint()
    assert sorted(desk.cancelled) == ["a", "b", "c"]
    assert desk.ran == []


@pytest.mark.parametrize("era", ERAS)
async def test_what_an_exclusion_closes_in_the_middle_is_not_reached(era: str) -> None:
    desk = Desk()
    async with client_of(build_server(desk.tools, call_tools=True), era) as (client, _):
        use = call("files.read", name="a")
        result = await several(client, OPEN, use, call("open_group", group="other"), use, parallel=True)
    assert desk.ran == ["a"]
    assert failed(result) == [4]


@pytest.mark.parametrize("era", ERAS)
async def test_answers_have_the_room_of_one_and_short_ones_are_whole(era: str) -> None:
    server = build_server(Desk().tools, call_tools=True, answer_tokens=LEAST_ANSWER_TOKENS)
    async with client_of(server, era) as (client, _):
        calls = [OPEN, *(call("files.read", name=name) for name in ("1", "a", "2"))]
        result = await several(client, *calls)
    whole = [block.text for block in result.content if block.type == "text"]
    assert sum(map(len, whole)) <= LEAST_ANSWER_TOKENS * CHARACTERS_PER_TOKEN
    _, one, short, two = texts(result)
    assert short == "a"
    assert one.endswith("(5,000 characters in all: call it alone)")
    assert len(one) == len(two) > 1_000


@pytest.mark.parametrize("era", ERAS)
async def test_it_is_an_error_where_all_fail_or_the_calls_are_wrong(era: str) -> None:
    async with client_of(build_server(Desk().tools, call_tools=True), era) as (client, _):
        assert (await several(client, call("files.read", name="a"), call("nothing"))).is_error
        for wrong in ([], [call("nothing", [1])], [call("nothing")] * 101):
            refused = await several(client, *wrong)
            assert refused.is_error
            assert RESULTS_META not in (refused.meta or {})


@pytest.mark.parametrize("era", ERAS)
async def test_it_is_there_by_choice_only(era: str) -> None:
    async with client_of(build_server(Desk().tools), era) as (client, _):
        assert "call_tools" not in await names_of(client)
    async with client_of(build_server(Desk().tools, call_tools=True), era) as (client, _):
        assert "call_tools" in await names_of(client)
    with pytest.raises(ConfigError, match="another one"):
        build_server(Desk().tools, call_tools=True, call_tool="call_tools")


@pytest.mark.spec("INT-1")
@pytest.mark.parametrize("era", ERAS)
async def test_an_existing_server_makes_several_calls_as_it_makes_each(era: str) -> None:
    server = MCPServer("shop")

    @server.tool()
    def look(item: str) -> str:
        """Look for an item."""
        if item == "milk":
            raise ValueError("there is no milk")
        return f"one {item}"

    grouped = group_server(server, {"stock": "look"}, call_tools=True)
    async with client_of(grouped, era) as (client, _):
        calls = [call("open_group", group="stock"), *(call("look", item=item) for item in ("bread", "milk", "tea"))]
        result = await several(client, *calls)
    assert [text for _, text in parts(result)[1::2]] == ["one bread", "one tea"]
    assert failed(result) == [3]
