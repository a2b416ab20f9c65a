"""Tokens of an OAuth authorization server, signed or asked about, at a server of resources (SPEC DEL-6)."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import modern_body, modern_headers
from toolfold_adapters.mcp import Authentication, http_app
from toolfold_adapters.mcp.http.oauth import IntrospectedTokens, SignedTokens
from toolfold_adapters.mcp.principal import Principal

pytestmark = pytest.mark.spec("DEL-6", "GWY-8")

ISSUER = "https://login.example"
RESOURCE = "http://127.0.0.1:8000/mcp"
KEY, OTHER_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": [RESOURCE, "https://other.example"],
    "sub": "alice",
    "scope": "use",
    "exp": 2**40,
}


class Authority(BaseHTTPRequestHandler):
    """Publishes its key, and knows the token `opaque`."""

    claims = CLAIMS
    keys = json.dumps(
        {"keys": [{**RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "1", "use": "sig"}]}
    ).encode()

    def do_GET(self) -> None:
        self._answer(self.keys)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        known = body == "token=opaque" and self.headers["authorization"] is not None
        self._answer(json.dumps({"active": True, **self.claims} if known else {"active": False}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def authority() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Authority) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@asynccontextmanager
async def server_with(verifier: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    auth = Authentication.by_oauth(verifier, issuer=ISSUER, resource=RESOURCE, scopes=["use"])
    app = http_app(make_desk(), auth=auth)
    async with app.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        yield http


async def status(http: httpx2.AsyncClient, token: str) -> int:
    headers = {**modern_headers("tools/list"), "authorization": f"Bearer {token}"}
    return (await http.post(RESOURCE, json=modern_body("tools/list"), headers=headers)).status_code


def signed(key: Any = KEY, **changed: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "1"})


async def test_a_signed_token_is_accepted_if_it_is_for_this_server_and_has_the_scopes(authority: str) -> None:
    async with server_with(SignedTokens(jwt.PyJWKClient(authority), ISSUER, RESOURCE)) as http:
        assert await status(http, signed()) == 200
        assert await status(http, signed(exp=2**40 + 0.5)) == 200
        assert await status(http, signed(scope="read")) == 403
        for wrong in (
            signed(OTHER_KEY),
            signed(aud="https://other.example"),
            signed(iss="https://evil.example"),
            signed(exp=int(time.time()) - 60),
            signed(exp=None),
            signed(sub=None),
            jwt.encode(CLAIMS, "", algorithm="none", headers={"kid": "1"}),
            jwt.encode(CLAIMS, "secret" * 8, algorithm="HS256", headers={"kid": "1"}),
            "no token at all",
            f"{base64.urlsafe_b64encode(b'[' * 30_000).decode()}.e30.e30",
            signed(scope=["use"]),
        ):
            assert await status(http, wrong) == 401
        metadata = await http.get("http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp")
        assert [url.rstrip("/") for url in metadata.json()["authorization_servers"]] == [ISSUER]


async def test_a_token_is_accepted_if_the_authorization_server_says_that_it_is_for_this_server(
    authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = IntrospectedTokens(authority, RESOURCE, ("id", "secret"), ISSUER)
    async with server_with(verifier) as http:
        assert await status(http, "opaque") == 200
        assert await status(http, "unknown") == 401
        monkeypatch.setattr(Authority, "claims", {**CLAIMS, "aud": "https://other.example"})
        assert await status(http, "opaque") == 401
        nobody = {"sub": None, "client_id": None}
        for claim in ({"aud": 1}, {"exp": math.nan}, {"exp": math.inf}, {"iss": "https://evil.example"}, nobody):
            monkeypatch.setattr(Authority, "claims", {**CLAIMS, **claim})
            assert await status(http, "opaque") == 401
    monkeypatch.setattr(Authority, "claims", {**CLAIMS, "iss": None, "role": "admin"})
    accepted = await verifier.verify_token("opaque")
    assert accepted is not None
    assert Principal.of(accepted) == Principal("alice", ISSUER, "alice")
    assert Principal.of(accepted).claims["role"] == "admin"


async def test_no_token_is_accepted_while_the_keys_are_no_keys(authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Authority, "keys", b"<html>")
    async with server_with(SignedTokens(jwt.PyJWKClient(authority), ISSUER, RESOURCE)) as http:
        assert await status(http, signed()) == 401


async def test_no_token_is_accepted_while_the_authorization_server_is_away(caplog: pytest.LogCaptureFixture) -> None:
    away = "http://127.0.0.1:9"
    for verifier in (SignedTokens(jwt.PyJWKClient(away), ISSUER, RESOURCE), IntrospectedTokens(away, RESOURCE)):
        async with server_with(verifier) as http:
            assert await status(http, signed()) == 401
    assert ["can't be" in record.message for record in caplog.records if record.name == "toolfold.mcp"] == [True, True]
