"""A server behind the runtime: `upstream.py RECORD [linger]`.

Each call of `record` adds a line once it has begun.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("upstream")
RECORD = Path(sys.argv[1])


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def process() -> int:
    """Return the process of this server."""
    return os.getpid()


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def folder() -> str:
    """Return the folder of this server."""
    return str(Path.cwd())


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def variable(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "")


@server.tool()
def record(word: str, go: str = "") -> str:
    """Record a word, and return once a file exists."""
    with RECORD.open("a") as file:
        file.write(f"{word}\n")
    while go and not Path(go).exists():
        time.sleep(0.01)
    return word


server.run()
while "linger" in sys.argv:  # a server that does not end with its standard input
    time.sleep(1)
