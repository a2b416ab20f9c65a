"""A server with a view, which no list has: `boards.py NAME`. Its view calls tools of its server by their own names."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

BOARD = "ui://board/main.html"
"""The view of each server, whatever its name."""
HTML = """<!doctype html><body><script type="module">
import { App } from "SDK_URL";
const say = (textContent, id = "") =>
  document.body.append(Object.assign(document.createElement("p"), { textContent, id }));
const called = async (name) => {
  try {
    say((await app.callServerTool({ name, arguments: {} })).content[0].text);
  } catch (error) {
    say(`${name}: ${error.message}`);
  }
};
const app = new App({ name: "board", version: "1" }, {});
const result = new Promise((done) => app.addEventListener("toolresult", done));
await app.connect();
say("the view of SERVER");
say((await result).content[0].text);
await called("refresh_SERVER");
await called("models_SERVER");
await called("refresh");
say(".", "done");
</script>"""


def visible(*whom: str, **more: Any) -> dict[str, Any]:
    return {"ui": {"visibility": [*whom], **more}}


def server(name: str) -> Server[Any]:
    tools = {
        "show": visible("model", resourceUri=BOARD),
        "refresh": visible("app"),
        f"refresh_{name}": visible("app"),
        f"models_{name}": visible("model"),
    }

    async def list_tools(ctx: Any, params: Any) -> t.ListToolsResult:
        listed = [t.Tool(name=one, input_schema={"type": "object"}, _meta=meta) for one, meta in tools.items()]
        return t.ListToolsResult(tools=listed)

    async def call(ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
        return t.CallToolResult(content=[t.TextContent(type="text", text=f"{params.name} of {name}")])

    async def read(ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        text = HTML.replace("SERVER", name)
        page = t.TextResourceContents(uri=params.uri, mime_type="text/html;profile=mcp-app", text=text)
        return t.ReadResourceResult(contents=[page])

    async def none(ctx: Any, params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[])

    return Server(name, on_list_tools=list_tools, on_call_tool=call, on_list_resources=none, on_read_resource=read)


async def main(name: str) -> None:
    made = server(name)
    async with stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
