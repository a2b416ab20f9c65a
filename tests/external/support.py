"""The command `toolfold serve` with other people's programs on either side of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.text import TextReceiveStream
from attrs import frozen
from mcp import Client, StdioServerParameters

from tests.preloaded import forked_toolfold

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PACKAGES = FOLDER / "node_modules" / "@modelcontextprotocol"
TOOLFOLD = str(Path(sys.executable).with_name("toolfold"))
DESK = ("tests.adapters.mcp.desk:make_desk", "--separator", ".")
PATIENCE = 120
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


DIVIDED = ("--groups", str(FOLDER / "divided.toml"))
"""Options with which servers that are small enough to be in no group are divided."""


@frozen
class Upstream:
    """An MCP server that others wrote, started by a command that is run in the project's folder."""

    command: tuple[str, ...]

    @property
    def directly(self) -> StdioServerParameters:
        """How a client starts it without anything in between."""
        return _parameters(self.command)

    @property
    def behind_toolfold(self) -> StdioServerParameters:
        """How a client starts it with groups in front."""
        return over_stdio(*DIVIDED, "--", *self.command)


NODE_OFFLINE = ("node", "--import", (FOLDER / "offline.mjs").as_uri())
EVERYTHING = Upstream((*NODE_OFFLINE, str(PACKAGES / "server-everything/dist/index.js"), "stdio"))


def over_stdio(*target: str) -> StdioServerParameters:
    """Return how a client starts `toolfold serve` for a target."""
    return _parameters(serving(*target))


def serving(*target: str) -> tuple[str, ...]:
    """Return a command that is `toolfold serve` for a target, without the time that its imports take."""
    return (*forked_toolfold(), "serve", *target)


def _parameters(command: Sequence[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=list(command[1:]), env={**os.environ}, cwd=ROOT)


@asynccontextmanager
async def over_http(*target: str) -> AsyncGenerator[str]:
    """Run `toolfold serve --http` for a target and yield the URL; it must exit as expected."""
    command = [*forked_toolfold(), "serve", "--http", "--port", "0", *target]
    process = await anyio.open_process(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    output = TextReceiveStream(process.stderr)
    async with process, anyio.create_task_group() as tasks:
        url = await _url(output)
        tasks.start_soon(_drain, output)
        try:
            yield url
        finally:
            process.terminate()
        assert await process.wait() == 0


async def _url(output: TextReceiveStream) -> str:
    text = ""
    async for part in output:
        text += part
        line, ended, _ = text.partition("serving ")[2].partition("\n")
        if ended:
            return line.strip()
    raise AssertionError(f"toolfold ended: {text}")


async def _drain(output: TextReceiveStream) -> None:
    async for _ in output:
        pass


@asynccontextmanager
async def served(transport: str, *target: str) -> AsyncGenerator[Any]:
    """Yield what `mcp.Client` connects to for `toolfold serve` over a transport."""
    if transport == "stdio":
        yield over_stdio(*target)
    else:
        async with over_http(*target) as url:
            yield url


async def run(*command: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Return the status and the standard output of a command, run in the project's folder."""
    environment = {**os.environ, **(env or {})}
    done = await anyio.run_process(command, cwd=ROOT, env=environment, check=False, stderr=sys.__stderr__)
    return done.returncode, done.stdout.decode()


async def typescript(
    package: str, era: str, server: StdioServerParameters | str, *steps: Sequence[Any], roots: Sequence[str] = ()
) -> Any:
    """Return what `client.mjs` says: a client of one of the TypeScript SDK's packages that does the steps."""
    target = {"url": server} if isinstance(server, str) else server.model_dump(exclude_none=True, mode="json")
    request = {"package": package, "era": era, "server": target, "steps": steps, "roots": roots or None}
    status, printed = await run("node", str(FOLDER / "client.mjs"), json.dumps(request))
    assert status == 0
    return json.loads(printed)


def outcomes(printed: str) -> Counter[str]:
    """Return how many tests that were run had which outcome, from the last line that pytest prints."""
    last = printed.rstrip().rpartition("\n")[2]
    counted = {outcome: int(number) for number, outcome in re.findall(r"(\d+) (\w+)(?=,| in )", last)}
    return Counter({outcome: counted[outcome] for outcome in counted.keys() - {"deselected", "warning", "warnings"}})


def names_in(listed: Mapping[str, Any]) -> set[str]:
    """Return the names in a result of `tools/list`."""
    return {tool["name"] for tool in listed["tools"]}


async def definitions(client: Client) -> dict[str, dict[str, Any]]:
    """Return what a client is listed: name to definition."""
    tools = (await client.list_tools(cache_mode="bypass")).tools
    return {tool.name: tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools}


def installed_browser() -> str | None:
    """Return the path of a browser of Chromium's kind: what `TESTS_CHROMIUM` names, or else one on the PATH."""
    names = (os.environ.get("TESTS_CHROMIUM"), *BROWSERS)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def missing() -> str | None:
    """Return what the tests with Node lack, and how to get it."""
    if shutil.which("node") is None:
        return "node is not installed"
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    for name, version in wanted.items():
        installed = FOLDER / "node_modules" / name / "package.json"
        # An alias is written "npm:mermaid@11.17.2".
        if not installed.exists() or json.loads(installed.read_text())["version"] != version.rpartition("@")[2]:
            return f"{name} {version} is not installed: run `npm ci --ignore-scripts --prefix tests/external`"
    return None
