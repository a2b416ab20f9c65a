"""All real servers at once behind `toolfold serve CONFIG`, with the clients that others wrote in front."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from attrs import frozen

from tests.adapters.mcp.support import change_of, client_of, names_of
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.external.servers import NOTE, REAL_SERVERS, RealServer, Site, configured
from tests.external.support import names_in, over_http, over_stdio, typescript
from tests.external.test_inspector import call as inspected_call
from tests.external.test_inspector import inspector
from tests.external.tried import FILE, facts, facts_in
from tests.preloaded import forked_toolfold
from toolfold_adapters.gateway import Runtime, load_config, open_gateway
from toolfold_adapters.gateway.stored import DefinitionCache, stored_folder
from toolfold_adapters.names import CHANGE_META

pytestmark = [
    pytest.mark.usefixtures("node_packages", "python_servers"),
    pytest.mark.spec("GWY-1", "GWY-2"),
    pytest.mark.xdist_group("at once"),  # so that one worker alone starts the servers
]

CONTROLS = {"call_tool", "close_group", "find_tools", "open_group", "read_tool"}


@frozen
class AtOnce:
    """A configuration of all servers.

    `groups` maps the name of a tool to the group that it is in, `tools` the name of a server to how many tools it has,
    and `roots` are folders that only the client knows.
    """

    site: Site
    config: str
    groups: Mapping[str, str]
    tools: Mapping[str, int]
    roots: tuple[str, ...]

    def call_of(self, server: RealServer) -> tuple[str, dict[str, Any]]:
        """Return the tool that is called and the arguments; the file of a filesystem is in the client's root."""
        tool, arguments = self.site.call_of(server)
        if server.name == "filesystem":
            arguments = {"path": self.roots[0].removeprefix("file://") + "/note.txt"}
        return f"{server.name}__{tool}", arguments


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtOnce]:
    folder = tmp_path_factory.mktemp("servers")
    root = folder / "root"
    root.mkdir()
    (root / "note.txt").write_text(NOTE, encoding="utf-8")
    with configured(folder / "site", *REAL_SERVERS) as site:
        config = site.written_to(folder / "mcp.json")
        # What this learns is cached, so that no server comes late, with a notification of its own.
        subprocess.run([*forked_toolfold(), "init", "--config", config, "--dry-run", "--measure"], check=True)
        groups, tools = anyio.run(_learned, config)
        yield AtOnce(site, config, groups, tools, (root.as_uri(),))


async def _learned(config: str) -> tuple[dict[str, str], Counter[str]]:
    """Return the group of each tool, and how many tools each server has, from what is cached."""
    runtime = Runtime(clock=time.monotonic, cache=DefinitionCache(stored_folder("definitions")))
    gateway = open_gateway(load_config(config), runtime=runtime)
    async with gateway as tools:
        groups = {name: tool.group for name, tool in tools.catalog.tools.items() if tool.group and not tool.control}
        return groups, Counter(gateway.report.servers.values())


@pytest.mark.spec("GWY-5")
def test_the_page_on_the_servers_has_their_versions_and_how_many_tools_they_have(at_once: AtOnce) -> None:
    assert facts_in(FILE.read_text(encoding="utf-8")) == facts(at_once.tools), "run python -m tests.external.tried"


@pytest.mark.spec("FND-1", "CTL-4", "NTF-1", "DEL-1", "DEL-2", "CALL-1")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_the_python_client_finds_opens_and_calls_a_tool_of_each_server(at_once: AtOnce, era: str) -> None:
    async def list_roots(context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=uri) for uri in at_once.roots])  # type: ignore[arg-type]

    modern = era != "legacy"
    async with client_of(over_stdio(at_once.config), era, list_roots_callback=list_roots) as (client, listener):
        assert set(await names_of(client)) == CONTROLS
        handle: dict[str, Any] = {}
        opened: set[str] = set()
        for server in REAL_SERVERS:
            tool, arguments = at_once.call_of(server)
            found = text_of(await client.call_tool("find_tools", {"query": server.query, "limit": 10, **handle}))
            group = group_to_open(found, tool)
            if group not in opened:
                opened.add(group)
                change = change_of(await client.call_tool("open_group", {"group": group, **handle}))
                handle = {"handle": change["handle"]} if modern else {}
                assert tool in change["tools"]
            if modern:
                answer = await client.call_tool("call_tool", {"name": tool, "arguments": arguments, **handle})
            else:
                answer = await client.call_tool(tool, arguments)
            assert server.answer in text_of(answer)
        listed = set(await names_of(client))
        assert listener.changes == (0 if modern else len(opened))
        called = {at_once.call_of(server)[0] for server in REAL_SERVERS}
        assert listed == CONTROLS if modern else listed >= CONTROLS | called


def group_to_open(found: str, tool: str) -> str:
    """Return the group that has to be opened for a tool, as `find_tools` says; or that of it, if it is open."""
    line = next(line for line in found.splitlines() if line.startswith("In group ") and tool in line)
    match = re.match(r"In group ([^ ,]+)", line)
    assert match is not None
    return match[1]


@pytest.mark.spec("DEL-1", "NTF-1", "CALL-1")
@pytest.mark.parametrize("package", ["sdk", "client"])
async def test_a_legacy_typescript_client_opens_and_calls_a_tool_of_each_server(at_once: AtOnce, package: str) -> None:
    calls = [at_once.call_of(server) for server in REAL_SERVERS]
    groups = dict.fromkeys(at_once.groups[tool] for tool, _ in calls)
    said = await typescript(
        package,
        "legacy",
        over_stdio(at_once.config),
        ["listTools"],
        *(call("open_group", group=group) for group in groups),
        ["listTools"],
        *(call(tool, **arguments) for tool, arguments in calls),
        roots=at_once.roots,
    )
    first, *openings, listed = said["steps"][: len(groups) + 2]
    assert names_in(first["result"]) == CONTROLS
    assert [step["received"] for step in openings] == list(range(1, len(groups) + 1))
    assert names_in(listed["result"]) >= CONTROLS | {tool for tool, _ in calls}
    for server, answer in zip(REAL_SERVERS, said["steps"][len(groups) + 2 :], strict=True):
        assert server.answer in json.dumps(answer["result"]), server.name


@pytest.mark.spec("FND-1", "DEL-2", "CALL-1")
async def test_a_modern_typescript_client_finds_opens_and_calls_a_tool_of_each_server(at_once: AtOnce) -> None:
    calls = [at_once.call_of(server) for server in REAL_SERVERS]
    first, *rest = dict.fromkeys(at_once.groups[tool] for tool, _ in calls)
    said = await typescript(
        "client",
        "2026-07-28",
        over_stdio(at_once.config),
        call("find_tools", query=REAL_SERVERS[0].query),
        call("open_group", group=first),
        *(call("open_group", group=group, handle="last") for group in rest),
        *(call("call_tool", name=tool, arguments=arguments, handle="last") for tool, arguments in calls),
        ["listTools"],
        roots=at_once.roots,
    )
    found, *steps, listed = said["steps"]
    assert calls[0][0] in json.dumps(found["result"])
    for server, answer in zip(REAL_SERVERS, steps[len(rest) + 1 :], strict=True):
        assert server.answer in json.dumps(answer["result"]), server.name
    assert names_in(listed["result"]) == CONTROLS
    assert said["received"] == 0


def call(name: str, /, **arguments: Any) -> list[Any]:
    return ["callTool", {"name": name, "arguments": arguments}]


@pytest.mark.spec("FND-1", "DEL-2", "CALL-1")
async def test_the_inspector_finds_opens_and_calls_a_tool_of_each_server(at_once: AtOnce, tmp_path: Path) -> None:
    async with over_http(at_once.config) as url:
        query = REAL_SERVERS[0].query
        _, found = await inspected_call(tmp_path, [url], "modern", "find_tools", query=query)
        assert at_once.call_of(REAL_SERVERS[0])[0] in json.dumps(found)
        handle: dict[str, Any] = {}
        for group in dict.fromkeys(at_once.groups[at_once.call_of(server)[0]] for server in REAL_SERVERS):
            status, opened = await inspected_call(tmp_path, [url], "modern", "open_group", group=group, **handle)
            assert status == 0
            handle = {"handle": opened["_meta"][CHANGE_META]["handle"]}
        for server in REAL_SERVERS:
            tool, arguments = in_site(at_once, server)
            _, answer = await inspected_call(
                tmp_path, [url], "modern", "call_tool", name=tool, arguments=arguments, **handle
            )
            assert server.answer in json.dumps(answer), server.name


def in_site(at_once: AtOnce, server: RealServer) -> tuple[str, dict[str, Any]]:
    """Return a call in the folder that the server itself has been given: the inspector's command has no roots."""
    tool, arguments = at_once.site.call_of(server)
    return f"{server.name}__{tool}", arguments


@pytest.mark.spec("DEL-1", "DEL-4", "CALL-1")
async def test_the_inspector_calls_a_tool_of_each_server_in_a_group_that_its_url_names(
    at_once: AtOnce, tmp_path: Path
) -> None:
    async with over_http(at_once.config) as url:
        status, listed = await inspector(tmp_path, [url], "legacy", "--method", "tools/list")
        assert (status, names_in(listed)) == (0, CONTROLS)
        for server in REAL_SERVERS:
            tool, arguments = in_site(at_once, server)
            _, answer = await inspected_call(
                tmp_path, [f"{url}?groups={at_once.groups[tool]}"], "legacy", tool, **arguments
            )
            assert server.answer in json.dumps(answer), server.name
