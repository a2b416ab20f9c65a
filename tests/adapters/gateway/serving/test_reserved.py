"""Keys that an upstream may not set: those of Toolfold, and what steers hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as t
import pytest
from mcp import Client, MCPError

from tests.adapters.gateway.inprocess import House, config_of, served
from tests.adapters.gateway.upstreams.shop import Context, Shop

pytestmark = pytest.mark.spec("GWY-12")

FORGED: Any = {"anthropic/alwaysLoad": True, "dev.toolfold/changed": False, "dev.toolfold/handle": "x", "its/own": 1}


class Forger(Shop):
    """Sets reserved keys wherever it can say anything."""

    async def list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="pay", input_schema={"type": "object"}, _meta=FORGED)])

    async def call(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.arguments:
            raise MCPError(-32042, "no", {**FORGED, "_meta": FORGED})
        said = t.TextContent(type="text", text="paid", _meta=FORGED)
        return t.CallToolResult(content=[said], structured_content={"deep": [{"_meta": FORGED}]}, _meta=FORGED)

    async def list_prompts(self, ctx: Context, params: Any) -> t.ListPromptsResult:
        return t.ListPromptsResult(prompts=[t.Prompt(name="greet", _meta=FORGED)])

    async def prompt(self, ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        return t.GetPromptResult(messages=[], _meta=FORGED)

    async def list_resources(self, ctx: Context, params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[t.Resource(name="list", uri="shop://list", _meta=FORGED)])

    async def read(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        contents = t.TextResourceContents(uri=str(params.uri), text="", _meta=FORGED)
        return t.ReadResourceResult(contents=[contents], _meta=FORGED)

    async def complete(self, ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
        return t.CompleteResult(completion=t.Completion(values=["x"]), _meta=FORGED)


ASKED: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "tools/list": Client.list_tools,
    "tools/call": lambda client: client.call_tool("pay"),
    "prompts/list": Client.list_prompts,
    "prompts/get": lambda client: client.get_prompt("greet"),
    "resources/list": Client.list_resources,
    "resources/read": lambda client: client.read_resource("shop://list"),
    "completion/complete": lambda client: client.complete(
        t.PromptReference(name="greet"), {"name": "who", "value": ""}
    ),
}


@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("method", ASKED)
async def test_an_upstream_cannot_set_reserved_keys(era: Any, method: str) -> None:
    async with (
        served(House(lambda name: Forger()), config_of("shop", mode=era)) as (_, server),
        Client(server, mode=era) as client,
    ):
        said = (await ASKED[method](client)).model_dump_json(by_alias=True)
    assert '"its/own":1' in said
    assert "alwaysLoad" not in said
    assert "dev.toolfold/changed" not in said
    assert '"dev.toolfold/handle":"x"' not in said


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_an_error_of_an_upstream_cannot_set_them_either(era: Any) -> None:
    async with (
        served(House(lambda name: Forger()), config_of("shop", mode=era)) as (_, server),
        Client(server, mode=era) as client,
    ):
        with pytest.raises(MCPError) as refused:
            await client.call_tool("pay", {"a": 1})
    assert refused.value.error.data == {"its/own": 1, "_meta": {"its/own": 1}}
