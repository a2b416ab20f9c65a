"""Several real servers at once behind `toolfold serve CONFIG`, with clients of both eras in front."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
import tomlkit
from mcp import Client, StdioServerParameters

from tests.external.support import EVERYTHING, PACKAGES, PATIENCE, ROOT, TOOLFOLD

pytestmark = [pytest.mark.usefixtures("node_packages"), pytest.mark.spec("GWY-1")]

ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


def installed(package: str, *arguments: str) -> dict[str, Any]:
    """Return an installed server as a gateway's configuration has it."""
    return {"command": ["node", str(PACKAGES / package / "dist/index.js"), *arguments]}


def one_group_each(servers: dict[str, Any]) -> str:
    """Return a configuration in which no server is divided."""
    return tomlkit.dumps({"budgets": {"group_tokens": 100_000}, "upstreams": servers})


@asynccontextmanager
async def client_of(folder: Path, era: str, servers: dict[str, Any], **options: Any) -> AsyncGenerator[Client]:
    """Yield a client of a gateway in front of servers, all of whose groups are open from the start."""
    config = folder / "gateway.toml"
    config.write_text(one_group_each(servers), encoding="utf-8")
    gateway = StdioServerParameters(
        command=TOOLFOLD,
        args=["serve", str(config), "--active", ",".join(servers)],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        cwd=ROOT,
    )
    with anyio.fail_after(PATIENCE):
        async with Client(gateway, mode=era, **options) as client:
            yield client


@asynccontextmanager
async def everything_over_http() -> AsyncGenerator[str]:
    """Run server-everything over streamable HTTP and yield its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program, *arguments = EVERYTHING.command
    command = [program, *arguments[:-1], "streamableHttp"]
    environment = {**os.environ, "PORT": str(port)}
    async with await anyio.open_process(command, env=environment, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        try:
            while b"listening" not in await process.stderr.receive():
                continue
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def text_of(result: t.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, t.TextContent))


async def roots(folder: Path) -> t.ListRootsResult:
    return t.ListRootsResult(roots=[t.Root(uri=folder.as_uri(), name="work")])  # type: ignore[arg-type]


async def sample(context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
    content = t.TextContent(type="text", text="sampled here")
    return t.CreateMessageResult(role="assistant", content=content, model="m")


async def elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
    return t.ElicitResult(action="accept", content={"name": "Ada", "check": True})


@ERAS
async def test_the_filesystem_server_works_in_the_roots_of_the_client(tmp_path: Path, era: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "note.txt").write_text("found by its root")
    allowed = tmp_path / "allowed"
    allowed.mkdir()

    async def list_roots(context: Any) -> t.ListRootsResult:
        return await roots(work)

    servers = {"files": installed("server-filesystem", str(allowed)), "memory": installed("server-memory")}
    async with client_of(tmp_path, era, servers, list_roots_callback=list_roots) as client:
        # the server takes up the roots after it has got them, and answers calls meanwhile
        while str(work) not in text_of(await client.call_tool("files__list_allowed_directories")):
            continue
        read = await client.call_tool("files__read_text_file", {"path": str(work / "note.txt")})
    assert text_of(read) == "found by its root"


@ERAS
async def test_the_memory_server_keeps_what_it_is_given(tmp_path: Path, era: str) -> None:
    memory = {**installed("server-memory"), "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}}
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
    async with client_of(tmp_path, era, {"memory": memory, "everything": installed("server-everything")}) as client:
        created = await client.call_tool("memory__create_entities", {"entities": [entity]})
        assert not created.is_error
        found = await client.call_tool("memory__search_nodes", {"query": "programs"})
    assert "Ada" in text_of(found)


@ERAS
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_what_the_everything_server_asks_reaches_the_client(tmp_path: Path, era: str, transport: str) -> None:
    async def list_roots(context: Any) -> t.ListRootsResult:
        return await roots(tmp_path)

    async with everything_over_http() as url:
        everything = installed("server-everything") if transport == "stdio" else {"url": url}
        callbacks = {"list_roots_callback": list_roots, "sampling_callback": sample, "elicitation_callback": elicit}
        servers = {"everything": everything, "memory": installed("server-memory")}
        async with client_of(tmp_path, era, servers, **callbacks) as client:
            sampled = await client.call_tool(
                "everything__trigger-sampling-request", {"prompt": "Think", "maxTokens": 5}
            )
            assert "sampled here" in text_of(sampled)
            elicited = await client.call_tool("everything__trigger-elicitation-request", {})
            assert "Ada" in text_of(elicited)
            rooted = await client.call_tool("everything__get-roots-list", {})
            assert tmp_path.as_uri() in text_of(rooted)


@ERAS
async def test_prompts_resources_and_completions_of_the_everything_server_pass(tmp_path: Path, era: str) -> None:
    servers = {"everything": installed("server-everything"), "memory": installed("server-memory")}
    async with client_of(tmp_path, era, servers) as client:
        prompts = {prompt.name.removeprefix("everything__"): prompt for prompt in (await client.list_prompts()).prompts}
        said = await client.get_prompt(prompts["args-prompt"].name, {"city": "Paris"})
        assert "Paris" in said.messages[0].content.text  # type: ignore[union-attr]
        resource = (await client.list_resources()).resources[0]
        assert (await client.read_resource(str(resource.uri))).contents
        assert (await client.list_resource_templates()).resource_templates
        ref = t.PromptReference(name=prompts["completable-prompt"].name)
        completed = await client.complete(ref, {"name": "department", "value": "E"})
        assert completed.completion.values == ["Engineering"]
