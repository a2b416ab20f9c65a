"""Connections to any MCP server, for synchronous code: over stdio or streamable HTTP, in either era.

`Link` has the address; each `Connection` of it is one client. Every request is bounded in time. A server that can't be
started is `TargetNotStarted`; one that crashes, hangs, writes anything but messages, or answers what is not of the
protocol is `TargetFailed`, in one sentence. An error that the server answers with is a `WireError`, and an answer like
others.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import anyio
import anyio.lowlevel
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import TypeAdapter, ValidationError

from toolfold.spi import extras_named
from toolfold_specs.driver import TargetFailed

from .process import Child, Command, Spares
from .protocol import Era
from .replies import Pending, Reply, TargetNotStarted, WireError

with extras_named():
    import mcp_types as types
    from mcp import Client, MCPError
    from mcp.client import advertise
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server import Server
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["Command", "Connection", "Era", "Link", "Pending", "Reply", "TargetNotStarted", "WireError"]

Json: TypeAlias = dict[str, Any]

CHANGED = "notifications/tools/list_changed"
TIMEOUT = 10.0  # seconds for a request
START_TIMEOUT = 30.0
CLOSE_TIMEOUT = 5.0
FEW = 3
"""After how many connections over stdio servers are started ahead: whoever makes so many makes more."""
SPARES = min(2, os.cpu_count() or 1)
SHORT = 200  # characters of what a server wrote that are quoted


class _Params(types.RequestParams, extra="allow"):
    """Whatever an extension asks for."""


class _Other(types.Request[_Params, str]):
    """A request of an extension."""

    method: str


_ANYTHING: TypeAdapter[Any] = TypeAdapter(dict[str, Any])

for noisy in ("mcp", "client", "httpx2"):  # the errors here say what they log
    logging.getLogger(noisy).addHandler(logging.NullHandler())


class Link:
    """Where a server is, and the loop that its connections run in. Use it with `with`, or `close` it.

    Args:
        target: A `Command` to start, once for each connection, the URL of a running server, or one in this process.
        era: "legacy" for sessions, up to 2025-11-25; "modern" for 2026-07-28.
        timeout: Seconds within which each request is to be answered.
        start_timeout: Seconds within which the server is to be ready.
    """

    def __init__(
        self,
        target: Command | str | Server[Any],
        era: Era = "legacy",
        timeout: float = TIMEOUT,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.target = target
        self.era: Era = era
        self.timeout = timeout
        self.start_timeout = start_timeout
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._open: dict[Connection, None] = {}
        self._kept: Connection | None = None
        self._made = 0
        self._spares = Spares(target, SPARES) if isinstance(target, Command) else None

    @property
    def name(self) -> str:
        """The setting, as reports call it: "stdio, legacy"."""
        transport = "http" if isinstance(self.target, str) else "stdio" if self.own_processes else "in process"
        return f"{transport}, {self.era}"

    @property
    def own_processes(self) -> bool:
        """Whether each connection has a server of its own."""
        return isinstance(self.target, Command)

    def connect(self, extension: str | None = None) -> Connection:
        """Return a new connection.

        Args:
            extension: An extension of the protocol that the client declares.

        Raises:
            TargetNotStarted: There is no such server, or it does not speak the protocol of the era.
        """
        if self._kept is not None and extension is None:
            kept, self._kept = self._kept, None
            return kept
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal())
        connection = self._connection(self._portal, extension)
        self._open[connection] = None
        return connection

    def keep(self, connection: Connection) -> None:
        """Return this connection, which was not used for a call, when the next one is asked for."""
        self._kept = connection

    def _connection(self, portal: BlockingPortal, extension: str | None) -> Connection:
        """Return a new connection, to a server that was started ahead if there is one."""
        spares = self._spares
        spare = None if spares is None else spares.take()
        if spares is None or spare is None:
            connection = Connection(self, portal, extension)
        else:
            try:
                connection = Connection(self, portal, extension, spare)
            except TargetNotStarted:  # perhaps only one can run at a time
                portal.call(spares.close)
                connection = Connection(self, portal, extension)
        self._made += 1
        if spares is None or self._made <= FEW:
            return connection
        if self._made == FEW + 1 and (newest := self._newest(portal, connection)) is not connection:
            return newest if extension is None else Connection(self, portal, extension)
        portal.call(spares.fill)
        return connection

    def _newest(self, portal: BlockingPortal, connection: Connection) -> Connection:
        """Return the connection that goes on once another server has started beside the one that it is to.

        Where the newest process takes over what an older one was using, such as a lock file, none is started ahead.
        """
        assert self._spares is not None
        try:
            beside = Connection(self, portal)
        except TargetNotStarted:
            portal.call(self._spares.close)
            return connection
        if connection.is_served():
            self._open[beside] = None
            self.keep(beside)
            return connection
        connection.close()
        portal.call(self._spares.close)
        return beside

    def forget(self, connection: Connection) -> None:
        """Take note that a connection is closed."""
        self._open.pop(connection, None)

    def close(self) -> None:
        """Close all connections, and end the processes that were started for them."""
        for connection in tuple(self._open):
            connection.close()
        if self._portal is not None and self._spares is not None:
            self._portal.call(self._spares.close)
        self._portal = None
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Connection:
    """One client of a server; made by `Link.connect`."""

    def __init__(
        self, link: Link, portal: BlockingPortal, extension: str | None = None, started: Child | None = None
    ) -> None:
        self._link = link
        self._portal = portal
        self._child = started or (Child(link.target) if isinstance(link.target, Command) else None)
        self.changes = 0
        """How many notices of a changed list of tools have arrived."""
        self.calls = 0
        """How many calls were sent: a server that had none is as it was at the start."""
        self._changed: anyio.Event | None = None
        self._extensions = None if extension is None else [advertise(extension, {})]
        self._stack = ExitStack()
        with self._starting():
            self._client = self._stack.enter_context(portal.wrap_async_context_manager(self._connected()))

    # -- what the server says of itself -------------------------------------------------------------------------------

    @property
    def protocol_version(self) -> str:
        """The revision that is spoken."""
        return self._client.protocol_version

    @property
    def server(self) -> str:
        """The server's name and version."""
        info = self._client.server_info
        return f"{info.name} {info.version}" if info is not None else "unnamed"

    @property
    def pid(self) -> int | None:
        """The id of the process that was started for this connection."""
        return self._child.pid if self._child else None

    @property
    def capabilities(self) -> Json:
        """What the server says it can do, as on the wire."""
        return self._client.server_capabilities.model_dump(by_alias=True, exclude_none=True)

    @property
    def instructions(self) -> str | None:
        """The instructions that it gives to its clients."""
        return self._client.instructions

    # -- requests -----------------------------------------------------------------------------------------------------

    def list_tools(self, cursor: str | None = None, meta: Mapping[str, Any] | None = None) -> Json:
        """Return a page of the list as it came; raises as `call_tool` does."""
        return self._ask("tools/list", self._list, cursor, meta)

    def is_served(self) -> bool:
        """Return whether the server still answers, if only by a refusal."""
        try:
            self.list_tools()
        except WireError:
            return True
        except TargetFailed:
            return False
        return True

    def list_all_tools(self, meta: Mapping[str, Any] | None = None) -> list[Json]:
        """Return the tools on all pages; raises `TargetFailed`, if a page is refused too."""
        tools: list[Json] = []
        seen: list[str | None] = [None]
        while True:
            try:
                page = self.list_tools(seen[-1], meta)
            except WireError as error:
                raise TargetFailed(f"It does not list tools: {error}") from error
            tools += page["tools"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return tools
            if cursor in seen:
                raise TargetFailed(
                    f"It answered tools/list with the same cursor again: its pages do not end.{self._last_words()}"
                )
            seen.append(cursor)

    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> Json:
        """Return the result of a call as it came.

        Raises:
            WireError: The server answered with an error of the protocol.
            TargetFailed: It did not answer, or not what could be read.
        """
        return self._ask("tools/call", self._call, name, arguments, meta)

    def reply(
        self, name: str, arguments: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> Reply:
        """Return the result of a call, or the error of the protocol; raises `TargetFailed`."""
        try:
            return Reply(self.call_tool(name, arguments, meta))
        except WireError as error:
            return Reply(refused=error)

    def request(self, method: str, params: Mapping[str, Any]) -> Json:
        """Return the answer to any other request as it came; raises as `call_tool` does."""
        return self._ask(method, self._send, _Other(method=method, params=_Params(**params)))

    def start_call(
        self, name: str, arguments: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> Pending:
        """Begin a call and return it."""
        return Pending(self._portal.start_task_soon(self._call, name, arguments, meta), self._judged("tools/call"))

    def wait_for_change(self, seen: int, seconds: float) -> None:
        """Return once more than `seen` notices of a changed list have arrived, or after that time."""
        self._portal.call(self._wait_for_change, seen, seconds)

    def close(self) -> None:
        """End the connection, and the server if it was started for it."""
        self._link.forget(self)
        try:
            self._stack.close()
        except Exception as error:  # at the end nothing depends on it any more
            logging.getLogger("toolfold.specs").debug("closing: %s", error)

    # -- within the loop ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Client]:
        """Yield a client; both the start and the end take no longer than they may."""
        mode = "legacy" if self._link.era == "legacy" else "auto"
        target = self._link.target
        transport: Any = self._child.run() if self._child else target
        if isinstance(target, str):
            transport = streamable_http_client(target)
        client = Client(transport, mode=mode, cache=None, message_handler=self._received, extensions=self._extensions)
        ready = False
        with anyio.CancelScope(deadline=anyio.current_time() + self._link.start_timeout) as scope:
            async with client:
                if self._link.era == "modern" and client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                    raise TargetNotStarted(
                        f"It speaks MCP {client.protocol_version}, and not {MODERN_PROTOCOL_VERSIONS[-1]}."
                    )
                scope.deadline, ready = math.inf, True
                yield client
                scope.deadline = anyio.current_time() + CLOSE_TIMEOUT
        if not ready:
            raise TimeoutError

    async def _received(self, message: object) -> None:
        if getattr(message, "method", None) == CHANGED:
            self.changes += 1
            if self._changed is not None:
                self._changed.set()

    async def _list(self, cursor: str | None, meta: Mapping[str, Any] | None) -> Json:
        params = types.PaginatedRequestParams(cursor=cursor, **_with_meta(meta))
        return await self._send(types.ListToolsRequest(params=params))

    async def _call(self, name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None) -> Json:
        self.calls += 1
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments or {}), **_with_meta(meta))
        return await self._send(types.CallToolRequest(params=params))

    async def _send(self, request: types.ListToolsRequest | types.CallToolRequest | _Other) -> Json:
        with anyio.fail_after(self._link.timeout):
            answer: Json = await self._client.session.send_request(request, _ANYTHING)
        await anyio.lowlevel.checkpoint()  # so that notices from before the answer are counted
        return answer

    async def _wait_for_change(self, seen: int, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self.changes <= seen:
                self._changed = anyio.Event()
                await self._changed.wait()

    # -- failures -----------------------------------------------------------------------------------------------------

    def _ask(self, method: str, send: Callable[..., Awaitable[Json]], *arguments: Any) -> Json:
        with self._judged(method):
            return self._portal.call(send, *arguments)

    @contextmanager
    def _judged(self, method: str) -> Generator[None]:
        """Turn what goes wrong with a request into `WireError` or `TargetFailed`."""
        try:
            yield
        except (TargetFailed, CancelledError):
            raise
        except MCPError as error:
            if not self._lost(error):
                raise WireError(error.code, error.message, error.data) from None
            raise TargetFailed(self._ended(f"before it answered {method}")) from None
        except TimeoutError:
            what = f"It did not answer {method} within {self._link.timeout:g} seconds."
            raise TargetFailed(f"{what}{self._last_words()}") from None
        except ValidationError as error:
            raise TargetFailed(f"It answered {method} with what is not of the protocol: {_first(error)}") from None
        except Exception as error:
            raise TargetFailed(f"{self._ended(f'before it answered {method}')} {_name(error)}".strip()) from None

    @contextmanager
    def _starting(self) -> Generator[None]:
        try:
            yield
        except TargetNotStarted:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise TargetNotStarted(self._why(_root(error))) from None

    def _why(self, error: BaseException) -> str:
        """Return in a sentence why the server can't be started."""
        match error:
            case FileNotFoundError() | PermissionError() | NotADirectoryError():
                return f"It can't be started: {error.strerror}: {error.filename}"
            case TimeoutError():
                return f"It did not answer within {self._link.start_timeout:g} seconds.{self._last_words()}"
            case MCPError() if self._lost(error):
                return self._ended("before it was ready")
            case MCPError():
                return f"It refused the first request: {error.message} ({error.code}).{self._last_words()}"
            case ValidationError():
                return f"Its first answer is not of the protocol: {_first(error)}"
            case _ if isinstance(self._link.target, str):
                return f"{self._link.target} can't be reached: {_name(error)}"
            case _:
                return f"It can't be started: {_name(error)}{self._last_words()}"

    def _lost(self, error: MCPError) -> bool:
        """Return whether an error says that no answer can come, and is the client's own."""
        return error.code == types.CONNECTION_CLOSED and (
            error.message == "Connection closed" or error.message.startswith("SSE stream")
        )

    def _ended(self, when: str) -> str:
        if self._child is not None and self._child.garbage:
            return f"It wrote to its stdout what is no message: {self._child.garbage[:SHORT]!r}"
        status = self._child.status if self._child else None
        how = f"ended with status {status}" if status is not None else "closed the connection"
        return f"It {how} {when}.{self._last_words()}"

    def _last_words(self) -> str:
        said = self._child.complaint if self._child else ""
        return f" Its stderr ends with: {said}" if said else ""


def _with_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"_meta": dict(meta)} if meta else {}


def _first(error: ValidationError) -> str:
    """Return the first of what is wrong, with its place."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _root(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _name(error: BaseException) -> str:
    root = _root(error)
    return f"{type(root).__name__}: {root}" if str(root) else type(root).__name__
