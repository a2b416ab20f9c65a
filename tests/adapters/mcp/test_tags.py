"""Definition tags, as drafted: what a list's tag says, and four answers to a client whose list is old (SPEC NXT-1)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, cast

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import callers_of
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, received, text_of
from toolfold import ConfigError, Context, InputRequired, Profile, ToolSet, Visibility
from toolfold_adapters.mcp.extensions.tagged_client import TaggedClient
from toolfold_adapters.mcp.extensions.tags import KNOWN_TAGS, STALE, STALE_TAGS, Choice, definition_tags
from toolfold_adapters.names import HANDLE_META

pytestmark = pytest.mark.spec("NXT-1")

CHOICES: tuple[Choice, ...] = ("ignore", "honour", "signal", "reject")
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


class Wire:
    """A client of the modern era that shows answers whole; the SDK's own drops the tags."""

    def __init__(self, client: Client, sent: list[dict[str, Any]]) -> None:
        self.client, self._sent = client, sent

    async def tag(self, method: str, meta: Any = None) -> str:
        """Return the tag of a list, or of the introduction."""
        kinds: dict[str, Any] = {
            "tools/list": types.ListToolsRequest,
            "prompts/list": types.ListPromptsRequest,
            "resources/list": types.ListResourcesRequest,
            "resources/templates/list": types.ListResourceTemplatesRequest,
        }
        params = types.PaginatedRequestParams.model_validate({"_meta": meta or {}})
        await self.client.session.send_request(kinds[method](params=params), types.Result)
        return str(self._sent[-1]["tag"])

    async def call(self, name: str, known: Any, arguments: Any = None, **meta: Any) -> types.CallToolResult:
        """Call a tool with the tags that are known."""
        return await self.client.call_tool(name, arguments or {}, meta=cast("Any", {KNOWN_TAGS: known, **meta}))


def tagged(
    tools: ToolSet, choice: Choice, also: Any = None, **options: Any
) -> tuple[Server[Any], list[dict[str, Any]]]:
    """Return a server with tags, and the answers that it gives."""
    server, sent = build_server(tools, extend=definition_tags(choice, also), **options), list[dict[str, Any]]()

    async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        answer: Any = await call_next(ctx)
        sent.append(answer)
        return answer  # type: ignore[no-any-return]

    server.middleware.insert(0, note)
    return server, sent


def stale_in(result: types.CallToolResult) -> Any:
    return (result.meta or {}).get(STALE_TAGS)


async def test_a_tag_is_of_the_whole_list_and_every_change_of_a_definition_changes_it() -> None:
    tools = make_shop()
    server, sent = tagged(tools, "signal")
    paged = make_shop(page_size=1)
    pages, sent_pages = tagged(paged, "signal")
    async with Client(server, mode=MODERN) as client, Client(pages, mode=MODERN) as other:
        wire, by_page = Wire(client, sent), Wire(other, sent_pages)
        before = {method: await wire.tag(method) for method in LISTS}
        assert len({*before.values()}) == len(LISTS)
        assert {method: await by_page.tag(method) for method in LISTS} == before
        tools.tool(name="novel", description="A new one")(lambda: "x")
        after = {method: await wire.tag(method) for method in LISTS}
        assert {method for method in LISTS if after[method] != before[method]} == {"tools/list"}
        tools.unregister("novel")
        assert await wire.tag("tools/list") == before["tools/list"]


@pytest.mark.parametrize("choice", CHOICES)
async def test_opening_a_group_makes_the_list_stale_and_a_list_under_the_handle_has_its_own_tag(
    choice: Choice,
) -> None:
    server, sent = tagged(make_shop(), choice)
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        first = await wire.tag("tools/list")
        opened = await wire.call("stock.activate", {"tools/list": first})
        assert stale_in(opened) == (None if choice == "ignore" else ["tools/list"])
        handle = (opened.meta or {})[HANDLE_META]
        under = await wire.tag("tools/list", {HANDLE_META: handle})
        assert under != first
        counted = await wire.call("stock.count", {"tools/list": under}, {"item": "x"}, **{HANDLE_META: handle})
        assert received(counted) == {"item": "x", "shelf": 1}
        assert stale_in(counted) is None


async def test_what_is_no_tag_and_methods_without_tags_are_passed_over() -> None:
    server, sent = tagged(make_shop(), "reject")
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        for known in ({"skills/list": "x", "tools/list": 7}, "x", {}, None):
            assert stale_in(await wire.call("hello", known)) is None


async def test_a_stale_tag_is_rejected_before_the_call_only_if_the_call_depends_on_it() -> None:
    server, sent = tagged(make_shop(), "reject")
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        known = {"tools/list": await wire.tag("tools/list"), "prompts/list": "old"}
        assert stale_in(await wire.call("hello", known)) == ["prompts/list"]
        for relevant in ("tools/list", "server/discover"):
            with pytest.raises(MCPError) as refused:
                await wire.call("no_such_tool", {**known, relevant: "old"})
            assert (refused.value.error.code, refused.value.error.data) == (STALE, {"staleTags": [relevant]})


async def test_a_modern_host_lists_again_and_calls_by_name_where_it_has_a_session() -> None:
    server, sent = tagged(make_shop(), "signal", delivery="principal")
    async with callers_of(server) as target, AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(target("ada"), mode=MODERN))
        wire = Wire(client, sent)
        first = await wire.tag("tools/list")
        assert stale_in(await wire.call("stock.activate", {"tools/list": first})) == ["tools/list"]
        assert "stock.count" in await names_of(client)
        again = await wire.tag("tools/list")
        counted = await wire.call("stock.count", {"tools/list": again}, {"item": "x"})
        assert received(counted) == {"item": "x", "shelf": 1}
        assert stale_in(counted) is None


async def test_a_call_is_honoured_in_the_state_of_the_list_that_its_client_knows() -> None:
    tools = make_shop()
    server, sent = tagged(tools, "honour")
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        opened = await wire.call("stock.activate", {})
        under = await wire.tag("tools/list", {HANDLE_META: (opened.meta or {})[HANDLE_META]})
        counted = await wire.call("stock.count", {"tools/list": under}, {"item": "x"})  # without the handle
        assert (received(counted), stale_in(counted)) == ({"item": "x", "shelf": 1}, ["tools/list"])
        tools.unregister("stock.count")
        for tag, name, arguments in ((under, "stock.count", {"item": "x"}), ("made up", "hello", {})):
            with pytest.raises(MCPError) as refused:
                await wire.call(name, {"tools/list": tag}, arguments)
            assert (refused.value.error.code, refused.value.error.data) == (STALE, {"staleTags": ["tools/list"]})


async def test_a_state_with_facts_is_not_honoured() -> None:
    tools = ToolSet("desk")

    @tools.tool()
    def sign_in(context: Context) -> None:
        """Become the manager."""
        context.session.set_fact("manager", True)

    @tools.tool(visibility=Visibility.when(lambda view: view.facts.get("manager") is True))
    def refund() -> str:
        """Pay back."""
        return "paid"

    server, sent = tagged(tools, "honour")
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        handle = ((await wire.call("sign_in", {})).meta or {})[HANDLE_META]
        tag = await wire.tag("tools/list", {HANDLE_META: handle})
        assert text_of(await wire.call("refund", {"tools/list": tag}, **{HANDLE_META: handle})) == "paid"
        with pytest.raises(MCPError) as refused:
            await wire.call("refund", {"tools/list": tag})
        assert refused.value.error.code == STALE


def make_bank(**group: Any) -> ToolSet:
    """Return tools of which one is in a group that only code opens, for whoever gives a password."""
    tools = ToolSet("bank", run_in_thread=False)
    tools.register_group("vault", "Nobody's", selectable=False, controls=False, **group)

    @tools.tool()
    async def login(password: str, context: Context) -> None:
        """Log in."""
        if password == "right":
            await context.activate("vault")

    @tools.tool(group="vault")
    def gold() -> str:
        """Take gold."""
        return "gold"

    return tools


async def test_a_state_that_only_code_leads_to_is_not_honoured() -> None:
    server, sent = tagged(make_bank(), "honour")
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        handle = ((await wire.call("login", {}, {"password": "right"})).meta or {})[HANDLE_META]
        tag = await wire.tag("tools/list", {HANDLE_META: handle})
        assert text_of(await wire.call("vault.gold", {"tools/list": tag}, **{HANDLE_META: handle})) == "gold"
        for name in ("vault.gold", "login"):  # as for a tag that nobody was given
            with pytest.raises(MCPError) as refused:
                await wire.call(name, {"tools/list": tag}, {"password": "wrong"} if name == "login" else {})
            assert (refused.value.error.code, refused.value.error.data) == (STALE, {"staleTags": ["tools/list"]})


@pytest.mark.parametrize(("group", "options"), [({}, {"active": ["vault"]}), ({"pinned": True}, {})])
async def test_a_state_in_which_every_request_begins_is_honoured(group: Any, options: Any) -> None:
    tools = make_bank(**group)
    server, sent = tagged(tools, "honour", **options)
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        first = await wire.tag("tools/list")
        tools.tool(name="novel", description="A new one")(lambda: "x")
        assert "vault.gold" in await names_of(client)
        taken = await wire.call("vault.gold", {"tools/list": first})
        assert (text_of(taken), stale_in(taken)) == ("gold", ["tools/list"])


async def test_what_a_tool_asks_for_in_the_state_of_a_known_list_is_asked_only_of_clients_that_answer() -> None:
    tools = ToolSet("desk", run_in_thread=False)
    tools.register_group("work", "Work")

    @tools.tool(group="work")
    def confirm() -> InputRequired:
        """Ask."""
        question = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
        return InputRequired({"sure": {"method": "elicitation/create", "params": question}})

    server, sent = tagged(tools, "honour")
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        handle = ((await wire.call("work.activate", {})).meta or {})[HANDLE_META]
        tag = await wire.tag("tools/list", {HANDLE_META: handle})
        with pytest.raises(MCPError) as refused:
            await wire.call("work.confirm", {"tools/list": tag})
        assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_a_state_is_honoured_within_the_rights_that_its_caller_has_by_now() -> None:
    right: list[Profile | None] = [None]

    def extend(server: Server[Any], handlers: Any) -> None:
        handlers.selections.rights = lambda _: right[0]

    server, sent = tagged(make_shop(), "honour", also=extend)
    async with callers_of(server) as target, Client(target("ada"), mode=MODERN) as client:
        wire = Wire(client, sent)
        handle = ((await wire.call("stock.activate", {})).meta or {})[HANDLE_META]
        tag = await wire.tag("tools/list", {HANDLE_META: handle})
        assert received(await wire.call("stock.count", {"tools/list": tag}, {"item": "x"}))["shelf"] == 1
        right[0] = Profile("less", available=["hello"])
        with pytest.raises(MCPError) as refused:
            await wire.call("stock.count", {"tools/list": tag}, {"item": "x"})
        assert refused.value.error.code == STALE


async def test_a_definition_that_is_gone_is_not_honoured() -> None:
    tools = ToolSet("desk")

    @tools.tool()
    def say(text: str) -> str:
        """Say it."""
        return text

    server, sent = tagged(tools, "honour")
    async with Client(server, mode=MODERN) as client:
        wire = Wire(client, sent)
        first = await wire.tag("tools/list")
        tools.unregister("say")
        tools.tool(name="say")(say_more)
        with pytest.raises(MCPError) as refused:
            await wire.call("say", {"tools/list": first}, {"text": "hello"})
        assert refused.value.error.data == {"staleTags": ["tools/list"]}
        again = await wire.tag("tools/list")
        assert text_of(await wire.call("say", {"tools/list": again}, {"words": "hello"})) == "more hello"


def say_more(words: str) -> str:
    """Say them."""
    return f"more {words}"


async def test_another_caller_and_another_state_of_a_session_are_not_honoured() -> None:
    server, sent = tagged(make_shop(), "honour", delivery="principal")
    async with callers_of(server) as target, AsyncExitStack() as stack:
        ada, bob = [
            Wire(await stack.enter_async_context(Client(target(name), mode=MODERN)), sent) for name in ("ada", "bob")
        ]
        await ada.call("stock.activate", {})
        opened = await ada.tag("tools/list")
        await ada.call("stock.deactivate", {})
        for wire in (ada, bob):
            with pytest.raises(MCPError) as refused:
                await wire.call("stock.count", {"tools/list": opened}, {"item": "x"})
            assert refused.value.error.data == {"staleTags": ["tools/list"]}


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_client_of_tags_sees_what_it_opened_by_name(choice: Choice) -> None:
    server, _ = tagged(make_shop(page_size=2), choice)
    async with TaggedClient(server, mode=MODERN) as client:
        assert "stock.count" not in await client.everything()
        await client.call_tool("stock.activate", {})
        assert ("stock.count" in await client.everything()) == (choice != "ignore")
        assert received(await client.call_tool("stock.count", {"item": "x"})) == {"item": "x", "shelf": 1}


async def test_a_client_calls_again_only_what_is_defined_as_before() -> None:
    ran, tools = list[str](), make_shop()

    @tools.tool()
    def say(text: str) -> str:
        """Say it."""
        ran.append(text)
        return text

    server, _ = tagged(tools, "reject")
    async with TaggedClient(server, mode=MODERN) as client:
        await client.everything()
        tools.tool(name="novel", description="A new one")(lambda: "x")
        assert text_of(await client.call_tool("say", {"text": "once"})) == "once"
        assert "novel" in client.known
        tools.unregister("say")
        tools.tool(name="say")(say_more)
        with pytest.raises(MCPError) as refused:
            await client.call_tool("say", {"text": "twice"})
        assert refused.value.error.code == STALE
        assert text_of(await client.call_tool("say", {"words": "hello"})) == "more hello"
        assert ran == ["once"]


def test_another_choice_is_refused() -> None:
    with pytest.raises(ConfigError, match="ignore, honour, signal, reject"):
        definition_tags("sometimes")  # type: ignore[arg-type]
