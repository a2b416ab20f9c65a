"""Writes the servers of `docs/reference/servers.md`, which the gateway was tried with, and what they cost together.

    python -m tests.external.tried            start each server, and write the file
    python -m tests.external.tried --check    start each server; the status is 1 if servers or versions differ

It needs the packages of `npm ci --prefix tests/external --ignore-scripts`, and in TESTS_SERVERS the folder of the
programs of an environment with mcp-server-git, mcp-server-time and mcp-server-fetch.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.external.servers import NODE_MODULES, REAL_SERVERS, RealServer, configured, python_programs
from tests.external.support import ROOT, TOOLFOLD

FILE = ROOT / "docs" / "reference" / "servers.md"
COSTS = ROOT / "diagrams" / "gallery" / "before_after.json"
"""What the picture of the README is drawn from."""
ROW = re.compile(r"^\| (\S+) \| `[^`]+` (\S+) \| [^|]+ \| [^|]+ \| (\d+) \|", re.MULTILINE)

HOSTS = "\n## Hosts\n"
"""Where the section of the page begins that `python -m tests.external.hosts` writes."""

PAGE = """\
# What it was tried with

`toolfold serve` stands between hosts and MCP servers as they are. These servers and [hosts](#hosts) were run with it,
as published.

## Servers

{table}
*Tokens* are approximate: of all definitions, and of what is listed at first with this server alone behind Toolfold.
All {count} in one configuration: {tools} tools, about {before:,} tokens, of which {after:,} are listed at first.

With each of them alone, behind the Python SDK's client in the legacy and in the modern era:

- every tool is listed, once its group is open, with the definition that the server gives without Toolfold; that it
  has to be called as a task becomes that it can be, and the modern era has no place for either,
- a call answers to the letter what it answers without Toolfold.

With all of them in one configuration, a tool of each is found, its group opened, and the tool called by:

- the Python SDK's client, in both eras,
- the TypeScript SDK's clients `@modelcontextprotocol/sdk` and `@modelcontextprotocol/client`, the latter in both eras,
- the command line of the MCP inspector, in both eras.

`python -m tests.external.tried` writes this section. The tests are `tests/external/test_gateway_servers.py` and
`tests/external/test_gateway_clients.py`; `tests/external/servers.py` lists the servers.
"""


def inspected(config: str) -> dict[str, Any]:
    """Return what `toolfold inspect --json` reports of a configuration."""
    command = [TOOLFOLD, "inspect", "--json", config]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    return report


def tools_in(report: Mapping[str, Any]) -> dict[str, int]:
    """Return how many tools each server has, by what `toolfold inspect --json` reports."""
    return {server["name"]: server["tools"] for server in report["servers"]}


def facts(tools: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return the version of each server, and how many tools it has."""
    return {server.name: (version(server), tools[server.name]) for server in REAL_SERVERS}


def facts_in(page: str) -> dict[str, tuple[str, int]]:
    """Return what a page says of that."""
    return {name: (version, int(tools)) for name, version, tools in ROW.findall(page)}


def version(server: RealServer) -> str:
    """Return the version of a server that is installed."""
    if server.name == "toolfold":
        return "(this)"
    if server.language == "Python":
        code = f"from importlib.metadata import version; print(version({server.package!r}))"
        python = Path(python_programs(), "python")
        return subprocess.run([python, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return str(json.loads((NODE_MODULES / server.package / "package.json").read_text(encoding="utf-8"))["version"])


def page(together: Mapping[str, Any], alone: Mapping[str, Mapping[str, Any]], before: str) -> str:
    """Return the page, from the reports on all servers together and on each alone, with the hosts of the one before."""
    rows = [
        "| server | package | language | transport | tools | tokens | at first | what else was checked |",
        "|---|---|---|---|--:|--:|--:|---|",
    ]
    known = facts(tools_in(together))
    for server in REAL_SERVERS:
        installed, tools = known[server.name]
        tokens = alone[server.name]["tokens"]
        rows.append(
            f"| {server.name} | `{server.package}` {installed} | {server.language} | {server.transport} | {tools} "
            f"| {tokens['before']:,} | {tokens['after']:,} | {server.checked} |"
        )
    _, heading, hosts = before.partition(HOSTS)
    servers = PAGE.format(
        table="".join(f"{row}\n" for row in rows),
        count=len(REAL_SERVERS),
        tools=together["tools"],
        before=together["tokens"]["before"],
        after=together["tokens"]["after"],
    )
    return f"{servers}{heading}{hosts}"


def costs(together: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each server costs without Toolfold, and all of them with it, from the report on them together."""
    return {
        "servers": {
            server["name"]: {"tools": server["tools"], "tokens": server["tokens"]["before"]}
            for server in together["servers"]
        },
        "tools": together["tools"],
        "before": together["tokens"]["before"],
        "after": together["tokens"]["after"],
    }


def distinct() -> list[RealServer]:
    """Return the servers of others, each once, whatever transports it has."""
    return list({server.package: server for server in reversed(REAL_SERVERS) if server.name != "toolfold"}.values())[
        ::-1
    ]


def main(arguments: list[str] | None = None) -> int:
    """Start the servers, and write or check the page; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.external.tried", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; say whether servers and versions differ")
    check = parser.parse_args(arguments).check
    with TemporaryDirectory() as name:
        folder = Path(name)
        with configured(folder / "site", *REAL_SERVERS) as site:
            together = inspected(site.written_to(folder / "mcp.json"))
        if check:
            if facts_in(FILE.read_text(encoding="utf-8")) == facts(tools_in(together)):
                return 0
            print("docs/reference/servers.md is stale: run python -m tests.external.tried", file=sys.stderr)
            return 1
        with configured(folder / "site", *distinct()) as site:
            once = inspected(site.written_to(folder / "mcp.json"))
        alone = {}
        for server in REAL_SERVERS:
            with configured(folder / "site", server) as site:
                alone[server.name] = inspected(site.written_to(folder / "mcp.json"))
    FILE.write_text(page(together, alone, FILE.read_text(encoding="utf-8")), encoding="utf-8")
    COSTS.write_text(json.dumps(costs(once), indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
