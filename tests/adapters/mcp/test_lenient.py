"""What hosts write in calls of the tools that call others, and of those that find and open (SPEC GWY-20)."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from tests.adapters.gateway.inprocess import wired
from tests.adapters.mcp.support import client_of, schemas_in
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold import ProtocolError, ToolSet, Visibility
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-20")

ERAS = pytest.mark.parametrize("era", ["legacy", MODERN])
NOTE = {"type": "object", "properties": {"note": {"type": "object"}}}


def notes(ran: list[Any], **settings: Any) -> ToolSet:
    """Tools in a group that record what they are called with, and a search that finds them in order of name."""

    def rank(documents: Any) -> Any:
        return lambda query: [one.name for one in documents]

    tools = ToolSet("notes", control="open_group", search=rank, **{"on_hidden": "hint", **settings})
    tools.register_group("notes", "Notes")
    tools.register_group("other")
    for name in ("list_all", "read", "save"):
        given: dict[str, Any] = {"group": "notes", "input_schema": NOTE, "annotations": {"readOnlyHint": True}}
        tools.register(name, lambda arguments: ran.append(arguments), **given)
    return tools


async def opened(client: Client, **group: Any) -> dict[str, Any]:
    """Open the group, and return the handle to give from then on, if there is one."""
    answer = await client.call_tool("open_group", group or {"group": "notes"})
    assert not answer.is_error, text_of(answer)
    change = dict((answer.meta or {})["dev.toolfold/change"])
    return {"handle": change["handle"]} if "handle" in change else {}


SAVED = {"note": {"a": 1}}
MEANT: list[tuple[dict[str, Any], Any]] = [
    ({"arguments": '{"note": {"a": 1}}'}, SAVED),
    ({"arguments": SAVED}, SAVED),
    ({"arguments": None}, {}),
    ({"arguments": ""}, {}),
    ({}, {}),
    ({"arguments": {"note": '{"a": 1}'}}, {"note": '{"a": 1}'}),
    ({"arguments": '{"note": "{\\"a\\": 1}"}'}, {"note": '{"a": 1}'}),
    ({"arguments": {"note": None, "b": "", "c": "3"}}, {"note": None, "b": "", "c": "3"}),
]


@ERAS
@pytest.mark.parametrize("proxy", ["call_tool", "read_tool", "call_tools"])
@pytest.mark.parametrize(("written", "meant"), MEANT, ids=lambda value: str(value)[:40])
async def test_arguments_are_the_object_that_they_are_the_text_of(
    era: str, proxy: str, written: Any, meant: Any
) -> None:
    ran: list[Any] = []
    tools = notes(ran)
    # what is judged by the tool's own schema here is judged by the upstream in a gateway
    tools.register(
        "any",
        lambda arguments: ran.append(arguments),
        group="notes",
        input_schema={"type": "object"},
        annotations={"readOnlyHint": True},
    )
    async with client_of(build_server(tools, read_tool=True, call_tools=True), era) as (client, _):
        handle = await opened(client)
        call = {"name": "notes__any", **written}
        result = await client.call_tool(proxy, {**handle, **({"calls": [call]} if proxy == "call_tools" else call)})
    assert not result.is_error, text_of(result)
    assert ran == [meant]


@ERAS
@pytest.mark.parametrize("proxy", ["call_tool", "read_tool", "call_tools"])
async def test_a_cut_text_is_refused_with_what_to_write(era: str, proxy: str) -> None:
    ran: list[Any] = []
    async with client_of(build_server(notes(ran), read_tool=True, call_tools=True), era) as (client, _):
        handle = await opened(client)
        call = {"name": "notes__save", "arguments": '{"note": '}
        result = await client.call_tool(proxy, {**handle, **({"calls": [call]} if proxy == "call_tools" else call)})
    assert result.is_error
    assert "arguments: the JSON text ends too early, after 9 characters: write the whole of it" in text_of(result)
    assert not ran


@ERAS
@pytest.mark.parametrize("group", ['["notes"]', ["notes"], '"notes"'], ids=str)
async def test_a_group_in_a_list_of_one_is_opened(era: str, group: Any) -> None:
    async with client_of(build_server(notes([])), era) as (client, _):
        handle = await opened(client, group=group, handle="")
        assert not (await client.call_tool("call_tool", {"name": "notes__save", **handle})).is_error


@ERAS
@pytest.mark.parametrize(
    ("group", "said"),
    [
        (["notes", "other"], "it takes one, and 2 are given: make a call for each of notes, other"),
        ('["notes", "other"]', "The groups are 'notes', 'other'."),
    ],
    ids=str,
)
async def test_several_groups_at_once_are_refused_with_what_to_do(era: str, group: Any, said: str) -> None:
    async with client_of(build_server(notes([])), era) as (client, _):
        refused = await client.call_tool("open_group", {"group": group})
        assert refused.is_error
        assert said in text_of(refused)


@ERAS
async def test_the_text_null_leaves_an_optional_argument_out(era: str) -> None:
    async with client_of(build_server(notes([])), era) as (client, _):
        found = await client.call_tool("find_tools", {"query": "save", "limit": "null", "open": "null"})
        assert not found.is_error, text_of(found)
        opens = await client.call_tool("open_group", {"group": "notes", "handle": "null"})
        assert not opens.is_error, text_of(opens)


@ERAS
@pytest.mark.parametrize("calls", [{"name": "notes__save"}, '{"name": "notes__save"}', '[{"name": "notes__save"}]'])
async def test_one_call_by_itself_is_a_list_of_one(era: str, calls: Any) -> None:
    ran: list[Any] = []
    async with client_of(build_server(notes(ran), call_tools=True), era) as (client, _):
        handle = await opened(client)
        answer = await client.call_tool("call_tools", {"calls": calls, **handle})
        assert not answer.is_error, text_of(answer)
    assert ran == [{}]


@ERAS
@pytest.mark.parametrize("written", ['{"group": "notes"}', ' {"group": ["notes"]} '])
async def test_the_arguments_of_a_call_may_be_their_json_text(era: str, written: str) -> None:
    async with wired(build_server(notes([])), "legacy" if era == "legacy" else "auto") as wire:
        answer = await wire.request("tools/call", {"name": "open_group", "arguments": written})
    assert not answer.get("isError")
    assert "notes__save" in str(answer["content"])


@ERAS
@pytest.mark.parametrize("written", ['{"group": ', "[1]", "notes", "\ud800"])
async def test_arguments_that_are_no_json_text_of_an_object_are_refused_in_a_sentence(era: str, written: str) -> None:
    async with wired(build_server(notes([])), "legacy" if era == "legacy" else "auto") as wire:
        with pytest.raises(ProtocolError, match="no JSON text of one; write the whole of it again") as refused:
            await wire.request("tools/call", {"name": "open_group", "arguments": written})
    assert refused.value.code == INVALID_PARAMS


@ERAS
@pytest.mark.parametrize("prefix", ["mcp__toolfold__", "mcp_toolfold_", "toolfold__", "toolfold."])
@pytest.mark.parametrize("name", ["notes__save", "open_group"])
async def test_a_name_with_the_prefix_of_a_host_gets_the_name_without_it(era: str, prefix: str, name: str) -> None:
    async with client_of(build_server(notes([])), era) as (client, _):
        handle = await opened(client)
        refused = await client.call_tool("call_tool", {"name": prefix + name, **handle})
        assert refused.is_error
        assert text_of(refused).startswith(f"Unknown tool: {prefix}{name} (did you mean '{name}'?")
        with pytest.raises(MCPError, match=f"did you mean '{name}'"):
            await client.call_tool(prefix + name, {})


@ERAS
@pytest.mark.parametrize(("written", "meant"), [("open_gruop", "open_group"), ("find_tool", "find_tools")])
async def test_a_mistyped_control_tool_gets_the_name_near_it(era: str, written: str, meant: str) -> None:
    async with client_of(build_server(notes([])), era) as (client, _):
        with pytest.raises(MCPError, match=f"did you mean .*'{meant}'"):
            await client.call_tool(written, {})


@ERAS
async def test_a_search_takes_a_number_and_a_switch_as_texts(era: str) -> None:
    async with client_of(build_server(notes([])), era) as (client, _):
        few = await client.call_tool("find_tools", {"query": "save", "limit": "2", "handle": None})
        assert [*schemas_in(text_of(few))] == ["- notes__save", "- notes__list_all"]
        found = await client.call_tool("find_tools", {"query": "save", "open": "true", "limit": None})
        assert (found.meta or {})["dev.toolfold/change"]["active"] == ["notes"]
        found = await client.call_tool(
            "call_tool", {"name": "find_tools", "arguments": '{"query": "save", "limit": "2"}'}
        )
        assert len(schemas_in(text_of(found))) == 2


async def test_in_process_they_are_taken_as_meant_too() -> None:
    conversation = Conversation(notes([]))
    first, second = await conversation.execute(
        [("find_tools", '{"query": "save", "limit": "2"}'), ("open_group", {"group": '["notes"]'})]
    )
    assert not first.is_error
    assert second.structured["group"] == "notes"


@ERAS
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("name", ["notes__sav", "save", "notes.save", "sav", "Notes__Save", "notes_save"])
async def test_a_mistyped_name_gets_the_name_near_it(era: str, is_open: bool, name: str) -> None:
    async with client_of(build_server(notes([])), era) as (client, _):
        handle = await opened(client) if is_open else {}
        refused = await client.call_tool("call_tool", {"name": name, **handle})
        assert refused.is_error
        assert text_of(refused).startswith(f"Unknown tool: {name} (did you mean 'notes__save'")
        if era == "legacy":
            with pytest.raises(MCPError, match="did you mean 'notes__save'"):
                await client.call_tool(name, {})


@ERAS
@pytest.mark.parametrize("settings", [{}, {"on_hidden": "opaque"}], ids=["hints", "opaque"])
async def test_the_full_name_of_a_tool_that_is_listed_gets_its_name_on_the_wire(era: str, settings: Any) -> None:
    tools = notes([], **settings)
    locked = Visibility.when(lambda _: False)
    tools.register("hidden", lambda arguments: None, group="notes", input_schema=NOTE, hidden=True)
    tools.register("locked", lambda arguments: None, group="notes", input_schema=NOTE, visibility=locked)
    tools.register("send", lambda arguments: None, group="other", input_schema=NOTE)
    async with client_of(build_server(tools), era) as (client, _):
        handle = await opened(client)
        refused = await client.call_tool("call_tool", {"name": "notes.save", **handle})
        assert text_of(refused).startswith("Unknown tool: notes.save (did you mean 'notes__save'")
        for other in ("notes.hidden", "notes.locked", *(["other.send"] if settings else [])):
            refused = await client.call_tool("call_tool", {"name": other, **handle})
            assert refused.is_error
            assert f"'{other.replace('.', '__')}'" not in text_of(refused)


@ERAS
async def test_near_names_are_those_that_the_caller_may_see(era: str) -> None:
    tools = notes([])
    tools.register("saved", lambda arguments: None, group="notes", input_schema=NOTE, hidden=True)
    async with client_of(build_server(tools), era) as (client, _):
        handle = await opened(client)
        near = await client.call_tool("call_tool", {"name": "notes__savd", **handle})
        assert "did you mean 'notes__save'," in text_of(near)
        assert "saved" not in text_of(near)


@ERAS
async def test_without_hints_a_mistyped_name_is_answered_as_one_that_is_closed(era: str) -> None:
    async with client_of(build_server(notes([], on_hidden="opaque")), era) as (client, _):
        answers = [text_of(await client.call_tool("call_tool", {"name": f"notes__sav{end}"})) for end in ("e", "")]
        assert answers[0].replace("notes__save", "notes__sav") == answers[1]
