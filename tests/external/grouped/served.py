"""Serves the FastMCP server NAME of a file: `served.py FILE NAME stdio|http [--groups|--tags]`."""

import runpy
import sys

import anyio

from toolfold_adapters.integrations.fastmcp import group_server
from toolfold_adapters.mcp import serve


async def main(*arguments: str) -> None:
    """Serve until the client leaves, or for good."""
    file, name, transport, *flags = arguments
    server = runpy.run_path(file, run_name="served")[name]
    if "--groups" in flags:
        group_server(server, {"all": "*"})
    if "--tags" in flags:
        group_server(server, "tags")
    if transport == "stdio":
        await server.run_stdio_async(show_banner=False)
    else:
        await serve(server, transport="http", port=0, on_ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
