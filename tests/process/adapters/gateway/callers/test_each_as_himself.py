"""Two principals of one gateway, at servers that want to know who asks: each acts as himself (SPEC GWY-19)."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from attrs import define, field
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp_types import URL_ELICITATION_REQUIRED, ElicitCompleteNotification, ElicitResult
from pydantic import AnyHttpUrl

from tests.cli.support import invoke
from tests.process.adapters.gateway.upstream.test_oauth import listening
from toolfold import Store
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.callers.credentials import Credentials
from toolfold_adapters.gateway.callers.keys import VARIABLE, keys_of, new_key
from toolfold_adapters.gateway.callers.logins import CallerLogins
from toolfold_adapters.gateway.callers.pages import LoginPages
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.mcp import Authentication, http_app
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("GWY-19")

SECONDS = 60
TOKENS = {name: f"the-token-of-{name}-for-the-gateway" for name in ("alice", "bob")}


@define(eq=False)
class Accounts:
    """An authorization server at which whoever `is_there` logs in, as a browser's session would have it.

    `owners` has whose each token is; those in `ended` count no more. `renewed` has who has had tokens refreshed.
    """

    is_there: str = ""
    clients: dict[str, OAuthClientInformationFull] = field(factory=dict)
    codes: dict[str, tuple[str, AuthorizationCode]] = field(factory=dict)
    owners: dict[str, str] = field(factory=dict)
    ended: set[str] = field(factory=set)
    logins: list[str] = field(factory=list)
    renewed: list[str] = field(factory=list)

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.logins.append(self.is_there)
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = self.is_there, code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        found = self.codes.get(authorization_code)
        return None if found is None else found[1]

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        return self.give(self.codes.pop(authorization_code.code)[0])

    def give(self, owner: str) -> OAuthToken:
        access, refresh = (f"{kind}-{secrets.token_hex(16)}" for kind in ("access", "refresh"))
        self.owners |= {access: owner, refresh: owner}
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=3600)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.ended or refresh_token not in self.owners:
            return None
        return RefreshToken(token=refresh_token, client_id=client.client_id, scopes=[])

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: Any) -> OAuthToken:
        if refresh_token.token in self.ended:
            raise TokenError("invalid_grant")
        owner = self.owners[refresh_token.token]
        self.ended.add(refresh_token.token)
        self.renewed.append(owner)
        return self.give(owner)

    async def load_access_token(self, token: str) -> AccessToken | None:
        if token in self.ended or token not in self.owners:
            return None
        return AccessToken(token=token, client_id="c", subject=self.owners[token], scopes=[])

    async def revoke_token(self, token: Any) -> None:
        self.ended.add(token.token)

    def end(self, owner: str, kinds: str) -> None:
        """Have the tokens of somebody count no more."""
        mine = (token for token, of in self.owners.items() if of == owner)
        self.ended |= {token for token in mine if token.startswith(tuple(kinds.split()))}


def board(**options: Any) -> Any:
    """A server that says who asks."""
    server = MCPServer[Any]("board", **options)

    @server.tool()
    async def whoami() -> str:
        token = get_access_token()
        return "" if token is None else str(token.subject)

    return server.streamable_http_app()


class Personal:
    """Verifies tokens that people have made for themselves."""

    def __init__(self, owners: dict[str, str]) -> None:
        self.owners = owners

    async def verify_token(self, token: str) -> AccessToken | None:
        owner = self.owners.get(token)
        return None if owner is None else AccessToken(token=token, client_id="c", subject=owner, scopes=[])


@define(eq=False)
class World:
    """Servers behind gateways that share a store, and people with browsers."""

    ports: Callable[[], int]
    accounts: Accounts = field(factory=Accounts)
    personal: Personal = field(factory=lambda: Personal({"alices-own": "alice", "bobs-own": "bob"}))
    store: Store = field(factory=MemoryStore)
    keys: str = field(factory=new_key)
    upstreams: dict[str, UpstreamConfig] = field(factory=dict)
    stack: AsyncExitStack = field(factory=AsyncExitStack)
    gateways: list[Gateway] = field(factory=list)

    async def start(self, **settings: Any) -> None:
        port = self.ports()
        base = f"http://127.0.0.1:{port}"
        app = board(
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(base),
                resource_server_url=AnyHttpUrl(f"{base}/mcp"),
                client_registration_options=ClientRegistrationOptions(enabled=True),
                validate_token_resource=False,
            ),
            auth_server_provider=self.accounts,
        )
        await self.stack.enter_async_context(listening(app, port))
        self.upstreams["board"] = UpstreamConfig(url=f"{base}/mcp", **settings)
        port = self.ports()
        base = f"http://127.0.0.1:{port}"
        app = board(
            auth=AuthSettings(issuer_url=AnyHttpUrl(base), resource_server_url=None),
            token_verifier=self.personal,
        )
        await self.stack.enter_async_context(listening(app, port))
        token: Any = {"hint": "Make one in your settings."}
        self.upstreams["wiki"] = UpstreamConfig(url=f"{base}/mcp", token=token, **settings)

    async def gateway(self, *, pages: bool = True) -> str:
        """Start a replica of the gateway, with or without pages to log in at, and return its address."""
        port = self.ports()
        base = f"http://127.0.0.1:{port}"
        credentials = Credentials(self.store, lambda: keys_of({VARIABLE: self.keys}, None))
        callers = CallerLogins(credentials, base if pages else None)
        runtime = Runtime(clock=time.monotonic, transport=Transports(callers=callers), callers=callers)
        gateway = open_gateway(GatewayConfig(upstreams=self.upstreams), runtime=runtime, wait=False)
        tools = await self.stack.enter_async_context(gateway)
        digests = {name: sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
        auth = Authentication.by_tokens(digests)
        shown = LoginPages(callers) if pages else None
        app = http_app(tools, auth=auth, logins=shown, extend=gateway.extend, delivery="principal")
        self.gateways.append(gateway)
        await self.stack.enter_async_context(listening(app, port))
        return base

    @asynccontextmanager
    async def client(self, base: str, name: str, mode: str, **options: Any) -> AsyncGenerator[Client]:
        headers = {"Authorization": f"Bearer {TOKENS[name]}"}
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
            transport = streamable_http_client(f"{base}/mcp", http_client=http)
            async with Client(transport, mode=mode, **options) as client:
                yield client


@pytest.fixture
async def world(free_tcp_port_factory: Callable[[], int]) -> AsyncGenerator[World]:
    made = World(free_tcp_port_factory)
    with anyio.fail_after(SECONDS):
        async with made.stack:
            await made.start()
            yield made


def browser_of(name: str | None) -> httpx2.AsyncClient:
    """A browser whose user gives his token for the gateway where a page asks for it."""
    auth = None if name is None else ("any", TOKENS[name])
    return httpx2.AsyncClient(auth=auth, follow_redirects=True, timeout=SECONDS)


async def log_in(world: World, name: str, link: str, token: str | None = None) -> str:
    """Do what a person does with a link: open it, and send its form; return the page that comes last."""
    world.accounts.is_there = name
    async with browser_of(name) as browser:
        page = await browser.get(link)
        assert page.headers["cache-control"] == "no-store"
        found = re.search(r'name="csrf" value="([^"]+)"', page.text)
        if found is None:
            return page.text
        given = {"csrf": found[1], **({} if token is None else {"token": token})}
        page = await browser.post(link, data=given)
        if page.status_code == httpx2.codes.UNAUTHORIZED:  # as a browser does, which has the token by now
            page = await browser.get(page.url)
        return page.text


def link_in(text: str) -> str:
    found = re.search(r"http://\S+/login/[\w-]+", text)
    assert found is not None, text
    return found[0]


async def said(client: Client, tool: str) -> str:
    group, _, _ = tool.partition("__")
    await client.call_tool("open_group", {"group": group})
    result = await client.call_tool(tool, {})
    return "".join(getattr(block, "text", "") for block in result.content)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(("server", "token"), [("board", None), ("wiki", "{}s-own")])
async def test_two_callers_log_in_for_themselves_and_neither_acts_as_the_other(
    world: World, mode: str, server: str, token: str | None
) -> None:
    base = await world.gateway()
    async with world.client(base, "alice", mode) as alice, world.client(base, "bob", mode) as bob:
        tool = f"{server}__whoami"
        for name, client in (("alice", alice), ("bob", bob)):
            asked = await said(client, tool)
            assert "as himself" in asked
            assert "logged in" in await log_in(world, name, link_in(asked), token and token.format(name))
            assert await said(client, tool) == name
        assert [await said(client, tool) for client in (alice, bob, alice)] == ["alice", "bob", "alice"]
    assert world.accounts.logins == (["alice", "bob"] if token is None else [])


async def tools_of(client: Client, server: str) -> list[str]:
    await client.call_tool("open_group", {"group": server})
    return [tool.name for tool in (await client.list_tools()).tools if tool.name.startswith(f"{server}__")]


@pytest.mark.spec("ISO-1")
async def test_what_one_caller_is_listed_is_not_listed_to_another_before_he_has_logged_in(world: World) -> None:
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice, world.client(base, "bob", "legacy") as bob:
        before = [(one.name, one.description) for one in (await bob.list_tools()).tools]
        await log_in(world, "alice", link_in(await said(alice, "wiki__whoami")), "alices-own")
        assert await tools_of(alice, "wiki") == ["wiki__whoami"]
        assert [(one.name, one.description) for one in (await bob.list_tools()).tools] == before
        assert await tools_of(bob, "wiki") == []
        found = await bob.call_tool("find_tools", {"query": "whoami"})
        assert "wiki__whoami" not in str(found.content)
        await log_in(world, "bob", link_in(await said(bob, "wiki__whoami")), "bobs-own")
        assert await tools_of(bob, "wiki") == ["wiki__whoami"]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "at another replica"])
async def test_a_client_that_can_show_pages_is_asked_by_one_and_its_call_goes_on(world: World, elsewhere: bool) -> None:
    base, other = await world.gateway(), await world.gateway()
    asked: list[Any] = []
    told, done = list[str](), anyio.Event()

    async def take(message: Any) -> None:
        if isinstance(message, ElicitCompleteNotification):
            told.append(message.params.elicitation_id)
            done.set()

    async def answer(_: Any, params: Any) -> Any:
        asked.append(params)
        await log_in(world, "alice", params.url, "alices-own")
        return ElicitResult(action="accept")

    async with world.client(base, "alice", "auto", elicitation_callback=answer) as client:
        assert await said(client, "wiki__whoami") == "alice"
    assert [one.mode for one in asked] == ["url"]
    async with (
        world.client(base, "alice", "legacy", elicitation_callback=answer, message_handler=take) as client,
        world.client(base, "bob", "legacy", elicitation_callback=answer, message_handler=take) as bob,
    ):
        assert await said(client, "wiki__whoami") == "alice"
        with pytest.raises(MCPError):
            await said(bob, "wiki__whoami")
        world.personal.owners.clear()
        with pytest.raises(MCPError) as refused:
            await said(client, "wiki__whoami")
        assert refused.value.error.code == URL_ELICITATION_REQUIRED
        (elicitation,) = refused.value.error.data["elicitations"]
        assert elicitation["mode"] == "url"
        world.personal.owners["alices-own"] = "alice"
        link = elicitation["url"]
        await log_in(world, "alice", link.replace(base, other) if elsewhere else link, "alices-own")
        await done.wait()
        assert told == [elicitation["elicitationId"]]
        assert await said(client, "wiki__whoami") == "alice"


async def test_a_link_works_for_whom_it_was_given_and_once(world: World) -> None:
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice:
        link = link_in(await said(alice, "wiki__whoami"))
        assert link_in(await said(alice, "wiki__whoami")) == link
        async with browser_of(None) as nobody:
            assert (await nobody.get(link)).status_code == httpx2.codes.UNAUTHORIZED
        assert "another caller's" in await log_in(world, "bob", link, "bobs-own")
        assert "logged in" in await log_in(world, "alice", link, "alices-own")
        assert "has been used" in await log_in(world, "alice", link, "alices-own")
        assert await said(alice, "wiki__whoami") == "alice"


async def test_what_other_pages_send_is_refused(world: World) -> None:
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice, browser_of("alice") as browser:
        link = link_in(await said(alice, "wiki__whoami"))
        page = await browser.get(link)
        csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[0]
        given = {"token": "bobs-own", "csrf": csrf}
        evil = {"Origin": "https://evil.example.com"}
        assert (await browser.post(link, data=given, headers=evil)).status_code == httpx2.codes.FORBIDDEN
        assert (await browser.post(link, data={**given, "csrf": "guessed"})).status_code == httpx2.codes.FORBIDDEN
        async with browser_of("alice") as another:
            assert (await another.post(link, data=given)).status_code == httpx2.codes.FORBIDDEN
        assert "as himself" in await said(alice, "wiki__whoami")


async def test_what_comes_back_to_another_session_is_refused(world: World) -> None:
    """A login that somebody else has made, whose end is sent to this browser, or this one's to another's."""
    base = await world.gateway()
    async with (
        world.client(base, "alice", "legacy") as alice,
        world.client(base, "bob", "legacy") as bob,
        browser_of("alice") as alices,
        browser_of("bob") as bobs,
    ):
        world.accounts.is_there = "bob"
        link = link_in(await said(bob, "board__whoami"))
        link_in(await said(alice, "board__whoami"))
        csrf = re.findall(r'name="csrf" value="([^"]+)"', (await bobs.get(link)).text)[0]
        sent = await bobs.post(link, data={"csrf": csrf}, follow_redirects=False)
        back = (await bobs.get(sent.headers["location"], auth=None, follow_redirects=False)).headers["location"]
        assert back.startswith(f"{base}/login/callback?")
        cookie = {"Cookie": f"toolfold-login={csrf}"}
        assert (await alices.get(back)).status_code == httpx2.codes.NOT_FOUND
        assert (await alices.get(back, headers=cookie)).status_code == httpx2.codes.NOT_FOUND
        async with browser_of("bob") as another:
            assert (await another.get(back)).status_code == httpx2.codes.NOT_FOUND
        assert "as himself" in await said(alice, "board__whoami")
        assert (await bobs.get(back)).status_code == httpx2.codes.OK
        assert (await bobs.get(back)).status_code == httpx2.codes.NOT_FOUND
        assert await said(bob, "board__whoami") == "bob"
        assert "as himself" in await said(alice, "board__whoami")


async def test_a_login_that_fails_at_its_end_can_be_made_again_by_the_same_link(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice:
        link = link_in(await said(alice, "board__whoami"))
        with monkeypatch.context() as patch:
            patch.setattr(Accounts, "load_authorization_code", refused)
            assert "Open your link again" in await log_in(world, "alice", link)
        assert link_in(await said(alice, "board__whoami")) == link
        assert "logged in" in await log_in(world, "alice", link)
        assert await said(alice, "board__whoami") == "alice"
        assert "has been used" in await log_in(world, "alice", link)


async def refused(*_: Any) -> None:
    return None


async def test_to_check_what_a_caller_may_do_logs_nobody_in(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("webbrowser.open", pytest.fail)
    file = tmp_path / "gateway.toml"
    for auth in ("caller", "shared"):
        url = world.upstreams["board"].url
        file.write_text(f'[upstreams.board]\nurl = "{url}"\nauth = "{auth}"\n[upstreams.more]\nurl = "{url}"\n')
        done = await anyio.to_thread.run_sync(invoke, "check", str(file), "--as", "alice")
        assert "board" in done.output
    assert world.accounts.logins == []


async def test_tokens_are_refreshed_for_their_owner_by_one_replica_and_nobody_is_asked(world: World) -> None:
    first, second = await world.gateway(), await world.gateway()
    async with AsyncExitStack() as stack:
        clients = {
            (base, name): await stack.enter_async_context(world.client(base, name, "legacy"))
            for base in (first, second)
            for name in ("alice", "bob")
        }
        for name in ("alice", "bob"):
            await log_in(world, name, link_in(await said(clients[first, name], "board__whoami")))
        for (_, name), client in clients.items():
            assert await said(client, "board__whoami") == name
        world.accounts.end("alice", "access")
        world.accounts.end("bob", "access")
        answers: dict[tuple[str, str], str] = {}

        async def ask(key: tuple[str, str]) -> None:
            answers[key] = await said(clients[key], "board__whoami")

        async with anyio.create_task_group() as tasks:
            for key in clients:
                tasks.start_soon(ask, key)
        assert answers == {key: key[1] for key in clients}
    assert sorted(world.accounts.renewed) == ["alice", "bob"]
    assert world.accounts.logins == ["alice", "bob"]


async def test_a_grant_that_was_revoked_ends_the_use_and_its_owner_alone_is_asked_again(world: World) -> None:
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice, world.client(base, "bob", "legacy") as bob:
        for name, client in (("alice", alice), ("bob", bob)):
            await log_in(world, name, link_in(await said(client, "board__whoami")))
        world.accounts.end("alice", "access refresh")
        asked = await said(alice, "board__whoami")
        assert "as himself" in asked
        assert await said(bob, "board__whoami") == "bob"
        await log_in(world, "alice", link_in(asked))
        assert [await said(alice, "board__whoami"), await said(bob, "board__whoami")] == ["alice", "bob"]
    assert world.accounts.logins == ["alice", "bob", "alice"]


async def test_who_is_logged_out_by_another_process_is_asked_again(world: World) -> None:
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice, world.client(base, "bob", "legacy") as bob:
        for name, client in (("alice", alice), ("bob", bob)):
            await log_in(world, name, link_in(await said(client, "board__whoami")))
            assert await said(client, "board__whoami") == name
        elsewhere = Credentials(world.store, lambda: keys_of({VARIABLE: world.keys}, None))
        ((key, _),) = [one for one in await elsewhere.listed() if "alice" in one[1].principal]
        assert await elsewhere.remove(key)
        while await said(alice, "board__whoami") == "alice":  # until it is known there
            await anyio.lowlevel.checkpoint()
        assert await said(bob, "board__whoami") == "bob"


@pytest.mark.spec("ISO-3")
async def test_without_the_key_what_needs_a_credential_is_withheld_and_the_status_says_so(world: World) -> None:
    world.keys = "no-key"
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice:
        answer = await said(alice, "wiki__whoami")
    assert "the credentials of its callers can't be used now" in answer
    assert "no-key" not in answer
    status = {one.name: one.credentials for one in world.gateways[0].status}
    assert "--new-key" in status["wiki"]
    assert "no-key" not in status["wiki"]


async def test_nothing_that_is_secret_is_logged_or_stored_as_it_is(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "toolfold")
    base = await world.gateway()
    async with world.client(base, "alice", "legacy") as alice:
        await log_in(world, "alice", link_in(await said(alice, "wiki__whoami")), "alices-own")
        await log_in(world, "alice", link_in(await said(alice, "board__whoami")))
        assert await said(alice, "board__whoami") == "alice"
    texts = caplog.text + str(vars(world.store)) + str(world.gateways[0].status)
    assert not [secret for secret in ("alices-own", *world.accounts.owners, *TOKENS.values()) if secret in texts]
