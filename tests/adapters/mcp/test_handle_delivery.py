"""Handle delivery without hooks: opening answers with a handle, under which `call_tool` calls (SPEC DEL-2, DEL-3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.shop import make_shop, shop_over
from tests.adapters.mcp.support import PATIENCE, build_server, change_of, client_of, schemas_in
from toolfold import Context, ToolSet
from toolfold_adapters.mcp import handlers as handlers_module
from toolfold_adapters.names import CHANGE_META, HANDLE_META

MODERN = "2026-07-28"
KEY = "a key of more than sixteen letters"

pytestmark = pytest.mark.spec("DEL-2")


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def received(result: types.CallToolResult) -> Any:
    assert not result.is_error, text_of(result)
    return change_of(result) if CHANGE_META in (result.meta or {}) else result.structured_content


async def through(client: Client, name: str, arguments: Any = None, handle: str | None = None) -> types.CallToolResult:
    """Call a tool by `call_tool`."""
    given = {"name": name, "arguments": arguments or {}, **({"handle": handle} if handle else {})}
    return await client.call_tool("call_tool", given)


async def opened(client: Client, group: str, handle: str | None = None) -> str:
    """Open a group and return the handle."""
    answer = received(await client.call_tool(f"{group}.activate", {"handle": handle} if handle else {}))
    return str(answer["handle"])


async def listed_under(client: Client, handle: str) -> dict[str, types.Tool]:
    meta: Any = {HANDLE_META: handle}
    page = await client.list_tools(meta=meta)
    return {tool.name: tool for tool in page.tools}


@pytest.mark.spec("CTL-4", "DEL-7", "DEL-11")
async def test_opening_returns_a_handle_and_the_definitions_that_a_list_under_it_shows() -> None:
    async with shop_over("memory") as target, client_of(target, MODERN) as (client, listener):
        before = await client.list_tools(cache_mode="bypass")
        result = await client.call_tool("stock.activate", {})
        answer = received(result)
        assert {key: answer[key] for key in ("group", "changed", "active", "displaced")} == {
            "group": "stock",
            "changed": True,
            "active": ["stock"],
            "displaced": [],
        }
        assert answer["tools"] == ["stock.count", "stock.fail", "stock.reject"]
        under = await listed_under(client, answer["handle"])
        assert set(under) - {tool.name for tool in before.tools} == set(answer["tools"])
        assert (result.meta or {})[HANDLE_META] == answer["handle"]
        assert schemas_in(text_of(result)) == {
            f"- {name}: {under[name].description}": under[name].input_schema for name in answer["tools"]
        }
        assert text_of(result).splitlines()[:3] == [
            f"Handle: {answer['handle']}",
            "Give it as 'handle' to call_tool, which calls these tools, and to open or close more groups.",
            "Group stock is open. Now available:",
        ]
        assert len(result.content) == 1
        assert (await client.list_tools(cache_mode="bypass")).tools == before.tools
        assert listener.changes == 0


@pytest.mark.spec("CALL-2", "CALL-3", "DEL-11")
async def test_a_call_through_answers_exactly_what_the_tool_answers() -> None:
    notified: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        notified.append((progress, total, message))

    async with shop_over("memory") as target, client_of(target, MODERN) as (client, _):
        handle = await opened(client, "stock")
        meta: Any = {HANDLE_META: handle}
        await client.list_tools(meta=meta)
        for name, arguments in (("stock.count", {"item": "nails"}), ("stock.fail", {}), ("stock.count", {"item": 5})):
            direct = await client.call_tool(name, arguments, meta=meta)
            assert await through(client, name, arguments, handle) == direct
        given = {"handle": handle, "name": "stock.count", "arguments": {"item": "nails", "shelf": 2}}
        counted = await client.call_tool("call_tool", given, progress_callback=note)
        assert received(counted) == {"item": "nails", "shelf": 2}
        assert notified == [(1, 2, "half")]
        for call in (
            through(client, "stock.reject", {}, handle),
            client.call_tool("stock.reject", {}, meta=meta),
        ):
            with pytest.raises(MCPError) as rejected:
                await call
            error = rejected.value
            assert (error.code, error.message, error.data) == (-32050, "not today", {"until": "tomorrow"})


@pytest.mark.spec("CALL-2")
async def test_wrong_arguments_are_refused_with_the_name_of_the_called_tool() -> None:
    ran: list[str] = []
    async with client_of(build_server(make_shop(ran)), MODERN) as (client, _):
        handle = await opened(client, "stock")
        for arguments in ({}, {"item": "nails", "shelf": "top"}, {"item": "nails", "more": 1}):
            refused = await through(client, "stock.count", arguments, handle)
            assert refused.is_error
            assert "Invalid arguments for stock.count" in text_of(refused)
        for wrong in ({}, {"name": 5}, {"name": "stock.count", "arguments": []}, {"name": "hello", "more": 1}):
            refused = await client.call_tool("call_tool", wrong)
            assert refused.is_error
            assert "Invalid arguments for call_tool" in text_of(refused)
        assert "a handle is a string" in text_of(await client.call_tool("stock.activate", {"handle": 5}))
        assert ran == []


@pytest.mark.spec("DEL-3", "SES-1")
async def test_two_continuations_of_one_handle_are_independent() -> None:
    async with client_of(build_server(make_shop()), MODERN) as (client, _):
        trunk = await opened(client, "stock")
        left, right = await opened(client, "cash", trunk), await opened(client, "credit", trunk)
        closed = received(await client.call_tool("stock.deactivate", {"handle": left}))["handle"]
        for handle, has in ((trunk, ""), (left, "cash.coins"), (right, "credit.card"), (closed, "cash.coins")):
            under = await listed_under(client, handle)
            assert [name for name in ("cash.coins", "credit.card") if name in under] == ([has] if has else [])
            assert ("stock.count" in under) == (handle != closed)


@pytest.mark.spec("CALL-1", "DEL-8", "DEL-9")
@pytest.mark.parametrize("separator", [".", "__"])
async def test_unavailable_tools_are_refused_with_the_text_of_a_direct_call(separator: str) -> None:
    async with client_of(build_server(make_shop(), separator=separator), MODERN) as (client, _):
        for name in (f"stock{separator}count", "no_such_tool", "call_tool", "no such.tool"):
            refused = await through(client, name)
            assert refused.is_error
            if name != "call_tool":
                with pytest.raises(MCPError) as direct:
                    await client.call_tool(name, {})
                assert direct.value.message == f"Unknown tool: {name}"
                assert text_of(refused) == direct.value.message


@pytest.mark.spec("CALL-1", "CTL-8")
@pytest.mark.parametrize("on_hidden", ["opaque", "hint"])
async def test_a_handle_is_said_to_be_the_reason_only_where_a_group_is_closed(on_hidden: Any) -> None:
    async with client_of(build_server(make_shop(on_hidden=on_hidden)), MODERN) as (client, _):
        handle = await opened(client, "cash")
        for name, hinted in (("stock.count", on_hidden == "hint"), ("stock.cuont", False), ("no_such_tool", False)):
            for given in (None, handle):
                text = text_of(await through(client, name, {}, given))
                assert text.startswith(f"Unknown tool: {name}")
                assert ("handle" in text) == hinted
                assert hinted or on_hidden == "hint" or text == f"Unknown tool: {name}"


@pytest.mark.spec("CTL-8")
async def test_a_call_by_an_older_handle_or_none_says_so() -> None:
    async with client_of(build_server(make_shop(on_hidden="hint")), MODERN) as (client, _):
        cash = await opened(client, "cash")
        both = await opened(client, "stock", cash)
        item = {"item": "nails"}
        give = "give call_tool the last one that you were given"
        opens = "it needs the group stock: call stock.activate first"
        assert text_of(await through(client, "stock.count", item)) == (
            f"Unknown tool: stock.count (the handle is missing: {give}; without one {opens})"
        )
        assert text_of(await through(client, "stock.count", item, cash)) == (
            f"Unknown tool: stock.count (the handle was made before you opened its group: {give}; "
            f"under this one {opens})"
        )
        assert received(await through(client, "stock.count", item, both))["item"] == "nails"


@pytest.mark.spec("DEL-3", "DEL-11")
async def test_an_invalid_handle_runs_nothing_and_the_error_says_to_activate_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_800_000_000.0]
    monkeypatch.setattr(handlers_module, "time", SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr(handlers_module, "elapsed", lambda: now[0])
    ran: list[str] = []
    other = ToolSet("other")
    other.register_group("stock")
    async with (
        client_of(build_server(make_shop(ran), handle_key=KEY, handle_lifetime=60), MODERN) as (client, _),
        client_of(build_server(make_shop(), handle_key=KEY[::-1]), MODERN) as (of_another_key, _),
        client_of(build_server(other, handle_key=KEY), MODERN) as (of_another_server, _),
    ):
        old = await opened(client, "stock")
        now[0] += 61
        good = await opened(client, "stock")
        useless = {
            "nonsense": "nonsense",
            "truncated": good[:-1],
            "altered": good[:-3] + ("a" if good[-3] != "a" else "b") + good[-2:],
            "long": good * 100,
            "expired": old,
            "of another key": await opened(of_another_key, "stock"),
            "of another server": await opened(of_another_server, "stock"),
        }
        for what, handle in useless.items():
            meta: Any = {HANDLE_META: handle}
            for name, arguments, carried in (
                ("call_tool", {"handle": handle, "name": "stock.count", "arguments": {"item": "x"}}, None),
                ("call_tool", {"handle": handle, "name": "hello"}, None),
                ("stock.orders.activate", {"handle": handle}, None),
                ("stock.deactivate", {"handle": handle}, None),
                ("stock.count", {"item": "x"}, meta),
                ("hello", {}, meta),
            ):
                refused = await client.call_tool(name, arguments, meta=carried)
                assert refused.is_error, what
                assert "Open the groups that you need again" in text_of(refused), what
                assert not (refused.meta or {}).get(HANDLE_META), what
            with pytest.raises(MCPError, match="Open the groups that you need again") as unlisted:
                await client.list_tools(meta=meta)
            assert unlisted.value.code == -32602
        assert ran == []
        assert received(await through(client, "stock.count", {"item": "x"}, good)) == {"item": "x", "shelf": 1}


@pytest.mark.spec("CALL-5", "SES-5")
async def test_a_handler_that_opens_a_group_or_sets_a_fact_answers_with_a_handle() -> None:
    async with shop_over("memory") as target, client_of(target, MODERN) as (client, _):
        plain = await client.call_tool("hello", {})
        assert HANDLE_META not in (plain.meta or {})
        direct = await client.call_tool("open_stock", {})
        handle = (direct.meta or {})[HANDLE_META]
        assert text_of(direct).startswith("opened\n")
        assert handle in text_of(direct)
        joined = await through(client, "join", {}, handle)
        assert joined.structured_content == {"result": "joined"}
        both = (joined.meta or {})[HANDLE_META]
        assert text_of(await through(client, "discount", {}, both)) == "ten percent"
        assert received(await through(client, "stock.count", {"item": "x"}, both))["item"] == "x"
        assert (await through(client, "discount", {}, handle)).is_error


@pytest.mark.spec("REG-9", "DEL-11")
async def test_prompts_and_resources_follow_a_handle_too() -> None:
    async with client_of(build_server(make_shop()), MODERN) as (client, _):
        meta: Any = {HANDLE_META: await opened(client, "stock")}
        assert [prompt.name for prompt in (await client.list_prompts(meta=meta)).prompts] == ["stock.advise"]
        assert (await client.get_prompt("stock.advise", meta=meta)).messages[0].content.text == "Advise me."  # type: ignore[union-attr]
        assert (await client.read_resource("shop:///shelves", meta=meta)).contents[0].text == "three"  # type: ignore[union-attr]
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError) as unknown:
            await client.get_prompt("stock.advise")
        assert unknown.value.code == -32602
        useless: Any = {HANDLE_META: "nonsense"}
        with pytest.raises(MCPError, match="Open the groups that you need again"):
            await client.read_resource("shop:///shelves", meta=useless)


@pytest.mark.spec("CALL-4")
async def test_a_call_in_progress_is_not_affected_by_other_handles() -> None:
    tools, blocked, proceed = ToolSet("slow"), anyio.Event(), anyio.Event()
    tools.register_group("slow")

    @tools.tool(group="slow")
    async def wait(context: Context) -> list[str]:
        blocked.set()
        await proceed.wait()
        return list(context.session.active)

    answers: list[str] = []
    async with client_of(build_server(tools), MODERN) as (client, _):
        handle = await opened(client, "slow")

        async def call() -> None:
            answers.append(text_of(await through(client, "slow.wait", {}, handle)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
            await client.call_tool("slow.deactivate", {"handle": handle})
            proceed.set()
    assert answers == ['["slow"]']
