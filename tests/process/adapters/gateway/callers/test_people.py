"""People open pages of a gateway by a login at the issuer of their tokens, where nobody knows his token (GWY-19)."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import httpx2
import pytest
from attrs import define, field
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.process.adapters.gateway.callers.test_each_as_himself import SECONDS, Personal, board, link_in, said
from tests.process.adapters.gateway.upstream.test_oauth import listening
from toolfold import Store
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.callers.credentials import Credentials
from toolfold_adapters.gateway.callers.keys import VARIABLE, keys_of, new_key
from toolfold_adapters.gateway.callers.logins import CallerLogins
from toolfold_adapters.gateway.callers.pages import LoginPages
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.mcp import Authentication, http_app
from toolfold_adapters.mcp.http.auth import PeopleLogin
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("GWY-19")

ISSUER, SECRET = "https://login.example.org", "not a secret: 100%/+"


@define(eq=False)
class Issuer:
    """Gives a code to whoever is the cookie `who` of a browser, and a token of his for it; verifies its tokens.

    `scope` is that of the tokens that it gives for codes.
    """

    scope: str = "tools"
    codes: dict[str, tuple[str, str]] = field(factory=dict)
    owners: dict[str, AccessToken] = field(factory=dict)

    def issue(self, name: str, client: str, scope: str = "tools") -> str:
        token = secrets.token_hex(16)
        claims = {"iss": ISSUER, "preferred_username": name.title()}
        self.owners[token] = AccessToken(
            token=token, client_id=client, subject=f"u-{name}", scopes=scope.split(), claims=claims
        )
        return token

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.owners.get(token)

    async def authorize(self, request: Request) -> Response:
        asked = request.query_params
        assert (asked["response_type"], asked["client_id"], asked["scope"]) == ("code", "pages", "tools")
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = request.cookies["who"], asked["code_challenge"]
        back = {"code": code, "state": asked["state"], "iss": ISSUER}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")

    async def token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        client = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        assert client.partition(":")[0] == "pages"
        found = self.codes.pop(form["code"], None)
        if found is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        name, challenge = found
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == challenge
        return JSONResponse({"access_token": self.issue(name, "pages", self.scope)})


@define(eq=False)
class World:
    """Replicas of a gateway in front of a server that takes tokens which people have made there."""

    ports: Callable[[], int]
    issuer: Issuer = field(factory=Issuer)
    store: Store = field(factory=MemoryStore)
    keys: str = field(factory=new_key)
    stack: AsyncExitStack = field(factory=AsyncExitStack)
    base: str = ""
    at: str = ""
    entry: dict[str, Any] = field(factory=dict)

    async def start(self) -> None:
        personal = Personal({"alices-own": "alice", "bobs-own": "bob"})
        settings = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None)
        wiki = await self.stack.enter_async_context(
            listening(board(auth=settings, token_verifier=personal), self.ports())
        )
        self.entry = {"url": f"{wiki}/mcp", "token": {"hint": "Make one."}}
        routes = [Route("/authorize", self.issuer.authorize), Route("/token", self.issuer.token, methods=["POST"])]
        self.at = await self.stack.enter_async_context(listening(Starlette(routes=routes), self.ports()))
        self.base = await self.gateway()

    async def gateway(self) -> str:
        """Start a replica, and return its address; all are reached at that of the first."""
        port = self.ports()
        public = self.base or f"http://127.0.0.1:{port}"
        callers = CallerLogins(Credentials(self.store, lambda: keys_of({VARIABLE: self.keys}, None)), public)
        runtime = Runtime(clock=time.monotonic, transport=Transports(callers=callers), callers=callers)
        config = GatewayConfig(upstreams={"wiki": UpstreamConfig(**self.entry)})
        gateway = open_gateway(config, runtime=runtime, wait=False)
        tools = await self.stack.enter_async_context(gateway)
        settings = AuthSettings(issuer_url=AnyHttpUrl(ISSUER), resource_server_url=None, required_scopes=["tools"])
        login = PeopleLogin(f"{self.at}/authorize", f"{self.at}/token", "pages", SECRET, ("tools",))
        auth = Authentication(self.issuer, settings, login=login)
        pages = LoginPages(callers, auth)
        app = http_app(tools, auth=auth, logins=pages, extend=gateway.extend, delivery="principal")
        return await self.stack.enter_async_context(listening(app, port))

    @asynccontextmanager
    async def client(self, name: str) -> AsyncGenerator[Client]:
        headers = {"Authorization": f"Bearer {self.issuer.issue(name, 'desk')}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
            Client(streamable_http_client(f"{self.base}/mcp", http_client=http)) as client,
        ):
            yield client


@pytest.fixture
async def world(free_tcp_port_factory: Callable[[], int]) -> AsyncGenerator[World]:
    made = World(free_tcp_port_factory)
    with anyio.fail_after(SECONDS):
        async with made.stack:
            await made.start()
            yield made


def browser_of(name: str, **options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(cookies={"who": name}, follow_redirects=True, timeout=SECONDS, **options)


def csrf_in(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "at another replica"])
async def test_who_has_logged_in_at_the_issuer_opens_his_page_and_nobody_elses(world: World, elsewhere: bool) -> None:
    other = await world.gateway() if elsewhere else world.base
    async with (
        world.client("alice") as alice,
        browser_of("alice") as alices,
        browser_of("bob") as bobs,
    ):
        link = link_in(await said(alice, "wiki__whoami"))
        assert "another caller's" in (await bobs.get(link)).text
        page = await alices.get(link)
        assert str(page.url) == link
        assert "for <b>Alice</b> alone" in page.text
        done = await alices.post(
            link.replace(world.base, other), data={"csrf": csrf_in(page.text), "token": "alices-own"}
        )
        assert "You are logged in" in done.text
        assert await said(alice, "wiki__whoami") == "alice"
    assert not [one for one in (SECRET, "alices-own", *world.issuer.owners) if one in str(vars(world.store))]


async def test_what_comes_back_is_taken_once_and_from_the_browser_that_was_sent(world: World) -> None:
    async with (
        world.client("alice") as alice,
        browser_of("alice") as alices,
        browser_of("bob") as bobs,
    ):
        link = link_in(await said(alice, "wiki__whoami"))
        sent = await bobs.get(link, follow_redirects=False)
        back = (await bobs.get(sent.headers["location"], follow_redirects=False)).headers["location"]
        assert "Not logged in" in (await alices.get(back)).text  # else Alice would be Bob here
        parts = urlsplit(back)
        another = parts._replace(query=urlencode({**dict(parse_qsl(parts.query)), "iss": "https://evil.example.org"}))
        assert "Not logged in" in (await bobs.get(another.geturl())).text
        assert "another caller's" in (await bobs.get(back)).text
        assert "Not logged in" in (await bobs.get(back)).text


async def test_a_token_that_callers_could_not_use_opens_no_page(world: World) -> None:
    world.issuer.scope = "profile"
    async with world.client("alice") as alice, browser_of("alice") as alices:
        page = await alices.get(link_in(await said(alice, "wiki__whoami")))
    assert page.status_code == httpx2.codes.BAD_GATEWAY
    assert "is not for this gateway" in page.text


async def test_nothing_is_remembered_of_who_has_no_link(world: World) -> None:
    before = str(vars(world.store))
    async with browser_of("alice") as browser:
        for path in ("guessed", "callback?state=guessed&code=x", "callback", "person?state=guessed&code=x"):
            page = await browser.get(f"{world.base}/login/{path}")
            assert str(page.url) == f"{world.base}/login/{path}"
            assert page.is_client_error
    assert str(vars(world.store)) == before
