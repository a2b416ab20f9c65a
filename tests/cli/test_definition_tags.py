"""Definition tags on the command line: off unless asked for, then in a server and towards those behind it (NXT-1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from tests.adapters.gateway.inprocess import House
from tests.adapters.mcp.shop import make_shop
from tests.cli.test_serve import Served, serve_http, served
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.extensions.tags import KNOWN_TAGS, DefinitionTags, definition_tags
from toolfold_cli.serve import with_definition_tags
from toolfold_cli.targets import open_target, parse_target
from toolfold_cli.up import settings_in

__all__ = ("served",)
pytestmark = pytest.mark.spec("NXT-1")


def tagging(server: Server[Any]) -> list[DefinitionTags]:
    return [one for one in server.middleware if isinstance(one, DefinitionTags)]


def test_a_server_has_tags_only_if_asked(shop: Path, served: list[Served]) -> None:
    serve_http("shop:tools")
    serve_http("shop:tools", "--definition-tags", "honour")
    assert [len(tagging(one.server)) for one in served] == [0, 1]


def test_the_environment_of_a_relay_has_a_gateway_tag_its_lists_and_go_on_with_its_own() -> None:
    extended: list[object] = []
    given = settings_in({"TOOLFOLD_DEFINITION_TAGS": "reject"})
    arguments = with_definition_tags({**given, "extend": lambda server, _: extended.append(server)})
    server = build_server(make_shop(), **arguments)
    assert (extended, len(tagging(server))) == ([server], 1)


@pytest.mark.parametrize("tags", [False, True])
async def test_a_server_behind_a_gateway_gets_tags_only_if_asked(tags: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    known = list[Any]()

    async def see(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            known.append((ctx.meta or {}).get(KNOWN_TAGS))
        return await call_next(ctx)

    class Tagged:
        server = build_server(make_shop(), extend=definition_tags("signal"))

    Tagged.server.middleware.insert(0, see)
    house = House(lambda name: Tagged)
    monkeypatch.setattr(Transports, "__call__", lambda _, config, key: house.transport(config, key))
    async with (
        open_target(parse_target(None, ("shop",)), definition_tags=tags) as opened,
        Client(build_server(opened.tools), mode="2026-07-28") as client,
    ):
        while len(known) < 20 and not any(known):
            await client.call_tool("hello", {})
    assert any(known) is tags
