"""Gateways to other servers, as their users run them: how each is configured, and how a model calls a tool through it.

`TESTS_FASTMCP`, `TESTS_LAZY_MCP` and `TESTS_MCP_COMPRESSOR` name the interpreters of environments that have
`fastmcp`, `lazy-mcp` and `mcp-compressor`, and `TESTS_MCP_HUB` the program of `mcp-hub`; what is missing is left out.
The package `lazy-mcp` of PyPI has the program for Node.js that npm's has, and is run without its launcher. Of options
that pass more on, each has those it has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from .servers import interpreter

Servers = Mapping[str, Mapping[str, Any]]
"""The servers behind a gateway by name: `command` and `args`, or `url`."""
PORT = "PORT"
"""What stands for the port in the command of a gateway that serves at one."""
Call = tuple[str, dict[str, Any]]
"""The name of a tool, and arguments."""
LAZY = "import lazy_mcp; print(lazy_mcp._find_node(), lazy_mcp.BUNDLE_JS, sep='\\n')"
SEARCH = """
import json, sys
from fastmcp.server import create_proxy
from fastmcp.server.transforms.search import BM25SearchTransform
server = create_proxy(json.load(open(sys.argv[1])))
server.add_transform(BM25SearchTransform())
server.run(show_banner=False, log_level="ERROR")
"""


def _as_clients(servers: Servers) -> Any:
    return {"mcpServers": servers}


def _by_name(server: str, tool: str, arguments: dict[str, Any]) -> Call:
    return tool, arguments


@frozen
class Gateway:
    """A gateway, in a process for each client.

    `opening` says what is called before the tools of a server are listed, `call` what is called for a tool of the
    only server, and `definition` what is asked for its definition where that is never in the list. `transports` are
    those of servers that it reaches. `sse` is the path of its own endpoint, if it is one process for all of its clients
    at a port, which is in its command as `PORT`.
    """

    name: str
    command: tuple[str, ...]
    configuration: Callable[[Servers], Any] = _as_clients
    call: Callable[[str, str, dict[str, Any]], Call] = _by_name
    opening: Callable[[str], Call] | None = None
    definition: Callable[[str, str], Call] | None = None
    transports: tuple[str, ...] = ("stdio", "HTTP")
    sse: str | None = None
    environment: Mapping[str, str] = field(factory=lambda: dict(os.environ))

    def to(self, servers: Servers, folder: Path) -> list[str]:
        """Return the command that serves some servers; the configuration is put into the folder."""
        file = folder / f"{self.name}.json"
        file.write_text(json.dumps(self.configuration(servers)))
        return [*self.command, str(file)]


def gateways(environment: Mapping[str, str]) -> list[Gateway]:
    """Return Toolfold, which runs in the environment given, and those of the others that are there."""
    toolfold = Gateway(
        "toolfold",
        (sys.executable, "-m", "toolfold_cli", "serve"),
        opening=lambda server: ("open_group", {"group": server}),
        call=lambda server, tool, arguments: (f"{server}__{tool}", arguments),
        environment=environment,
    )
    found = [toolfold]
    if python := interpreter("fastmcp"):
        found += _fastmcp(python, {name: value for name, value in environment.items() if name != "PYTHONPATH"})
    if python := interpreter("lazy-mcp"):
        found.append(_lazy_mcp(python))
    if python := interpreter("mcp-compressor"):
        found.append(_mcp_compressor(python))
    return found


def hubs(environment: Mapping[str, str]) -> list[Gateway]:
    """Return the gateways that are there and list all tools of all servers, in a process of their own."""
    if (program := environment.get("TESTS_MCP_HUB")) is None:
        return []
    return [
        Gateway(
            "mcp-hub",
            ("node", program, "--port", PORT, "--config"),
            call=lambda server, tool, arguments: (f"{server}__{tool}", arguments),
            sse="/mcp",
            environment=environment,
        )
    ]


def _fastmcp(python: str, environment: Mapping[str, str]) -> list[Gateway]:
    run = (python, "-m", "fastmcp.cli", "run", "--no-banner", "--log-level", "ERROR")
    return [
        Gateway("fastmcp", run, environment=environment),
        Gateway(
            "fastmcp, search",
            (python, "-c", SEARCH),
            call=lambda _, tool, arguments: ("call_tool", {"name": tool, "arguments": arguments}),
            definition=lambda _, tool: ("search_tools", {"query": tool}),
            environment=environment,
        ),
    ]


def _lazy_mcp(python: str) -> Gateway:
    program = subprocess.run([python, "-c", LAZY], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
    return Gateway(
        "lazy-mcp",
        (*program[:2], "--config"),
        configuration=lambda servers: {"servers": [_lazy_server(name, one) for name, one in servers.items()]},
        call=lambda server, tool, arguments: (
            "invoke_command",
            {"server": server, "command_name": tool, "parameters": arguments},
        ),
        definition=lambda server, tool: ("describe_commands", {"server": server, "command_names": [tool]}),
    )


def _lazy_server(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    about = {"name": name, "description": entry.get("description") or name, "forwardPrompts": True}
    reached = {"url": entry["url"]} if "url" in entry else {"command": [entry["command"], *entry["args"]]}
    return about | reached


def _mcp_compressor(python: str) -> Gateway:
    return Gateway(
        "mcp-compressor",
        (python, "-m", "mcp_compressor.cli", "--config"),
        call=lambda _, tool, arguments: ("invoke_tool", {"tool_name": tool, "tool_input": arguments}),
        definition=lambda _, tool: ("get_tool_schema", {"tool_name": tool}),
        transports=("stdio",),  # over HTTP it asks for authorization, also where the server wants none
    )
