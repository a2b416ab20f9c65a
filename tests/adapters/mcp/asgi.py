"""Servers over HTTP in this process, without a socket, and callers that authenticate with a token."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import httpx2
from attrs import frozen
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

from tests.adapters.mcp.support import modern_body, modern_headers

URL = "http://127.0.0.1:8000/mcp"


class Names:
    """Accepts a caller's name as its token, or three names: those of its client, issuer and subject."""

    async def verify_token(self, token: str) -> AccessToken:
        client, issuer, subject = token.split("-") if "-" in token else ("client", "issuer", token)
        return AccessToken(token=token, client_id=client, scopes=[], subject=subject, claims={"iss": issuer})


def application(server: Server[Any]) -> Any:
    """Return an ASGI application for callers with tokens."""
    settings = AuthSettings(issuer_url="https://issuer.example", resource_server_url=None)  # type: ignore[arg-type]
    return server.streamable_http_app(auth=settings, token_verifier=Names())


@frozen
class Endpoint:
    """A server in this process that is reached over HTTP."""

    app: Any

    def connect(self, **headers: str) -> httpx2.AsyncClient:
        """Return an HTTP client with headers."""
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), headers=headers)

    def target(self, query: str = "", **headers: str) -> Any:
        """Return what `mcp.Client` connects to."""
        return streamable_http_client(f"{URL}{query}", http_client=self.connect(**headers))

    def client(self, era: str, query: str = "", **options: Any) -> Client:
        """Return a client of an era."""
        return Client(self.target(query), mode=era, **options)

    async def post(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        query: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> httpx2.Response:
        """Post a request of the modern era."""
        given = {**modern_headers(method, (params or {}).get("name")), **headers}
        async with self.connect(**given) as http:
            return await http.post(f"{URL}{query}", json=modern_body(method, params))


@asynccontextmanager
async def endpoint_of(server: Server[Any], *, authenticated: bool = False) -> AsyncGenerator[Endpoint]:
    """Serve over HTTP in this process."""
    app = application(server) if authenticated else server.streamable_http_app()
    async with app.router.lifespan_context(app):
        yield Endpoint(app)


@asynccontextmanager
async def callers_of(server: Server[Any]) -> AsyncGenerator[Callable[[str], Any]]:
    """Yield what a client of each caller connects to, by the caller's token."""
    async with endpoint_of(server, authenticated=True) as endpoint:
        yield lambda name: endpoint.target(authorization=f"Bearer {name}")
