"""The server card at the path of a card over HTTP (SEP-2127, a draft; SPEC NXT-2). Experimental, off unless asked for.

A card says what a server is before anybody connects to it: it is read without credentials, so it has nothing that only
some may see. It is made anew for each request, and its `ETag` says whether it is the one that its reader has; it claims
no time for which it stays so, as the draft would have it, since groups may be registered at any time.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from hashlib import sha256
from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolfold import ConfigError

from ...tokens import plural
from ..handlers import RequestHandlers
from ..options import Extend
from ..server import ToolSetServer

SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
MEDIA_TYPE = "application/mcp-server-card+json"
SUFFIX = "/server-card"
"""Where the card is, below the path of the endpoint."""

_NAME = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
_LONGEST = {"name": 200, "title": 100, "description": 100, "version": 255}


def server_card(name: str) -> Extend:
    """Return what gives a server a card, to be given to `build_server` as `extend`.

    Args:
        name: The server's name in a registry, such as `com.example/shop`: a domain reversed, a slash, a name.

    Raises:
        ConfigError: It is no such name.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST["name"]:
        raise ConfigError(f"The draft 'card' needs a name such as com.example/shop, not {name!r}.")

    def extend(server: Server[Any], handlers: RequestHandlers) -> None:
        def route(path: str, for_all: bool) -> Route:
            async def answer(request: Request) -> Response:
                return as_response(request, card_of(name, server.version or "", handlers, named=for_all))

            return Route(f"{path.rstrip('/')}{SUFFIX}", answer, methods=["GET"])

        assert isinstance(server, ToolSetServer)
        server.routes.append(route)

    return extend


def card_of(name: str, version: str, handlers: RequestHandlers, *, named: bool) -> dict[str, Any]:
    """Return the card of a server.

    Args:
        name: Its name in a registry.
        version: Its version.
        handlers: Those of the server, which know its catalog.
        named: Whether whoever reads the card may know of its groups.
    """
    given = {"name": name, "version": version, "title": handlers.tools.name, "description": _about(handlers, named)}
    return {"$schema": SCHEMA, **{key: _cut(text, _LONGEST[key]) for key, text in given.items()}}


def _about(handlers: RequestHandlers, named: bool) -> str:
    """Return what a server has: of groups those that a request without a token may select, outermost alone."""
    groups: list[str] | None = None
    if named:
        with suppress(MCPError):  # without a token there are no rights
            start = handlers.selections.of_caller(None).start
            groups = [one.path for one in start.selectable_groups if "." not in one.path]
    if groups is None:
        return "Tools, for those who may call them"
    return "Tools" if not groups else f"Tools in {plural(len(groups), 'group')}: {', '.join(groups)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def as_response(request: Request, card: dict[str, Any]) -> Response:
    """Return a card as the answer to a request, or 304 if whoever asks has the same."""
    body = json.dumps(card, ensure_ascii=False, sort_keys=True).encode()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known or known == ["*"]:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=MEDIA_TYPE, headers=headers)
