"""Tokens of two callers are exchanged for theirs at a server that trusts the issuer (SPEC GWY-19, RFC 8693)."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import anyio
import httpx2
import pytest
from attrs import define, field
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.process.adapters.gateway.callers.test_each_as_himself import SECONDS, Personal, board, said
from tests.process.adapters.gateway.upstream.test_oauth import listening
from toolfold import Store
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.callers import logins as module
from toolfold_adapters.gateway.callers.credentials import Credentials
from toolfold_adapters.gateway.callers.keys import VARIABLE, keys_of, new_key
from toolfold_adapters.gateway.callers.logins import CallerLogins
from toolfold_adapters.gateway.upstream.life import UpstreamError
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.mcp import Authentication, http_app
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("GWY-19")

SECRET = "not a secret: 100%/+"
TOOL = "stock__whoami"


@define(eq=False)
class Issuer:
    """Issues tokens for the gateway, which it verifies, and exchanges each for one of its owner at the server.

    `owners` has whose each token is. `given` has whose those are that were given in exchange, in their order, and
    `subjects` what for. `refused` has the error and the status by who is refused; `""` is everybody.
    """

    lifetime: float | None = 3600
    owners: dict[str, AccessToken] = field(factory=dict)
    server: Personal = field(factory=lambda: Personal({}))
    given: list[str] = field(factory=list)
    subjects: list[str] = field(factory=list)
    refused: dict[str, tuple[Any, int]] = field(factory=dict)

    def issue(self, name: str, client: str = "desktop", scopes: tuple[str, ...] = (), **more: Any) -> str:
        token = f"of-{name}-{secrets.token_hex(16)}"
        claims = {"iss": "https://login.example.org", "jti": token, "iat": time.time(), **more}
        self.owners[token] = AccessToken(
            token=token, client_id=client, subject=name, scopes=list(scopes), claims=claims
        )
        return token

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.owners.get(token)

    async def exchange(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        client = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode().split(":")
        assert [unquote(part) for part in client] == ["toolfold", SECRET]
        subject = form.pop("subject_token")
        assert form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "audience": "stock",
            "scope": "read write",
        }
        name = str(self.owners[subject].subject)
        content, status = self.refused.get("", self.refused.get(name, (None, 200)))
        if content is not None:
            return JSONResponse(content, status)
        token = f"at-stock-{secrets.token_hex(16)}"
        self.server.owners[token] = name
        self.given.append(name)
        self.subjects.append(subject)
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
        return JSONResponse(answer if self.lifetime is None else {**answer, "expires_in": self.lifetime})


@define(eq=False)
class World:
    """A server that trusts an issuer, behind gateways that share a store."""

    ports: Callable[[], int]
    issuer: Issuer = field(factory=Issuer)
    store: Store = field(factory=MemoryStore)
    keys: str = field(factory=new_key)
    stack: AsyncExitStack = field(factory=AsyncExitStack)
    entry: dict[str, Any] = field(factory=dict)

    async def start(self) -> None:
        port = self.ports()
        auth = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None)
        await self.stack.enter_async_context(listening(board(auth=auth, token_verifier=self.issuer.server), port))
        at = self.ports()
        app = Starlette(routes=[Route("/token", self.issuer.exchange, methods=["POST"])])
        await self.stack.enter_async_context(listening(app, at))
        exchange = {
            "token_endpoint": f"http://127.0.0.1:{at}/token",
            "client_id": "toolfold",
            "client_secret": SECRET,
            "audience": "stock",
            "scopes": ["read", "write"],
        }
        self.entry = {"url": f"http://127.0.0.1:{port}/mcp", "exchange": exchange}

    async def gateway(self, **options: Any) -> str:
        """Start a replica of the gateway, and return its address."""
        callers = CallerLogins(Credentials(self.store, lambda: keys_of({VARIABLE: self.keys}, None)), **options)
        runtime = Runtime(clock=time.monotonic, transport=Transports(callers=callers), callers=callers)
        config = GatewayConfig(upstreams={"stock": UpstreamConfig(**self.entry)})
        gateway = open_gateway(config, runtime=runtime, wait=False)
        tools = await self.stack.enter_async_context(gateway)
        settings = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None)
        app = http_app(tools, auth=Authentication(self.issuer, settings), extend=gateway.extend, delivery="principal")
        return await self.stack.enter_async_context(listening(app, self.ports()))


@asynccontextmanager
async def client_with(base: str, token: str, mode: str) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=SECONDS) as http,
        Client(streamable_http_client(f"{base}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.fixture
async def world(free_tcp_port_factory: Callable[[], int]) -> AsyncGenerator[World]:
    made = World(free_tcp_port_factory)
    with anyio.fail_after(SECONDS):
        async with made.stack:
            await made.start()
            yield made


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_caller_acts_by_what_his_own_token_is_exchanged_for_and_replicas_share_it(
    world: World, mode: str
) -> None:
    first, second = await world.gateway(), await world.gateway()
    tokens = {name: world.issuer.issue(name) for name in ("alice", "bob")}
    for _ in range(2):
        for base in (first, second):
            for name, token in tokens.items():
                async with client_with(base, token, mode) as client:
                    assert await said(client, TOOL) == name
    assert world.issuer.given == ["alice", "bob"]
    assert world.issuer.subjects == list(tokens.values())
    stored = str(vars(world.store))
    assert not [token for token in (*tokens.values(), *world.issuer.server.owners) if token in stored]


async def test_what_is_got_for_a_token_is_of_its_client_its_scopes_and_its_claims_too(world: World) -> None:
    base = await world.gateway()
    more: list[Any] = [{"role": "admin"}, {"client": "phone"}, {"scopes": ("admin",)}, {}, {"role": "admin"}, {}]
    tokens = [world.issuer.issue("alice", **one) for one in more]
    for token in tokens:
        async with client_with(base, token, "auto") as client:
            assert await said(client, TOOL) == "alice"
    assert world.issuer.subjects == tokens[:4]  # a claim that is lost counts at once


@pytest.mark.parametrize(("lifetime", "later", "exchanges"), [(3600, 3000, 1), (3600, 3595, 2), (None, 10**6, 1)])
async def test_a_token_is_exchanged_anew_once_it_has_expired_and_with_what_the_caller_has_then(
    world: World, monkeypatch: pytest.MonkeyPatch, lifetime: float | None, later: float, exchanges: int
) -> None:
    world.issuer.lifetime, now = lifetime, [time.time()]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", clock)
    world.entry["mode"] = "legacy"  # so that nothing is asked after the call
    base = await world.gateway()
    tokens = [world.issuer.issue("alice") for _ in range(2)]
    async with client_with(base, tokens[0], "auto") as client:
        assert await said(client, TOOL) == "alice"
    now[0] += later
    async with client_with(base, tokens[1], "auto") as client:
        assert await said(client, TOOL) == "alice"
    assert world.issuer.subjects == tokens[:exchanges]


async def test_a_token_that_the_server_refuses_is_exchanged_once_more(world: World) -> None:
    base = await world.gateway()
    async with client_with(base, world.issuer.issue("alice"), "auto") as client:
        assert await said(client, TOOL) == "alice"
        world.issuer.server.owners.clear()
        assert await said(client, TOOL) == "alice"
    assert world.issuer.given == ["alice"] * 2


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_who_is_refused_by_the_issuer_reads_so_and_is_not_kept_waiting_once_he_is_not(
    world: World, mode: str
) -> None:
    base, refused = await world.gateway(), ({"error": "invalid_grant", "error_description": SECRET}, 400)
    tokens = {name: world.issuer.issue(name) for name in ("alice", "bob")}
    world.issuer.refused["alice"] = refused
    async with client_with(base, tokens["alice"], mode) as alice, client_with(base, tokens["bob"], mode) as bob:
        for _ in range(2):
            answer = await said(alice, TOOL)
            assert "the issuer gives nothing for the token of alice (invalid_grant). Log in at this gateway" in answer
            assert SECRET not in answer
            assert tokens["alice"] not in answer
            assert await said(bob, TOOL) == "bob"
        del world.issuer.refused["alice"]
        assert await said(alice, TOOL) == "alice"
        world.issuer.server.owners.clear()
        world.issuer.refused["alice"] = refused
        assert "(invalid_grant)" in await said(alice, TOOL)
        assert await said(bob, TOOL) == "bob"


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (({"error": "invalid_client"}, 401), "exchanges no tokens for this gateway (invalid_client); check exchange"),
        (({"error": "invalid_target"}, 400), "exchanges no tokens for this gateway (invalid_target); check exchange"),
        (({"token": SECRET}, 200), "its issuer gave no token for that of its caller; check exchange"),
        ((SECRET, 503), "its issuer can't exchange tokens now (status 503); try again"),
    ],
)
async def test_an_issuer_that_exchanges_nothing_for_this_gateway_is_said_to(
    world: World, answered: tuple[Any, int], expected: str
) -> None:
    base = await world.gateway()
    world.issuer.refused[""] = answered
    async with client_with(base, world.issuer.issue("alice"), "auto") as client:
        answer = await said(client, TOOL)
    assert expected in answer
    assert SECRET not in answer


async def test_an_issuer_that_does_not_answer_is_said_to(world: World) -> None:
    world.entry["exchange"]["token_endpoint"] = f"http://127.0.0.1:{world.ports()}/token"
    base = await world.gateway()
    async with client_with(base, world.issuer.issue("alice"), "auto") as client:
        assert "its issuer can't be reached (ConnectError)" in await said(client, TOOL)


async def test_tokens_of_no_issuer_are_sent_to_none(world: World) -> None:
    base = await world.gateway(issued=False)
    async with client_with(base, world.issuer.issue("alice"), "auto") as client:
        assert "with [oauth] in the file of --auth" in await said(client, TOOL)
    runtime = Runtime(clock=time.monotonic, transport=Transports())
    config = GatewayConfig(upstreams={"stock": UpstreamConfig(**world.entry)})
    with pytest.raises(UpstreamError, match="with \\[oauth\\] in the file of --auth"):
        async with open_gateway(config, runtime=runtime):
            pass
    assert not world.issuer.given


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"exchange": {"client_id": "toolfold"}}, "exchange.token_endpoint\n  Field required"),
        ({"exchange": {"token_endpoint": "login.example.org"}}, "exchange.token_endpoint"),
        ({"token": {}}, "give token, which each caller has made, or exchange, for that of our issuer"),
        ({"auth": "shared"}, "exchange is for the token of each caller: leave out auth"),
    ],
)
def test_an_exchange_that_is_misconfigured_is_refused(changed: dict[str, Any], expected: str) -> None:
    right = {"token_endpoint": "http://localhost", "client_id": "c", "client_secret": SECRET, "audience": "stock"}
    UpstreamConfig.model_validate({"url": "http://localhost/mcp", "exchange": right})
    with pytest.raises(ValidationError, match=expected.replace(".", r"\.")) as refused:
        UpstreamConfig.model_validate({"url": "http://localhost/mcp", "exchange": right, **changed})
    assert SECRET not in str(refused.value)
