"""An upstream in the same process: a server that keeps a cart and asks its client for things, in either era."""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp_types as t
from mcp import MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]

ELICIT: dict[str, Any] = {
    "message": "How many?",
    "requestedSchema": {"type": "object", "properties": {}},
    "_meta": {"x": 1},
}
SAMPLE: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Think."}}],
    "maxTokens": 10,
}
QUESTIONS: dict[str, Any] = {
    "elicit": t.ElicitRequest.model_validate({"method": "elicitation/create", "params": ELICIT}),
    "sample": t.CreateMessageRequest.model_validate({"method": "sampling/createMessage", "params": SAMPLE}),
    "roots": t.ListRootsRequest(),
}
ANSWERS: dict[str, Any] = {"elicit": t.ElicitResult, "sample": t.CreateMessageResult, "roots": t.ListRootsResult}
OBJECT = {"type": "object", "properties": {"item": {"type": "string"}}}


class Shop:
    """One running server, with a cart of its own, as a process would have it."""

    def __init__(self, *, tools: tuple[str, ...] = ()) -> None:
        self.cart: list[str] = []
        self.names = [
            *tools,
            "add",
            "cart",
            *QUESTIONS,
            "capabilities",
            "say",
            "grow",
            "shrink",
            "wait",
            "echo",
            "steps",
        ]
        self.bus = InMemorySubscriptionBus()
        self.level: str | None = None
        self.roots_changed = anyio.Event()
        self.waiting = anyio.Event()
        self.cancelled = anyio.Event()
        self.given_up = anyio.Event()
        self.subscribed: list[str] = []
        self.server = _Server(
            "shop",
            version="1.0",
            instructions="Buy things.",
            on_list_tools=self.list_tools,
            on_call_tool=self.call,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.prompt,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read,
            on_completion=self.complete,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        add = self.server.add_request_handler  # these have no deprecation warnings
        add("logging/setLevel", t.SetLevelRequestParams, self.set_level)
        add("resources/subscribe", t.SubscribeRequestParams, self.subscribe)
        add("resources/unsubscribe", t.UnsubscribeRequestParams, self.unsubscribe)
        changed = "notifications/roots/list_changed"
        self.server.add_notification_handler(changed, t.NotificationParams, self.note_roots)

    async def list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name=name, input_schema=OBJECT) for name in self.names])

    async def call(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult | t.InputRequiredResult:
        name, arguments = params.name, params.arguments or {}
        if name in QUESTIONS:
            return await self._question(ctx, name, params)
        if name == "add":
            self.cart.append(arguments["item"])
        elif name == "capabilities":
            able = ctx.session.client_capabilities
            return _text(able.model_dump_json(by_alias=True, exclude_none=True) if able else "{}")
        elif name == "say":
            message = t.LoggingMessageNotificationParams(level="warning", data={"n": 1}, logger="shop")
            await ctx.session.send_notification(t.LoggingMessageNotification(params=message), ctx.request_id)
        elif name in ("grow", "shrink"):
            change = self.names.append if name == "grow" else self.names.remove
            change(arguments["item"])
            await ctx.session.send_tool_list_changed()
            await self.bus.publish(ToolsListChanged())
        elif name == "touch":
            if arguments["item"] in self.subscribed:
                await ctx.session.send_resource_updated(arguments["item"])
            await self.bus.publish(ResourceUpdated(arguments["item"]))
        elif name == "link":
            link = t.ResourceLink(type="resource_link", name="linked", uri=arguments["item"])
            return t.CallToolResult(content=[link])
        elif name == "wait":
            self.waiting.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()
        elif name == "echo":
            return _text(json.dumps({"arguments": arguments, "meta": _foreign(ctx.meta)}))
        elif name == "steps":
            for step in range(3):
                await ctx.session.report_progress(step, 3, f"step {step}")
        return _text(json.dumps(self.cart))

    async def _question(
        self, ctx: Context, name: str, params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            related = ServerMessageMetadata(related_request_id=ctx.request_id)
            given_up = True
            try:
                answer = await ctx.session.send_request(QUESTIONS[name], ANSWERS[name], metadata=related)
                given_up = False
            except MCPError as error:
                given_up = False
                return _text(f"refused: {error.code}")
            finally:
                if given_up:
                    self.given_up.set()
            return _text(answer.model_dump_json(by_alias=True, exclude_none=True))
        if not params.input_responses:
            return t.InputRequiredResult(input_requests={"q": QUESTIONS[name]}, request_state="state")
        answer = params.input_responses["q"]
        return _text(f"{params.request_state} {answer.model_dump_json(by_alias=True, exclude_none=True)}")

    async def list_prompts(self, ctx: Context, params: Any) -> t.ListPromptsResult:
        return t.ListPromptsResult(
            prompts=[t.Prompt(name="greet", arguments=[t.PromptArgument(name="who", required=True)])]
        )

    async def prompt(self, ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        said = t.TextContent(type="text", text=f"Hello {(params.arguments or {}).get('who')}")
        return t.GetPromptResult(description="d", messages=[t.PromptMessage(role="user", content=said)], _meta={"p": 1})

    async def list_resources(self, ctx: Context, params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[t.Resource(name="list", uri="shop://list", mime_type="text/plain")])

    async def list_templates(self, ctx: Context, params: Any) -> t.ListResourceTemplatesResult:
        return t.ListResourceTemplatesResult(
            resource_templates=[t.ResourceTemplate(name="item", uri_template="shop://items/{name}")]
        )

    async def read(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        uri = str(params.uri)
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, text=f"at {uri}", _meta={"r": 1})])

    async def complete(self, ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
        values = [f"{params.ref.type} {params.argument.value}"]
        return t.CompleteResult(completion=t.Completion(values=values, total=1))

    async def set_level(self, ctx: Context, params: t.SetLevelRequestParams) -> t.EmptyResult:
        self.level = params.level
        return t.EmptyResult()

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        self.subscribed.append(str(params.uri))
        await ctx.session.send_resource_updated(params.uri)
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        self.subscribed.remove(str(params.uri))
        return t.EmptyResult()

    async def note_roots(self, ctx: Context, params: Any) -> None:
        self.roots_changed.set()


class _Server(Server[Any]):
    def create_initialization_options(self, notification_options: Any = None, *rest: Any, **more: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(tools_changed=True), *rest, **more)


def _text(value: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=value)])


def _foreign(meta: Any) -> dict[str, Any]:
    return {key: value for key, value in (meta or {}).items() if key.startswith("example.org")}
