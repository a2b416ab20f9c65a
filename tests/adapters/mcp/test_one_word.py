"""Whatever models and people read says open and close, and the path of a group in one spelling."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import client_of
from toolfold import Snapshot, ToolfoldError, ToolSet, explain, identifiers, prompt_section, stubs
from toolfold_adapters import mcp
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.names import wire_names
from toolfold_adapters.search import bm25
from toolfold_diagrams import structure, tree
from toolfold_diagrams.page import page_data

ERAS = ("legacy", "2026-07-28")
STYLES: tuple[dict[str, Any], ...] = ({}, {"control_visibility": "relevant"}, {"control": "open_group", "search": bm25})
THE_OTHER_WORD = re.compile(r"\w*activat\w*", re.IGNORECASE)
OTHER_SPELLINGS = re.compile(r"\bdatabase(?:__|/| › |::)write\b(?!__)")


def of_style(style: dict[str, Any], **settings: Any) -> ToolSet:
    return make_desk(on_hidden="hint", **style, **settings)


def texts_in(data: Any) -> Iterator[str]:
    """Yield every text in JSON data that is not a key, and not for programs alone, as `_meta` is."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            if key != "meta":
                yield from texts_in(value)
    elif isinstance(data, list):
        for value in data:
            yield from texts_in(value)


def others(texts: Iterator[str] | list[str]) -> list[str]:
    """Return the texts that say another word, or spell the path of a group in another way."""
    return [text for text in texts if THE_OTHER_WORD.search(text) or OTHER_SPELLINGS.search(text)]


async def said_over_mcp(client: Client, opening: Any, closing: Any) -> AsyncGenerator[Any]:
    """Yield what a client reads that does what can be done, and what can't."""
    yield client.instructions or ""
    yield (await client.list_tools()).model_dump(mode="json")
    calls: list[tuple[str, dict[str, Any]]] = [
        *(opening(path) for path in ("database.write", "database", "database", "database.write", "mode_a", "mode_b")),
        opening("vault"),
        *(closing(path) for path in ("database", "database")),
        ("database__write__insert", {"row": {}}),
        ("vault__secret", {}),
        ("call_tool", {"name": "database__write__insert", "arguments": {}}),
        ("call_tool", {"name": "nothing", "arguments": {}}),
    ]
    for name, arguments in calls:
        try:
            yield (await client.call_tool(name, arguments)).model_dump(mode="json")
        except MCPError as error:
            yield str(error)
    yield (await client.list_tools()).model_dump(mode="json")


def calls_of(style: dict[str, Any]) -> tuple[Any, Any]:
    if "control" in style:
        return lambda path: ("open_group", {"group": path}), lambda path: ("close_group", {"group": path})
    wire = {path: path.replace(".", "__") for path in ("database", "database.write", "mode_a", "mode_b", "vault")}
    return lambda path: (f"{wire[path]}__open", {}), lambda path: (f"{wire[path]}__close", {})


@pytest.mark.spec("CTL-1", "CTL-4", "CTL-5", "CALL-1")
@pytest.mark.parametrize("style", STYLES, ids=["per_group", "relevant", "open_group"])
@pytest.mark.parametrize("era", ERAS)
async def test_clients_read_open_and_close_and_one_spelling_of_a_path(era: str, style: dict[str, Any]) -> None:
    async with client_of(mcp.build_server(of_style(style)), era) as (client, _):
        said = [text async for data in said_over_mcp(client, *calls_of(style)) for text in texts_in(data)]
    assert any("database.write" in text for text in said)
    assert others(said) == []


@pytest.mark.spec("CTL-4", "GRP-3", "AGT-3")
@pytest.mark.parametrize("style", STYLES, ids=["per_group", "relevant", "open_group"])
async def test_agents_read_open_and_close_and_one_spelling_of_a_path(style: dict[str, Any]) -> None:
    opening, closing = calls_of(style)
    async with Conversation(of_style(style)) as conversation:
        said: list[str] = []
        for call in [opening("database.write"), opening("database"), opening("vault"), closing("database")]:
            said += [answer.text for answer in await conversation.execute([call])]
            said += texts_in(conversation.tools("openai"))
            said.append(conversation.system_prompt("It sells flowers."))
    assert others(said) == []


@pytest.mark.spec("EXP-1", "ERR-2", "COD-1")
@pytest.mark.parametrize("style", STYLES, ids=["per_group", "relevant", "open_group"])
async def test_people_read_open_and_close_in_reasons_errors_pages_and_declarations(style: dict[str, Any]) -> None:
    tools = of_style(style, max_active=2)
    snapshot, known_as = Snapshot.of(tools.catalog), wire_names(tools.catalog)
    view = tools.runtime.view_of(snapshot, known_as)
    names = ("database.write.insert", "database.qery", "database.activat", "vault.secret", "mode_a.only_a")
    said = [explain(view, name).text for name in names[:2]]
    said += [near for name in names for near in explain(view, name).near]
    async with tools.open_session() as session:
        for opened in ("database.write", "database", "mode_a", "mode_b", "nothing", "vault"):
            try:
                await session.activate(opened)
            except ToolfoldError as error:
                said.append(str(error))
        said.append(prompt_section(session, to_wire=known_as))
    page = page_data(snapshot, "desk")
    said += texts_in([page["words"], page["refusals"], page["groups"], [tool["name"] for tool in page["tools"]]])
    said += [*identifiers(tools.catalog).values(), stubs(snapshot), str(tree(snapshot)), structure(snapshot).dot]
    assert others(said) == []


@pytest.mark.spec("NAM-6", "CTL-1")
@pytest.mark.parametrize("era", ERAS)
async def test_calls_by_the_names_of_earlier_versions_are_answered_and_lists_do_not_have_them(era: str) -> None:
    async with client_of(mcp.build_server(of_style({})), era) as (client, _):
        assert not [tool.name for tool in (await client.list_tools()).tools if "activate" in tool.name]
        opened = await client.call_tool("database__activate", {})
        assert isinstance(opened.content[0], types.TextContent)
        assert "Group database is open." in opened.content[0].text
        closed = await client.call_tool("call_tool", {"name": "database__deactivate", "arguments": {}})
        assert not closed.is_error
