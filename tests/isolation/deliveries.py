"""The ways in which callers reach one server: in process, over MCP, and through a gateway.

Only in process can a caller ask for an explanation: no request of MCP is answered with one. Groups are fetched there by
clients that declare the extension for groups, and listed in process.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio.lowlevel
import mcp_types as t
from attrs import asdict, define, field, frozen
from mcp import Client
from mcp.client import ClientExtension, IncomingMessage, advertise
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from tests.adapters.gateway.inprocess import House, config_of, gateway_of
from tests.adapters.mcp.asgi import callers_of
from tests.adapters.mcp.test_disclosure import asked
from toolfold import Context, Session, ToolError, ToolfoldError, ToolSet, View, Visibility, explain
from toolfold_adapters.gateway import GatewayConfig
from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import GROUPS_EXTENSION, HANDLE_META, draft_name
from toolfold_adapters.search import bm25
from toolfold_specs.reference import System

from .relation import Delivery, Enter, Step, Verb

ANYWHERE: frozenset[Verb] = frozenset({"open", "close", "list", "call", "find", "cursor", "leave"})
COMPONENTS: frozenset[Verb] = frozenset({"prompt", "resource"})
FETCHED: frozenset[Verb] = frozenset({"groups"})
INSIDE: frozenset[Verb] = frozenset({"explain"})
FRUIT = ("apples", "pears", "plums", "figs")
KEY = "a key that is as long as it has to be"
Log = t.LoggingMessageNotification


def tool_set(system: System) -> ToolSet:
    """Return the tools of a system, in which all is that a caller might learn something from."""
    tools = ToolSet(
        "shared",
        control="open_group",
        on_hidden="hint",
        max_active=3,
        search=bm25,
        run_in_thread=False,
    )
    for number, path in enumerate(system.paths()):
        tools.register_group(path, f"The store of {FRUIT[number]}")
        description = f"Count the {FRUIT[number]} in the store."
        tools.register("tool", lambda: "counted", group=path, description=description)
        tools.register_prompt("ask", lambda: "Ask.", group=path, description=description)
        tools.register_resource(f"desk://{path}", lambda: "text", group=path, name=path)
    for members in system.exclusions:
        tools.register_exclusion(*(system.paths()[member] for member in sorted(members)))
    for handler in (echo, refuse, crash, ready, tell):
        tools.register(handler.__name__, handler, description=handler.__doc__ or "")
    tools.register("late", lambda: "late", description="Come late.", visibility=Visibility.when(is_ready))
    return tools


def echo() -> str:
    """Echo."""
    return "echo"


def refuse() -> str:
    """Refuse."""
    raise ToolError("refused on purpose")


def crash() -> str:
    """Crash."""
    raise RuntimeError("secret")


def ready(context: Context) -> str:
    """Set the fact that opens what is late."""
    context.set_fact("ready", not context.facts.get("ready"))
    return "set"


async def tell(context: Context) -> str:
    """Have a message logged to the caller's client, if it has one."""
    if context.request is not None:
        params = t.LoggingMessageNotificationParams(level="warning", data="told")
        await context.request.session.send_notification(Log(params=params), context.request.request_id)
    return "told"


def is_ready(view: View) -> bool:
    """Return whether the fact is set."""
    return bool(view.facts.get("ready"))


@define(eq=False)
class InProcess:
    """A caller in this process, with a session."""

    session: Session
    kinds: list[list[str]] = field(factory=list[list[str]])

    async def do(self, step: Step) -> Any:
        """Return the answer to a request, or the error that it raises."""
        try:
            return await self._answer(step)
        except ToolfoldError as error:
            return {"error": type(error).__name__, "text": str(error)}

    async def _answer(self, step: Step) -> Any:
        session, about = self.session, step.about
        match step.verb:
            case "open":
                return (await session.call("open_group", {"group": about})).content
            case "close":
                return await session.deactivate(about)
            case "list":
                pages = [session.list(kind) for kind in ("tool", "prompt", "resource")]
                return [[one.definition for one in page.items] for page in pages]
            case "groups":
                return [str(info) for info in session.list_groups()]
            case "call":
                return asdict(await session.call(about), filter=lambda member, _: member.name != "about")
            case "find":
                return (await session.call("find_tools", {"query": about})).content
            case "explain":
                return asdict(explain(session.view(), about))
            case "prompt":
                return await session.get_prompt(about)
            case "resource":
                return await session.read(about)
            case _:
                return session.list_tools(about)

    def notices(self) -> Any:
        """Return the kinds of the lists that changed."""
        found, self.kinds = self.kinds, []
        return found


class Core:
    """The core alone, in process."""

    name = "in process"
    verbs = ANYWHERE | COMPONENTS | FETCHED | INSIDE

    @asynccontextmanager
    async def serve(self, system: System) -> AsyncGenerator[Enter]:
        """Serve a system by a tool set, each caller in a session."""
        tools = tool_set(system)

        @asynccontextmanager
        async def enter(name: str) -> AsyncGenerator[InProcess]:
            async with tools.open_session() as session:
                party = InProcess(session)
                session.on_list_changed(lambda kinds: party.kinds.append(sorted(kinds)))
                yield party

        yield enter


@define(eq=False)
class OverMcp:
    """A caller over MCP, which carries the last handle that it was given."""

    client: Client
    received: list[Any]
    paths: tuple[str, ...]
    separator: str
    """What is between a group's path and the name of a tool or prompt in it."""
    handle: str | None = None

    async def do(self, step: Step) -> Any:
        """Return the answers to a request, or the error of the protocol, without handles: each is another one."""
        answers: list[Any] = []
        try:
            async for answer in self._answers(step):
                answers.append(answer.model_dump(mode="json", by_alias=True))
        except MCPError as error:
            answers.append({"error": error.code, "text": str(error), "data": error.data})
        await anyio.lowlevel.checkpoint()  # so that notices from before the answer are there
        text = json.dumps(answers)
        for answer in answers:
            if (handle := (answer.get("_meta") or {}).get(HANDLE_META)) is not None:
                self.handle = handle or None
        return text if self.handle is None else text.replace(self.handle, "HANDLE")

    async def _answers(self, step: Step) -> AsyncGenerator[Any]:
        client, about, called = self.client, step.about, step.about.replace(".", self.separator)
        handle = {} if self.handle is None else {"handle": self.handle}
        meta: t.RequestParamsMeta = {HANDLE_META: self.handle or ""}  # type: ignore[misc]
        match step.verb:
            case "open" | "close":
                yield await client.call_tool(f"{step.verb}_group", {"group": about, **handle})
            case "list":
                for listing in (client.list_tools, client.list_prompts, client.list_resources):
                    yield await listing(cache_mode="bypass", meta=meta if handle else None)
            case "groups":
                yield await asked(client, "groups/list")
                for path in self.paths:
                    yield await asked(client, "groups/get", name=draft_name(path))
            case "call" if handle:
                yield await client.call_tool("call_tool", {"name": called, "arguments": {}, **handle})
            case "call":
                yield await client.call_tool(called, {})
            case "find":
                yield await client.call_tool("find_tools", {"query": about, **handle})
            case "prompt":
                yield await client.get_prompt(called, meta=meta if handle else None)
            case "resource":
                yield await client.read_resource(about, meta=meta if handle else None)
            case _:
                yield await client.list_tools(cursor=about, cache_mode="bypass")

    def notices(self) -> Any:
        """Return the notifications that came, as data."""
        found = self.received[:]
        self.received.clear()
        return found


@asynccontextmanager
async def client_of(
    target: Any, mode: str, system: System, extensions: Sequence[ClientExtension] = (), separator: str = "."
) -> AsyncGenerator[OverMcp]:
    """Yield a caller that a client stands for, which declares some extensions."""
    received: list[Any] = []

    async def note(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            raise message
        received.append(message.model_dump(mode="json", by_alias=True, exclude={"params": {"meta"}}))

    async with Client(target, mode=mode, message_handler=note, extensions=extensions) as client:
        yield OverMcp(client, received, system.paths(), separator)


@frozen
class Mcp:
    """A server of a tool set over MCP, in one era; its clients may declare the extension for groups."""

    era: Literal["legacy", "modern"]
    groups: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.era} MCP{' with groups' if self.groups else ''}"

    @property
    def verbs(self) -> frozenset[Verb]:
        """What a caller can do there."""
        return ANYWHERE | COMPONENTS | (FETCHED if self.groups else frozenset())

    @property
    def mode(self) -> str:
        """The mode of its clients."""
        return "legacy" if self.era == "legacy" else "2026-07-28"

    @asynccontextmanager
    async def serve(self, system: System) -> AsyncGenerator[Enter]:
        """Serve a system, each caller by a connection of its own."""
        server = build_server(tool_set(system), separator=".", handle_key=KEY)
        declared = [advertise(GROUPS_EXTENSION, {})] if self.groups else []
        yield lambda name: client_of(server, self.mode, system, declared)


class Principals:
    """A server over HTTP that has a session for each principal."""

    name = "principals over MCP"
    verbs = ANYWHERE | COMPONENTS

    @asynccontextmanager
    async def serve(self, system: System) -> AsyncGenerator[Enter]:
        """Serve a system, each caller by a token of its own."""
        server = build_server(tool_set(system), separator=".", delivery="principal")
        async with callers_of(server) as target:
            yield lambda name: client_of(target(name), "2026-07-28", system)


def wire_name(name: str) -> str:
    """Return what a tool or prompt is called behind a gateway, whose names have no dots."""
    return name.replace(".", "_")


class Upstream:
    """A server without groups, which a gateway puts the system's groups in front of."""

    def __init__(self, system: System) -> None:
        self.tools = [wire_name(f"{path}.tool") for path in system.paths()]
        self.prompts = [wire_name(f"{path}.ask") for path in system.paths()]
        self.resources = [f"desk://{path}" for path in system.paths()]
        self.server: Server[Any] = Server(
            "store",
            version="1",
            on_list_tools=self.list,
            on_call_tool=self.call,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_list_resources=self.list_resources,
            on_read_resource=self.read,
        )
        self.server.add_request_handler("logging/setLevel", t.SetLevelRequestParams, self.set_level)

    async def list(self, ctx: Any, params: Any) -> t.ListToolsResult:
        """Answer tools/list."""
        described = {name: f"Count the {FRUIT[number]} in the store." for number, name in enumerate(self.tools)}
        for handler in (echo, refuse, crash, tell):
            described[handler.__name__] = handler.__doc__ or ""
        tools = [
            t.Tool(name=name, description=text, input_schema={"type": "object"}) for name, text in described.items()
        ]
        return t.ListToolsResult(tools=tools)

    async def call(self, ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
        """Answer tools/call."""
        if params.name == "crash":
            raise MCPError(t.INTERNAL_ERROR, "it crashed")
        if params.name == "tell":
            said = t.LoggingMessageNotificationParams(level="warning", data="told")
            await ctx.session.send_notification(Log(params=said), ctx.request_id)
        return t.CallToolResult(content=[t.TextContent(text=params.name)], is_error=params.name == "refuse")

    async def list_prompts(self, ctx: Any, params: Any) -> t.ListPromptsResult:
        """Answer prompts/list."""
        return t.ListPromptsResult(prompts=[t.Prompt(name=name) for name in self.prompts])

    async def get_prompt(self, ctx: Any, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        """Answer prompts/get."""
        said = t.TextContent(text=f"Ask {params.name}.")
        return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=said)])

    async def list_resources(self, ctx: Any, params: Any) -> t.ListResourcesResult:
        """Answer resources/list."""
        return t.ListResourcesResult(resources=[t.Resource(name=uri, uri=uri) for uri in self.resources])

    async def read(self, ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        """Answer resources/read."""
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text=f"text of {params.uri}")])

    async def set_level(self, ctx: Any, params: Any) -> t.EmptyResult:
        """Answer logging/setLevel."""
        return t.EmptyResult()


@frozen
class Gateways:
    """A gateway in front of one server, in one era."""

    era: Literal["legacy", "modern"]
    verbs: frozenset[Verb] = ANYWHERE | COMPONENTS

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.era} gateway"

    @asynccontextmanager
    async def serve(self, system: System) -> AsyncGenerator[Enter]:
        """Serve a system, each caller by a connection of its own."""
        paths = system.paths()
        settings = {
            "groups": {path: {"tools": [wire_name(f"{path}.tool")]} for path in paths},
            "exclusions": [[paths[member] for member in sorted(members)] for members in system.exclusions],
            "options": {"max_active": 3, "search": "bm25"},
        }
        one = config_of("store")
        config = GatewayConfig.model_validate({**one.model_dump(exclude_unset=True), **settings})
        gateway = gateway_of(House(lambda name: Upstream(system)), config)
        async with gateway as tools:
            server = build_server(tools, handle_key=KEY, extend=gateway.extend)
            mode = "legacy" if self.era == "legacy" else "2026-07-28"
            yield lambda name: client_of(server, mode, system, separator="_")


DELIVERIES: tuple[Delivery, ...] = (
    Core(),
    Mcp("legacy"),
    Mcp("modern"),
    Mcp("modern", groups=True),
    Principals(),
    Gateways("legacy"),
    Gateways("modern"),
)
