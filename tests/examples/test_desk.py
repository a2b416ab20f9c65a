"""The smallest example behaves as the pages that use it say."""

from __future__ import annotations

from mcp import Client

from examples.desk import tools
from tests.adapters.mcp.support import build_server


async def test_the_example_does_what_pages_say() -> None:
    notified: list[str] = []

    async def receive(message: object) -> None:
        notified.append(getattr(message, "method", ""))

    async with Client(build_server(tools), mode="legacy", message_handler=receive) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["call_tool", "database.activate", "ping"]
        await client.call_tool("database.activate", {})
        assert notified == ["notifications/tools/list_changed"]
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "database.query" in names
        assert "database.write.insert" not in names
        await client.call_tool("database.write.activate", {})
        inserted = await client.call_tool("database.write.insert", {"table": "t", "row": {"a": "1"}})
        assert inserted.content[0].text == "1"  # type: ignore[union-attr]


async def test_the_core_without_mcp_works_as_pages_say() -> None:
    async with tools.open_session() as session:
        await session.activate("database")
        assert "database.query" in session.list_tools().names
        assert (await session.call("database.query", {"sql": "select 1"})).text == '[{"ran": "select 1"}]'
