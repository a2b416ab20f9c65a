"""What a client must be able to do for a tool: said in lists, and a call without it is refused at once (SPEC NXT-2)."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client import advertise
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from tests.adapters.gateway.inprocess import House, config_of, gateway_of
from tests.adapters.mcp.asgi import callers_of, endpoint_of
from tests.adapters.mcp.support import build_server
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, text_of
from tests.adapters.mcp.test_tags import Wire, stale_in, tagged
from toolfold import ConfigError, Context, InputRequired, Profile, ToolSet
from toolfold_adapters.mcp.extensions.drafts import drafts
from toolfold_adapters.mcp.extensions.required import ASKS_META, REQUIRED_META, required_capabilities
from toolfold_adapters.mcp.extensions.tags import KNOWN_TAGS, STALE
from toolfold_adapters.mcp.request import own_client
from toolfold_adapters.names import GROUPS_EXTENSION, HANDLE_META

pytestmark = pytest.mark.spec("NXT-2")

ANY: dict[str, Any] = {"type": "object"}
FORM, URL = "elicitation/create", "elicitation/create?mode=url"
QUESTION = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
PAGE = {"mode": "url", "message": "Log in", "url": "https://example.com/"}
NEEDS: dict[str, tuple[list[str] | str, Any]] = {
    "plain": ([], None),
    "confirm": ([FORM], {"elicitation": {}}),
    "alone": (FORM, {"elicitation": {}}),
    "login": ([URL], {"elicitation": {"url": {}}}),
    "think": (["sampling/createMessage", "roots/list"], {"sampling": {}, "roots": {}}),
    "both": ([FORM, URL], {"elicitation": {"form": {}, "url": {}}}),
    "both_again": ([URL, FORM], {"elicitation": {"form": {}, "url": {}}}),
}
"""What each tool says that it asks for, and the capabilities that this needs."""


def make_desk(ran: list[str] | None = None, **settings: Any) -> ToolSet:
    """Return tools that say what they ask for, at root and in a group, and two that do not say it."""
    tools = ToolSet("desk", run_in_thread=False, **settings)
    tools.register_group("work", "Work")
    noted = list[str]() if ran is None else ran
    for group in (None, "work"):
        for name, (asks, _) in NEEDS.items():

            def handler(arguments: dict[str, Any], name: str = name) -> str:
                noted.append(name)
                return "done"

            meta = {ASKS_META: asks, "example.org/kept": 1} if asks else {}
            tools.register(name, handler, description=name, input_schema=ANY, group=group, meta=meta)
    for name, question in (("surprise", QUESTION), ("surprising_page", PAGE)):

        def asking(arguments: dict[str, Any], context: Context, name: str = name, question: Any = question) -> Any:
            noted.append(name)
            request: Any = context.request
            if "inputResponses" in (request.params or {}):
                return "answered"
            return InputRequired({"sure": {"method": FORM, "params": question}})

        tools.register(name, asking, description=name, input_schema=ANY)
    return tools


def made(tools: ToolSet | None = None, given: tuple[str, ...] = ("requires",), **options: Any) -> Server[Any]:
    return build_server(make_desk() if tools is None else tools, extend=drafts(given), **options)


async def refusal_of(client: Client, name: str, arguments: Any = None, **options: Any) -> types.ErrorData:
    with pytest.raises(MCPError) as refused:
        await client.call_tool(name, arguments or {}, **options)
    return refused.value.error


def texts_of(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def answers(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={})


def able(server: Any, **options: Any) -> Client:
    """Return a client that answers elicitations of either mode."""
    return Client(server, mode=MODERN, elicitation_callback=answers, **options)


async def test_lists_say_what_tools_need_the_same_to_every_client() -> None:
    server = made()
    async with Client(server, mode=MODERN) as plain, able(server) as other:
        lists = [(await client.list_tools(cache_mode="bypass")).tools for client in (plain, other)]
    assert lists[0] == lists[1]
    meta = {tool.name: tool.meta or {} for tool in lists[0]}
    assert {name: meta[name].get(REQUIRED_META) for name in NEEDS} == {name: need for name, (_, need) in NEEDS.items()}
    assert meta["confirm"]["example.org/kept"] == 1


@pytest.mark.parametrize("name", [name for name, (_, need) in NEEDS.items() if need])
async def test_a_call_is_refused_before_anything_is_done_if_its_client_does_not_declare_what_it_needs(
    name: str,
) -> None:
    ran = list[str]()
    async with Client(made(make_desk(ran)), mode=MODERN) as client:
        error = await refusal_of(client, name)
    assert (error.code, error.data) == (
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        {"requiredCapabilities": NEEDS[name][1]},
    )
    assert ran == []


async def test_the_refusal_names_what_is_needed_and_has_the_status_of_the_protocol_over_http() -> None:
    async with endpoint_of(made()) as endpoint:
        answer = await endpoint.post("tools/call", {"name": "login", "arguments": {}})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        "This needs a client with elicitation.url, which this one does not declare."
    )


async def test_a_client_that_declares_it_calls() -> None:
    ran = list[str]()
    async with able(made(make_desk(ran))) as client:
        for name in ("plain", "confirm", "alone", "login", "both"):
            assert text_of(await client.call_tool(name, {})) == "done"
        assert (await refusal_of(client, "think")).data == {"requiredCapabilities": NEEDS["think"][1]}
    assert ran == ["plain", "confirm", "alone", "login", "both"]


async def test_a_client_that_answers_forms_alone_is_shown_no_page() -> None:
    ran = list[str]()
    meta: Any = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    async with endpoint_of(made(make_desk(ran))) as endpoint:
        for name, status in (("confirm", 200), ("login", 400), ("surprise", 200), ("surprising_page", 400)):
            answer = await endpoint.post("tools/call", {"name": name, "arguments": {}, "_meta": meta})
            assert answer.status_code == status
    assert ran == ["confirm", "surprise", "surprising_page"]


async def test_a_call_inside_another_is_refused_like_one_by_name() -> None:
    ran = list[str]()
    async with Client(made(make_desk(ran)), mode=MODERN) as client:
        handle = await opened(client, "work")
        inside = {"name": "work.confirm", "handle": handle}
        assert (await refusal_of(client, "call_tool", inside)).data == {"requiredCapabilities": {"elicitation": {}}}
        assert ran == []
        assert text_of(await client.call_tool("call_tool", {"name": "work.plain", "handle": handle})) == "done"


async def test_of_several_calls_those_are_refused_that_need_more_also_of_tools_that_one_before_opens() -> None:
    ran = list[str]()
    calls: Any = [{"name": name} for name in ("confirm", "work.activate", "work.login", "work.plain")]
    async with Client(made(make_desk(ran), call_tools=True), mode=MODERN) as client:
        answer = text_of(await client.call_tool("call_tools", {"calls": calls}))
    assert "[1] confirm failed:\nThis needs a client with elicitation.form, which this one does not declare." in answer
    assert "[3] work.login failed:\nThis needs a client with elicitation.url, which" in answer
    assert ran == ["plain"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("confirm", "{}"), ("call_tool", '{"name": "confirm"}'), ("call_tool", {"name": "confirm", "arguments": "{}"})],
)
async def test_a_call_whose_arguments_are_json_text_is_refused_likewise(name: str, arguments: Any) -> None:
    ran = list[str]()
    async with endpoint_of(made(make_desk(ran))) as endpoint:
        answer = await endpoint.post("tools/call", {"name": name, "arguments": arguments})
    assert (answer.json()["error"]["code"], ran) == (types.MISSING_REQUIRED_CLIENT_CAPABILITY, [])


async def test_a_call_in_the_state_of_a_known_list_is_refused_likewise() -> None:
    ran = list[str]()
    server, sent = tagged(make_desk(ran), "honour", required_capabilities)
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        under = await wire.tag("tools/list", {HANDLE_META: await opened(client, "work")})
        stale: Any = {KNOWN_TAGS: {"tools/list": under}}
        assert text_of(await client.call_tool("work.plain", {}, meta=stale)) == "done"
        error = await refusal_of(client, "work.confirm", meta=stale)
    assert (error.code, ran) == (types.MISSING_REQUIRED_CLIENT_CAPABILITY, ["plain"])


async def test_no_group_is_opened_for_a_call_that_is_refused() -> None:
    token = own_client.set("client")
    try:
        async with Client(made(), mode=MODERN) as client:
            error = await refusal_of(client, "call_tool", {"name": "work.confirm"})
            assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
            assert "Opened for this call: work" in texts_of(await client.call_tool("call_tool", {"name": "work.plain"}))
    finally:
        own_client.reset(token)


async def test_of_a_tool_that_can_not_be_called_no_more_is_said_than_ever() -> None:
    asked: list[tuple[str, Any]] = [
        ("call_tool", {"name": "work.confirm"}),
        ("call_tool", {"name": "work.confirm", "handle": "made up"}),
        ("call_tool", {"nonsense": 1}),
        ("work.confirm", {}),
        ("gone", {}),
    ]

    async def said(server: Server[Any]) -> list[Any]:
        found = list[Any]()
        async with Client(server, mode=MODERN) as client:
            for name, arguments in asked:
                try:
                    found.append((await client.call_tool(name, arguments)).model_dump())
                except MCPError as error:
                    found.append(error.error.model_dump())
        return found

    assert await said(made()) == await said(made(given=()))


@pytest.mark.parametrize("given", [(), ("requires",)])
@pytest.mark.parametrize(("name", "method"), [("surprise", FORM), ("surprising_page", f"{FORM}?mode=url")])
async def test_what_a_tool_asks_for_without_having_said_so_is_refused_when_it_asks(
    name: str, method: str, given: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    ran = list[str]()
    async with Client(made(make_desk(ran), given), mode=MODERN) as client:
        assert (await refusal_of(client, name)).code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert ran == [name]
    assert f"'{name}' asked for {method}, which its client does not declare" in caplog.text


async def test_a_client_that_answers_is_asked() -> None:
    async with able(made(make_desk())) as client:
        for name in ("surprise", "surprising_page"):
            assert text_of(await client.call_tool(name, {})) == "answered"


async def test_what_is_open_in_the_session_of_a_caller_counts() -> None:
    async with (
        callers_of(made(delivery="principal")) as target,
        Client(target("ada"), mode=MODERN) as client,
    ):
        assert (await refusal_of(client, "confirm")).code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert (await refusal_of(client, "work.confirm")).code == types.INVALID_PARAMS
        await client.call_tool("work.activate", {})
        assert (await refusal_of(client, "work.confirm")).code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_a_caller_whose_rights_are_fewer_by_now_learns_nothing_of_what_he_had() -> None:
    right: list[Profile | None] = [None]

    def bounded(server: Server[Any], handlers: Any) -> None:
        handlers.selections.rights = lambda _: right[0]

    server = build_server(make_desk(), delivery="principal", extend=drafts(["requires"], bounded))
    async with callers_of(server) as target, Client(target("ada"), mode=MODERN) as client:
        await client.call_tool("work.activate", {})
        assert (await refusal_of(client, "work.confirm")).code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
        right[0] = Profile("less", available=["plain"])
        assert (await refusal_of(client, "work.confirm")).code == types.INVALID_PARAMS


async def test_a_tool_of_a_group_that_its_client_can_fetch_is_refused_likewise() -> None:
    ran, declared = list[str](), [advertise(GROUPS_EXTENSION, {})]
    async with Client(made(make_desk(ran)), mode=MODERN, extensions=declared) as client:
        for name in ("confirm", "work.confirm"):
            assert (await refusal_of(client, name)).code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert ran == []
        assert text_of(await client.call_tool("work.plain", {})) == "done"


async def test_nothing_is_said_or_refused_without_the_draft_or_in_the_era_before() -> None:
    for server, era in ((made(given=()), MODERN), (made(), "legacy")):
        async with Client(server, mode=era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools if REQUIRED_META in (tool.meta or {})] == []
            assert text_of(await client.call_tool("confirm", {})) == "done"


@pytest.mark.parametrize("given", [("requires", "tags=reject"), ("tags=reject", "requires")])
async def test_a_call_is_rejected_for_its_tags_first(given: tuple[str, ...]) -> None:
    async with Client(made(given=given), mode=MODERN) as client:
        stale: Any = {KNOWN_TAGS: {"tools/list": "old"}}
        assert (await refusal_of(client, "confirm", meta=stale)).code == STALE
        assert stale_in(await client.call_tool("plain", {})) is None


def asking_for(asks: Any) -> ToolSet:
    tools = ToolSet("desk")
    nothing: Any = lambda arguments: None  # noqa: E731
    tools.register("wrong", nothing, description="x", input_schema=ANY, meta={ASKS_META: asks})
    return tools


@pytest.mark.parametrize("asks", [["elicitation/created"], [{}], "elicit", {FORM: 1}, [FORM, 7]])
async def test_a_tool_that_says_it_asks_for_what_nobody_answers_is_refused_as_a_server_is_built(asks: Any) -> None:
    with pytest.raises(ConfigError, match=r"^wrong: dev\.toolfold/asks has .*; there are elicitation/create, "):
        made(asking_for(asks))


async def test_one_that_is_registered_later_is_listed_as_if_it_did_not_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = make_desk()
    async with Client(made(tools), mode=MODERN) as client:
        wrong = asking_for(["nothing"]).catalog.tools["wrong"].definition["_meta"]
        tools.register("late", lambda: "done", description="x", meta=dict(wrong))
        await client.list_tools(cache_mode="bypass")
        late = {tool.name: tool for tool in (await client.list_tools(cache_mode="bypass")).tools}["late"]
        assert REQUIRED_META not in (late.meta or {})
        assert text_of(await client.call_tool("late", {})) == "done"
    assert caplog.text.count("late: dev.toolfold/asks has nothing; there are") == 1


def paying(needed: Any) -> Any:
    """Return a server whose tool `pay` says that it needs this of clients."""

    class Upstream:
        tools = ToolSet("desk")
        server = build_server(tools)

    nothing: Any = lambda arguments: None  # noqa: E731
    Upstream.tools.register("pay", nothing, description="x", input_schema=ANY, meta={REQUIRED_META: needed})
    return Upstream


async def test_a_gateway_passes_on_what_the_tools_of_other_servers_need() -> None:
    needed: Any = {"elicitation": {"url": {}}, "extensions": {"example.org/x": {}}}
    async with (gateway := gateway_of(House(lambda name: paying(needed)), config_of("desk"))) as tools:
        server = build_server(tools, handles="stored", extend=drafts(["requires"], gateway.extend))
        async with able(server) as client:
            listed = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
            assert listed["pay"][REQUIRED_META] == needed
            assert (await refusal_of(client, "pay")).data == {"requiredCapabilities": needed}
        async with able(server, extensions=[advertise("example.org/x", {})]) as client:
            assert not (await client.call_tool("pay", {})).is_error


DEEP: dict[str, Any] = {"a": {"b": {"c": {"d": {"e": {}}}}}}


@pytest.mark.parametrize(
    ("said", "needed"),
    [
        (["elicitation"], None),
        ("elicitation", None),
        ({"elicitation": "url"}, None),
        ({"roots": {"listChanged": True, "at": 1}, "sampling": ["tools"]}, {"roots": {"listChanged": True}}),
        ({"elicitation": {}, "all. Now call": {}, "x" * 200: {}}, {"elicitation": {}}),
        (DEEP, {"a": {"b": {"c": {"d": {}}}}}),
    ],
)
async def test_of_what_another_server_says_only_capabilities_are_listed_and_named(said: Any, needed: Any) -> None:
    async with (gateway := gateway_of(House(lambda name: paying(said)), config_of("desk"))) as tools:
        server = build_server(tools, handles="stored", extend=drafts(["requires"], gateway.extend))
        async with Client(server, mode=MODERN) as client:
            listed = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
            assert listed["pay"].get(REQUIRED_META) == needed
            assert (REQUIRED_META in listed["pay"]) is (needed is not None)
            if needed is None:
                assert not (await client.call_tool("pay", {})).is_error
            else:
                assert (await refusal_of(client, "pay")).data == {"requiredCapabilities": needed}


async def test_a_gateway_refuses_the_first_call_of_a_tool_whose_server_it_did_not_know() -> None:
    upstream = paying({"elicitation": {}})
    gateway = gateway_of(House(lambda name: upstream), config_of("desk"), wait=False)
    async with gateway as tools:
        server = build_server(tools, handles="stored", extend=drafts(["requires"], gateway.extend))
        async with Client(server, mode=MODERN) as client:
            assert (await refusal_of(client, "pay")).code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
