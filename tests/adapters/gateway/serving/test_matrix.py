"""Everything passes between clients and servers of either era: one scenario for each feature (SPEC GWY-1, GWY-18)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as t
import pytest
from attrs import define, field
from mcp import Client, MCPError
from mcp.server import Server

from tests.adapters.gateway.inprocess import House, config_of, served, wired
from tests.adapters.gateway.serving.test_questions import Person
from tests.adapters.gateway.upstreams.shop import OBJECT, Context, Shop
from tests.adapters.mcp.test_handle_delivery import text_of
from toolfold_adapters.gateway.upstream.handshake import ConnectMode

LIST = "shop://list"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NOTE: dict[str, Any] = {"type": "text", "text": "a note", "annotations": {"audience": ["user"], "priority": 0.5}}
BLOCKS: dict[str, Any] = {
    "text": {"type": "text", "text": "done", "annotations": {"audience": ["user"], "priority": 0.5}},
    "image": {"type": "image", "data": PIXEL, "mimeType": "image/png", "_meta": {"example.org/x": 1}},
    "audio": {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    "link": {"type": "resource_link", "name": "list", "uri": LIST, "description": "What is listed"},
    "embedded": {"type": "resource", "resource": {"uri": "shop://x", "text": "within", "mimeType": "text/plain"}},
}
RESULTS: dict[str, dict[str, Any]] = {
    "blocks": {"content": [*BLOCKS.values()], "_meta": {"example.org/y": [1, None]}},
    "structured": {"content": [NOTE], "structuredContent": {"count": 3, "deep": {"x": [1.5, None]}}},
    "failed": {"content": [NOTE], "isError": True},
}
"""The results of tools by their names, less the fields that only one era has."""
FULL: dict[str, Any] = {
    "name": "structured",
    "title": "Structured",
    "description": "Has all that a definition may have",
    "inputSchema": {**OBJECT, "required": ["item"], "additionalProperties": False},
    "outputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}},
    "annotations": {"title": "T", "readOnlyHint": True, "openWorldHint": False},
    "icons": [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    "_meta": {"example.org/x": {"deep": [1, 2.5, None]}},
}
REFUSAL: dict[str, Any] = {"code": -32055, "message": "not today", "data": {"why": ["a", 1]}}


class Everything(Shop):
    """A shop with results of every kind, and with a list of tools on two pages."""

    def __init__(self) -> None:
        super().__init__(tools=("touch", "blocks", "failed", "refused"))

    async def list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        if params.cursor is None:
            listed = await super().list_tools(ctx, params)
            return listed.model_copy(update={"next_cursor": "more"})
        return t.ListToolsResult(tools=[t.Tool.model_validate(FULL)])

    async def call(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult | t.InputRequiredResult:
        if params.name == "refused":
            raise MCPError(REFUSAL["code"], REFUSAL["message"], REFUSAL["data"])
        if (result := RESULTS.get(params.name)) is not None:
            return t.CallToolResult.model_validate(result)
        return await super().call(ctx, params)


@define(eq=False)
class Trial:
    """A client of a gateway, the running servers behind it, and what reached the client unasked."""

    house: House
    era: ConnectMode
    server: Server[Any] = field(init=False)
    client: Client = field(init=False)
    person: Person = field(factory=Person)
    messages: list[Any] = field(factory=list)
    logged: list[Any] = field(factory=list)

    @property
    def shop(self) -> Shop:
        """The server that was started last."""
        shop: Shop = self.house.of("shop")[-1]
        return shop

    async def message(self, message: Any) -> None:
        self.messages.append(message)

    async def log(self, params: Any) -> None:
        self.logged.append(params)

    async def received(self, kind: type) -> None:
        """Wait for a message of a kind."""
        while not any(isinstance(one, kind) for one in self.messages):
            await anyio.lowlevel.checkpoint()


Scenario = Callable[[Trial], Awaitable[None]]
SCENARIOS: list[Scenario] = []


def scenario(run: Scenario) -> Scenario:
    SCENARIOS.append(run)
    return run


@scenario
async def definitions_of_tools(trial: Trial) -> None:
    listed = {tool.name: tool for tool in (await trial.client.list_tools()).tools}
    made = listed["structured"].model_dump(mode="json", by_alias=True, exclude_none=True)
    own = {key: value for key, value in made["_meta"].items() if not key.startswith("dev.toolfold/")}
    assert {**made, "_meta": own} == {**FULL, "_meta": {"example.org/x": FULL["_meta"]["example.org/x"]}}
    assert {"blocks", "cart"} <= listed.keys()  # those of the other page


@scenario
async def arguments(trial: Trial) -> None:
    given: dict[str, Any] = {"item": 5, "unknown": [None, {"x": 1.5}]}
    meta: Any = {"example.org/trace": "t"}
    assert json.loads(text_of(await trial.client.call_tool("echo", given, meta=meta))) == {
        "arguments": given,
        "meta": meta,
    }


@scenario
async def results(trial: Trial) -> None:
    for name, result in RESULTS.items():
        came = (await trial.client.call_tool(name, {"item": "x"})).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        meta = {key: value for key, value in came.pop("_meta", {}).items() if key.startswith("example.org/")}
        came = {key: value for key, value in came.items() if key != "resultType"}
        want = {"isError": False, **{key: value for key, value in result.items() if key != "_meta"}}
        assert came == want
        assert meta == result.get("_meta", {})


@scenario
async def errors(trial: Trial) -> None:
    with pytest.raises(MCPError) as caught:
        await trial.client.call_tool("refused", {})
    assert {"code": caught.value.code, "message": caught.value.message, "data": caught.value.data} == REFUSAL


@scenario
async def prompts(trial: Trial) -> None:
    (prompt,) = (await trial.client.list_prompts()).prompts
    said = await trial.client.get_prompt(prompt.name, {"who": "you"})
    assert prompt.arguments is not None
    assert (prompt.arguments[0].name, said.description, (said.meta or {})["p"]) == ("who", "d", 1)
    assert said.messages[0].content == t.TextContent(type="text", text="Hello you")


@scenario
async def resources(trial: Trial) -> None:
    (resource,) = (await trial.client.list_resources()).resources
    read = await trial.client.read_resource(str(resource.uri))
    assert (resource.mime_type, read.contents[0].meta) == ("text/plain", {"r": 1})


@scenario
async def templates(trial: Trial) -> None:
    (template,) = (await trial.client.list_resource_templates()).resource_templates
    (read,) = (await trial.client.read_resource("shop://items/a%20b")).contents
    assert template.uri_template == "shop://items/{name}"
    assert isinstance(read, t.TextResourceContents)
    assert read.text == "at shop://items/a%20b"


@scenario
async def completions(trial: Trial) -> None:
    prompt = await trial.client.complete(t.PromptReference(name="greet"), {"name": "who", "value": "y"})
    template = t.ResourceTemplateReference(uri="shop://items/{name}")
    found = await trial.client.complete(template, {"name": "name", "value": "x"})
    assert (prompt.completion.values, prompt.completion.total) == (["ref/prompt y"], 1)
    assert found.completion.values == ["ref/resource x"]


async def _updated(trial: Trial) -> None:
    """Have the resource updated until that is notified: a subscription that was begun need not be in place."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def touch() -> None:
                while True:
                    with suppress(MCPError):
                        await trial.client.call_tool("touch", {"item": LIST})

            tasks.start_soon(touch)
            await trial.received(t.ResourceUpdatedNotification)
            scope.cancel()


@scenario
async def subscriptions(trial: Trial) -> None:
    if trial.client.protocol_version == "2026-07-28":
        async with trial.client.listen(resource_subscriptions=[LIST]):
            await _updated(trial)
    else:
        request = t.SubscribeRequest(params=t.SubscribeRequestParams(uri=LIST))
        await trial.client.session.send_request(request, t.EmptyResult)
        await _updated(trial)


@scenario
async def changes_of_the_list(trial: Trial) -> None:
    async def grown() -> None:
        await trial.client.call_tool("grow", {"item": "grown"})
        await trial.received(t.ToolListChangedNotification)

    if trial.client.protocol_version == "2026-07-28":
        async with trial.client.listen(tools_list_changed=True):
            await grown()
    else:
        await grown()
    listed = {tool.name for tool in (await trial.client.list_tools(cache_mode="bypass")).tools}
    assert "grown" in listed
    assert text_of(await trial.client.call_tool("grown", {})) == "[]"


@scenario
async def log_messages(trial: Trial) -> None:
    await trial.client.call_tool("say", {})
    assert [(one.level, one.data, one.logger) for one in trial.logged] == [("warning", {"n": 1}, "shop")]


@scenario
async def progress(trial: Trial) -> None:
    seen: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    # the SDK's client in the same process has no token for progress in the modern era
    async with wired(trial.server, trial.era) as wire:
        await wire.request("tools/call", {"name": "steps", "arguments": {}}, on_progress=note)
    assert seen == [(step, 3, f"step {step}") for step in range(3)]


@scenario
async def cancellation(trial: Trial) -> None:
    await trial.client.call_tool("cart", {})
    shop = trial.shop
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(trial.client.call_tool, "wait", {})
        await shop.waiting.wait()
        tasks.cancel_scope.cancel()
    await shop.cancelled.wait()


@scenario
async def elicitation(trial: Trial) -> None:
    assert '"count":3' in text_of(await trial.client.call_tool("elicit", {}))
    assert [one.message for one in trial.person.asked] == ["How many?"]


@scenario
async def sampling(trial: Trial) -> None:
    assert "thought" in text_of(await trial.client.call_tool("sample", {}))
    assert [one.max_tokens for one in trial.person.asked] == [10]


@scenario
async def roots(trial: Trial) -> None:
    assert "file:///project" in text_of(await trial.client.call_tool("roots", {}))


@scenario
async def capabilities_of_the_client(trial: Trial) -> None:
    declared = json.loads(text_of(await trial.client.call_tool("capabilities", {})))
    assert declared.keys() - {"extensions"} == {"elicitation", "sampling", "roots"}


@pytest.mark.spec("GWY-1", "GWY-18")
@pytest.mark.parametrize("upstream_era", ["legacy", "auto"], ids=["server-2025", "server-2026"])
@pytest.mark.parametrize("client_era", ["legacy", "auto"], ids=["client-2025", "client-2026"])
@pytest.mark.parametrize("run", SCENARIOS, ids=lambda run: run.__name__)
async def test_it_passes(run: Scenario, client_era: ConnectMode, upstream_era: ConnectMode) -> None:
    trial = Trial(House(lambda name: Everything()), client_era)
    async with (
        served(trial.house, config_of("shop", mode=upstream_era)) as (gateway, trial.server),
        Client(
            trial.server,
            mode=client_era,
            message_handler=trial.message,
            logging_callback=trial.log,
            log_level="info",
            **trial.person.callbacks(),
        ) as trial.client,
    ):
        assert [one.modern for one in gateway.upstreams.values()] == [upstream_era == "auto"]
        await run(trial)
