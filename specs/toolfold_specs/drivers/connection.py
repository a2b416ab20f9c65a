"""One client of an MCP server, for synchronous code: over stdio or streamable HTTP, in either era.

Every request is bounded in time. A server that can't be started is `TargetNotStarted`; one that crashes, hangs, writes
anything but messages, or does not conform to the protocol is `TargetFailed`, in one sentence. An error that the server
returns is a `WireError`, and a response like any other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
from anyio.from_thread import BlockingPortal
from pydantic import TypeAdapter

from toolfold_specs.driver import TargetFailed
from toolfold_specs.exchange import Transcript
from toolfold_specs.extras import extras_named

from .failures import Failures
from .process import Address, Child, Command
from .replies import Pending, Reply, TargetNotStarted, WireError

with extras_named():
    import mcp_types as types
    from mcp import Client
    from mcp.client import ClientExtension, NotificationBinding
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server import Server
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Json: TypeAlias = dict[str, Any]

CHANGED = "notifications/tools/list_changed"
LOGGED = "notifications/message"
GROUPS_CHANGED = "notifications/groups/list_changed"
CLOSE_TIMEOUT = 5.0  # seconds

for noisy in ("mcp", "client", "httpx2"):  # the errors here say what they log
    logging.getLogger(noisy).addHandler(logging.NullHandler())


class _Params(types.RequestParams, extra="allow"):
    """The parameters of an extension's request."""


class _Other(types.Request[_Params, str]):
    """A request of an extension."""

    method: str


class _Declared(ClientExtension):
    """An extension that a client declares; of its notifications, those of changed groups are for `noticed`."""

    def __init__(self, identifier: str, noticed: Callable[[types.NotificationParams], Awaitable[None]]) -> None:
        self.identifier = identifier
        self._noticed = noticed

    def notifications(self) -> list[NotificationBinding[Any]]:
        return [NotificationBinding(method=GROUPS_CHANGED, params_type=types.NotificationParams, handler=self._noticed)]


_ANYTHING: TypeAdapter[Any] = TypeAdapter(dict[str, Any])


class Connection:
    """One client of a server; made by `Link.connect`.

    Args:
        address: Where the server is. A command is started for this connection.
        portal: The loop that the connection runs in.
        transcript: Records what is sent and received, unless the server is in this process.
        extension: An extension of the protocol that the client declares.
        started: The server's process, if it was started ahead.
        on_close: Called once the connection is closed.
    """

    def __init__(
        self,
        address: Address,
        portal: BlockingPortal,
        transcript: Transcript,
        extension: str | None = None,
        started: Child | None = None,
        on_close: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        self._address = address
        self._portal = portal
        self._transcript = transcript
        self.number, self._note = transcript.connect()
        self._on_close = on_close
        target = address.target
        self._child = started or (Child(target) if isinstance(target, Command) else None)
        self._failures = Failures(self._child, target if isinstance(target, str) else None)
        self.changes = 0
        """The number of list_changed notifications that have arrived."""
        self.other_changes = 0
        """The number of notifications that lists of another kind have changed."""
        self.log_messages = 0
        """The number of log messages that have arrived."""
        self.late = 0
        """The number of notices that were due and have not arrived."""
        self.follows = False
        """Whether its list has followed what is active."""
        self.calls = 0
        """The number of calls that were sent."""
        self.successes = 0
        """The number of calls that were not refused: without any, the server should be in its initial state."""
        self.group_changes = 0
        """The number of notifications that the groups have changed."""
        self.acknowledged: Json | None = None
        """What the server will notify of, if it was asked to."""
        self._changed: anyio.Event | None = None
        self._extensions = None if extension is None else [_Declared(extension, self._groups_changed)]
        self._stack = ExitStack()
        with self._failures.of_start(address.start_timeout):
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
                said = self._failures.last_words()
                raise TargetFailed(f"It answered tools/list with the same cursor again: its pages do not end.{said}")
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
        return Pending(
            self._portal.start_task_soon(self._call, name, arguments, meta),
            self._failures.of_request("tools/call", self._address.timeout),
        )

    def wait_for_change(self, seen: int, seconds: float) -> None:
        """Return once more than `seen` notices of a changed list have arrived, or after that time."""
        self._portal.call(self._wait, lambda: self.changes > seen, seconds)

    def listen(self, asked: Mapping[str, bool], seconds: float) -> Json | None:
        """Ask for notifications until the connection ends, and return what the server acknowledged within that time."""
        self._stack.callback(self._portal.start_task_soon(self._listen, asked).cancel)
        self._portal.call(self._wait, lambda: self.acknowledged is not None, seconds)
        return self.acknowledged

    def wait_for_groups(self, seen: int, seconds: float) -> None:
        """Return once more than `seen` notifications of changed groups have arrived, or after that time."""
        self._portal.call(self._wait, lambda: self.group_changes > seen, seconds)

    def close(self) -> None:
        """End the connection, and the server if it was started for it."""
        self._on_close(self)
        try:
            self._stack.close()
        except Exception as error:  # at the end nothing depends on it any more
            logging.getLogger("toolfold.specs").debug("closing: %s", error)

    def _ask(self, method: str, send: Callable[..., Awaitable[Json]], *arguments: Any) -> Json:
        with self._failures.of_request(method, self._address.timeout):
            return self._portal.call(send, *arguments)

    # -- within the loop ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Client]:
        """Yield a client; both the start and the end take no longer than they may."""
        mode = "legacy" if self._address.era == "legacy" else "auto"
        target = self._address.target
        transport: Any = self._child.run() if self._child else target
        if isinstance(target, str):
            transport = streamable_http_client(target)
        if not isinstance(target, Server):
            transport = _noted(transport, self._note)
        client = Client(transport, mode=mode, cache=None, message_handler=self._received, extensions=self._extensions)
        ready = False
        with anyio.CancelScope(deadline=anyio.current_time() + self._address.start_timeout) as scope:
            async with client:
                if self._address.era == "modern" and client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                    raise TargetNotStarted(
                        f"It speaks MCP {client.protocol_version}, and not {MODERN_PROTOCOL_VERSIONS[-1]}."
                    )
                scope.deadline, ready = math.inf, True
                self._transcript.opened(self.number)
                yield client
                scope.deadline = anyio.current_time() + CLOSE_TIMEOUT
        if not ready:
            raise TimeoutError

    async def _received(self, message: object) -> None:
        method = str(getattr(message, "method", None))
        self.changes += method == CHANGED
        self.other_changes += method.endswith("/list_changed") and method != CHANGED
        self.log_messages += method == LOGGED
        if isinstance(message, types.SubscriptionsAcknowledgedNotification):
            self.acknowledged = message.params.notifications.model_dump(by_alias=True, exclude_none=True)
        self._note_change()

    async def _groups_changed(self, _: types.NotificationParams) -> None:
        self.group_changes += 1
        self._note_change()

    def _note_change(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _listen(self, asked: Mapping[str, bool]) -> None:
        params = types.SubscriptionsListenRequestParams(notifications=types.SubscriptionFilter.model_validate(asked))
        with suppress(Exception):  # it lasts as long as the connection, or is refused
            await self._client.session.send_request(types.SubscriptionsListenRequest(params=params), _ANYTHING)

    async def _list(self, cursor: str | None, meta: Mapping[str, Any] | None) -> Json:
        params = types.PaginatedRequestParams(cursor=cursor, **_with_meta(meta))
        return await self._send(types.ListToolsRequest(params=params))

    async def _call(self, name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None) -> Json:
        self.calls += 1
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments or {}), **_with_meta(meta))
        answer = await self._send(types.CallToolRequest(params=params))
        self.successes += not answer.get("isError")
        return answer

    async def _send(self, request: types.ListToolsRequest | types.CallToolRequest | _Other) -> Json:
        with anyio.fail_after(self._address.timeout):
            answer: Json = await self._client.session.send_request(request, _ANYTHING)
        await anyio.lowlevel.checkpoint()  # so that notices from before the answer are counted
        return answer

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while not condition():
                self._changed = anyio.Event()
                await self._changed.wait()


@asynccontextmanager
async def _noted(transport: AbstractAsyncContextManager[Any], note: Callable[[bool, Any], None]) -> AsyncGenerator[Any]:
    """Yield the streams of a transport, which note what goes through them."""
    async with transport as (incoming, outgoing):
        yield _Incoming(incoming, note), _Outgoing(outgoing, note)


class _Noted:
    """A stream that notes messages; everything else about it is that of another stream."""

    def __init__(self, stream: Any, note: Callable[[bool, Any], None]) -> None:
        self._stream = stream
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Noted:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)


class _Incoming(_Noted):
    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in self._stream:
            if not isinstance(item, Exception):
                self._note(False, item.message)
            yield item


class _Outgoing(_Noted):
    async def send(self, item: Any) -> None:
        """Note a message and send it."""
        self._note(True, item.message)
        await self._stream.send(item)


def _with_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"_meta": dict(meta)} if meta else {}
