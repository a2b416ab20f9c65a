"""A server that wants a login: the browser's way there and back, and the tokens that stay."""

from __future__ import annotations

import secrets
import socket
import stat
import struct
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from anyio.abc import SocketAttribute, SocketStream
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl

from tests.adapters.gateway.upstream.test_upstream import only_file
from tests.adapters.gateway.upstreams.shop import Shop
from tests.blocked import all_blocked
from toolfold import Session
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, UpstreamError, open_gateway
from toolfold_adapters.gateway.config.settings import OAuthConfig
from toolfold_adapters.gateway.upstream import redirect
from toolfold_adapters.gateway.upstream.transports import Transports

pytestmark = pytest.mark.spec("GWY-8")

SECONDS = 60


class Accounts:
    """An authorization server that lets everybody in, whose tokens can be forgotten."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.logins = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.logins += 1
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
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        token = secrets.token_hex(16)
        self.tokens[token] = AccessToken(
            token=token, client_id=client.client_id, scopes=[], resource=authorization_code.resource
        )
        return OAuthToken(access_token=token, expires_in=3600)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return None

    async def exchange_refresh_token(self, *_: Any) -> OAuthToken:
        raise NotImplementedError

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.clear()


@asynccontextmanager
async def guarded(accounts: Any, free_port: int) -> AsyncGenerator[str]:
    """Serve a shop over HTTP to those who have logged in, and yield the URL."""
    base = f"http://127.0.0.1:{free_port}"
    app = Shop().server.streamable_http_app(
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        ),
        auth_server_provider=accounts,
        token_verifier=ProviderTokenVerifier(accounts),
    )
    async with listening(app, free_port):
        yield f"{base}/mcp"


@asynccontextmanager
async def listening(app: Any, free_port: int) -> AsyncGenerator[str]:
    """Serve an application, and yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=free_port, log_level="error", ws="none"))
    ended = anyio.Event()

    async def serve() -> None:
        await server.serve()
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        while not server.started:
            await anyio.lowlevel.checkpoint()
        try:
            yield f"http://127.0.0.1:{free_port}"
        finally:
            server.should_exit = True
            with anyio.CancelScope(shield=True):
                await ended.wait()


async def browse(url: str) -> None:
    """Go where a browser would, from one redirect to the next."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        assert "logged in" in (await browser.get(url)).text


def authorized(folder: Path, open_url: Any = browse) -> Runtime:
    return Runtime(clock=time.monotonic, transport=Transports(folder, open_url))


@asynccontextmanager
async def gateway_at(url: str, runtime: Runtime, **settings: Any) -> AsyncGenerator[Session]:
    config = GatewayConfig().with_upstream(UpstreamConfig(url=url, **settings))
    with anyio.fail_after(SECONDS):
        async with open_gateway(config, runtime=runtime) as tools, tools.open_session() as session:
            yield session


async def call(url: str, runtime: Runtime, **settings: Any) -> str:
    async with gateway_at(url, runtime, **settings) as session:
        return (await session.call("cart")).text


async def test_a_login_is_asked_for_once_and_its_tokens_are_stored_for_their_owner_alone(
    tmp_path: Path, free_tcp_port: int
) -> None:
    accounts, folder = Accounts(), tmp_path / "tokens"
    async with guarded(accounts, free_tcp_port) as url:
        assert await call(url, authorized(folder)) == "[]"
        assert await call(url, authorized(folder)) == "[]"
    assert accounts.logins == 1
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600


@pytest.mark.parametrize("secret", [None, "not-a-secret"])
async def test_the_client_that_is_named_logs_in_and_none_is_registered(
    tmp_path: Path, free_tcp_port_factory: Callable[[], int], secret: str | None
) -> None:
    accounts, port = Accounts(), free_tcp_port_factory()
    back = f"http://localhost:{port}/callback"
    method: Any = "none" if secret is None else "client_secret_post"
    accounts.clients["team"] = OAuthClientInformationFull(
        client_id="team", client_secret=secret, redirect_uris=[AnyUrl(back)], token_endpoint_auth_method=method
    )
    oauth = OAuthConfig(client_id="team", client_secret=secret, callback_port=port)
    async with guarded(accounts, free_tcp_port_factory()) as url:
        assert await call(url, authorized(tmp_path), oauth=oauth) == "[]"
        assert await call(url, authorized(tmp_path), oauth=oauth) == "[]"
    assert (list(accounts.clients), accounts.logins) == (["team"], 1)


async def test_entries_with_other_headers_or_another_client_have_logins_of_their_own(
    tmp_path: Path, free_tcp_port: int
) -> None:
    accounts = Accounts()
    async with guarded(accounts, free_tcp_port) as url:
        runtime = authorized(tmp_path)
        for headers in ({}, {"X-Tenant": "prod"}, {"X-Tenant": "dev"}, {"x-tenant": "dev"}):
            assert await call(url, runtime, headers=headers) == "[]"
    assert accounts.logins == len(accounts.tokens) == 3


async def test_where_there_is_to_be_no_login_nobody_is_asked(tmp_path: Path, free_tcp_port: int) -> None:
    accounts = Accounts()
    async with guarded(accounts, free_tcp_port) as url:
        with pytest.raises(UpstreamError):
            await call(url, authorized(tmp_path), oauth=OAuthConfig(enabled=False))
    assert accounts.logins == len(accounts.clients) == 0


async def test_damaged_tokens_are_as_none(tmp_path: Path, free_tcp_port: int) -> None:
    accounts, folder = Accounts(), tmp_path / "tokens"
    async with guarded(accounts, free_tcp_port) as url:
        await call(url, authorized(folder))
        only_file(folder).write_text('{"tokens": 5, "client": []}')
        assert await call(url, authorized(folder)) == "[]"
    assert accounts.logins == 2


async def test_a_login_goes_on_where_its_tokens_can_not_be_stored(
    tmp_path: Path, free_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    async with guarded(Accounts(), free_tcp_port) as url:
        assert await call(url, authorized(tmp_path / "file" / "tokens")) == "[]"
    assert "the stored tokens can't be stored in" in caplog.text


async def test_a_header_of_the_configuration_takes_the_place_of_a_login(tmp_path: Path, free_tcp_port: int) -> None:
    accounts = Accounts()
    accounts.tokens["given"] = AccessToken(token="given", client_id="c", scopes=[])
    async with guarded(accounts, free_tcp_port) as url:
        config = GatewayConfig().with_upstream(UpstreamConfig(url=url, headers={"Authorization": "Bearer given"}))
        async with open_gateway(config, runtime=authorized(tmp_path)) as tools:
            assert "cart" in tools.catalog.tools
    assert accounts.logins == 0


async def test_a_login_that_is_refused_is_a_failed_start(tmp_path: Path, free_tcp_port: int) -> None:
    async def refuse(url: str) -> None:
        back = httpx2.URL(url).params["redirect_uri"]
        async with httpx2.AsyncClient() as browser:
            await browser.get(back.replace("/callback", "/favicon.ico"))
            await browser.get(back, params={"error": "access_denied", "state": httpx2.URL(url).params["state"]})

    async with guarded(Accounts(), free_tcp_port) as url:
        with pytest.raises(
            UpstreamError, match=r"did not start: the login that it wants failed \(No authorization code"
        ):
            await call(url, authorized(tmp_path, refuse))


@pytest.mark.spec("SAF-6")
@pytest.mark.parametrize(
    "sent",
    [
        b"GET {path} HTTP/1.1\r\n\r\n",
        b"GET {path}?code=forged HTTP/1.1\r\n\r\n",
        b"GET {path}?code=forged&state=guessed HTTP/1.1\r\n\r\n",
        b"GET {path}?error=access_denied HTTP/1.1\r\n\r\n",
        b"GET\r\n with a space",
        b"GET //[ HTTP/1.1\r\n\r\n",
        None,
    ],
    ids=str,
)
async def test_what_others_send_to_the_port_of_a_login_neither_ends_nor_forges_it(
    sent: bytes | None, tmp_path: Path, free_tcp_port: int
) -> None:
    async def attack(page: str) -> None:
        back = httpx2.URL(httpx2.URL(page).params["redirect_uri"])
        async with await anyio.connect_tcp("127.0.0.1", back.port or 0) as stream:
            if sent is None:
                reset(stream)
            else:
                await stream.send(sent.replace(b"{path}", back.raw_path))
                await answer_of(stream)
        await browse(page)

    async with guarded(Accounts(), free_tcp_port) as url:
        assert await call(url, authorized(tmp_path, attack)) == "[]"


def reset(stream: SocketStream) -> None:
    """Have a connection be reset when it is closed."""
    stream.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def answer_of(stream: SocketStream) -> bytes:
    answer = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            answer += await stream.receive()
    return answer


async def test_a_login_that_nobody_makes_is_a_failed_start(
    tmp_path: Path, free_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ignore(url: str) -> None:
        """Open no page."""

    monkeypatch.setattr(redirect, "LOGIN_SECONDS", 0.1)
    async with guarded(Accounts(), free_tcp_port) as url:
        with pytest.raises(
            UpstreamError, match=r"it requires a login, and there was none within 0\.1 seconds; log in by"
        ):
            await call(url, authorized(tmp_path, ignore))


async def test_a_port_that_is_taken_is_named(tmp_path: Path, free_tcp_port: int) -> None:
    accounts, folder = Accounts(), tmp_path / "tokens"
    async with guarded(accounts, free_tcp_port) as url:
        await call(url, authorized(folder))
        (client,) = accounts.clients.values()
        assert client.redirect_uris is not None
        port = client.redirect_uris[0].port
        only_file(folder).unlink()
        async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port or 0):
            with pytest.raises(UpstreamError, match=rf"a login, which comes back to port {port} of this machine"):
                await call(url, authorized(folder))
        assert await call(url, authorized(folder)) == "[]"


async def test_calls_of_a_server_at_a_url_are_answered_side_by_side(tmp_path: Path, free_tcp_port: int) -> None:
    server, met = MCPServer("s"), anyio.Event()

    @server.tool()
    async def wait() -> str:
        await met.wait()
        return "met"

    @server.tool()
    async def meet() -> str:
        met.set()
        return "met"

    async with (
        listening(server.streamable_http_app(json_response=True), free_tcp_port) as base,
        gateway_at(f"{base}/mcp", authorized(tmp_path)) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.call, "wait")
        await all_blocked()
        assert (await session.call("meet")).text == "met"
