"""Over stdio a process has one client, which needs no handles; and the era can be chosen (SPEC DEL-12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import CHANGED, client_of, names_of, stdio_desk
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of, through
from tests.cli.support import invoke, server, started
from toolfold import ConfigError, ToolSet
from toolfold_adapters.mcp import build_server, serve

pytestmark = pytest.mark.spec("DEL-12")

ERAS = pytest.mark.parametrize("era", ["legacy", MODERN])
STORE = """
from toolfold import ToolSet

tools = ToolSet("store", control="load_tool_group")
tools.register_group("fruit", "Fruit")
tools.register_group("peeled", "Fruit without peel", parent="fruit")
tools.register("eat", lambda: "eaten", description="Eat it.", input_schema={"type": "object"}, group="fruit.peeled")
tools.register_group("advice", "What to do")
tools.register_prompt("eat_more", lambda: "Eat more of it.", description="Advise.", group="advice")
tools.register_group("shy", "Only its author opens it", controls=False)
tools.register("hide", lambda: "hidden", description="Hide.", input_schema={"type": "object"}, group="shy")
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with a tool set whose groups have neither hooks nor exclusions."""
    (tmp_path / "store.py").write_text(STORE)
    return tmp_path


@ERAS
async def test_what_was_opened_in_one_turn_can_be_called_without_a_handle_or_with_any(era: str) -> None:
    async with client_of(stdio_desk(), era) as (client, _):
        async with anyio.create_task_group() as tasks:
            for group in ("database", "mode_a"):
                tasks.start_soon(client.call_tool, f"{group}.activate", {})
        assert received(await through(client, "database.query", {"sql": "x"})) == {"ran": "x"}
        assert text_of(await through(client, "mode_a.only_a", handle="made up")) == "a"
        await client.call_tool("database.deactivate", {"handle": "another"})
        assert (await through(client, "database.query", {"sql": "x"})).is_error


@pytest.mark.spec("DEL-7", "DEL-11")
async def test_the_list_of_a_modern_client_stays_unless_the_request_asks_with_its_handle() -> None:
    async with client_of(stdio_desk(), MODERN) as (client, _):
        before = await names_of(client)
        answer = await client.call_tool("database.activate", {})
        handle = received(answer)["handle"]
        assert handle not in text_of(answer)
        assert await names_of(client) == before
        assert {*await listed_under(client, handle)} > {*before}
        assert await opened(client, "mode_b") == handle


@ERAS
@pytest.mark.spec("DEL-8")
async def test_a_call_opens_the_groups_that_it_needs_and_says_so(era: str, store: Path) -> None:
    async with client_of(server("serve", "store.py", cwd=store), era) as (client, _):
        answer = await through(client, "fruit__peeled__eat")
        assert text_of(answer).splitlines() == ["eaten", "", "Opened for this call: fruit, fruit.peeled."]
        assert text_of(await through(client, "fruit__peeled__eat")) == "eaten"
        assert (await through(client, "shy__hide")).is_error
        assert ("fruit__peeled__eat" in await names_of(client)) == (era == "legacy")


@ERAS
async def test_a_prompt_of_a_group_that_was_opened_can_be_got(era: str, store: Path) -> None:
    async with client_of(server("serve", "store.py", cwd=store), era) as (client, _):
        with pytest.raises(MCPError):
            await client.get_prompt("advice.eat_more")
        await client.call_tool("load_tool_group", {"group_name": "advice"})
        assert "Eat more" in str(await client.get_prompt("advice.eat_more"))


@ERAS
@pytest.mark.spec("DEL-8")
@pytest.mark.parametrize("tool", ["database.query", "database.write.insert", "mode_a.only_a"])
async def test_a_call_opens_no_group_with_hooks_or_exclusions(era: str, tool: str) -> None:
    async with client_of(stdio_desk(), era) as (client, _):
        assert (await through(client, tool, {"sql": "x"})).is_error


@pytest.mark.spec("DEL-2", "DEL-3")
async def test_where_there_are_many_clients_a_state_is_known_by_its_handle(store: Path) -> None:
    async with client_of(server("serve", "store.py", "--many-clients", cwd=store), MODERN) as (client, _):
        answers = [received(await client.call_tool("load_tool_group", {"group_name": "fruit"})) for _ in range(2)]
        again = {"group_name": "fruit.peeled", "handle": answers[0]["handle"]}
        peeled = received(await client.call_tool("load_tool_group", again))["handle"]
        assert (await through(client, "fruit__peeled__eat")).is_error
        assert (await through(client, "fruit__peeled__eat", handle=answers[1]["handle"])).is_error
        assert text_of(await through(client, "fruit__peeled__eat", handle=peeled)) == "eaten"


@ERAS
async def test_elsewhere_a_call_opens_nothing(era: str) -> None:
    tools = ToolSet("store")
    tools.register_group("fruit", "Fruit")
    tools.register("eat", lambda: "eaten", description="Eat.", input_schema={"type": "object"}, group="fruit")
    async with Client(build_server(tools), mode=era) as client:
        assert (await through(client, "fruit__eat")).is_error


@pytest.mark.spec("DEL-1")
async def test_a_client_that_asks_for_the_modern_era_falls_back_to_the_legacy_era_alone(store: Path) -> None:
    async with client_of(server("serve", "store.py", "--era", "legacy", cwd=store), "auto") as (client, listener):
        assert client.protocol_version == "2025-11-25"
        for group in ("fruit", "fruit.peeled"):
            await client.call_tool("load_tool_group", {"group_name": group})
        assert await listener.next() == CHANGED
        assert text_of(await client.call_tool("fruit__peeled__eat", {})) == "eaten"


def test_the_legacy_era_alone_has_no_discovery(store: Path) -> None:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    with started("serve", "store.py", "--era", "legacy", cwd=store) as process:
        answered, _ = process.communicate(f"{json.dumps(asked)}\n")
    assert json.loads(answered)["error"]["code"] == -32601


async def test_what_a_transport_cannot_serve_is_refused_at_the_start(store: Path) -> None:
    with pytest.raises(ConfigError, match="not authenticated over stdio"):
        await serve(ToolSet("a"), delivery="principal")
    with pytest.raises(ConfigError, match="Over HTTP each request says its era"):
        await serve(ToolSet("a"), transport="http", era="legacy")
    target = str(store / "store.py")
    assert invoke("serve", target, "--http", "--era", "legacy").exit_code == 2
    assert invoke("serve", target, "--delivery", "principal").exit_code == 2
