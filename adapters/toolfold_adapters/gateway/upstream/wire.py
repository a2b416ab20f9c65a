"""A connection to an MCP server over which messages pass as they are, in either era (SPEC GWY-1).

The SDK's `ClientSession` validates what it receives, and leaves out what it does not know; a gateway must do neither.
So this drives the SDK's JSON-RPC dispatcher, which knows methods, parameters and results as plain data, and does itself
what the protocol asks of a client: the handshake, and what goes with each request of the modern era.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, cast

import anyio
from anyio.abc import TaskStatus
from attrs import define, field
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCError,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
)
from pydantic_core import to_json

from toolfold import ProtocolError, __version__
from toolfold.spi import table

from ...mcp.answer.render import OWN_PREFIX
from ...mcp.extensions.offered_groups import EXTENSIONS, extension_of
from ...names import ALWAYS_LOAD_META
from ...transport.http_headers import ModernHeaders
from ...transport.http_refusals import SESSION_GONE, StatusLine
from ...transport.lines import Around, Item, Lines, MessageTooLarge
from ..beside import beside, size_of
from .awaited import AnswerLost, Awaited
from .direct import Direct, spans_are_made
from .handshake import ConnectMode, Probe, ServerFacts, handshake
from .life import ConnectionLost, NotMcp, Refused, SessionForgotten

log = logging.getLogger("toolfold.gateway")

CANCEL_SECONDS = 5.0
"""How long it takes at most to tell a server that nobody waits for its answer any more."""
INTRODUCTION_BYTES = 1024 * 1024
"""How long what a server says of itself may be: its name, instructions and capabilities."""
CLIENT_INFO = {"name": "toolfold", "version": __version__}

ReadStream = Any
WriteStream = Any
Transport = AbstractAsyncContextManager[tuple[ReadStream, WriteStream]]
"""What carries messages, as the SDK has it: its own protocols for streams are not public."""
OnRequest = Callable[[str, Mapping[str, Any], object], Awaitable[Mapping[str, Any]]]
OnNotification = Callable[[str, Mapping[str, Any], object], None]
OpenUrl = Callable[[str], Coroutine[Any, Any, None]]
"""Shows a page to the user, for a login."""


start_limit: ContextVar[anyio.CancelScope | None] = ContextVar("toolfold_gateway_start_limit", default=None)
"""The time limit on the start of a connection, which stands still while a user logs in."""


_cause: ContextVar[object] = ContextVar("toolfold_gateway_cause", default=None)
"""Why a request is made. The SDK has what comes over the stream of its answer in the context of the request."""


@define(eq=False)
class Wire:
    """An open connection; made by `connect`.

    Attributes:
        facts: What the server said of itself.
        capabilities: The client's capabilities, where a request declares no others.
        failure: Why no message can come any more, if that is known.
        ended: Is set once no message can come any more.
    """

    _dispatcher: JSONRPCDispatcher
    capabilities: Mapping[str, Any]
    _awaited: Awaited
    _direct: Direct | None = None
    facts: ServerFacts = field(init=False)
    failure: MessageTooLarge | SessionForgotten | AnswerLost | None = None
    ended: anyio.Event = field(factory=anyio.Event)
    _headers: ModernHeaders = field(factory=ModernHeaders)
    _ids: count[int] = field(factory=lambda: count(1))

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        capabilities: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        cause: object = None,
    ) -> dict[str, Any]:
        """Return the server's result of a request, as it came; cancelling it cancels it there.

        Args:
            method: The method.
            params: Its parameters; `_meta` is completed as the era asks.
            capabilities: What the client can do that this request is for, in the modern era.
            on_progress: Receives progress.
            cause: Why it is made, for what else comes over the stream of its answer, where the transport has such.

        Raises:
            ProtocolError: The server answered with this error.
            Refused: It refused the request by a status of HTTP.
            ConnectionLost: No answer can come any more; `SessionForgotten`, if it has not begun to.
        """
        data, options = self._stamped(method, params, capabilities)
        if on_progress is not None:
            options["on_progress"] = on_progress
        elif self._direct is not None and not spans_are_made():
            return await self._asked(self._direct, method, data)
        token = _cause.set(cause)
        try:
            return await self._send(method, data, options)
        finally:
            _cause.reset(token)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; it is discarded if the connection has ended."""
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.facts.version}
        await self._dispatcher.notify(method, params, {"headers": headers})

    @property
    def unparsed(self) -> int:
        """How many things came that are no messages of the protocol, or answer nothing."""
        return self._awaited.untidy

    @property
    def groups(self) -> str | None:
        """The extension for groups that requests declare, if there is one (SPEC DEL-5)."""
        return extension_of(self.facts.capabilities) if self.facts.modern else None

    def learn_headers(self, tool: str, input_schema: Any) -> str | None:
        """Have calls of a tool repeat the arguments that its schema marks as headers (modern era).

        Returns what is wrong with the marks, if anything: such a tool must not be called.
        """
        return self._headers.learn(tool, input_schema) if self.facts.modern else None

    def _stamped(
        self, method: str, params: Mapping[str, Any], capabilities: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], CallOptions]:
        version = self.facts.version
        if not self.facts.modern:
            return dict(params), {"headers": {MCP_PROTOCOL_VERSION_HEADER: version}}
        able = self.capabilities if capabilities is None else capabilities
        if self.groups is not None:
            able = declaring(able, self.groups)
        meta = {**params.get("_meta", {}), **_envelope(version, able)}
        return {**params, "_meta": meta}, {"headers": self._headers.of(version, method, params)}

    async def _send(self, method: str, params: Mapping[str, Any], options: CallOptions) -> dict[str, Any]:
        try:
            return await self._dispatcher.send_raw_request(method, params, {**options, "request_id": next(self._ids)})
        except MCPError as error:
            if error.code == INVALID_REQUEST and error.message == SESSION_GONE:
                raise SessionForgotten(error.data or "the session has ended") from error
            if isinstance(error.data, StatusLine):
                raise Refused(error.code, error.message) from error
            # A server may use this code for errors of its own, so the code alone decides nothing.
            if error.code == CONNECTION_CLOSED and (self.ended.is_set() or error.message.startswith("SSE stream")):
                raise ConnectionLost(str(self.failure or error.message.rstrip("."))) from self.failure or error
            raise ProtocolError(error.code, error.message, error.data) from error

    async def _asked(self, direct: Direct, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request over a pipe, past the dispatcher."""
        request_id = next(self._ids)
        try:
            answer = await direct.request(request_id, method, params)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CANCEL_SECONDS, shield=True):
                reason = {"requestId": request_id, "reason": "caller cancelled"}
                await self._dispatcher.notify("notifications/cancelled", reason)
            raise
        if answer is None:
            raise ConnectionLost(str(self.failure or "Connection closed")) from self.failure
        if isinstance(answer, JSONRPCError):
            raise ProtocolError(answer.error.code, answer.error.message, answer.error.data)
        return answer.result

    async def shake_hands(self, mode: ConnectMode, probe: Probe) -> None:
        """Agree on a version; see `handshake`.

        Raises:
            NotMcp: The answer is none of the protocol, or there is no version in common.
            ProtocolError, ConnectionLost: As `request` does.
        """
        self.facts = await handshake(mode, probe, self._discover, self._initialize)
        self._awaited.give_up_probe()

    async def _discover(self) -> ServerFacts | None:
        """Return the introduction of a server of the modern era, or `None` for one of the other era."""
        version = LATEST_MODERN_VERSION
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: "server/discover"}
        options: CallOptions = {"cancel_on_abandon": False, "headers": headers}
        able = declaring(self.capabilities, *EXTENSIONS)
        try:
            answer = await self._send("server/discover", {"_meta": _envelope(version, able)}, options)
        except ProtocolError as error:
            supported: Any = (table(error.data) or {}).get("supported")
            refused = error.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(supported, list)
            if refused and not any(known in supported for known in HANDSHAKE_PROTOCOL_VERSIONS):
                raise NotMcp(f"it speaks no version of the protocol that is known here, but {supported}") from error
            return None
        supported = answer.get("supportedVersions")
        if not isinstance(supported, list) or version not in supported:
            return None
        info = table((table(answer.get("_meta")) or {}).get(SERVER_INFO_META_KEY))
        return _facts(version, info, answer)

    async def _initialize(self) -> ServerFacts:
        params = {
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": dict(self.capabilities),
            "clientInfo": CLIENT_INFO,
        }
        answer = await self._send("initialize", params, {"cancel_on_abandon": False})
        version = answer.get("protocolVersion")
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise NotMcp("its first answer is not one of the protocol")
        facts = _facts(version, table(answer.get("serverInfo")), answer)
        options: CallOptions = {"headers": {MCP_PROTOCOL_VERSION_HEADER: version}}
        await self._dispatcher.notify("notifications/initialized", None, options)
        return facts


@asynccontextmanager
async def connect(
    transport: Transport,
    mode: ConnectMode,
    capabilities: Mapping[str, Any],
    on_request: OnRequest,
    on_notification: OnNotification,
    probe: Probe | None = None,
) -> AsyncGenerator[Wire]:
    """Open a connection for the duration of the block.

    Args:
        transport: What carries the messages.
        mode: How to agree on a version; see `handshake`.
        capabilities: The client's capabilities, as declared to the server.
        on_request: Answers what the server asks; raises `MCPError` to refuse it.
        on_notification: Is called with each notification, in order, before any answer that came after it.
        probe: Takes note of how the server takes the question for the newest era.

    `on_request` and `on_notification` are given the cause of the request over whose stream it came, or `None`: over a
    pipe nothing says that.

    Raises:
        NotMcp, ProtocolError, ConnectionLost: The handshake failed.
        Exception: Whatever the transport raises if it can't be opened.
    """

    async def answer(_: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        return {} if method == "ping" else dict(await on_request(method, params or {}, _cause.get()))

    def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
        on_notification(method, params or {}, reading.cause)
        return True

    async def observe(error: Exception) -> None:
        if isinstance(error, MessageTooLarge):
            wire.failure = error

    async with transport as (read, write), anyio.create_task_group() as tasks:
        ended = anyio.Event()
        awaited = Awaited()
        writing = _Noting(write, ended, awaited)
        direct = Direct(writing.send) if isinstance(write, Lines) else None
        reading = _Noting(read, ended, awaited, direct)
        dispatcher = JSONRPCDispatcher(reading, writing, on_stream_exception=observe)
        wire = Wire(dispatcher, capabilities, awaited, direct, ended=ended)

        async def run(*, task_status: TaskStatus[None]) -> None:
            _cause.set(None)  # whatever this connection is opened for causes nothing that comes over it
            await dispatcher.run(answer, _discard, intercept, task_status=task_status)

        async def give_up() -> None:
            wire.failure = await awaited.overdue()
            ended.set()

        await tasks.start(run)
        tasks.start_soon(give_up)
        try:
            await wire.shake_hands(mode, probe or Probe())
            yield wire
        finally:
            tasks.cancel_scope.cancel()
            if direct is not None:
                direct.close()


class _Noting(Around):
    """One side of a transport, which notes its end before the dispatcher learns of it, and what waits for an answer.

    A server may answer with the very code that the dispatcher has for the end of a connection. What comes has no keys
    that a server may not set (SPEC GWY-12).
    """

    def __init__(
        self, stream: ReadStream | WriteStream, ended: anyio.Event, awaited: Awaited, direct: Direct | None = None
    ) -> None:
        super().__init__(stream)
        self._ended = ended
        self._awaited = awaited
        self._direct = direct

    @property
    def cause(self) -> object:
        """The cause of the request over whose stream the last message came, if that is known."""
        return None if self.last_context is None else self.last_context.get(_cause)

    async def __anext__(self) -> Item:
        while True:
            item = await self._next()
            if self._direct is None or not self._direct.takes(item):
                return item

    async def _next(self) -> Item:
        if self._awaited.failed:
            return self._awaited.failed.popleft()
        try:
            item: Item = await anext(self._stream)
        except BaseException:
            self._ended.set()
            if self._direct is not None:
                self._direct.close()
            raise
        self._awaited.came(item)
        if isinstance(item, SessionMessage):
            await _clean(item.message)
        return item

    async def send(self, item: SessionMessage, /) -> None:
        self._awaited.sent(item)
        try:
            await self._stream.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._ended.set()
            raise


async def _clean(message: Any) -> None:
    """Take keys that an upstream may not set out of a message, beside the loop if it is large."""
    for of, key in ((message, "result"), (message, "params"), (getattr(message, "error", None), "data")):
        if value := getattr(of, key, None):
            setattr(of, key, await beside(size_of([value]), _allowed, value))


def _allowed(value: Any, *, reserved: bool = True) -> Any:
    """Return JSON of an upstream without keys that it may not set, in itself and in any `_meta` (SPEC GWY-12)."""
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        retained = {key: one for key, one in given.items() if not (reserved and _is_reserved(key))}
        return {key: _allowed(one, reserved=key == "_meta") for key, one in retained.items()}
    return [_allowed(one, reserved=False) for one in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def _is_reserved(key: str) -> bool:
    return key.startswith(OWN_PREFIX) or key == ALWAYS_LOAD_META


async def _discard(_: Any, method: str, params: Mapping[str, Any] | None) -> None:
    """Take no notification: all are intercepted, in order."""


def declaring(capabilities: Mapping[str, Any], *extensions: str) -> dict[str, Any]:
    """Return the capabilities of a client that has these extensions, too."""
    others: Mapping[str, Any] = table(capabilities.get("extensions")) or {}
    return {**capabilities, "extensions": {**others, **{one: {} for one in extensions}}}


def _envelope(version: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    return {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: CLIENT_INFO,
        CLIENT_CAPABILITIES_META_KEY: dict(capabilities),
    }


def _facts(version: str, info: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> ServerFacts:
    if len(to_json(answer)) > INTRODUCTION_BYTES:  # each connection keeps it
        raise NotMcp(f"it introduces itself with more than {INTRODUCTION_BYTES // 1024:,} kB, which is no introduction")
    instructions = answer.get("instructions")
    return ServerFacts(
        version=version,
        info=info or {},
        capabilities=table(answer.get("capabilities")) or {},
        instructions=instructions if isinstance(instructions, str) else None,
    )
