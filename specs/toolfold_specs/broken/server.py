"""The naive engine as an MCP server over stdio, whole or broken, made for the kit (see `drivers.fixture`).

    python -m toolfold_specs.broken.server
    python -m toolfold_specs.broken.server partner-only

A legacy connection is one session. A modern request carries a handle, which names a state that was reached before; what
it changes has a handle of its own, and the state without a handle is the empty one, always.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from types import MappingProxyType
from typing import Any

import anyio
import mcp_types as types
from anyio.lowlevel import checkpoint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..driver import MAIN, Setup
from .engine import Engine
from .hooks import Hooks
from .rules import Refused, Session

KitTool = Callable[[Any, Mapping[str, Any]], Awaitable[types.CallToolResult]]

CHANGE = "dev.toolfold/change"
HANDLE = "dev.toolfold/handle"
ERROR = "dev.toolfold/error"
CALL_TOOL = "call_tool"
NOTHING: Mapping[str, Any] = MappingProxyType({})
ANYTHING: dict[str, Any] = {"type": "object"}
QUIET = 50
"""After how many turns of the loop without an event nothing is taken to go on any more."""


class Fixture:
    """What is served. Each way in which it may be wrong is a method of its own, as in the engine."""

    def __init__(self, engine: type[Engine] = Engine) -> None:
        self.make = engine
        self.hooks = Hooks()
        self.engine = engine(Setup(), self.hooks.run)
        self.states: dict[str, Mapping[str, Any]] = {}
        """What the handles name."""
        self.under_way = 0

    # -- sessions -----------------------------------------------------------------------------------------------------

    def session(self, ctx: Any, arguments: Mapping[str, Any] = NOTHING) -> Session:
        """The session that a request is for; its handle may be among the arguments."""
        if not self.is_modern(ctx):
            return self.engine.session(MAIN)
        session = Session(MAIN)
        if (handle := self.handle_in(ctx, arguments)) is not None:
            self.open(session, handle)
        return session

    def handle_in(self, ctx: Any, arguments: Mapping[str, Any] = NOTHING) -> str | None:
        """The handle that a request carries (SPEC DEL-2, DEL-11)."""
        meta: Mapping[str, Any] = ctx.meta or NOTHING
        handle: str | None = arguments.get("handle", meta.get(HANDLE))
        return handle

    def is_modern(self, ctx: Any) -> bool:
        """Whether a request is of the era without sessions."""
        return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    def open(self, session: Session, handle: str) -> None:
        """Bring a session into the state that a handle names (SPEC DEL-3)."""
        if handle not in self.states:
            raise Refused("HandleInvalid", remedy="activate again")
        self.engine.load(session, self.states[handle])

    def handle_of(self, session: Session) -> str:
        """A handle for the state of a session."""
        handle = token_hex(16)
        self.states[handle] = self.engine.dump(session)
        return handle

    # -- requests -----------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Answer tools/list."""
        try:
            names, cursor = self.engine.page(self.listing_session(ctx), params.cursor if params else None)
        except Refused as refused:
            raise MCPError(types.INVALID_PARAMS, refused.text) from None
        own = [] if self.engine.setup.page_size else ["conformance_configure"]
        own += [CALL_TOOL] if self.is_modern(ctx) else []
        return types.ListToolsResult(
            tools=[self.definition(name) for name in [*own, *names]],
            next_cursor=cursor,
            ttl_ms=0,
            cache_scope="private" if self.handle_in(ctx) else "public",
        )

    def listing_session(self, ctx: Any) -> Session:
        """The session whose list is asked for (SPEC DEL-7)."""
        return self.session(ctx)

    def definition(self, name: str) -> types.Tool:
        """The definition of a tool (SPEC CTL-6)."""
        tool = self.engine.tools.get(name)
        if tool is not None:
            return types.Tool(name=name, input_schema=dict(tool.input_schema) if tool.input_schema else ANYTHING)
        if self.engine.control(name) is None:
            return types.Tool(name=name, description="Calls another tool, or is for the kit.", input_schema=ANYTHING)
        schema = {"type": "object", "properties": {"handle": {"type": "string"}}, "additionalProperties": False}
        hints = types.ToolAnnotations(idempotent_hint=True, destructive_hint=False, open_world_hint=False)
        return types.Tool(name=name, description="Opens or closes a group.", input_schema=schema, annotations=hints)

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Answer tools/call: of the kit's own tools, or of any other."""
        arguments = params.arguments or {}
        if params.name.startswith("conformance_"):
            own: KitTool = getattr(self, params.name.removeprefix("conformance_"))
            return await own(ctx, arguments)
        self.under_way += 1
        try:
            return await self.call(ctx, params.name, arguments)
        finally:
            self.under_way -= 1

    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool of the user, a control tool, or the one that calls others."""
        try:
            if name == CALL_TOOL and self.is_modern(ctx):
                return self.through(ctx, arguments)
            control = self.engine.control(name)
            if control is None:
                text, is_error = self.engine.call(self.session(ctx), name, arguments)
                return self.result(text, is_error=is_error)
            return await self.step(ctx, self.session(ctx, arguments), *control)
        except Refused as refused:
            if refused.error == "ToolNotFound" and name != CALL_TOOL:
                raise self.unknown_tool(refused) from None
            return self.refusal(refused)

    def through(self, ctx: Any, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool of the user under a handle (SPEC DEL-2)."""
        text, is_error = self.engine.call(self.session(ctx, arguments), arguments["name"], arguments["arguments"])
        return self.result(text, is_error=is_error)

    async def step(self, ctx: Any, session: Session, verb: str, path: str) -> types.CallToolResult:
        """Take a step that a control tool asks for, and tell what came of it (SPEC CTL-4)."""
        before, listed = set(session.active), self.engine.names(session)
        if verb == "activate":
            changed = await self.engine.activate(session, path)
        else:
            changed = await self.engine.deactivate(session, path)
        await self.notify(ctx, session)
        new = [name for name in self.engine.names(session) if name not in listed]
        told = {
            "group": path,
            "changed": changed,
            "active": self.engine.canonical(session.active),
            "displaced": self.engine.canonical(before - set(session.active) - {path}),
            "tools": new,
        }
        lines = [f"{name} {json.dumps(self.definition(name).input_schema)}" for name in new]
        text = "\n".join([f"{path} is {'changed' if changed else 'as it was'}.", *lines])
        return self.result(text, change=told, handle=self.new_handle(ctx, session))

    def new_handle(self, ctx: Any, session: Session) -> str | None:
        """The handle that a modern result carries."""
        return self.handle_of(session) if self.is_modern(ctx) else None

    async def notify(self, ctx: Any, session: Session) -> None:
        """Send the notices that are due, on the stream of the request (SPEC DEL-1)."""
        due, session.notices = session.notices, 0
        for _ in range(due if not self.is_modern(ctx) else 0):
            await ctx.session.send_notification(types.ToolListChangedNotification(), related_request_id=ctx.request_id)

    # -- answers ------------------------------------------------------------------------------------------------------

    def result(
        self,
        text: str,
        structured: dict[str, Any] | None = None,
        *,
        change: dict[str, Any] | None = None,
        is_error: bool = False,
        handle: str | None = None,
    ) -> types.CallToolResult:
        """A result of one text."""
        told = {name: value for name, value in ((CHANGE, change), (HANDLE, handle)) if value is not None}
        return types.CallToolResult(
            content=[types.TextContent(text=text)],
            structured_content=structured,
            is_error=is_error,
            _meta=told or None,
        )

    def refusal(self, refused: Refused) -> types.CallToolResult:
        """What the model is told of a refusal (SPEC CTL-5)."""
        told = {ERROR: {"error": refused.error, **refused.detail}}
        return types.CallToolResult(content=[types.TextContent(text=refused.text)], is_error=True, _meta=told)

    def unknown_tool(self, refused: Refused) -> MCPError:
        """The error for a tool that can't be called (SPEC CALL-1, DEL-9)."""
        return MCPError(types.INVALID_PARAMS, refused.text)

    def capabilities(self) -> NotificationOptions:
        """What is advertised (SPEC NTF-4)."""
        return NotificationOptions(tools_changed=True)

    # -- the tools for the kit ----------------------------------------------------------------------------------------

    async def configure(self, ctx: Any, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Replace the system."""
        hooks = Hooks()
        try:
            engine = self.make(Setup.from_json(arguments["setup"]), hooks.run)
        except Refused as refused:
            return self.result(refused.text, {"error": refused.error})
        self.hooks.release_all()
        self.hooks, self.engine = hooks, engine
        self.states.clear()
        named = {"call_tool": CALL_TOOL} if self.is_modern(ctx) else {}
        return self.result("ok", {"ok": True, "capabilities": list(CAPABLE), **named})

    async def fact(self, ctx: Any, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Set a fact."""
        session = self.session(ctx)
        self.engine.set_fact(session, arguments["fact"], arguments["value"])
        await self.notify(ctx, session)
        return self.result("ok", {}, handle=self.new_handle(ctx, session))

    async def observe(self, ctx: Any, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Tell of hooks, and of what is under way."""
        quiet = 0 if arguments.get("settled") else QUIET
        while quiet < QUIET:
            before = self.events()
            await checkpoint()
            quiet = quiet + 1 if self.events() == before else 0
        parked = [[parked.phase, parked.group] for parked in self.hooks.waiting]
        begun = [list(hook) for hook in self.hooks.take_begun(MAIN)]
        active = self.engine.canonical(self.session(ctx).active)
        told = {"hooks": begun, "active": active, "parked": parked, "under_way": self.under_way}
        return self.result("ok", told)

    def events(self) -> tuple[int, ...]:
        """What changes when something happens."""
        return self.under_way, len(self.hooks.waiting), sum(map(len, self.hooks.begun.values()))

    async def script(self, ctx: Any, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Tell a hook what to do."""
        self.hooks.scripts[arguments["group"], arguments["phase"]] = arguments["outcome"]
        return self.result("ok", {})

    async def release(self, ctx: Any, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Let a parked hook end."""
        there = self.hooks.release(arguments["group"], arguments["phase"], arguments.get("fail", False))
        return self.result("ok" if there else "It is not parked.", {}, is_error=not there)


CAPABLE = (
    "errors",
    "registration",
    "calls",
    "paging",
    "facts",
    "limits",
    "hooks",
    "failing hooks",
    "asking hooks",
    "parked hooks",
    "concurrency",
    "cancellation",
)
"""What is claimed to the kit; the rest follows from the protocol."""


async def serve(fixture: Fixture) -> None:
    """Serve one client over stdio."""
    server: Server[Any] = Server("naive", version="1", on_list_tools=fixture.list_tools, on_call_tool=fixture.call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(fixture.capabilities()))


def main() -> None:
    """Serve the unbroken engine, or the variant or wire fault that is named."""
    from .variants import BY_NAME
    from .wires import WIRES_BY_NAME

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in WIRES_BY_NAME:
        anyio.run(serve, WIRES_BY_NAME[name]())
    elif name in BY_NAME:
        anyio.run(serve, Fixture(BY_NAME[name].engine))
    elif name:
        sys.exit(f"there is no variant {name!r}; there are: {', '.join([*BY_NAME, *WIRES_BY_NAME])}")
    else:
        anyio.run(serve, Fixture())


if __name__ == "__main__":
    main()
