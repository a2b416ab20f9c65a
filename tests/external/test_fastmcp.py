"""FastMCP 4 with groups: its own tests and examples, both eras, both transports, and bad input (SPEC INT-1).

FastMCP is in an environment of its own, together with Toolfold; TESTS_FASTMCP names its Python. Its tests and
examples are those of its source distribution, unpacked in the folder that TESTS_FASTMCP_SOURCE names.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests.external.support import ROOT, outcomes, over_http, run
from tests.preloaded import preloaded
from tests.process.docs.blocks import blocks_of
from toolfold_adapters.names import HANDLE_META

HERE = Path(__file__).with_name("grouped")
SHOP = (str(HERE / "shop.py"), "shop")
PRELOADED = ("fastmcp.server.server", "griffe", "toolfold_adapters.integrations.fastmcp", "toolfold_adapters.mcp.serve")
MINUTES = 10 * 60
CONTROLS = {"call_tool", "close_group", "open_group"}
MAIN_TESTS = (
    *("mount", "test_context.py", "test_dependencies.py", "test_server_lifespan.py", "test_session_visibility.py"),
    *("test_pagination.py", "test_protocol_eras.py", "test_auth_integration.py", "test_server_docket.py"),
    *("middleware/test_middleware.py", "middleware/test_middleware_nested.py"),
)
"""Mounts, injection, lifespan, pages, eras, authentication, background tasks and middleware."""
OTHER_TESTS = (*("middleware", "transforms", "test_mrtr_guards.py", "test_cache_hints.py", "test_extensions.py"),)
LEFT_OUT = (
    # It counts lists, and a server that was grouped before it had tools is asked for its list by the first call.
    "tests/server/middleware/test_caching.py::TestResponseCachingMiddlewareIntegration::test_statistics",
    # It has a second of processor time, which a busy machine does not give it.
    "tests/server/transforms/test_search_regex.py::test_costly_pattern_stops_within_the_search_budget",
    # It has eight seconds for a process of its own, likewise.
    "tests/server/transforms/test_search_regex.py::test_search_repeated_alternatives",
)
EXAMPLES = (
    *(("echo", "mcp"), ("simple_echo", "mcp"), ("complex_inputs", "mcp"), ("mount_example", "app")),
    *(("tool_result_echo", "mcp"), ("custom_tool_serializer_decorator", "server")),
)

pytestmark = pytest.mark.spec("INT-1")
both_eras = pytest.mark.parametrize("era", ["legacy", "auto"])


def environment() -> dict[str, str]:
    """Return the environment of a process in which FastMCP and Toolfold can be imported."""
    path = [str(ROOT / folder) for folder in ("core", "adapters", "diagrams")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(HERE)])}


def started(python: str, program: Path, *arguments: str) -> tuple[str, ...]:
    """Return a command that runs a program for which FastMCP is imported already."""
    return (*preloaded(python, *PRELOADED, path=environment()["PYTHONPATH"]), str(program), *arguments)


@asynccontextmanager
async def served(python: str, era: Any, transport: str, *arguments: str) -> AsyncGenerator[Client]:
    """Serve a FastMCP server, and yield a client of it."""
    file, name, *flags = arguments
    env = environment()
    program, *command = started(python, HERE / "served.py", file, name, transport, *flags)
    if transport == "stdio":
        async with Client(StdioServerParameters(command=program, args=command, env=env), mode=era) as client:
            yield client
        return
    async with await anyio.open_process([program, *command], env=env, stderr=None) as process:
        assert process.stdout is not None
        url = ""
        async for text in TextReceiveStream(process.stdout):
            url += text
            if "\n" in url:
                break
        try:
            async with Client(url.strip(), mode=era) as client:
                yield client
        finally:
            process.terminate()


async def answer(client: Client, name: str, arguments: dict[str, Any]) -> Any:
    """Return what a call is answered, as data, without the time that one of the examples says it took."""
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return {"code": error.code, "message": error.message, "data": error.data}
    data = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    data.get("_meta", {}).pop("execution_time_ms", None)
    return data


async def opened(client: Client, group: str) -> tuple[str, dict[str, Any]]:
    """Open a group; return the answer's text and what `call_tool` takes beside name and arguments."""
    result = await client.call_tool("open_group", {"group": group})
    assert not result.is_error, result
    handle = (result.meta or {}).get(HANDLE_META)
    return result.content[0].text, {} if handle is None else {"handle": handle}  # type: ignore[union-attr]


async def listed(client: Client) -> set[str]:
    """Return the names of the tools that a client is listed."""
    return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}


def sample(schema: Any) -> Any:
    """Return a value that fits a schema, roughly: the server judges it, with groups and without."""
    kinds: dict[Any, Any] = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    return schema["default"] if "default" in schema else kinds.get(schema.get("type"))


def outcomes_in_front(python: str, source: Path, names: tuple[str, ...]) -> Counter[str]:
    """Run tests of FastMCP with groups in front of their servers, and return how many had which outcome: none fails."""
    left_out = [part for test in LEFT_OUT for part in ("--deselect", test)]
    # FastMCP gives each of its tests five seconds, which is not always enough beside other work.
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-p", "toolfold_in_front", "-o", f"timeout={MINUTES}"]
    done = subprocess.run(
        [python, "-m", "pytest", *options, *left_out, *(f"tests/server/{name}" for name in names)],
        cwd=source,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=MINUTES,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return outcomes(done.stdout)


def test_each_of_the_main_tests_of_fastmcp_passes_with_groups_in_front(
    fastmcp_python: str, fastmcp_source: Path
) -> None:
    found = outcomes_in_front(fastmcp_python, fastmcp_source, MAIN_TESTS)
    assert found["passed"] > 300
    assert found.keys() == {"passed"}


@pytest.mark.skipif(
    os.environ.get("TESTS_FOREIGN") != "all", reason="it runs 600 more tests of others: set TESTS_FOREIGN=all"
)
def test_the_other_tests_of_fastmcp_pass_with_groups_in_front(fastmcp_python: str, fastmcp_source: Path) -> None:
    assert outcomes_in_front(fastmcp_python, fastmcp_source, OTHER_TESTS)["passed"] > 500


@pytest.mark.parametrize(("transport", "era"), [("stdio", "legacy"), ("http", "auto")])
@pytest.mark.parametrize(("example", "name"), EXAMPLES)
async def test_the_examples_of_fastmcp_answer_the_same_with_groups_and_without(
    fastmcp_python: str, fastmcp_source: Path, example: str, name: str, transport: str, era: str
) -> None:
    file = str(fastmcp_source / "examples" / f"{example}.py")
    async with (
        served(fastmcp_python, era, transport, file, name) as plain,
        served(fastmcp_python, era, transport, file, name, "--groups") as client,
    ):
        assert await listed(client) == CONTROLS
        _, handle = await opened(client, "all")
        tools = (await plain.list_tools()).tools
        for tool in tools:
            arguments = {key: sample(one) for key, one in tool.input_schema.get("properties", {}).items()}
            call = {"name": tool.name, "arguments": arguments, **handle}
            assert await answer(client, "call_tool", call) == await answer(plain, tool.name, arguments)
        if era == "legacy":
            shown = {tool.name: tool for tool in (await client.list_tools(cache_mode="bypass")).tools}
            assert [shown[tool.name] for tool in tools] == tools
        assert await client.list_resources() == await plain.list_resources()
        assert await client.list_resource_templates() == await plain.list_resource_templates()
        assert await client.list_prompts() == await plain.list_prompts()


@both_eras
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_with_groups_by_tags_works_as_it_did(fastmcp_python: str, transport: str, era: str) -> None:
    async with served(fastmcp_python, era, transport, *SHOP, "--tags") as client:
        assert (client.instructions or "").endswith("\n\nA shop.")
        assert await listed(client) == {*CONTROLS, "ping", "journal"}
        refused = await answer(client, "stock", {})
        assert (refused["code"], "open_group" in refused["message"]) == (-32602, True)
        text, handle = await opened(client, "database")
        assert "- stock: Return the stock" in text
        assert (await client.call_tool("call_tool", {"name": "stock", **handle})).structured_content == {"result": 3}
        failed = await client.call_tool("call_tool", {"name": "drop", "arguments": {"table": "t"}, **handle})
        assert "t can't be dropped" in str(failed.content)
        _, handle = await opened(client, "play")
        rolled = await client.call_tool("call_tool", {"name": "games_roll", "arguments": {"sides": "4"}, **handle})
        assert rolled.structured_content == {"result": 4}
        seen = (await client.call_tool("journal")).structured_content
        assert seen == {"result": ["stock", "drop", "games_roll", "journal"]}
        assert (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text == "Hello Ada"  # type: ignore[union-attr]


@both_eras
async def test_what_middleware_hides_from_lists_is_hidden_in_groups_too(fastmcp_python: str, era: str) -> None:
    async with served(fastmcp_python, era, "stdio", *SHOP, "--tags") as client:
        text, _ = await opened(client, "admin")
        assert "drop" in text
        assert "hidden" not in text
        assert "hidden" not in str(await client.list_tools(cache_mode="bypass"))
        assert "hidden" not in str(client.instructions)


BAD = {
    "a pattern that matches nothing": ("group_server(FastMCP('m', tools=[f]), {'g': 'x*'})", "'x*' of the group 'g'"),
    "no tags": ("group_server(FastMCP('m', tools=[f]), 'tags')", "no tool has tags"),
    "a server of the SDK": ("group_server(MCPServer('m'), 'tags')", "import group_server from toolfold_adapters.mcp."),
    "not imported from here": ("mcp.group_server(FastMCP('m'), 'tags')", "toolfold_adapters.integrations.fastmcp"),
    "an old version": (
        "import fastmcp, sys; fastmcp.__version__ = '3.4.1'\n"
        "del sys.modules['toolfold_adapters.integrations.fastmcp']\n"
        "import toolfold_adapters.integrations.fastmcp",
        'FastMCP >=4.1,<5: pip install --upgrade "toolfold[fastmcp]"',
    ),
    "twice": ("group_server(group_server(FastMCP('m', tools=[f]), {}), {})", "has groups already"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_grouped_is_refused_in_a_sentence(fastmcp_python: str, case: str, tmp_path: Path) -> None:
    code, message = BAD[case]
    program = tmp_path / "program.py"
    program.write_text(
        "from fastmcp import FastMCP\nfrom mcp.server import MCPServer\nfrom toolfold_adapters import mcp\n"
        "from toolfold_adapters.integrations.fastmcp import group_server\n"
        f"def f() -> int: return 1\n{code}\n",
        encoding="utf-8",
    )
    command = started(fastmcp_python, program)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=MINUTES)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("toolfold.errors.ConfigError: ")
    assert message in last


def test_the_command_line_shows_and_serves_such_a_server(fastmcp_python: str) -> None:
    command = [fastmcp_python, "-m", "toolfold_cli"]
    target = ":".join(SHOP)
    shown = subprocess.run(
        [*command, "inspect", target, "--json"], env=environment(), capture_output=True, text=True, timeout=MINUTES
    )
    report = json.loads(shown.stdout)
    found = {group["path"]: [tool["name"] for tool in group["tools"]] for group in report["groups"]}
    assert (found["database"], found["play"], found["mail.out"]) == (["stock"], ["games_roll"], ["send"])
    served = subprocess.run(
        [*command, "serve", target], env=environment(), input="", capture_output=True, text=True, timeout=MINUTES
    )
    assert (served.returncode, served.stdout) == (0, "")
    assert "toolfold: 7 tools in 6 groups" in served.stderr


def test_the_code_of_the_page_on_existing_servers_runs(fastmcp_python: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "existing-servers.md").read_text(encoding="utf-8")
    blocks = [block for block in blocks_of(page) if block.language == "python"]
    for block in blocks:
        if block.title is not None:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    program = "\n".join(block.text for block in blocks if block.title is None)
    listing = (
        "import asyncio\nfrom fastmcp import Client\n"
        "async def names(server):\n"
        "    async with Client(server, mode='legacy') as client:\n"
        "        await client.call_tool('open_group', {'group': 'play'})\n"
        "        return [tool.name for tool in await client.list_tools()]\n"
        "print(site.routes[-1].path, *asyncio.run(names(club)))\n"
    )
    command = [fastmcp_python, "-c", program + listing]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=MINUTES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("/tools call_tool close_group games_roll open_group\n")


def test_groups_of_a_mounted_server_are_groups_of_the_server_that_runs(fastmcp_python: str) -> None:
    command = started(fastmcp_python, HERE / "mounted.py")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=MINUTES)
    outer, inner = json.loads(done.stdout)
    none, prizes = '{"fastmcp": {"tags": []}}', '{"dev.toolfold/group": "prizes", "fastmcp": {"tags": []}}'
    drink = '{"fastmcp": {"tags": ["bar"]}}'
    assert outer == [
        [*sorted(CONTROLS), "ping"],
        [["games_chess", none]],
        [["games_roll", none]],
        [["games_win", prizes]],
        [["games_drink", drink]],
    ]
    assert inner == [sorted(CONTROLS), [["chess", none], ["drink", drink]], [["roll", none]], [["win", prizes]]]


def test_a_grouped_server_mounts_in_fastapi(fastmcp_python: str) -> None:
    program = (HERE / "fastapi_app.py").read_text(encoding="utf-8")
    done = subprocess.run(
        [fastmcp_python, "-c", program], env=environment(), capture_output=True, text=True, timeout=MINUTES
    )
    assert (done.returncode, done.stdout) == (0, "ping open_group\nping open_group\n"), done.stderr


@pytest.mark.spec("SKL-2")
@pytest.mark.parametrize("behind", ["server", "gateway"])
async def test_the_client_of_fastmcp_lists_and_reads_the_skills_of_a_folder(
    behind: str, fastmcp_python: str, tmp_path: Path
) -> None:
    content = "---\nname: returns\ndescription: Take books back\nlicense: MIT\n---\nFind the loan first.\n"
    (tmp_path / "returns" / "pages").mkdir(parents=True)
    (tmp_path / "returns" / "SKILL.md").write_text(content)
    (tmp_path / "returns" / "pages" / "damage.md").write_text("Look at the back.")
    config = tmp_path / "gateway.toml"
    config.write_text('skills = ["."]\n[upstreams.desk]\ncommand = ["toolfold", "serve", "examples.desk:tools"]\n')
    async with over_http(str(tmp_path if behind == "server" else config)) as url:
        status, printed = await run(fastmcp_python, str(HERE / "skills.py"), url)
    assert status == 0
    told = json.loads(printed)
    assert (told["same"], told["verified"]) == (True, [True, True])
    (skill,) = told["skills"]
    assert skill["uri"] == "skill://returns/SKILL.md"
    assert skill["frontmatter"] == {"name": "returns", "description": "Take books back", "license": "MIT"}
    assert [one["size"] for one in skill["resources"]] == [len(content), 17]


@pytest.mark.spec("SES-1", "DEL-2")
def test_visibility_by_hand_is_everybodys_or_refused_where_there_are_no_sessions(fastmcp_python: str) -> None:
    env = {**environment(), "PYTHONPATH": str(ROOT)}
    command = [fastmcp_python, str(HERE / "visibility.py")]
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, timeout=MINUTES)
    seen = json.loads(done.stdout.splitlines()[-1])
    opened, closed = ["find", "open_orders"], ["open_orders"]
    assert seen["in process, legacy"] == seen["over HTTP, legacy"] == [opened, closed]
    assert seen["in process, modern"] == [opened, opened]
    assert "MCP 2026-07-28 HTTP connections have no session" in seen["over HTTP, modern"]
