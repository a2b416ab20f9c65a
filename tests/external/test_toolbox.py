"""The groups of Google's toolbox, which serves them by an extension of its own, behind the gateway (SPEC DEL-5)."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from anyio.streams.text import TextReceiveStream
from mcp import MCPError, StdioServerParameters
from mcp_types import INVALID_PARAMS, TextContent

from tests.external.support import FOLDER
from tests.process.ports import free_port
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.stored import DefinitionCache
from toolfold_adapters.mcp import FollowingClient
from toolfold_adapters.transport import processes

pytestmark = [pytest.mark.usefixtures("node_packages"), pytest.mark.spec("DEL-5", "GWY-2")]

PROGRAM = str(FOLDER / "node_modules/@toolbox-sdk/server/bin/run.js")
TOOLBOX = ("node", PROGRAM, "--disable-version-check", "--config", str(FOLDER / "toolbox.yaml"))


@asynccontextmanager
async def reached(transport: str) -> AsyncGenerator[UpstreamConfig]:
    """Yield how a toolbox is reached; its program is a child of the process that is started."""
    if transport == "stdio":
        yield UpstreamConfig(command=(*TOOLBOX, "--stdio"), mode="auto")
        return
    port = free_port()
    process = await processes.start([*TOOLBOX, "--port", str(port)], os.environ, stderr=None)
    try:
        assert process.stdout is not None
        printed = ""
        async for text in TextReceiveStream(process.stdout):
            printed += text
            if "Server ready" in printed:
                break
        yield UpstreamConfig(url=f"http://127.0.0.1:{port}/mcp")
    finally:
        await processes.end(process)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_groups_of_a_toolbox_are_groups_of_the_gateway(transport: str) -> None:
    async with reached(transport) as upstream:
        config = GatewayConfig(upstreams={"books": upstream})
        gateway = open_gateway(config, runtime=Runtime(clock=time.monotonic, cache=DefinitionCache()))
        async with gateway as tools, tools.open_session() as session:
            groups = {group.path: group.description for group in tools.catalog.groups}
            assert groups == {
                "books": "3 tools: find_book, lend_book, list_books",
                "books.lending_desk": "2 tools: find_book, lend_book",
                "books.reading": "Look books up",
            }
            assert gateway.report.warnings == ()
            await session.activate("books")
            await session.activate("books.reading")
            shown = [tool.name for tool in session.list_tools().tools if tool.control is None]
            assert shown == ["books__find_book", "books__list_books"]
            found = await session.call("books__find_book", {"title": "Emma"})
            assert (found.is_error, "Emma" in found.text) == (False, True)
            await session.transition(deactivate=["books.reading"], activate=["books.lending_desk"])
            assert "lent" in (await session.call("books__lend_book", {})).text
            assert "books__greet" in tools.catalog.components["prompt"].by_name


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_that_follows_groups_fetches_those_of_a_toolbox(transport: str) -> None:
    async with reached(transport) as upstream:
        program, *arguments = upstream.command or ("",)
        reached_by = upstream.url or StdioServerParameters(command=program, args=arguments)
        async with FollowingClient(reached_by, groups=True) as client:
            groups = {str(entry["name"]): entry.get("description") for entry in await client.list_groups()}
            assert groups == {"lending_desk": None, "reading": "Look books up"}
            assert {tool.name for tool in (await client.open_group("reading")).tools} == {"find_book", "list_books"}
            (content,) = (await client.call_tool("find_book", {"title": "Emma"})).content
            assert isinstance(content, TextContent)
            assert "Emma" in content.text
            with pytest.raises(MCPError) as unknown:
                await client.open_group("attic")
            assert unknown.value.code == INVALID_PARAMS
