"""Real servers behind `toolfold serve CONFIG`, each alone, with clients of both eras in front."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
import tomlkit
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

from tests.adapters.mcp.support import change_of
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.external.servers import REAL_SERVERS, RealServer, configured
from tests.external.support import PATIENCE, definitions, over_stdio
from tests.external.test_gateway import passed_on, started
from toolfold_adapters.names import HANDLE_META

pytestmark = [pytest.mark.usefixtures("node_packages", "python_servers"), pytest.mark.spec("GWY-1", "GWY-2")]

ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
NAMED = {server.name: server for server in REAL_SERVERS}


def directly(entry: dict[str, Any]) -> Any:
    """Return what `mcp.Client` connects to for an entry of a configuration."""
    if entry.get("type") == "sse":
        return sse_client(entry["url"])
    if "url" in entry:
        return entry["url"]
    return StdioServerParameters(command=entry["command"], args=entry["args"], env={**os.environ, **entry["env"]})


@asynccontextmanager
async def client_of(config: str, era: str, **callbacks: Any) -> AsyncGenerator[Client]:
    """Yield a client of a gateway in front of the servers of a configuration."""
    with anyio.fail_after(PATIENCE):
        async with Client(over_stdio(config), mode=era, **callbacks) as client:
            yield client


async def outcome_of(call: Any) -> Any:
    """Return all that a client gets to see of a call."""
    result = await call
    return result.model_dump(by_alias=True, include={"content", "structured_content", "is_error"}, mode="json")


class Opened:
    """A client that has opened groups: what it is listed then, and how it calls."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.handle: str | None = None

    async def open_all(self) -> None:
        """Open every group that the list names once a search has waited for the servers."""
        await started(self.client)
        described = {
            tool.name: tool.description or "" for tool in (await self.client.list_tools(cache_mode="bypass")).tools
        }
        for line in described.get("open_group", "").splitlines():
            if line.startswith("- "):
                path, _, inside = line[2:].partition(":")[0].partition(" (")
                for group in (path, *(f"{path}.{inner}" for inner in inside.rstrip(")").split(", ") if inner)):
                    given = {"handle": self.handle} if self.handle else {}
                    answer = await self.client.call_tool("open_group", {"group": group, **given})
                    self.handle = change_of(answer).get("handle")

    async def listed(self) -> dict[str, dict[str, Any]]:
        """Return what is listed: name to definition."""
        meta: Any = {HANDLE_META: self.handle} if self.handle else None
        tools = (await self.client.list_tools(meta=meta, cache_mode="bypass")).tools
        return {tool.name: tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools}

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool, by `call_tool` where there is a handle."""
        if self.handle is None:
            return await self.client.call_tool(tool, arguments)
        through = {"handle": self.handle, "name": tool, "arguments": arguments}
        return await self.client.call_tool("call_tool", through)


def _without_execution(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition as the modern era has it, in which a tool does not say whether it can be a task."""
    return {key: value for key, value in definition.items() if key != "execution"}


@pytest.mark.spec("DEL-1", "DEL-2", "CALL-1")
@pytest.mark.parametrize("server", REAL_SERVERS, ids=lambda server: server.name)
async def test_a_real_server_has_all_its_tools_once_its_groups_are_open_and_answers_as_directly(
    tmp_path: Path, server: RealServer
) -> None:
    # The gateway reads the groups of a server of Toolfold, and opens them itself.
    own = ("call_tool", "__open", "__close") if server.name == "toolfold" else ()
    with configured(tmp_path / "site", server) as site:
        tool, arguments = site.call_of(server)
        async with Client(directly(site.entries[server.name]), mode="legacy") as direct:
            expected = [passed_on(one) for one in (await definitions(direct)).values() if not one["name"].endswith(own)]
            answer = await outcome_of(direct.call_tool(tool, arguments))
        assert server.answer in str(answer)
        config = site.written_to(tmp_path / "mcp.json")
        for era in ("legacy", "auto"):
            async with client_of(config, era) as client:
                opened = Opened(client)
                await opened.open_all()
                listed = await opened.listed()
                for one in expected if era == "legacy" else map(_without_execution, expected):
                    name = f"{server.name}__{one['name']}"
                    assert listed[name] == {**one, "name": name}
                assert await outcome_of(opened.call(f"{server.name}__{tool}", arguments)) == answer


async def sample(context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
    content = t.TextContent(type="text", text="sampled here")
    return t.CreateMessageResult(role="assistant", content=content, model="m")


async def elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
    return t.ElicitResult(action="accept", content={"name": "Ada", "check": True})


def roots_at(folder: Path) -> Any:
    """Return how a client answers that its one root is a folder."""

    async def list_roots(context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=folder.as_uri(), name="work")])  # type: ignore[arg-type]

    return list_roots


@ERAS
async def test_the_filesystem_server_works_in_the_roots_of_the_client(tmp_path: Path, era: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "note.txt").write_text("found by its root")
    with configured(tmp_path / "site", NAMED["filesystem"]) as site:
        config = site.written_to(tmp_path / "mcp.json")
        async with client_of(config, era, list_roots_callback=roots_at(work)) as client:
            opened = Opened(client)
            await opened.open_all()
            read = await opened.call("filesystem__read_text_file", {"path": str(work / "note.txt")})
    assert text_of(read) == "found by its root"


@ERAS
@pytest.mark.parametrize("name", ["everything", "everything-http"])
async def test_what_the_everything_server_asks_reaches_the_client(tmp_path: Path, era: str, name: str) -> None:
    callbacks = {
        "list_roots_callback": roots_at(tmp_path),
        "sampling_callback": sample,
        "elicitation_callback": elicit,
    }
    with configured(tmp_path / "site", NAMED[name]) as site:
        async with client_of(site.written_to(tmp_path / "mcp.json"), era, **callbacks) as client:
            opened = Opened(client)
            await opened.open_all()
            sampled = await opened.call(f"{name}__trigger-sampling-request", {"prompt": "Think", "maxTokens": 5})
            assert "sampled here" in text_of(sampled)
            elicited = await opened.call(f"{name}__trigger-elicitation-request", {})
            assert "Ada" in text_of(elicited)
            rooted = await opened.call(f"{name}__get-roots-list", {})
            assert tmp_path.as_uri() in text_of(rooted)


@ERAS
async def test_prompts_resources_and_completions_of_the_everything_server_pass(tmp_path: Path, era: str) -> None:
    with configured(tmp_path / "site", NAMED["everything"]) as site:
        undivided = {"command": [site.entries["everything"]["command"], *site.entries["everything"]["args"]]}
        config = tmp_path / "gateway.toml"
        config.write_text(tomlkit.dumps({"budgets": {"group_tokens": 100_000}, "upstreams": {"everything": undivided}}))
        async with client_of(str(config), era) as client:
            await started(client)
            assert "everything__args-prompt" in {prompt.name for prompt in (await client.list_prompts()).prompts}
            said = await client.get_prompt("everything__args-prompt", {"city": "Paris"})
            assert "Paris" in said.messages[0].content.text  # type: ignore[union-attr]
            resource = (await client.list_resources()).resources[0]
            assert (await client.read_resource(str(resource.uri))).contents
            assert (await client.list_resource_templates()).resource_templates
            ref = t.PromptReference(name="everything__completable-prompt")
            completed = await client.complete(ref, {"name": "department", "value": "E"})
            assert completed.completion.values == ["Engineering"]
