"""The naive engine as an MCP server with the driver protocol over MCP (`toolfold_specs.drivers.protocol`).

A legacy connection is one session. A modern request carries a handle, which names a state that was reached before; what
it changes has a handle of its own, and the state without a handle is the empty one, always. Each way in which a server
may be wrong is a method of its own, as in the engine.
"""
# ruff: noqa: D102 - a method without a docstring does what the clause beside it says

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from secrets import token_hex
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolfold_specs.driver import Setup
from toolfold_specs.drivers.protocol import CHANGE_META, CLAIMED, ERROR_META, HANDLE, HANDLE_META, TOOL

from .driver import Tasks, release
from .engine import Cancelled, Engine, Refused, Session, Work

Json = dict[str, Any]

CALL_TOOL = "call_tool"
GROUPS = "io.modelcontextprotocol/groups"
GROUPS_FILTER = "groupsListChanged"
GROUP_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
HINTS = types.ToolAnnotations(idempotent_hint=True, destructive_hint=False, open_world_hint=False)


class GroupParams(types.RequestParams):
    """The parameters of groups/get."""

    name: str


class Fixture:
    """A server of the engine, or of a mutant of it."""

    def __init__(self, engine: type[Engine] = Engine) -> None:
        self.make = engine
        self.install(engine(Setup()))
        self.connections = count(1)
        self.groups_changed = anyio.Event()

    def install(self, engine: Engine) -> None:
        """Replace what is served; nothing of what was there has a handle any more."""
        self.engine, self.tasks = engine, Tasks()
        self.states: dict[str, Mapping[str, Any]] = {}

    def server(self) -> Server[str]:
        """Return the server; it may have any number of connections."""
        server: Server[str] = Server(
            "naive",
            version="1",
            lifespan=self.connected,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=self.listen,
        )
        server.extensions[GROUPS] = {"listChanged": True}
        server.add_request_handler("groups/list", types.PaginatedRequestParams, self.list_groups)
        server.add_request_handler("groups/get", GroupParams, self.get_group)
        options = server.create_initialization_options(self.capabilities())
        server.create_initialization_options = lambda *_, **__: options  # type: ignore[method-assign]
        return server

    @asynccontextmanager
    async def connected(self, _: Any) -> AsyncGenerator[str]:
        """Yield the name of a connection's session."""
        yield f"connection {next(self.connections)}"

    # -- sessions -----------------------------------------------------------------------------------------------------

    def session(self, ctx: Any, arguments: Mapping[str, Any] | None = None) -> Session:
        """Return the session that a request is for; its handle may be among the arguments."""
        if not is_modern(ctx):
            return self.engine.session(ctx.lifespan_context)
        session = Session("")
        session.active = self.engine.canonical(self.engine.setup.pinned)  # FND-4
        if (handle := (arguments or {}).get(HANDLE, handle_in(ctx))) is not None:
            self.open(session, handle)
        return session

    def open(self, session: Session, handle: str) -> None:  # DEL-3
        if handle not in self.states:
            raise Refused("HandleInvalid", remedy="activate again")
        self.engine.load(session, self.states[handle])

    def handle_of(self, session: Session) -> str | None:  # DEL-2, DEL-3
        handle = token_hex(16)
        self.states[handle] = self.engine.dump(session)
        return handle

    # -- requests -----------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Answer tools/list."""
        try:
            names, cursor = self.engine.page(self.listed_session(ctx), params.cursor if params else None)
        except Refused as refused:
            raise MCPError(types.INVALID_PARAMS, str(refused)) from None
        own = [] if self.engine.setup.page_size else [CALL_TOOL, TOOL]
        shown = [name for name in names if not self.is_disclosed(ctx, name)]
        scope: Literal["private", "public"] = "private" if handle_in(ctx) else "public"
        tools = [self.definition(name) for name in own + shown]
        return types.ListToolsResult(tools=tools, next_cursor=cursor, ttl_ms=0, cache_scope=scope)

    def listed_session(self, ctx: Any) -> Session:  # DEL-7
        return self.session(ctx)

    def is_disclosed(self, ctx: Any, name: str) -> bool:
        """DEL-5: whether a tool is left to groups/get, for a client that asks there."""
        return name in self.engine.tools and "." in name and declares(ctx)

    def definition(self, name: str) -> types.Tool:  # CTL-6
        tool = self.engine.tools.get(name)
        if self.engine.control(name) is None:
            return types.Tool(name=name, input_schema={"type": "object", **((tool and tool.input_schema) or {})})
        schema = {"type": "object", "properties": {HANDLE: {"type": "string"}}, "additionalProperties": False}
        return types.Tool(name=name, description="Opens or closes a group.", input_schema=schema, annotations=HINTS)

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Answer tools/call: of the tool for the kit, or of any other."""
        arguments = params.arguments or {}
        if params.name == TOOL:
            own = getattr(self, arguments["verb"])
            response: types.CallToolResult = own(ctx, self.session(ctx), **arguments.get("arguments", {}))
            if arguments.get("arguments", {}).get("wait"):
                await self.wait(self.session(ctx))
            await self.notify(ctx, self.session(ctx))
            return response
        return await self.call(ctx, params.name, arguments)

    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool of the user, a control tool, or the one that calls others."""
        try:
            if name == CALL_TOOL:
                return self.answer(ctx, self.session(ctx, arguments), arguments["name"], arguments["arguments"])
            control = self.engine.control(name)
            if control is None:
                return self.answer(ctx, self.session(ctx), name, arguments)
            try:
                return await self.change(ctx, self.session(ctx, arguments), *control)
            except Refused as refused:
                return self.change_refused(refused)
        except Refused as refused:
            if refused.error == "ToolNotFound" and name != CALL_TOOL:
                return self.unknown_tool(refused)
            return self.refusal(refused)

    def answer(self, ctx: Any, session: Session, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool of the user (SPEC DEL-2, DEL-5, DEL-8)."""
        if self.is_disclosed(ctx, name):
            session.active = [*self.engine.groups]
        text, is_error = self.engine.call(session, name, arguments)
        return result(text, is_error=is_error)

    async def change(self, ctx: Any, session: Session, verb: str, path: str) -> types.CallToolResult:
        """Make the transition that a control tool asks for, and report the change (SPEC CTL-4)."""
        before, listed = set(session.active), self.engine.names(session)
        changed = await self.done(getattr(self.engine, verb)(session, path))
        await self.notify(ctx, session)
        new = [name for name in self.engine.names(session) if name not in listed]
        change = {
            "group": path,
            "changed": changed,
            "active": self.engine.canonical(session.active),
            "displaced": self.engine.canonical(before - set(session.active) - {path}),
            "tools": new,
        }
        handle = self.handle_of(session) if is_modern(ctx) else None
        return self.changed(change, [self.definition(name) for name in new], handle)

    def changed(self, change: Json, definitions: list[types.Tool], handle: str | None) -> types.CallToolResult:  # CTL-4
        lines = [f"{tool.name} {json.dumps(tool.input_schema)}" for tool in definitions]
        said = f"{change['group']} is {'changed' if change['changed'] else 'as it was'}."
        meta = {CHANGE_META: change, **({HANDLE_META: handle} if handle else {})}
        return result("\n".join([said, *lines]), _meta=meta)

    async def done(self, work: Work[bool]) -> bool:
        """Return the result of some work; if the request is cancelled, only once the work has ended."""
        ended, refusals = anyio.Event(), list[Refused]()
        task = self.tasks.start(_caught(work, refusals), ended.set)
        try:
            await ended.wait()
        finally:
            self.tasks.cancel(task)
            with anyio.CancelScope(shield=True):
                await ended.wait()
        if refusals:
            raise refusals[0]
        return bool(task.result)

    async def notify(self, ctx: Any, session: Session) -> None:  # DEL-1
        due, session.notifications = session.notifications, 0
        for _ in range(due if not is_modern(ctx) else 0):
            await ctx.session.send_notification(types.ToolListChangedNotification(), related_request_id=ctx.request_id)

    def refusal(self, refused: Refused) -> types.CallToolResult:  # CTL-5
        meta = {ERROR_META: {"error": refused.error, **refused.detail}}
        return result(str(refused), is_error=True, _meta=meta)

    def change_refused(self, refused: Refused) -> types.CallToolResult:  # CTL-5
        return self.refusal(refused)

    def unknown_tool(self, refused: Refused) -> types.CallToolResult:  # CALL-1, DEL-9
        raise MCPError(types.INVALID_PARAMS, str(refused))

    def capabilities(self) -> NotificationOptions:  # NTF-4
        return NotificationOptions(tools_changed=True)

    # -- the draft extension (SPEC DEL-5) -----------------------------------------------------------------------------

    async def list_groups(self, ctx: Any, params: types.PaginatedRequestParams) -> Json:
        """Answer groups/list."""
        found = [self.entry(path) for path in self.at_root()]
        rest, size = self.after(found, params.cursor), self.engine.setup.page_size
        more = {"nextCursor": self.cursor(found, rest[size - 1])} if size and len(rest) > size else {}
        return {"groups": rest[:size], "ttlMs": 0, "cacheScope": "public", **more}

    def at_root(self) -> list[str]:
        return sorted((path for path in self.engine.groups if "." not in path), key=self.order)

    def order(self, path: str) -> str:
        return group_name(path)

    def after(self, groups: list[Json], cursor: str | None) -> list[Json]:
        return [group for group in groups if cursor is None or group["name"] > cursor]

    def cursor(self, groups: list[Json], last: Json) -> str:
        return str(last["name"])

    def entry(self, path: str) -> Json:
        (group,) = (group for group in self.engine.setup.groups if group.path == path)
        return {"name": group_name(path), "description": group.description}

    async def get_group(self, ctx: Any, params: GroupParams) -> Json:
        """Answer groups/get."""
        path = next((path for path in self.engine.groups if group_name(path) == params.name), None)
        if path is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no group {params.name}.")
        return {"contents": self.contents(path)}

    def contents(self, path: str) -> Json:
        inner = [self.entry(other) for other in self.engine.groups if other.rpartition(".")[0] == path]
        names = [name for name, tool in self.engine.tools.items() if tool.group == path]
        tools = [self.definition(name).model_dump(mode="json", by_alias=True) for name in names]
        return {"tools": tools, **({"groups": inner} if inner else {})}

    async def listen(self, ctx: Any, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
        """Answer subscriptions/listen, of which only changes of the groups are there to hear."""
        asked = (params.notifications.model_extra or {}).get(GROUPS_FILTER) is True
        honored = types.SubscriptionFilter.model_validate({GROUPS_FILTER: True} if asked else {})
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        said = types.SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
        await ctx.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(params=said), related_request_id=ctx.request_id
        )
        while asked:
            await self.groups_changed.wait()
            await ctx.session.send_notification(
                types.Notification[types.NotificationParams, str](
                    method="notifications/groups/list_changed", params=types.NotificationParams(_meta=meta)
                ),
                related_request_id=ctx.request_id,
            )
        return types.SubscriptionsListenResult(_meta=meta)

    def announce(self) -> None:
        changed, self.groups_changed = self.groups_changed, anyio.Event()
        changed.set()

    # -- the verbs of the driver protocol ------------------------------------------------------------------------------

    def hello(self, ctx: Any, session: Session, protocol: int) -> types.CallToolResult:
        """Say what it can do."""
        return result("ok", {"protocol": protocol, "capabilities": sorted(CLAIMED), "call_tool": CALL_TOOL})

    def configure(self, ctx: Any, session: Session, setup: Json) -> types.CallToolResult:
        """Replace the system, and let go of whatever waits in the one that was there."""
        try:
            engine = self.make(Setup.from_json(setup))
        except Refused as refused:
            return result(str(refused), {"error": refused.error})
        for blocked in self.engine.blocked:
            blocked.released = True
        self.engine.scripts.clear()
        self.tasks.settle()
        self.install(engine)
        self.announce()
        return result("ok", {})

    async def wait(self, session: Session) -> None:  # NTF-3
        await anyio.sleep_forever()

    def set_fact(self, ctx: Any, session: Session, fact: str, value: bool, wait: bool = False) -> types.CallToolResult:
        """Set a fact."""
        self.engine.set_fact(session, fact, value)
        handle = self.handle_of(session) if is_modern(ctx) else None
        return result("ok", {}, _meta={HANDLE_META: handle} if handle else None)

    def observe(self, ctx: Any, session: Session, settled: bool = False) -> types.CallToolResult:
        """Report hooks, and what is under way; nothing that could go on is ever left waiting."""
        blocked, begun = [blocked.hook for blocked in self.engine.blocked], self.engine.begun.pop(session.name, [])
        active, under_way = self.engine.canonical(session.active), len(self.tasks.tasks)
        return result("ok", {"hooks": begun, "active": active, "blocked": blocked, "under_way": under_way})

    def expire(self, ctx: Any, session: Session) -> types.CallToolResult:
        """Let all handles expire."""
        self.states.clear()
        return result("ok", {})

    def script(self, ctx: Any, session: Session, group: str, phase: Any, outcome: str) -> types.CallToolResult:
        """Configure a hook."""
        self.engine.scripts[phase, group] = outcome
        return result("ok", {})

    def release(self, ctx: Any, session: Session, group: str, phase: str, fail: bool) -> types.CallToolResult:
        """Let a blocked hook end."""
        there = release(self.engine, group, phase, fail)
        self.tasks.settle()
        return result("ok" if there else "It is not blocked.", {}, is_error=not there)


def group_name(path: str) -> str:
    """Return the name of a group, of the characters that names may have."""
    return path if GROUP_NAME.fullmatch(path) else f"x{path.encode().hex()}"


def is_modern(ctx: Any) -> bool:
    """Return whether a request is of the era without sessions."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def handle_in(ctx: Any) -> str | None:
    """Return the handle that a request carries in its `_meta` (SPEC DEL-11)."""
    meta: Mapping[str, Any] = ctx.meta or {}
    handle: str | None = meta.get(HANDLE_META)
    return handle


def declares(ctx: Any) -> bool:
    """Return whether a request declares the extension for groups."""
    capability = types.ClientCapabilities(extensions={GROUPS: {}})
    return is_modern(ctx) and bool(ctx.session.check_client_capability(capability))


def result(text: str, structured: Json | None = None, **more: Any) -> types.CallToolResult:
    """Return a result of one text."""
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured, **more)


def _caught(work: Work[bool], refusals: list[Refused]) -> Work[bool]:
    """Do some work that may be refused or cancelled."""
    try:
        return (yield from work)
    except Refused as refused:
        refusals.append(refused)
    except Cancelled:
        pass
    return False
