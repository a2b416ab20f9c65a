"""How long lists stay as they are: claimed of what can't change, and of nothing else (SPEC NXT-2)."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from tests.adapters.gateway.inprocess import Clock, House, config_of
from tests.adapters.gateway.upstreams.shop import Shop
from tests.adapters.mcp.asgi import callers_of, endpoint_of
from tests.adapters.mcp.support import build_server
from tests.adapters.mcp.test_handle_delivery import MODERN, opened
from toolfold import ConfigError, Mode, Modes, ToolSet, Visibility
from toolfold_adapters.gateway import Runtime, open_gateway
from toolfold_adapters.mcp.extensions.drafts import drafts
from toolfold_adapters.names import HANDLE_META

pytestmark = pytest.mark.spec("NXT-2")

TTL = ("ttl=60",)
CLAIMED = 60_000
ANY = {"type": "object"}


def nothing(arguments: dict[str, Any]) -> str:
    return ""


def made(tools: ToolSet | None = None, given: tuple[str, ...] = TTL, **options: Any) -> Server[Any]:
    return build_server(make_shelf() if tools is None else tools, extend=drafts(given), **options)


def make_shelf(**settings: Any) -> ToolSet:
    """Return tools whose lists depend on nothing."""
    tools = ToolSet("shelf", run_in_thread=False, **settings)
    tools.register_group("books", "What there is to read")
    tools.register_prompt("advise", lambda: "Advise me.")
    tools.register_resource("shelf:///plan", lambda: "a plan")
    for name in ("look", "lift", "books.read"):
        group, _, own = name.rpartition(".")
        tools.register(own, nothing, description=f"{own} something", input_schema=ANY, group=group or None)
    return tools


async def claims(client: Client, meta: Any = None) -> dict[str, tuple[int | None, str | None]]:
    """Return what each list says of the time that it stays so, and of who may be given it."""
    kinds = (client.list_tools, client.list_prompts, client.list_resources, client.list_resource_templates)
    pages = [await kind(meta=meta, cache_mode="bypass") for kind in kinds]
    return {type(page).__name__: (page.ttl_ms, page.cache_scope) for page in pages}


async def of_tools(client: Client, meta: Any = None) -> tuple[int | None, str | None]:
    return (await claims(client, meta))["ListToolsResult"]


async def of_introduction(client: Client) -> tuple[int | None, str | None]:
    answer = await client.session.send_discover(MODERN)
    return answer["ttlMs"], answer["cacheScope"]


async def test_all_lists_that_can_not_change_say_for_how_long_and_for_whom() -> None:
    async with Client(made(selection=False, disclosure=False), mode=MODERN) as client:
        assert {*(await claims(client)).values()} == {(CLAIMED, "public")}
        assert await of_introduction(client) == (CLAIMED, "private")


@pytest.mark.parametrize("varies", ["selection", "disclosure"])
async def test_a_list_that_varies_by_what_is_in_no_cache_s_key_is_nobody_else_s(varies: str) -> None:
    options: Any = {"selection": False, "disclosure": False, varies: True}
    async with Client(made(**options), mode=MODERN) as client:
        assert {*(await claims(client)).values()} == {(CLAIMED, "private")}


async def test_a_list_that_needs_a_token_is_nobody_s_without_one() -> None:
    server = made(selection=False, disclosure=False)
    async with callers_of(server) as target, Client(target("ada"), mode=MODERN) as client:
        assert await of_tools(client) == (CLAIMED, "private")


async def test_nothing_is_claimed_without_the_draft() -> None:
    async with Client(made(given=(), selection=False, disclosure=False), mode=MODERN) as client:
        assert {ttl for ttl, _ in (await claims(client)).values()} == {0}
        assert (await of_introduction(client))[0] == 0


async def test_all_pages_of_a_list_say_the_same_so_that_a_client_may_hold_it_as_one() -> None:
    async with Client(made(make_shelf(page_size=1)), mode=MODERN) as client:
        cursor, said, names = None, list[Any](), list[str]()
        while True:
            page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            said.append((page.ttl_ms, page.cache_scope))
            names += [tool.name for tool in page.tools]
            if (cursor := page.next_cursor) is None:
                break
    assert len(said) > 2
    assert {*said} == {(CLAIMED, "private")}
    assert len({*names}) == len(names)


def depends_on_a_predicate(tools: ToolSet) -> None:
    tools.register(
        "extra",
        nothing,
        description="x",
        input_schema=ANY,
        visibility=Visibility.when(lambda view: True),
    )


def depends_on_a_count(tools: ToolSet) -> None:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    modes = Modes("what", {"all": Mode(count=lambda view: 3), "none": Mode()})
    tools.register("observe", nothing, description="x", input_schema=schema, modes=modes)


@pytest.mark.parametrize("depends", [depends_on_a_predicate, depends_on_a_count])
async def test_a_list_that_depends_on_the_state_of_the_application_claims_nothing(depends: Any) -> None:
    tools = make_shelf()
    depends(tools)
    async with Client(made(tools), mode=MODERN) as client:
        said = await claims(client)
    assert said["ListToolsResult"] == (0, "private")
    assert said["ListPromptsResult"][0] == CLAIMED


async def test_a_list_under_a_handle_or_of_groups_in_a_header_claims_nothing() -> None:
    async with endpoint_of(made()) as endpoint, endpoint.client(MODERN) as client:
        handle = await opened(client, "books")
        assert (await of_tools(client, {HANDLE_META: handle}))[0] == 0
        assert (await of_tools(client))[0] == CLAIMED
        async with Client(endpoint.target(**{"toolfold-groups": "books"}), mode=MODERN) as other:
            assert (await of_tools(other))[0] == 0


async def test_the_list_of_a_caller_claims_nothing() -> None:
    async with callers_of(made(delivery="principal")) as target, Client(target("ada"), mode=MODERN) as client:
        assert (await of_tools(client))[0] == 0


@pytest.mark.parametrize("change", ["registered", "unregistered", "announced"])
async def test_once_anything_was_registered_or_announced_nothing_is_claimed_any_more(change: str) -> None:
    tools = make_shelf()
    async with Client(made(tools), mode=MODERN) as client:
        assert (await of_tools(client))[0] == CLAIMED
        if change == "registered":
            tools.register("new", nothing, description="x", input_schema=ANY)
        elif change == "unregistered":
            tools.unregister("lift")
        else:
            tools.notify_list_changed()
        assert {ttl for ttl, _ in (await claims(client)).values()} == {0}
        assert (await of_introduction(client))[0] == 0


@pytest.mark.parametrize("given", [("resolve", "ttl=60"), ("ttl=60", "resolve")])
async def test_a_list_that_another_draft_has_depend_on_declarations_claims_nothing(given: tuple[str, ...]) -> None:
    async with Client(made(given=given, selection=False, disclosure=False), mode=MODERN) as client:
        said = await claims(client)
    assert said.pop("ListToolsResult") == (0, "private")
    assert {*said.values()} == {(CLAIMED, "public")}


async def test_a_client_does_not_ask_again_within_the_time() -> None:
    asked = list[str]()

    async def see(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        asked.append(ctx.method)
        return await call_next(ctx)

    server = made()
    server.middleware.insert(0, see)
    async with Client(server, mode=MODERN) as client:
        first, second = await client.list_tools(), await client.list_tools()
    assert first.tools == second.tools
    assert asked.count("tools/list") == 1


async def test_a_client_of_the_era_before_is_told_nothing() -> None:
    server, sent = made(), list[Any]()

    async def see(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        sent.append(answer := await call_next(ctx))
        return answer

    server.middleware.insert(0, see)
    async with Client(server, mode="legacy") as client:
        await client.list_tools()
    assert sent
    assert "ttlMs" not in str(sent)


async def test_a_gateway_claims_nothing_since_its_servers_change_when_they_do() -> None:
    runtime = Runtime(clock=Clock(), transport=House(lambda name: Shop()).transport)
    async with (gateway := open_gateway(config_of("shop"), runtime=runtime)) as tools:
        with pytest.raises(ConfigError, match=r"'ttl' .* other servers"):
            build_server(tools, handles="stored", extend=drafts(TTL, gateway.extend))


@pytest.mark.parametrize("seconds", ["0", "-1", "1.5", "soon", "86401", "²"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    with pytest.raises(ConfigError, match="'ttl' needs a number of seconds from 1 to 86400"):
        drafts([f"ttl={seconds}"])
