"""What callers may do is said by rows of the configuration, whatever they ask for (SPEC GWY-19, ISO-2, ISO-3)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from traceback import format_exception
from typing import Any

import anyio
import httpx2
import mcp_types as t
import pytest
from attrs import define
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken

from tests.adapters.gateway.inprocess import SECONDS, Clock, House, config_of, wired
from tests.adapters.gateway.upstreams.shop import Context, Shop
from tests.adapters.mcp.test_handle_delivery import text_of
from toolfold import ConfigError
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, open_gateway
from toolfold_adapters.gateway.callers.rights import NO_RIGHTS, Forbidden, Rights, has_claim
from toolfold_adapters.gateway.config.read import load_config
from toolfold_adapters.gateway.config.settings import RightsConfig
from toolfold_adapters.gateway.layout import layout_of
from toolfold_adapters.mcp import Authentication, build_server, http_app
from toolfold_adapters.mcp.principal import NOBODY, Principal
from toolfold_adapters.mcp.request import Selections
from toolfold_adapters.observe.status import as_text, status_of
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("GWY-19")

URL = "http://127.0.0.1:8000/mcp"
HINTS: dict[str, dict[str, Any] | None] = {
    "look": {"read_only_hint": True},
    "append": {"read_only_hint": False, "destructive_hint": False},
    "wipe": {"destructive_hint": True},
    "unsaid": None,
}
ERAS = ["legacy", "auto"]


class Annotated(Shop):
    """A server with a tool of each kind, by what it says of itself."""

    async def list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        tools = [
            t.Tool(
                name=name,
                input_schema={"type": "object"},
                annotations=None if hints is None else t.ToolAnnotations.model_validate(hints),
            )
            for name, hints in HINTS.items()
        ]
        return t.ListToolsResult(tools=tools)

    async def call(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        return t.CallToolResult(content=[t.TextContent(type="text", text=f"did {params.name}")])


class Touched(Shop):
    """A server that says that a resource was updated."""

    def __init__(self) -> None:
        super().__init__(tools=("touch",))


class Bearers:
    """Accepts the JSON of claims as a token."""

    async def verify_token(self, token: str) -> AccessToken | None:
        claims = json.loads(token)
        return AccessToken(token=token, client_id="app", scopes=[], subject=claims["sub"], claims=claims)


def row(access: str, **more: Any) -> RightsConfig:
    return RightsConfig.model_validate({"access": access, **more})


ROWS = {
    "ada": row("read", servers=["one"]),
    "bob": row("write"),
    "claim:role=admin": row("destructive"),
}


@define
class Served:
    gateway: Gateway
    app: Any
    clock: Clock

    @asynccontextmanager
    async def client(self, era: str, query: str = "", on_message: Any = None, **claims: Any) -> AsyncGenerator[Client]:
        async with (
            self.http(**claims) as http,
            Client(
                streamable_http_client(f"{URL}{query}", http_client=http), mode=era, message_handler=on_message
            ) as client,
        ):
            yield client

    def http(self, **claims: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), headers=bearer(**claims))


def bearer(**claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {json.dumps(claims)}"}


@asynccontextmanager
async def served(
    rows: Mapping[str, RightsConfig] = ROWS, house: House | None = None, *, shared: bool = False, **options: Any
) -> AsyncGenerator[Served]:
    """A gateway with the servers `one` and `two`, which everything is open of, for callers with tokens."""
    config = config_of("one", "two", mode="legacy", shared=shared).model_copy(update={"rights": rows})
    clock, house = Clock(), house or House(lambda _: Annotated())
    auth = Authentication.by_oauth(Bearers(), issuer="https://login.example", resource=URL)
    auth.settings.validate_token_resource = False
    with anyio.fail_after(SECONDS):
        gateway = open_gateway(config, runtime=Runtime(clock=clock, transport=house.transport))
        async with gateway as tools:
            app = http_app(
                build_server(tools, active=["one", "two"], extend=gateway.extend, call_tools=True, **options), auth=auth
            )
            async with app.lifespan():
                yield Served(gateway, app, clock)


async def may(client: Client) -> set[str]:
    """Return which tools are listed, and fail unless they are those that can be called, by name and by `call_tool`."""
    listed = {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools if "__" in tool.name}
    for server in ("one", "two"):
        for name in HINTS:
            tool = f"{server}__{name}"
            through = await client.call_tool("call_tool", {"name": tool, "arguments": {}})
            assert (text_of(through) == f"did {name}") == (tool in listed), tool
            try:
                said = text_of(await client.call_tool(tool, {}))
            except MCPError as error:
                said = str(error)
            assert (said == f"did {name}") == (tool in listed), tool
    return listed


@pytest.mark.spec("ISO-2")
@pytest.mark.parametrize("era", ERAS)
async def test_callers_have_what_their_rows_say_and_no_more(era: str) -> None:
    async with served() as here:
        async with here.client(era, sub="ada") as ada, here.client(era, sub="bob") as bob:
            assert await may(ada) == {"one__look"}
            assert await may(bob) == {f"{server}__{name}" for server in ("one", "two") for name in ("look", "append")}
        async with here.client(era, sub="eve", role=["staff", "admin"]) as eve:
            assert len(await may(eve)) == 8
        async with here.client(era, sub="ada", role="admin") as ada:  # the row of a name precedes those of claims
            assert await may(ada) == {"one__look"}


async def test_a_row_with_an_empty_list_of_servers_has_none() -> None:
    async with served({"ada": RightsConfig(access="read", servers=())}) as here, here.client("auto", sub="ada") as ada:
        assert not [tool.name for tool in (await ada.list_tools()).tools if tool.name.startswith(("one__", "two__"))]


@pytest.mark.parametrize("era", ERAS)
async def test_lists_of_callers_with_rights_are_in_no_cache_that_others_share(era: str) -> None:
    async with served() as here, here.client("auto", sub="ada") as ada:
        assert (await ada.list_tools()).cache_scope == "private"


async def test_who_has_no_row_is_refused_with_status_403_whatever_is_asked() -> None:
    async with served() as here, here.http(sub="eve") as http:
        for method in ("initialize", "tools/list", "server/discover"):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
            answer = await http.post(URL, json=body, headers={"accept": "application/json, text/event-stream"})
            assert answer.status_code == 403
            assert "'eve' has no rights: ask the operator" in answer.text


@pytest.mark.parametrize("era", ERAS)
async def test_who_has_no_row_is_refused_over_a_pipe_too(era: Any) -> None:
    async with served({"ada": row("destructive")}) as here:
        server = build_server(here.gateway.tools, extend=here.gateway.extend)
        with pytest.raises(ExceptionGroup) as refused:
            async with wired(server, era):
                pass
        if era == "legacy":  # a client of both eras says of the first refusal that the server is of the other one
            assert "has no rights: ask the operator" in "".join(format_exception(refused.value))


async def test_a_request_has_the_rights_of_its_token_though_its_session_has_those_of_another_at_the_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = {"claim:role=admin": row("destructive"), "*": row("read")}
    async with (
        served(rows) as here,
        here.http(sub="eve", role="admin") as http,
        Client(streamable_http_client(URL, http_client=http), mode="legacy") as eve,
    ):
        assert text_of(await eve.call_tool("one__wipe", {})) == "did wipe"
        monkeypatch.setattr(Selections, "bind", lambda *_: None)  # as if the other one came between
        http.headers.update(bearer(sub="eve"))
        assert "no right to that" in text_of(await eve.call_tool("one__wipe", {}))
        assert text_of(await eve.call_tool("one__look", {})) == "did look"


async def test_a_connection_has_the_rights_of_the_token_that_each_of_its_requests_has() -> None:
    rows = {"claim:role=admin": row("destructive"), "*": row("read")}
    async with (
        served(rows) as here,
        here.http(sub="eve", role="admin") as http,
        Client(streamable_http_client(URL, http_client=http), mode="legacy") as eve,
    ):
        assert len(await may(eve)) == 8
        http.headers.update(bearer(sub="eve"))
        assert await may(eve) == {"one__look", "two__look"}


@pytest.mark.spec("ISO-2")
@pytest.mark.parametrize("era", ERAS)
async def test_updates_of_a_resource_end_with_the_right_to_it(era: Any) -> None:
    updates: list[str] = []
    config, uri = config_of("one", "two", mode="legacy", shared=True), "shop://list"
    listen = {"notifications": {"resourceSubscriptions": [uri]}}
    gateway = open_gateway(config, runtime=Runtime(clock=Clock(), transport=House(lambda _: Touched()).transport))

    def note(method: str, params: Any, cause: object) -> None:
        updates.append(method)

    with anyio.fail_after(SECONDS):
        async with gateway as tools, anyio.create_task_group() as tasks:
            server = build_server(tools, extend=gateway.extend)
            async with wired(server, era, on_notification=note) as wire:
                if era == "legacy":
                    await wire.request("resources/subscribe", {"uri": uri})
                else:
                    tasks.start_soon(wire.request, "subscriptions/listen", listen)
                await anyio.wait_all_tasks_blocked()
                for rights, comes in (({}, True), ({"*": row("destructive", servers=["two"])}, False), ({}, True)):
                    await gateway.reconfigure(config.model_copy(update={"rights": rights}))
                    await anyio.wait_all_tasks_blocked()
                    updates.clear()
                    async with tools.open_session(active=["one"]) as session:
                        await session.call("one__touch", {"item": uri})
                    await anyio.wait_all_tasks_blocked()
                    assert ("notifications/resources/updated" in updates) is comes
                tasks.cancel_scope.cancel()


@pytest.mark.spec("ISO-2")
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_updates_of_a_resource_end_with_the_claim_that_gave_the_right_to_it() -> None:
    sent: list[bytes] = []
    rows = {"alice": row("destructive"), "claim:role=admin": row("destructive")}
    rows["claim:role=two"] = row("read", servers=["two"])
    admin = {"sub": "eve", "role": "admin"}

    async def noted(scope: Any, receive: Any, send: Any) -> None:
        async def passed(message: Any) -> None:
            if scope["method"] == "GET":  # the standing stream, which a transport in memory passes on when it ends
                sent.append(message.get("body", b""))
            await send(message)

        await here.app(scope, receive, passed)

    async with (
        served(rows, House(lambda _: Touched()), shared=True) as here,
        here.client("legacy", sub="alice") as alice,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(noted), headers=bearer(**admin)) as http,
        Client(streamable_http_client(URL, http_client=http), mode="legacy") as eve,
    ):
        await eve.subscribe_resource("shop://list")
        for claims in (admin, {"sub": "eve", "role": "two"}, admin, {"sub": "eve"}):
            http.headers.update(bearer(**claims))
            with suppress(MCPError):
                await eve.call_tool("one__look", {})
            await anyio.wait_all_tasks_blocked()
            sent.clear()
            await alice.call_tool("one__touch", {"item": "shop://list"})
            await anyio.wait_all_tasks_blocked()
            assert (b"notifications/resources/updated" in b"".join(sent)) is (claims == admin), claims


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("SAF-4")
@pytest.mark.parametrize("era", ERAS)
async def test_calls_of_a_caller_are_limited_by_the_minute_and_others_are_not(era: str) -> None:
    rows = {"ada": row("destructive", calls_per_minute=2), "bob": row("destructive")}
    async with served(rows) as here, here.client(era, sub="ada") as ada, here.client(era, sub="bob") as bob:

        async def look(client: Client) -> str:
            return text_of(await client.call_tool("one__look", {}))

        assert [await look(ada) for _ in range(2)] == ["did look"] * 2
        assert await look(ada) == "Your limit of 2 calls a minute is reached: try again in 30 s."
        several = {"calls": [{"name": "one__look", "arguments": {}}] * 2}
        assert "did look" not in text_of(await ada.call_tool("call_tools", several))
        assert await look(bob) == "did look"
        here.clock.now += 30
        assert await look(ada) == "did look"
        assert "is reached" in await look(ada)
        async with here.client(era, sub="ada") as again:
            assert "is reached" in await look(again)


@pytest.mark.spec("SAF-4")
async def test_tokens_of_answers_are_limited_by_the_day() -> None:
    async with served({"*": row("destructive", tokens_per_day=100)}) as here, here.client("auto", sub="ada") as ada:
        said = [text_of(await ada.call_tool("one__look", {})) for _ in range(20)]
        allowed = said.count("did look")
        assert 1 < allowed < 20
        assert said[allowed:] == [said[-1]] * (20 - allowed)
        assert said[-1].startswith("Your limit of 100 tokens a day is reached")
        here.clock.now += 24 * 3600
        assert text_of(await ada.call_tool("one__look", {})) == "did look"


@pytest.mark.spec("SAF-4")
async def test_sessions_of_a_caller_are_limited_and_those_of_others_are_not() -> None:
    rows = {"ada": row("read", sessions=1), "*": row("read")}
    async with served(rows) as here, here.client("legacy", sub="ada"), here.http(sub="ada") as http:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        answer = await http.post(URL, json=body, headers={"accept": "application/json, text/event-stream"})
        assert answer.status_code == 429
        assert "The limit of 1 sessions of one caller is reached" in answer.text
        async with here.client("legacy", sub="bob"), here.client("legacy", sub="bob"):
            pass


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
BEGIN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}


@pytest.mark.spec("SAF-4")
async def test_replicas_count_the_sessions_of_a_caller_together_and_a_request_elsewhere_is_no_further_one() -> None:
    rows, store = {"ada": row("read", sessions=2), "*": row("read")}, MemoryStore()
    async with served(rows, store=store) as here, served(rows, store=store) as there:
        accepted = {"accept": "application/json, text/event-stream"}
        begun: list[httpx2.Response] = []
        async with here.http(sub="ada") as one, there.http(sub="ada") as other, there.http(sub="bob") as bob:
            for http in (one, other):
                begun.append(await http.post(URL, json=BEGIN, headers=accepted))
            own = {"mcp-session-id": begun[0].headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
            for http in (other, one):
                assert '"tools"' in (await http.post(URL, json=body, headers={**accepted, **own})).text
            third = await other.post(URL, json=BEGIN, headers=accepted)
            assert "limit of 2" in third.text
            assert "serverInfo" in (await bob.post(URL, json=BEGIN, headers=accepted)).text


# -- what the rows say ------------------------------------------------------------------------------------------------


def person(name: str = "eve", **claims: Any) -> Principal:
    return Principal(name, "https://login.example", "app", claims)


@pytest.mark.parametrize(
    ("claims", "claim", "has"),
    [
        ({"role": "admin"}, "role=admin", True),
        ({"role": "admins"}, "role=admin", False),
        ({"role": "an admin"}, "role=admin", False),
        ({"roles": ["staff", "admin"]}, "roles=admin", True),
        ({"roles": {"admin": 1}}, "roles=admin", False),
        ({"scope": "tools admin"}, "scope=admin", True),
        ({"realm_access": {"roles": ["admin"]}}, "realm_access.roles=admin", True),
        ({"https://x.example/roles": ["admin"]}, "https://x.example/roles=admin", True),
        ({"level": 3}, "level=3", True),
        ({"staff": True}, "staff=true", True),
        ({"staff": None}, "staff=None", False),
        ({"team": "a=b"}, "team=a=b", True),
        ({}, "role=admin", False),
    ],
)
def test_a_claim_is_a_value_or_one_of_several(claims: dict[str, Any], claim: str, has: bool) -> None:
    assert has_claim(person(**claims), claim) is has


@pytest.mark.parametrize("name", ["claim:role=admin", "*", ""])
def test_nobody_is_called_like_the_row_of_others(name: str) -> None:
    rights = Rights({"claim:role=admin": row("destructive"), "": row("destructive")}, {})
    with pytest.raises(Forbidden):
        rights.key(person(name))


def test_without_a_token_there_are_the_rights_of_all_others_or_none() -> None:
    assert Rights({"*": row("read")}, {}).key(NOBODY) == "*"
    with pytest.raises(Forbidden, match="callers without a token have no rights"):
        Rights({"ada": row("read")}, {}).key(NOBODY)
    assert NO_RIGHTS.rows == {}


ONE = '[upstreams.one]\ncommand = ["one"]\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[rights.ada]\n", r"\[rights.ada\], access: must be given"),
        ("[rights]\n", r"rights: there is no row: add one"),
        ('[rights.ada]\naccess = "read"\ncalls_per_minute = true\n', "calls_per_minute"),
        ('[rights.ada]\naccess = "all"\n', r"\[rights.ada\], access: must be 'read', 'write' or 'destructive'"),
        ('[rights.ada]\naccess = "read"\nservers = ["two"]\n', r"\[rights.ada\]: there is no server 'two'"),
        ('[rights.ada]\naccess = "read"\nprofile = "p"\n', r"\[rights.ada\]: there is no profile 'p'"),
        ('[rights.ada]\naccess = "read"\ncalls_per_minute = 0\n', r"calls_per_minute: must be more than 0"),
        ('[rights."claim:role"]\naccess = "read"\n', "'claim:role' is no key of a row"),
        ('[rights.ada]\naccess = "read"\nserver = ["one"]\n', "is not known here; remove it, or use one of access"),
    ],
)
def test_a_row_that_is_wrong_is_named_with_the_file(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(ONE + text)
    with pytest.raises(ConfigError, match=problem):
        load_config(file)


# -- while they can't be read -----------------------------------------------------------------------------------------


@pytest.mark.spec("ISO-3", "GWY-9")
async def test_while_rows_can_not_be_read_nobody_has_any_rights_and_status_says_so(tmp_path: Path) -> None:
    file, good = tmp_path / "gateway.toml", f'{ONE}[rights.ada]\naccess = "read"\n'
    file.write_text(good)
    send, receive = anyio.create_memory_object_stream[str](0)

    async def changes() -> AsyncIterator[str]:
        async for text in receive:
            file.write_text(text)
            yield text

    gateway = open_gateway(
        load_config(file), runtime=Runtime(clock=Clock(), transport=House(lambda _: Annotated()).transport)
    )
    ada = Principal("ada")
    with anyio.fail_after(SECONDS):
        async with gateway as tools, send, receive:
            gateway.follow(lambda: load_config(file), changes())

            async def states() -> list[str]:
                return [as_text(line) for line in await status_of(tools, gateway.status)][:1]

            async def edited(text: str) -> None:
                await send.send(text)
                await send.send(text)  # it was read by the time that the next change is taken

            for unreadable in (f"{good}[rights", f'{good}calls_per_minute = "many"\n', ONE.replace("one", "") + good):
                await edited(unreadable)
                with pytest.raises(Forbidden, match="can't be read now"):
                    gateway.rights_of(ada)
                assert "nobody may use it while what callers may do can't be read" in (await states())[0]
                await edited(good)
                assert gateway.rights_of(ada) is not None
                assert "nobody" not in (await states())[0]
            await edited(f'{good}[profiles.p]\nactive = ["nowhere"]\n')  # the rows are the same, so they stay
            assert gateway.rights_of(ada) is not None
            await edited(f'{good.replace("ada", "bob")}[profiles.p]\nactive = ["nowhere"]\n')
            with pytest.raises(Forbidden):
                gateway.rights_of(ada)
            await edited(good)
            await edited(ONE)  # rows that are gone leave nobody with more than they had
            with pytest.raises(Forbidden, match="can't be read now"):
                gateway.rights_of(ada)


@pytest.mark.spec("ISO-3")
async def test_what_a_row_names_that_is_narrowed_beside_a_mistake_leaves_nobody_any_rights(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    rows = '[rights.ada]\naccess = "read"\nprofile = "small"\n[profiles.small]\navailable = ["{}"]\n'
    file.write_text(ONE + rows.format("*"))
    done: list[str] = []

    async def changes() -> AsyncIterator[str]:
        file.write_text(ONE + rows.format("one") + "[budgets]\nwrong = 1\n")
        yield ""
        with pytest.raises(Forbidden, match="can't be read now"):
            gateway.rights_of(Principal("ada"))
        done.append("")

    gateway = open_gateway(
        load_config(file), runtime=Runtime(clock=Clock(), transport=House(lambda _: Annotated()).transport)
    )
    with anyio.fail_after(SECONDS):
        async with gateway:
            gateway.follow(lambda: load_config(file), changes())
            await anyio.wait_all_tasks_blocked()
    assert done


@pytest.mark.parametrize("key", ["claim=role", "Claim:role=admin", "role=admin"])
def test_a_row_that_is_meant_for_a_claim_and_names_a_caller_is_warned_of(key: str, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'{ONE}[rights."{key}"]\naccess = "read"\n')
    warnings = layout_of(load_config(file), {}).warnings
    assert any("a row of a claim is claim:NAME=VALUE" in warning for warning in warnings)


def test_a_key_that_a_row_does_not_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'{ONE}[rights.ada]\naccess = "read"\nserver = ["one"]\n')
    with pytest.raises(ConfigError, match="server: is not known here; remove it, or use one of access, servers"):
        load_config(file)


@pytest.mark.spec("ISO-3")
async def test_first_rows_that_are_wrong_leave_nobody_any_rights(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(ONE)

    async def changes() -> AsyncIterator[str]:
        for text in (f"{ONE}[rights]\n", f'{ONE}[rights.ada]\naccess = "some"\n'):
            file.write_text(text)
            yield text
            with pytest.raises(Forbidden, match="can't be read now"):
                gateway.rights_of(Principal("ada"))
            done.append(text)

    done: list[str] = []
    gateway = open_gateway(
        load_config(file), runtime=Runtime(clock=Clock(), transport=House(lambda _: Annotated()).transport)
    )
    with anyio.fail_after(SECONDS):
        async with gateway:
            gateway.follow(lambda: load_config(file), changes())
            await anyio.wait_all_tasks_blocked()
    assert len(done) == 2


def test_a_gateway_without_rows_limits_nobody() -> None:
    assert GatewayConfig().rights == {}
