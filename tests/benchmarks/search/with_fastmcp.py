"""Rank by FastMCP's BM25 search transform; run in an environment that has FastMCP. See `recall`."""
# pyright: reportMissingImports=false

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool


class Listed(Tool):  # type: ignore[misc]
    """A tool of which only the definition matters."""

    async def run(self, arguments: dict[str, Any]) -> Any:
        """Never run."""
        raise NotImplementedError


async def main() -> None:
    """Answer the queries on standard input by rankings on standard output."""
    asked = json.load(sys.stdin)
    server = FastMCP("benchmark")
    for name, tool in asked["tools"]:
        server.add_tool(Listed(name=name, description=tool.get("description", ""), parameters=tool["inputSchema"]))
    server.add_transform(BM25SearchTransform(max_results=asked["limit"]))
    async with Client(server) as client:
        listed = await client.list_tools()
        answers = [await client.call_tool("search_tools", {"query": query}) for query in asked["queries"]]
    texts = [answer.content[0].text if answer.content else "[]" for answer in answers]
    print(
        json.dumps(
            {
                "rankings": [[tool["name"] for tool in json.loads(text)] for text in texts],
                "lists": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed],
                "texts": texts,
            }
        )
    )


asyncio.run(main())
