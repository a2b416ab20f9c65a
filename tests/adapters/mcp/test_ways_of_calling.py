"""What a model is told of how to call what it opened: only what its client can do (SPEC CTL-8, DEL-8, DEL-12)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from mcp_types import Implementation, TextContent

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold_adapters.hosts import HOSTS, host_called, lists_again
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.request import own_client
from toolfold_adapters.names import CHANGE_META, HANDLE_META

PROXIES = ("call_tool", "read_tool", "call_tools")


@contextmanager
def process_of_one_client() -> Generator[None]:
    """Serve as over stdio, where a process has one client."""
    token = own_client.set("client")
    try:
        yield
    finally:
        own_client.reset(token)


def shop_server() -> Any:
    return build_server(make_shop(control="open_group"), read_tool=True, call_tools=True)


@pytest.mark.spec("CTL-8", "DEL-12")
async def test_a_client_that_has_its_process_alone_reads_of_no_handle() -> None:
    with process_of_one_client():
        async with client_of(shop_server(), MODERN) as (client, _):
            tools = (await client.list_tools()).tools
            opened = await client.call_tool("open_group", {"group": "stock"})
            called = await client.call_tool("call_tool", {"name": "stock__count", "arguments": {"item": "tea"}})
        async with client_of(shop_server(), "auto") as (client, _):
            said = client.instructions or ""
    assert {*PROXIES, "open_group", "close_group"} <= {tool.name for tool in tools}
    assert [tool.name for tool in tools if "handle" in str(tool.input_schema)] == []
    assert "opens one; call_tool then calls its tools." in said
    assert "handle" not in said + text_of(opened) + text_of(called)
    assert not called.is_error


CLOSING = {"name": "close_group", "arguments": {"group": "stock"}}
CHANGES: list[tuple[str, dict[str, Any], bool]] = [
    ("open_group", {"group": "stock"}, True),
    ("close_group", {"group": "stock"}, False),
    ("call_tools", {"calls": [{"name": "open_group", "arguments": {"group": "stock"}}]}, True),
    ("call_tools", {"calls": [CLOSING]}, False),
]


@pytest.mark.spec("CTL-4", "CTL-8")
@pytest.mark.parametrize("alone", [True, False], ids=["stdio", "handles"])
async def test_how_tools_are_called_is_said_before_tools_alone(alone: bool) -> None:
    with process_of_one_client() if alone else nullcontext():
        async with client_of(shop_server(), MODERN) as (client, _):
            given: dict[str, Any] = {}
            for name, arguments, follow in CHANGES:
                answer = await client.call_tool(name, {**arguments, **given})
                text, handle = text_of(answer), (answer.meta or {})[HANDLE_META]
                given = {} if alone else {"handle": handle}
                assert ("Call the tools below" in text, "which calls these tools" in text) == (
                    follow and alone,
                    follow and not alone,
                )
                assert text.startswith(f"Handle: {handle}\nGive it as 'handle' to call_tool") is not alone
                assert all(block.text for block in answer.content if isinstance(block, TextContent))


@pytest.mark.spec("CTL-8", "DEL-12")
async def test_it_may_give_one_all_the_same() -> None:
    with process_of_one_client():
        async with client_of(shop_server(), MODERN) as (client, _):
            for handle in ("any", "", None):
                assert not (await client.call_tool("open_group", {"group": "stock", "handle": handle})).is_error
                call = {"name": "stock__count", "arguments": {"item": "tea"}, "handle": handle}
                assert not (await client.call_tool("call_tool", call)).is_error


@pytest.mark.spec("CTL-8", "DEL-2")
async def test_where_handles_are_issued_they_are_offered() -> None:
    async with client_of(shop_server(), MODERN) as (client, _):
        tools = (await client.list_tools()).tools
        opened = await client.call_tool("open_group", {"group": "stock"})
    offering = {tool.name for tool in tools if "handle" in tool.input_schema["properties"]}
    assert offering == {*PROXIES, "open_group", "close_group"}
    assert text_of(opened).startswith("Handle: ")


LISTING_ONCE = [
    *(
        "codex-mcp-client",
        "continue-cli-client",
        "Cline",
        "cline",
        "@cline/core",
        "qwen-code",
        "qwen-cli-mcp-client-toolfold",
    ),
    *("kimi", "kimi-code", "Kimi Code", "claude-ai"),
]
OTHERS = ["gemini-cli-mcp-client-toolfold", "opencode", "claude-code", "Visual Studio Code", "some-agent", ""]


@pytest.mark.spec("DEL-8")
@pytest.mark.parametrize(
    ("client_name", "again"), [*((one, False) for one in LISTING_ONCE), *((one, True) for one in OTHERS)]
)
async def test_the_host_decides_whether_tools_are_called_by_name(client_name: str, again: bool) -> None:
    info = Implementation(name=client_name, version="1")
    async with client_of(shop_server(), "legacy", client_info=info) as (client, _):
        said = client.instructions or ""
        opened = text_of(await client.call_tool("open_group", {"group": "stock"}))
        found = text_of(await client.call_tool("open_group", {"group": "cash"}))
    assert ("; its tools are then in your list. If it does not change, call_tool calls them." in said) is again
    assert ("opens one; call_tool then calls its tools." in said) is not again
    for text in (opened, found):
        assert text.startswith("Call the tools below by name, or" if again else "Call the tools below by call_tool.\n")


@pytest.mark.spec("CTL-4", "DEL-8")
@pytest.mark.parametrize("era", ["legacy", MODERN])
@pytest.mark.parametrize(
    ("client_name", "reads"),
    [("kimi-code", True), ("Kimi Code", True), ("@cline/core", True), ("qwen-code", False), ("some-agent", False)],
)
async def test_the_meta_of_an_answer_repeats_no_tools_where_the_model_reads_it(
    client_name: str, reads: bool, era: str
) -> None:
    info = Implementation(name=client_name, version="1")
    async with client_of(shop_server(), era, client_info=info) as (client, _):
        opened = await client.call_tool("open_group", {"group": "stock"})
    change = (opened.meta or {})[CHANGE_META]
    assert ("tools" in change, "handle" in change) == (not reads, era == MODERN)
    assert (change["group"], change["changed"], change["active"]) == ("stock", True, ["stock"])
    assert "stock__count" in text_of(opened)


def test_the_row_of_a_host_agrees_with_what_its_versions_show() -> None:
    for host in HOSTS:
        assert {view.lists_again for view in host.views.values()} <= {host.lists_again}, host.name
        for view in host.views.values():
            assert host_called(view.client) is host
            assert lists_again(view.client) is host.lists_again
