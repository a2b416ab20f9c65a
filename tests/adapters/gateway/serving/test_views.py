"""Views of tools: of two servers with one URI, and the calls that they make (SPEC GWY-18)."""

from __future__ import annotations

from typing import Any

import mcp_types as t
import pytest
from mcp import Client, MCPError

from tests.adapters.gateway.inprocess import House, config_of, served
from tests.adapters.gateway.upstreams.shop import Context, Shop
from tests.adapters.mcp.test_handle_delivery import text_of

pytestmark = pytest.mark.spec("GWY-18")

ERAS = pytest.mark.parametrize("client_era", ["legacy", "auto"])
BOARD = "ui://board/main.html"
OTHER = "ui://b+board/main.html"
HTML = "text/html;profile=mcp-app"
FORMS: list[dict[str, Any]] = [
    {"ui": {"resourceUri": BOARD, "visibility": ["model", "app"]}, "example.org/x": 1},
    {"ui/resourceUri": BOARD},
    {"openai/outputTemplate": BOARD, "openai/widgetAccessible": True},
]


class Board(Shop):
    """A server with a view, which is in its list or only named by its tools, and calls `refresh`."""

    def __init__(self, name: str, meta: dict[str, Any], *, listed: bool = False) -> None:
        super().__init__()
        self.name, self.meta, self.listed = name, meta, listed

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        alone = {"ui": {"visibility": ["model"]}}
        tools = [
            t.Tool(name="show", input_schema={"type": "object"}, _meta=self.meta),
            t.Tool(name="refresh", input_schema={"type": "object"}),
            t.Tool(name=f"only_{self.name}", input_schema={"type": "object"}, _meta={"ui": {"visibility": ["app"]}}),
            t.Tool(name=f"model_{self.name}", input_schema={"type": "object"}, _meta=alone),
        ]
        return t.ListToolsResult(tools=tools)

    async def list_resources(self, ctx: Any, params: Any) -> t.ListResourcesResult:
        resources = [t.Resource(name="board", uri=BOARD, mime_type=HTML)] if self.listed else []
        return t.ListResourcesResult(resources=resources)

    async def list_templates(self, ctx: Any, params: Any) -> t.ListResourceTemplatesResult:
        return t.ListResourceTemplatesResult(resource_templates=[])

    async def call(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        said = t.TextContent(type="text", text=f"{params.name} of {self.name}")
        link = t.ResourceLink(type="resource_link", name="board", uri=BOARD)
        return t.CallToolResult(content=[said, link], _meta=self.meta)

    async def read(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        html = t.TextResourceContents(uri=params.uri, mime_type=HTML, text=f"<p>{self.name}", _meta={"ui": {"csp": {}}})
        return t.ReadResourceResult(contents=[html])


def boards(meta: dict[str, Any], *, listed: bool = False) -> House:
    return House(lambda name: Board(name, meta, listed=listed))


def at(meta: dict[str, Any], uri: str) -> dict[str, Any]:
    """Return what names a view as what names another one."""
    ui = {"ui": {**meta["ui"], "resourceUri": uri}} if "ui" in meta else {}
    return {**{key: uri if value == BOARD else value for key, value in meta.items()}, **ui}


@ERAS
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("meta", FORMS)
async def test_views_of_two_servers_with_one_uri_are_told_apart(
    client_era: str, meta: dict[str, Any], listed: bool
) -> None:
    async with (
        served(boards(meta, listed=listed), config_of("a", "b")) as (_, server),
        Client(server, mode=client_era) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["a__show"].meta == meta
        assert tools["b__show"].meta == at(meta, OTHER)
        resources = {str(one.uri) for one in (await client.list_resources()).resources}
        assert resources == ({BOARD, OTHER} if listed else set())
        for uri, name in ((BOARD, "a"), (OTHER, "b")):
            (read,) = (await client.read_resource(uri)).contents
            assert (str(read.uri), read.mime_type, read.meta) == (uri, HTML, {"ui": {"csp": {}}})
            assert read.text == f"<p>{name}"  # type: ignore[union-attr]


@ERAS
@pytest.mark.parametrize("meta", FORMS)
async def test_the_view_that_a_result_names_is_its_servers_own(client_era: str, meta: dict[str, Any]) -> None:
    async with served(boards(meta), config_of("a", "b")) as (_, server), Client(server, mode=client_era) as client:
        for name, uri in (("b", OTHER), ("a", BOARD)):
            result = await client.call_tool(f"{name}__show")
            named = {key: value for key, value in (result.meta or {}).items() if key in meta}
            assert named == at(meta, uri)
            link: Any = result.content[1]
            assert str(link.uri) == uri
            read: Any = (await client.read_resource(uri)).contents[0]
            assert read.text == f"<p>{name}"


@ERAS
async def test_the_views_of_a_single_server_are_as_it_has_them(client_era: str) -> None:
    async with served(boards(FORMS[0]), config_of("a", "c")) as (_, server), Client(server, mode=client_era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["a__show"].meta == FORMS[0]


@ERAS
async def test_a_view_calls_the_tools_of_its_server_by_their_own_names(client_era: str) -> None:
    async with (
        served(boards(FORMS[0]), config_of("a", "b")) as (_, server),
        Client(server, mode=client_era) as client,
    ):
        await client.read_resource(OTHER)
        assert text_of(await client.call_tool("refresh")).startswith("refresh of b")
        assert text_of(await client.call_tool("only_a")).startswith("only_a of a")
        with pytest.raises(MCPError, match="Unknown tool: model_b"):
            await client.call_tool("model_b")
        assert text_of(await client.call_tool("b__model_b")).startswith("model_b of b")


@ERAS
async def test_a_call_that_can_be_of_views_of_two_servers_is_refused(client_era: str) -> None:
    async with (
        served(boards(FORMS[0]), config_of("a", "b")) as (_, server),
        Client(server, mode=client_era) as client,
    ):
        with pytest.raises(MCPError, match="refresh can be any of a__refresh, b__refresh, so nothing was called"):
            await client.call_tool("refresh")


@ERAS
async def test_servers_without_views_are_not_called_by_their_own_names(client_era: str) -> None:
    async with served(House(), config_of("a", "b")) as (_, server), Client(server, mode=client_era) as client:
        with pytest.raises(MCPError, match="Unknown tool: cart"):
            await client.call_tool("cart")
