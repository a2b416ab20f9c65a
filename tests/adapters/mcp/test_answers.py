"""What control tools, hints and refused calls answer on the wire, as a model reads it (SPEC CTL-4, CALL-1, CALL-2)."""

from __future__ import annotations

import gc
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import URL, endpoint_of
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import RawLegacy, change_of, client_of, names_of, schemas_in, without_schemas
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, text_of, through
from toolfold import ConfigError, Context, Loader, LoaderTexts, ToolSet, Visibility
from toolfold.spi import ERROR_META, Described
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.address.handle import Handles
from toolfold_adapters.names import CHANGE_META, HANDLE_META
from toolfold_adapters.tokens import CHARACTERS_PER_TOKEN, approximate_tokens

ERAS = ("legacy", MODERN)
OBJECT = {"type": "object"}


def shop_server(**options: Any) -> Any:
    return build_server(make_shop(), separator=".", **options)


# -- what can be called now -------------------------------------------------------------------------------------------


@pytest.mark.spec("CTL-4", "CTL-8")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_lists_once_reads_every_definition_once_in_the_text(era: str) -> None:
    async with client_of(shop_server(), era) as (client, _):
        result = await client.call_tool("stock.activate", {})
        *first, heading, one, two, three = without_schemas(text_of(result))[: 6 if era == MODERN else 5]
        if era == MODERN:
            handle, how = first
            assert handle == f"Handle: {change_of(result)['handle']}"
            assert how == "Give it as 'handle' to call_tool, which calls these tools, and to open or close more groups."
        else:
            assert first == ["Call the tools below by name, or by call_tool if they are not in your list."]
        assert [heading, one, two, three] == [
            "Group stock is open. Now available:",
            "- stock.count: Count an item.",
            "- stock.fail: Fail.",
            "- stock.reject: Answer with an error of the protocol.",
        ]
        count = schemas_in(text_of(result))["- stock.count: Count an item."]
        assert count["required"] == ["item"]
        assert count["properties"]["item"] == {"type": "string"}
        assert not [name for name in ("count", "fail", "reject") if text_of(result).count(f"stock.{name}") != 1]
        assert len(result.content) == 1


@pytest.mark.spec("CTL-4", "CTL-5", "GRP-3")
@pytest.mark.parametrize("era", ERAS)
async def test_a_refusal_has_its_error_and_the_type_of_a_loader_in_meta(era: str) -> None:
    async with client_of(build_server(make_shop(control="load_tool_group"), separator="."), era) as (client, _):
        unknown = await client.call_tool("load_tool_group", {"group_name": "stick"})
        assert (unknown.is_error, unknown.structured_content) == (True, None)
        about = (unknown.meta or {})[ERROR_META]
        assert (about["error_type"], about["group"]) == ("not_found", "stick")
        locked = await client.call_tool("load_tool_group", {"group_name": "stock.orders"})
        assert (locked.meta or {})[ERROR_META] == {"error": "ParentInactive", "missing": "stock"}
        assert 'call load_tool_group {"group_name": "stock"} first' in text_of(locked)
        assert CHANGE_META not in (locked.meta or {})


@pytest.mark.spec("CTL-4", "CTL-3")
@pytest.mark.parametrize("era", ERAS)
async def test_tools_that_an_author_s_text_leaves_out_come_at_the_end(era: str) -> None:
    texts = LoaderTexts(loaded="Here you are.", nothing="Nothing.", again="Again.")
    tools = make_shop(control=Loader(name="open", texts=texts))
    async with client_of(build_server(tools, separator="."), era) as (client, _):
        handle: dict[str, Any] = {}
        for words in ("Here you are.", "Again."):
            result = await client.call_tool("open", {"group": "stock", **handle})
            handle = {name: received for name, received in change_of(result).items() if name == "handle"}
            lines = without_schemas(text_of(result))[2 * (era == MODERN) :]
            assert lines[:2] == [words, "- stock.count: Count an item."]
            assert len(schemas_in(text_of(result))) == 3


@pytest.mark.spec("CTL-4", "DEL-2", "CALL-5")
async def test_a_tool_that_opens_a_group_itself_is_followed_by_the_definitions_and_the_handle() -> None:
    async with client_of(shop_server(), MODERN) as (client, _):
        result = await client.call_tool("open_stock", {})
        own, *lines = without_schemas(text_of(result))
        assert own == "opened"
        assert lines[0] == f"Handle: {(result.meta or {})[HANDLE_META]}"
        assert lines[2:4] == ["Now available:", "- stock.count: Count an item."]
        assert "- stock.count: Count an item." in schemas_in(text_of(result))


def make_counter() -> ToolSet:
    """Make tools of one group, of which signing in makes one available, and signing out takes it away."""
    tools = ToolSet("counter", control="open_group")
    tools.register_group("desk")

    def says(fact: str, value: bool) -> Any:
        return lambda _, context: context.set_fact(fact, value)

    for name, fact, value in (("sign_in", "staff", True), ("sign_out", "staff", False), ("greet", "greeted", True)):
        tools.register(name, says(fact, value), input={}, group="desk", description=f"{name}.")
    staff = Visibility.when(lambda view: bool(view.facts.get("staff")))
    tools.register("pay", lambda: "paid", input={}, group="desk", description="Pay.", visibility=staff)
    return tools


@pytest.mark.spec("CTL-4", "CTL-8")
@pytest.mark.parametrize("handles", ["stored", "auto"])
async def test_what_a_fact_makes_available_again_is_described_once_under_a_stored_handle(handles: Handles) -> None:
    async with Client(build_server(make_counter(), separator=".", handles=handles)) as client:
        handle = change_of(await client.call_tool("open_group", {"group": "desk"}))["handle"]

        async def said(name: str) -> list[str]:
            nonlocal handle
            result = await client.call_tool("call_tool", {"name": f"desk.{name}", "handle": handle})
            given, handle = handle, (result.meta or {}).get(HANDLE_META, handle)
            lines = text_of(result).splitlines()
            assert (f"Handle: {handle}" in lines) == (given != handle) == (handles == "auto")
            return lines[2:] if handles == "auto" else lines

        names = await said("sign_in")
        if handles == "auto":  # such a handle has the state alone
            assert names[:2] == ["Now available:", "- desk.pay: Pay."]
            assert await said("sign_out") == ["More may be available now."]
            assert await said("sign_in") == names
            return
        assert names[:3] == [
            "Call the tools below by call_tool, with the handle that you gave.",
            "Now available:",
            "- desk.pay: Pay.",
        ]
        assert [*schemas_in("\n".join(names))] == ["- desk.pay: Pay."]
        assert await said("greet") == await said("sign_out") == []
        assert await said("sign_in") == [names[0], "Available again, as described before:", "- desk.pay"]
        opened_again = text_of(await client.call_tool("open_group", {"group": "desk", "handle": handle}))
        assert "- desk.pay: Pay." in schemas_in(opened_again)


@pytest.mark.spec("CTL-8")
async def test_a_handle_of_tools_without_groups_is_for_calls_alone() -> None:
    tools = ToolSet("gate", control="none")
    tools.register("enter", lambda _, context: context.set_fact("inside", True), input={})
    tools.register("sit", lambda: "seated", input={}, visibility=Visibility.when(lambda view: "inside" in view.facts))
    async with Client(build_server(tools, handles="stored")) as client:
        lines = text_of(await client.call_tool("enter", {})).splitlines()
        assert lines[1:3] == ["Give it as 'handle' to call_tool, which calls these tools.", "Now available:"]


@pytest.mark.spec("CTL-4", "CALL-2")
async def test_an_answer_in_signatures_has_names_and_types_of_arguments_and_a_refusal_the_schema() -> None:
    tools = make_counter()
    about = {"sum": {"type": "integer", "description": "In cents."}}
    schema = {"type": "object", "properties": about, "required": ["sum"]}
    tools.register("take", lambda _: None, input_schema=schema, group="desk", description="Take money.")
    async with Client(build_server(tools, separator=".", handles="stored", answers="signatures")) as client:
        result = await client.call_tool("open_group", {"group": "desk"})
        assert text_of(result).splitlines()[-2:] == [
            "- desk.take(sum: int): Take money.",
            "An answer that refuses wrong arguments gives the input schema.",
        ]
        handle = change_of(result)["handle"]
        refused = await client.call_tool("call_tool", {"name": "desk.take", "handle": handle})
        assert "In cents." in text_of(refused)
        texts = [
            text_of(await client.call_tool("call_tool", {"name": f"desk.{name}", "handle": handle}))
            for name in ("sign_in", "sign_out", "sign_in")
        ]
        assert "- desk.pay(): Pay." in texts[0]
        assert texts[2].endswith("Available again, as described before:\n- desk.pay")


@pytest.mark.spec("CTL-4")
async def test_what_an_answer_had_no_room_to_describe_is_described_later() -> None:
    tools = make_counter()
    staff = Visibility.when(lambda view: bool(view.facts.get("staff")))
    tools.register("long", lambda: None, input={}, group="desk", description="long " * 2_000, visibility=staff)
    async with Client(build_server(tools, separator=".", handles="stored", answer_tokens=1_200)) as client:
        handle = change_of(await client.call_tool("open_group", {"group": "desk"}))["handle"]
        for name in ("sign_in", "sign_out"):
            await client.call_tool("call_tool", {"name": f"desk.{name}", "handle": handle})
        lines = text_of(await client.call_tool("call_tool", {"name": "desk.sign_in", "handle": handle})).splitlines()
        assert lines[1:5] == [
            "Available again, as described before:",
            "- desk.pay",
            "Now available:",
            "- desk.long",
        ]


@pytest.mark.spec("CTL-4")
@pytest.mark.parametrize("more", [False, True])
async def test_of_what_is_available_again_and_does_not_fit_there_is_the_number(more: bool) -> None:
    tools = ToolSet("many", control="open_group")
    tools.register_group("desk")
    about = {"type": "object", "properties": {"which": {"type": "string"}}}
    tools.register("show", lambda given, context: context.set_fact("which", given["which"]), input_schema=about)

    def shown_in(part: str) -> Visibility:
        return Visibility.when(lambda view: view.facts.get("which") in (part, "all"))

    for number in range(120):
        tools.register(f"{number:03}_{'n' * 40}", lambda: None, input={}, visibility=shown_in(str(number // 30)))
    late = Visibility.when(lambda view: more and view.facts.get("which") == "all")
    tools.register("late", lambda: None, input={}, description="Late.", visibility=late)
    async with Client(build_server(tools, handles="stored", answers="signatures", answer_tokens=1_200)) as client:
        handle: dict[str, Any] = {}
        text = ""
        for which in ("0", "", "1", "", "2", "", "3", "", "all"):
            result = await client.call_tool("call_tool", {"name": "show", "arguments": {"which": which}, **handle})
            handle = {"handle": (result.meta or {}).get(HANDLE_META, handle.get("handle"))}
            text = text_of(result)
    assert len(text) <= 1_200 * CHARACTERS_PER_TOKEN
    lines = text.splitlines()
    begin = lines.index("Available again, as described before:") + 1
    end = lines.index("Now available:") if more else len(lines)
    *named, last = lines[begin:end]
    assert named == [f"- {number:03}_{'n' * 40}" for number in range(len(named))]
    assert last == f"- and {120 - len(named)} more"
    assert len(named) > (45 if more else 90)
    assert lines[end + 1 : end + 2] == (["- late(): Late."] if more else [])


@pytest.mark.spec("CTL-4", "SAF-7")
@pytest.mark.parametrize("renamed", [False, True])
async def test_of_definitions_that_change_no_more_are_remembered_than_the_catalog_has(renamed: bool) -> None:
    tools = ToolSet("changing", control="open_group", run_in_thread=False)
    tools.register_group("desk")
    now = Visibility.when(lambda view: bool(view.facts.get("now")))
    named: list[str] = []

    def change(_: object, context: Context) -> None:
        if named:
            tools.unregister(named[-1])
        named.append(f"remembered_{len(named) if renamed else 0}")
        tools.register(named[-1], lambda: None, input={}, description=f"Version {len(named)}.", visibility=now)
        context.set_fact("now", True)

    tools.register("change", change, input={})
    tools.register("hide", lambda _, context: context.set_fact("now", False), input={})
    async with Client(build_server(tools, handles="stored")) as client:
        handle: dict[str, Any] = {}
        for number in range(12):
            result = await client.call_tool("call_tool", {"name": "change", **handle})
            assert f"Version {number + 1}." in text_of(result)
            handle = {"handle": (result.meta or {}).get(HANDLE_META, handle.get("handle"))}
            await client.call_tool("call_tool", {"name": "hide", **handle})
        gc.collect()
        assert len([one for one in gc.get_objects() if type(one) is Described and "remembered" in one.name]) <= 6


@pytest.mark.spec("CTL-4")
async def test_a_tool_is_not_known_from_a_longer_name_that_ends_in_its_own() -> None:
    tools = make_counter()
    staff = Visibility.when(lambda view: bool(view.facts.get("staff")))
    tools.register_group("old_desk")
    for group, text in (("desk", "long " * 2_000), ("old_desk", "Short.")):
        tools.register("long", lambda: None, input={}, group=group, description=text, visibility=staff)
    built = build_server(tools, separator=".", handles="stored", answers="signatures", answer_tokens=1_200)
    async with Client(built) as client:
        handle = change_of(await client.call_tool("open_group", {"group": "desk"}))["handle"]
        await client.call_tool("open_group", {"group": "old_desk", "handle": handle})
        for name in ("sign_in", "sign_out"):
            await client.call_tool("call_tool", {"name": f"desk.{name}", "handle": handle})
        lines = text_of(await client.call_tool("call_tool", {"name": "desk.sign_in", "handle": handle})).splitlines()
    assert lines[1:6] == [
        "Available again, as described before:",
        "- desk.pay",
        "- old_desk.long",
        "Now available:",
        "- desk.long",
    ]


# -- clients that list again ------------------------------------------------------------------------------------------


async def gets_definitions(client: Client, group: str) -> bool:
    """Open and close a group; return whether the answer has its definitions; otherwise it must have their names."""
    result = await client.call_tool(f"{group}.activate", {})
    await client.call_tool(f"{group}.deactivate", {})
    if schemas_in(text_of(result)):
        return True
    assert text_of(result).splitlines()[1:] == [f"- {name}" for name in change_of(result)["tools"]]
    return False


@pytest.mark.spec("CTL-4", "DEL-1")
async def test_a_client_that_has_listed_again_after_a_change_gets_only_names_from_then_on() -> None:
    server = shop_server()
    async with client_of(server, "legacy") as (client, _), client_of(server, "legacy") as (other, _):
        for one in (client, other):
            await names_of(one)
        assert await gets_definitions(client, "cash")
        await names_of(client)  # nothing has changed since the list before
        assert await gets_definitions(client, "cash")
        await client.call_tool("stock.activate", {})
        await names_of(client)
        assert not await gets_definitions(client, "cash")
        assert not await gets_definitions(client, "credit")
        assert await gets_definitions(other, "cash")


@pytest.mark.spec("CTL-4", "DEL-1")
async def test_a_client_that_lists_for_the_first_time_has_not_listed_again() -> None:
    async with endpoint_of(shop_server()) as endpoint:
        client = RawLegacy(endpoint.connect(), URL)  # others list of their own accord before they call
        await client.initialize()
        for group, has_definitions in (("cash", True), ("credit", True), ("stock", False)):
            *_, answer = await client.request("tools/call", {"name": f"{group}.activate", "arguments": {}})
            assert bool(schemas_in(answer["result"]["content"][0]["text"])) == has_definitions
            await client.request("tools/list")


@pytest.mark.spec("CTL-4", "LST-2")
async def test_a_change_on_a_later_page_is_a_change_too() -> None:
    tools = ToolSet("paged", page_size=4)
    tools.register_group("z")
    for name in "abcd":
        tools.register(name, lambda: "", input_schema=OBJECT)
    tools.register("t", lambda: "", input_schema=OBJECT, group="z")

    async def list_all(client: Client) -> None:
        cursor: str | None = None
        while cursor := (await client.list_tools(cursor=cursor)).next_cursor:
            pass

    async with client_of(build_server(tools, separator="."), "legacy") as (client, _):
        await list_all(client)
        assert await gets_definitions(client, "z")
        await client.call_tool("z.activate", {})
        await list_all(client)
        await client.call_tool("z.deactivate", {})
        assert not await gets_definitions(client, "z")


@pytest.mark.spec("CTL-4")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answers", ["definitions", "names"])
async def test_the_form_of_answers_can_be_fixed_for_all_clients(era: str, answers: Any) -> None:
    async with client_of(shop_server(answers=answers), era) as (client, _):
        for group in ("stock", "cash"):
            await names_of(client)
            result = await client.call_tool(f"{group}.activate", {})
            assert bool(schemas_in(text_of(result))) == (answers == "definitions")
            lines = [line for line in text_of(result).splitlines() if line.startswith("- ")]
            named = [f"- {name}" for name in change_of(result)["tools"]]
            assert (lines == named) == (answers == "names")


@pytest.mark.spec("CTL-4")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"answers": "all"}, 'answers must be "auto", "definitions", "signatures" or "names"'),
        ({"answer_tokens": 1_199}, "at least 1200"),
    ],
    ids=["form", "budget"],
)
def test_settings_that_can_not_be_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_server(make_shop(), **wrong)


# -- hints ------------------------------------------------------------------------------------------------------------


def library(**settings: Any) -> ToolSet:
    """A tool, a prompt, a resource and a template in a group within a group."""
    tools = ToolSet("library", on_hidden="hint", **settings)
    tools.register_group("a")
    tools.register_group("a.b")
    tools.register("t", lambda: "", group="a.b", input_schema=OBJECT)
    tools.register_prompt("p", lambda: "", group="a.b")
    tools.register_resource("file:///r", lambda: "", group="a.b")
    tools.register_resource_template("file:///t/{day}", lambda values: "", group="a.b")
    return tools


@pytest.mark.spec("CALL-1", "DEL-8", "REG-9", "NAM-6")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("control", "how"),
    [
        ("per_group", ": call a__open first"),
        ("load_tool_group", ': call load_tool_group {"group_name": "a"} first'),
        ("none", ", which is not open"),
    ],
)
async def test_a_hint_names_what_opens_the_outermost_closed_group_as_clients_know_it(
    era: str, control: str, how: str
) -> None:
    async with client_of(build_server(library(control=control), separator="__"), era) as (client, _):
        hint = f" (it needs the group a{how})"
        assert text_of(await through(client, "a__b__t")).endswith(f"it needs the group a{how})")
        for request, what in (
            (client.call_tool("a__b__t", {}), "tool: a__b__t"),
            (client.get_prompt("a.b.p"), "prompt: a.b.p"),
            (client.read_resource("file:///r"), "resource: file:///r"),
            (client.read_resource("file:///t/1"), "resource: file:///t/1"),
        ):
            with pytest.raises(MCPError) as refused:
                await request
            assert refused.value.message == f"Unknown {what}{hint}"


# -- wrong arguments --------------------------------------------------------------------------------------------------


def refused_with(result: types.CallToolResult) -> Any:
    """Return the schema that a refusal of arguments gives, if it does."""
    assert result.is_error
    first, *rest = text_of(result).split("\n")
    assert first.startswith("Invalid arguments for ")
    assert len(rest) < 2
    return json.loads(rest[0]) if rest else None


@pytest.mark.spec("CALL-2", "DEL-8")
async def test_in_a_session_the_schema_is_given_by_call_tool_and_where_the_client_was_not_listed_it() -> None:
    tools = make_shop()
    tools.register("shy", lambda arguments: "", input_schema={"type": "object", "required": ["x"]}, hidden=True)
    async with client_of(build_server(tools, separator="."), "legacy") as (client, _):
        await names_of(client)
        await client.call_tool("stock.activate", {})
        wrong: dict[str, Any] = {"item": 5}
        schema = refused_with(await client.call_tool("stock.count", wrong))
        assert schema["required"] == ["item"]
        listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert schema == listed["stock.count"]
        assert refused_with(await client.call_tool("stock.count", wrong)) is None
        assert refused_with(await through(client, "stock.count", wrong)) == schema
        assert refused_with(await client.call_tool("stock.activate", wrong)) is None
        await client.call_tool("stock.orders.activate", {})
        assert refused_with(await client.call_tool("stock.orders.place", wrong))["required"] == ["items"]
        assert refused_with(await client.call_tool("shy", {}))["required"] == ["x"]


@pytest.mark.spec("CALL-2", "DEL-2", "DEL-11")
async def test_without_sessions_the_schema_is_given_by_call_tool_under_a_handle_and_for_what_is_hidden() -> None:
    tools = make_shop()
    for name, hidden in (("shy", True), ("plain", False)):
        schema = {"type": "object", "required": ["x"]}
        tools.register(name, lambda arguments: "", input_schema=schema, hidden=hidden)
    async with client_of(build_server(tools, separator="."), MODERN) as (client, _):
        handle = await opened(client, "stock")
        meta: Any = {HANDLE_META: handle}
        assert refused_with(await through(client, "stock.count", {"item": 5}, handle))["required"] == ["item"]
        assert refused_with(await client.call_tool("stock.count", {"item": 5}, meta=meta))["required"] == ["item"]
        assert refused_with(await through(client, "plain"))["required"] == ["x"]
        assert refused_with(await client.call_tool("plain", {})) is None
        assert refused_with(await client.call_tool("shy", {}))["required"] == ["x"]
        extra = {"handle": handle, "more": 1}
        assert set(refused_with(await client.call_tool("cash.activate", extra))["properties"]) == {"handle"}


@pytest.mark.spec("CALL-2", "CTL-4")
@pytest.mark.parametrize("era", ERAS)
async def test_a_schema_that_is_longer_than_an_answer_may_be_is_left_out(era: str) -> None:
    tools = ToolSet("long")
    tools.register_group("g")
    for name, length in (("short", 3_000), ("long", 5_000)):
        schema = {"type": "object", "required": ["x"], "description": "x" * length}
        tools.register(name, lambda arguments: "", input_schema=schema, group="g")
    async with client_of(build_server(tools, separator=".", answer_tokens=1_200), era) as (client, _):
        handle = change_of(await client.call_tool("g.activate", {})).get("handle")
        for name, received in (("short", True), ("long", False)):
            result = await through(client, f"g.{name}", {}, handle)
            assert (refused_with(result) is not None) == received
            assert approximate_tokens(text_of(result)) <= 1_200


@pytest.mark.spec("CALL-2", "GRP-3", "DEL-8")
async def test_a_loader_called_by_call_tool_tells_its_schema_too() -> None:
    async with client_of(build_server(make_shop(control="load_tool_group"), separator="."), "legacy") as (client, _):
        await names_of(client)
        wrong = {"group_name": 5}
        assert refused_with(await client.call_tool("load_tool_group", wrong)) is None
        result = await through(client, "load_tool_group", wrong)
        assert refused_with(result)["required"] == ["group_name"]
        assert (result.meta or {})[ERROR_META] == {"error_type": "invalid_parameter"}
