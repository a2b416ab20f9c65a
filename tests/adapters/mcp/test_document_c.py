"""Document C through real clients of both eras, and beside them in process: its loader, and how long a load lasts.

Its tests of the registry are in tests/core/test_document_c.py, and the texts of its loader in
tests/core/test_loader_texts.py. A client of the modern era sees the groups of its conversation under its handle.
"""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest

from tests.adapters.mcp.support import build_server
from tests.core.document_c import CORE, GROUPS, assistant, listed_with
from tests.examples.callers import CHANGED, UNKNOWN, WAYS, Caller, Connect, connected

Era = Literal["legacy", "auto"]
ERAS = ("legacy", "auto")


@pytest.fixture(params=list(WAYS))
def connect(request: pytest.FixtureRequest) -> Connect:
    return WAYS[request.param]


async def load(client: Caller, group: str) -> str:
    """Load a group, which must succeed, and return what is said."""
    failed, text = await client.call("load_tool_group", {"group_name": group})
    assert not failed, text
    return text


# The chat loop: the other three tests that the document leaves empty are in tests/examples/test_assistant.py


@pytest.mark.spec("GRP-5", "DEL-1", "DEL-2")
@pytest.mark.parametrize("era", ERAS)
async def test_document_c_chat_3_a_client_reads_how_to_load_a_group_and_once_what_each_is(era: Era) -> None:
    """Document C, system prompt: a server has none, so its instructions and the loader's description say the same."""
    async with connected(build_server(assistant()), era) as client:
        received = client.client.instructions or ""
        assert "load_tool_group" in received
        description = (await client.listed())["load_tool_group"]["description"]
        lines = [line for text in (received, description) for line in text.splitlines() if line.startswith("- ")]
        assert lines == [f"- {name}: {description}" for name, (_, description) in GROUPS.items()]


# The loader


@pytest.mark.spec("GRP-3", "CTL-6")
async def test_document_c_loader_is_listed_with_its_one_argument_and_all_groups(connect: Connect) -> None:
    """Document C, API design: the schema of the tool; in the modern era it takes a handle as well."""
    async with connect(assistant()) as client:
        shown = (await client.listed())["load_tool_group"]
        schema = shown["inputSchema"]
        argument = schema["properties"]["group_name"]
        assert (schema["type"], argument["type"], schema["required"]) == ("object", "string", ["group_name"])
        assert schema["properties"].keys() - {"handle"} == {"group_name"}
        assert "for the rest of the conversation" in shown["description"]
        for name, (_, description) in GROUPS.items():
            assert f"- {name}: {description}" in shown["description"].splitlines()


# How long a load lasts


@pytest.mark.spec("GRP-6", "SES-1")
@pytest.mark.parametrize("hooks", [{}, {"on_activate": lambda: None}], ids=["without hooks", "with hooks"])
async def test_document_c_a_load_lasts_for_the_conversation_and_affects_no_other(connect: Connect, hooks: Any) -> None:
    """Document C, description of the loader and manual verification 4: for this conversation, and no other.

    With hooks, a handle of the modern era names a stored session.
    """
    tools = assistant(**hooks)
    async with connect(tools) as client, connect(tools) as other:
        await load(client, "pdf")
        for _ in range(3):  # messages of the user, each with calls of its own
            assert await client.call("get_current_time", {}) == (False, "done")
            assert (await client.call("load_tool_group", {"group_name": "nonexistent"}))[0]
            assert await client.call("pdf_info", {}) == (False, "done")
            assert await client.names() == listed_with("pdf")
        assert await other.names() == CORE
        assert await other.call("pdf_info", {}) == (True, UNKNOWN)
    async with connect(tools) as new:
        assert await new.names() == CORE


@pytest.mark.spec("GRP-6", "SES-2", "NTF-1")
@pytest.mark.parametrize("way", ["in process", "legacy"])
async def test_document_c_loads_of_one_turn_all_succeed_and_each_is_announced(way: str) -> None:
    """Document C, data flow: the calls of a turn are made in parallel."""
    async with WAYS[way](assistant()) as client:
        async with anyio.create_task_group() as turn:
            for group in GROUPS:
                turn.start_soon(load, client, group)
        assert client.notified == [CHANGED] * len(GROUPS)
        assert await client.names() == listed_with(*GROUPS)
