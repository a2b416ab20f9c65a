"""The server card, which anybody may read: what it says, and when it is another one (SPEC NXT-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.server import Server

from tests.adapters.gateway.inprocess import House, config_of, gateway_of
from tests.adapters.mcp.asgi import URL, endpoint_of
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server
from tests.adapters.mcp.test_handle_delivery import MODERN
from toolfold import ConfigError, ToolSet
from toolfold_adapters.gateway.config.settings import RightsConfig
from toolfold_adapters.mcp.extensions.drafts import drafts
from toolfold_adapters.mcp.http.application import http_app

pytestmark = pytest.mark.spec("NXT-2")

NAME = "com.example/shop"
CARD = "http://127.0.0.1:8000/mcp/server-card"


def made(tools: ToolSet, **options: Any) -> Server[Any]:
    return build_server(tools, extend=drafts([f"card={NAME}"]), **options)


@asynccontextmanager
async def reader_of(server: Server[Any], *, authenticated: bool = False) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield an HTTP client without credentials."""
    async with endpoint_of(server, authenticated=authenticated) as endpoint, endpoint.connect() as http:
        yield http


async def test_a_card_says_what_the_server_is_as_its_introduction_does() -> None:
    server = made(make_shop(), version="1.2.3")
    async with reader_of(server) as http:
        answer = await http.get(f"{URL}/server-card")
    async with Client(server, mode="auto") as client:
        info = client.server_info
    assert info is not None
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/mcp-server-card+json")
    assert answer.json() == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": NAME,
        "title": info.name,
        "version": info.version,
        "description": "Tools in 3 groups: cash, credit, stock",
    }


async def test_there_is_none_unless_asked_for() -> None:
    async with reader_of(build_server(make_shop())) as http:
        assert (await http.get(CARD)).status_code == 404


async def test_a_card_is_that_of_the_catalog_as_it_is_now_and_its_tag_says_whether_it_is_another_one() -> None:
    tools = make_shop()
    async with reader_of(made(tools)) as http:
        first = await http.get(CARD)
        known = {"If-None-Match": f'"other", W/{first.headers["etag"]}'}
        again = await http.get(CARD, headers=known)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert first.headers["cache-control"] == "no-cache"
        tools.register_group("garden", "Plants")
        changed = await http.get(CARD, headers=known)
        assert changed.status_code == 200
        assert changed.json()["description"].endswith("credit, garden, stock")
        assert (await http.get(CARD, headers={"If-None-Match": "*"})).status_code == 304


async def test_groups_that_no_request_may_select_are_in_no_card() -> None:
    tools = ToolSet("safe")
    tools.register_group("open", "Anybody's")
    tools.register_group("vault", "Nobody's", selectable=False)
    async with reader_of(made(tools)) as http:
        assert (await http.get(CARD)).json()["description"] == "Tools in 1 group: open"


async def test_who_needs_a_token_learns_of_no_group_without_one() -> None:
    async with reader_of(made(make_shop()), authenticated=True) as http:
        assert (await http.get(CARD)).json()["description"] == "Tools, for those who may call them"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"*": RightsConfig(access="read", servers=("lending",))}, "Tools in 1 group: lending"),
        ({"alice": RightsConfig(access="read", servers=("lending",))}, "Tools, for those who may call them"),
    ],
    ids=["some for everybody", "none without a token"],
)
async def test_the_card_of_a_gateway_has_what_rights_give_without_a_token(
    rows: dict[str, RightsConfig], said: str
) -> None:
    config = config_of("lending", "vault").model_copy(update={"rights": rows})
    async with (gateway := gateway_of(House(), config)) as tools:
        server = build_server(tools, extend=drafts([f"card={NAME}"], gateway.extend))
        async with reader_of(server) as http:
            assert (await http.get(CARD)).json()["description"] == said


async def test_long_texts_are_cut_to_what_a_card_may_have() -> None:
    tools = ToolSet("shop")
    for number in range(40):
        tools.register_group(f"group{number}", "One of many")
    async with reader_of(made(tools)) as http:
        description = (await http.get(CARD)).json()["description"]
    assert len(description) == 100
    assert description.startswith("Tools in 40 groups: group0, group1")
    assert description.endswith("…")


async def test_a_card_is_below_the_path_of_the_endpoint_and_behind_the_check_of_hosts() -> None:
    app = http_app(make_shop(), path="/tools/", extend=drafts([f"card={NAME}"]))
    transport = httpx2.ASGITransport(app)
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        assert (await http.get("/tools/server-card?x=1")).json()["name"] == NAME
        assert (await http.get("/tools/server-card", headers={"host": "evil.example"})).status_code == 421
        async with endpoint_of(made(make_shop())) as endpoint, endpoint.client(MODERN) as client:
            assert (await client.list_tools()).tools


@pytest.mark.parametrize("name", ["shop", "com.example/", "com.example/a/b", "com.example/a b", f"a/{'b' * 200}"])
def test_what_is_no_name_of_a_registry_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"needs a name such as com\.example/shop"):
        drafts([f"card={name}"])
