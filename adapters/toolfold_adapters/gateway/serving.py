"""What a server in front of a gateway answers beside tools, prompts and resources (SPEC GWY-1).

Completions, log levels and subscriptions to resources are requests that the core knows nothing of: they are passed to
the upstream that they are about. So is the notification that a client's roots have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolfold import ProtocolError, Session, ToolfoldError
from toolfold.spi import Kind, available, matching

from .downstream import Call, Client, ServerContext, remember_request
from .forward import end_to_end, set_level
from .upstream import Upstream

if TYPE_CHECKING:
    from .gateway import Gateway

log = logging.getLogger("toolfold.gateway")

SessionOf = Callable[[ServerContext], AbstractAsyncContextManager[Session]]


def extend(gateway: Gateway, server: Server[Any], session_of: SessionOf) -> None:
    """Have `server`, which delivers a gateway's tools, answer all else that the upstreams answer.

    Args:
        gateway: The gateway, which is open.
        server: The server.
        session_of: Yields the session that a request of the server belongs to.
    """
    passage = Passage(gateway, session_of)
    server.middleware.append(remember_request)
    if gateway.offers("completions"):
        server.add_request_handler("completion/complete", types.CompleteRequestParams, passage.complete)
    if gateway.offers("logging"):
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, passage.set_level)
    if gateway.offers("resources"):
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, passage.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, passage.subscribe)
    server.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, passage.roots_changed)


class Passage:
    """Passes requests on that are about something of an upstream."""

    def __init__(self, gateway: Gateway, session_of: SessionOf) -> None:
        self._gateway = gateway
        self._session_of = session_of

    async def complete(self, ctx: ServerContext, params: types.CompleteRequestParams) -> dict[str, Any]:
        """Return completions of an argument of a prompt or resource template, as its upstream gives them."""
        asked = dict(ctx.params or {})
        ref = dict(asked.get("ref") or {})
        async with self._session_of(ctx) as session:
            if ref.get("type") == "ref/prompt":
                upstream, ref["name"] = self._find(session, "prompt", str(ref.get("name")))
            else:
                upstream, ref["uri"] = self._find(session, "resource_template", str(ref.get("uri")))
            return await self._pass(ctx, session, upstream, {**asked, "ref": ref})

    async def set_level(self, ctx: ServerContext, params: types.SetLevelRequestParams) -> dict[str, Any]:
        """Have the upstreams of a client log at a level, those that start later too."""
        async with self._session_of(ctx) as session:
            client = self._client(session, ctx)
        client.level = params.level
        for upstream in self._gateway.upstreams.values():
            for link in upstream.links_of(client):
                if link.wire is not None:
                    await set_level(link, link.wire, client)
        return {}

    async def subscribe(self, ctx: ServerContext, params: Any) -> dict[str, Any]:
        """Pass on that a client wants to be notified when a resource changes, or no longer."""
        async with self._session_of(ctx) as session:
            catalog, uri = session.catalog, str(params.uri)
            kind: Kind = "resource" if uri in catalog.components["resource"].by_name else "resource_template"
            names = [uri] if kind == "resource" else [one.name for one, _ in matching(catalog, uri)]
            upstream, _ = self._find(session, kind, names[0] if names else uri)
            return await self._pass(ctx, session, upstream, dict(ctx.params or {}))

    async def roots_changed(self, ctx: ServerContext, params: types.NotificationParams) -> None:
        """Notify the upstreams of a client that its roots have changed."""
        async with self._session_of(ctx) as session:
            client = self._client(session, ctx)
        for upstream in self._gateway.upstreams.values():
            for link in upstream.links_of(client):
                if link.wire is not None and not link.wire.facts.modern:
                    await link.wire.notify("notifications/roots/list_changed")

    def _client(self, session: Session, ctx: ServerContext) -> Client:
        return self._gateway.clients.of_session(session.id, ctx)

    def _find(self, session: Session, kind: Kind, name: str) -> tuple[Upstream, str]:
        """Return the upstream of something that is available in the session, and what it is called there."""
        component = session.catalog.components[kind].by_name.get(name)
        placed = self._gateway.registration.find(kind, name)
        if component is None or placed is None or not available(component, session.view()):
            what = kind.replace("_", " ")
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown {what}: {name[:200]}")
        return self._gateway.upstreams[placed.server], placed.original

    async def _pass(
        self, ctx: ServerContext, session: Session, upstream: Upstream, params: dict[str, Any]
    ) -> dict[str, Any]:
        if (meta := end_to_end(params.pop("_meta", None))) is not None:
            params["_meta"] = meta
        client = self._client(session, ctx)
        try:
            answer = await self._gateway.forwarding.request(upstream, ctx.method, params, client, Call(ctx))
        except ProtocolError as error:
            raise MCPError(code=error.code, message=error.message, data=error.data) from error
        except ToolfoldError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from error
        assert isinstance(answer, dict), "only calls, prompts and resources ask for input"
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        return {"resultType": "complete", **answer} if modern else answer
