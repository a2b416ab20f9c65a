"""The servers behind a gateway: what they offer changes, and they are slow, end, and do not start for a while."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import mcp_types as t
from attrs import define, field, frozen
from mcp import MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.simulation.loop import Loop
from tests.simulation.plan import ALWAYS, SOMETIMES
from toolfold_adapters.gateway import UpstreamConfig

Context = ServerRequestContext[Any, Any]
Offer = frozenset[tuple[str, int]]
"""Tools, each with the number of its definition."""

SCHEMA = {"type": "object", "properties": {"token": {"type": "string"}}}


@frozen
class Ran:
    """A call that a server has begun: what of whom, and the definition that the tool had, since when."""

    token: str
    tool: str
    definition: int
    since: float
    when: float


@define(eq=False)
class Supplier:
    """A server, which may run several times at once.

    Attributes:
        name: What it is called.
        loop: The time.
        random: What is drawn.
        delay: Seconds that a message takes at most.
        offered: What it offers: the number of the definition of each tool.
        since: When each definition became what it is, or the tool was withdrawn.
        lags: Until when its answers take a while, and how long.
        absent: Until when it does not start.
        troubles: When it was slow, ended, or did not start.
        ran: The calls that it has begun.
        first: What it listed first.
    """

    name: str
    loop: Loop
    random: Random
    delay: float
    offered: dict[str, int] = field(factory=lambda: dict.fromkeys((*ALWAYS, *SOMETIMES[:2]), 0))
    since: dict[str, float] = field(factory=dict[str, float])
    lags: tuple[float, float] = (0.0, 0.0)
    absent: float = 0.0
    troubles: list[tuple[float, float]] = field(factory=list[tuple[float, float]])
    ran: list[Ran] = field(factory=list[Ran])
    first: Offer | None = None
    running: list[Program] = field(factory=list["Program"])
    starts: int = 0

    @property
    def offer(self) -> Offer:
        """What it offers."""
        return frozenset(self.offered.items())

    def suffer(self, seconds: float) -> None:
        """Take note of a trouble from now on."""
        now = self.loop.time()
        self.troubles.append((now, now + seconds))

    def is_troubled(self, begin: float, end: float) -> bool:
        """Return whether there was a trouble in a time."""
        return any(first <= end and last >= begin for first, last in self.troubles)

    def end(self, seconds: float) -> None:
        """End wherever it runs, and do not start again for some seconds."""
        self.suffer(seconds)
        self.absent = self.loop.time() + seconds
        for program in list(self.running):
            program.end()

    def lag(self, seconds: float, each: float) -> None:
        """Take a while for each answer, for some seconds."""
        self.suffer(seconds + each)
        self.lags = self.loop.time() + seconds, each

    async def change(self, tool: str, definition: int | None) -> None:
        """Offer a tool with a definition, or not, and notify who is connected."""
        if definition == self.offered.get(tool):
            return
        self.since[tool] = self.loop.time()
        if definition is None:
            del self.offered[tool]
        else:
            self.offered[tool] = definition
        for program in list(self.running):
            await program.notify()

    async def pause(self) -> None:
        """Take what an answer takes."""
        until, each = self.lags
        if until > self.loop.time():
            await anyio.sleep(each * self.random.random())

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[tuple[Any, Any]]:
        """Start it, and carry its messages for the duration of the block."""
        await anyio.sleep(self.random.random() * self.delay)
        if self.absent > self.loop.time():
            raise FileNotFoundError(self.name)
        self.starts += 1
        async with (
            create_client_server_memory_streams() as (ours, near),
            create_client_server_memory_streams() as (far, its),
            anyio.create_task_group() as tasks,
        ):
            program = Program(self)
            tasks.start_soon(self._carry, near[0], far[1])
            tasks.start_soon(self._carry, far[0], near[1])
            tasks.start_soon(program.run, its)
            yield ours
            tasks.cancel_scope.cancel()

    async def _carry(self, source: Any, target: Any) -> None:
        """Carry messages in their order; none takes longer than they take at most."""
        send, receive = anyio.create_memory_object_stream[tuple[float, Any]](float("inf"))

        async def accept() -> None:
            async with send:
                async for message in source:
                    send.send_nowait((self.loop.time() + self.random.random() * self.delay, message))

        async with anyio.create_task_group() as tasks, receive, target:
            tasks.start_soon(accept)
            async for due, message in receive:
                await anyio.sleep(max(0.0, due - self.loop.time()))
                try:
                    await target.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    break
            tasks.cancel_scope.cancel()


class _Server(Server[Any]):
    def create_initialization_options(self, notification_options: Any = None, *rest: Any, **more: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(tools_changed=True), *rest, **more)


class Program:
    """A server that runs for one connection."""

    def __init__(self, supplier: Supplier) -> None:
        self._supplier = supplier
        self._bus = InMemorySubscriptionBus()
        self._session: Any = None
        self._scope = anyio.CancelScope()
        self._server = _Server(
            supplier.name,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    async def run(self, streams: tuple[Any, Any]) -> None:
        """Serve until the connection ends, or it is ended."""
        running = self._supplier.running
        running.append(self)
        try:
            with self._scope:
                await self._server.run(*streams, self._server.create_initialization_options())
        finally:
            running.remove(self)
            with anyio.CancelScope(shield=True):
                for stream in streams:
                    await stream.aclose()

    def end(self) -> None:
        """End at once."""
        self._scope.cancel()

    async def notify(self) -> None:
        """Notify that its list has changed."""
        await self._bus.publish(ToolsListChanged())
        if self._session is not None:
            try:
                await self._session.send_tool_list_changed()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def _list(self, context: Context, params: Any) -> t.ListToolsResult:
        self._session = context.session
        supplier, tools = self._supplier, dict(self._supplier.offered)
        if supplier.first is None:
            supplier.first = supplier.offer
        await supplier.pause()
        return t.ListToolsResult(tools=list(_tools(tools.items())))

    async def _call(
        self, context: Context, params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        supplier, tool, token = self._supplier, params.name, str((params.arguments or {}).get("token"))
        if tool not in supplier.offered:
            raise MCPError(t.INVALID_PARAMS, f"There is no tool {tool}.")
        again = bool(params.input_responses)
        if not again:
            now = supplier.loop.time()
            supplier.ran.append(Ran(token, tool, supplier.offered[tool], supplier.since.get(tool, 0.0), now))
        await supplier.pause()
        said = ""
        if tool == "tell":
            for step in range(2):
                await context.session.report_progress(step, 2, f"{token} {step}")
        elif tool == "ask":
            answered = await self._asked(context, token, params)
            if isinstance(answered, t.InputRequiredResult):
                return answered
            said = f" {answered}"
        return t.CallToolResult(content=[t.TextContent(type="text", text=f"{supplier.name} {tool} {token}{said}")])

    async def _asked(
        self, context: Context, token: str, params: t.CallToolRequestParams
    ) -> str | t.InputRequiredResult:
        """Return what the client answers, or that it has to be asked."""
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        given = {"method": "elicitation/create", "params": {"message": token, "requestedSchema": schema}}
        question = t.ElicitRequest.model_validate(given)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if not params.input_responses:
                return t.InputRequiredResult(input_requests={"q": question}, request_state=token)
            answer: Any = params.input_responses["q"]
            return f"{answer.action} {answer.content}"
        related = ServerMessageMetadata(related_request_id=context.request_id)
        try:
            answer = await context.session.send_request(question, t.ElicitResult, metadata=related)
        except MCPError as error:
            return f"refused: {error.code}"
        return f"{answer.action} {answer.content}"


def _tools(offered: Iterable[tuple[str, int]]) -> Iterable[t.Tool]:
    for name, definition in sorted(offered):
        yield t.Tool(name=name, description=f"Definition {definition} of {name}.", input_schema=SCHEMA)


def starting(suppliers: dict[str, Supplier]) -> Any:
    """Return what starts the server of a configuration."""

    def transport(config: UpstreamConfig, _: str) -> Any:
        (name,) = config.command or ("",)
        return suppliers[name].transport()

    return transport
