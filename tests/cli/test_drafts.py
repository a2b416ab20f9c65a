"""Drafts on the command line: off unless asked for; tags then in a server and towards those behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from tests.adapters.gateway.inprocess import House
from tests.adapters.mcp.shop import make_shop
from tests.cli.support import invoke
from tests.cli.test_serve import Served, serve_http, served
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.extensions.tags import KNOWN_TAGS, DefinitionTags, definition_tags
from toolfold_cli.serve import with_drafts
from toolfold_cli.targets import open_target, parse_target
from toolfold_cli.up import settings_in

__all__ = ("served",)
pytestmark = pytest.mark.spec("NXT-1", "NXT-2")


def tagging(server: Server[Any]) -> list[DefinitionTags]:
    return [one for one in server.middleware if isinstance(one, DefinitionTags)]


def test_a_server_has_tags_only_if_asked(shop: Path, served: list[Served]) -> None:
    serve_http("shop:tools")
    serve_http("shop:tools", "--draft", "tags=honour")
    assert [len(tagging(one.server)) for one in served] == [0, 1]


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (("--draft", "tag"), 2, "There is no draft 'tag'"),
        (("--draft", "ttl=soon"), 2, "needs a number of seconds"),
        (("--draft", "card=com.example/shop"), 1, "--draft card is for HTTP: add --http"),
    ],
)
def test_what_can_not_be_is_refused(
    shop: Path, served: list[Served], given: tuple[str, ...], status: int, message: str
) -> None:
    result = invoke("serve", "shop:tools", *given)
    assert (result.exit_code, served) == (status, [])
    assert message in " ".join(result.stderr.split())


def test_several_drafts_are_given_one_by_one(shop: Path, served: list[Served]) -> None:
    serve_http("shop:tools", "--draft", "ttl=60", "--draft", "tags")
    (server,) = [one.server for one in served]
    assert [type(one).__name__ for one in server.middleware[:2]] == ["Unchanging", "DefinitionTags"]


def test_the_environment_of_a_relay_has_a_gateway_tag_its_lists_and_go_on_with_its_own() -> None:
    extended: list[object] = []
    given = settings_in({"TOOLFOLD_DRAFT": "tags=reject"})
    arguments = with_drafts({**given, "extend": lambda server, _: extended.append(server)}, over_http=False)
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
