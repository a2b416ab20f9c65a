"""Definition tags towards the servers behind a gateway (SPEC NXT-1). Experimental, and off unless asked for.

A gateway is a client of each of its servers: it notes the tag of each list that it reads, sends it with the calls that
depend on that list, and reads the lists again when a server says that they are stale. All of that is in what carries
the messages: a stale tag becomes a notification that the list has changed, which a gateway follows anyway. The tags
that clients know are of the gateway's own lists, and mean nothing to a server; nor do its tags to them. So neither
passes.

It sends no tag of an introduction: that is read once for each connection.

A call that a server rejects for its tag was not begun. It is sent again once the lists have been read, if the tool is
defined as before; else its error passes, since the call may make no sense any more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context, copy_context
from typing import Any, ParamSpec

import anyio
from anyio.abc import TaskGroup
from attrs import define, field
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolfold.spi import array, frozen, table

from ...names import LISTS
from ...transport.lines import Around, Item, Messages
from .tags import KINDS_OF, KNOWN_TAGS, RELEVANT, STALE, STALE_TAGS, canonical, stale_methods

P = ParamSpec("P")
Streams = tuple[Any, Any]
Transport = AbstractAsyncContextManager[Streams]

CANCELLED = "notifications/cancelled"
RELIST_SECONDS = 30.0
"""How long a call that was rejected waits for the lists to be read."""
_NAMED_BY: Mapping[str, str] = {"tools/call": "tools/list", "prompts/get": "prompts/list"}
"""The list that has the definition of what is called."""


@define
class _List:
    """A list as it was read: its tag, and what defines each thing on it."""

    tag: str
    definitions: dict[str, bytes] = field(factory=dict[str, bytes])
    stale: bool = False


@frozen(eq=False)
class _Call:
    """A request that depends on lists: its message, the context that it was sent in, and the lists that were known."""

    sent: SessionMessage
    request: JSONRPCRequest
    context: Context
    lists: Mapping[str, _List]
    again: bool

    def is_defined_as_in(self, lists: Mapping[str, _List]) -> bool:
        """Return whether it is of what is defined as before; what is read by URI can be asked for again in any case."""
        method = _NAMED_BY.get(self.request.method)
        if method is None:
            return True
        name, before, now = str((self.request.params or {}).get("name")), self.lists.get(method), lists.get(method)
        if before is None or now is None:
            return False
        return name in now.definitions and before.definitions.get(name) == now.definitions[name]


def with_tags(transport: Callable[P, Transport]) -> Callable[P, Transport]:
    """Return a transport of a gateway that knows the tags of its servers' lists, around another one."""

    @asynccontextmanager
    async def tagged(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Streams]:
        async with transport(*args, **kwargs) as (read, write), anyio.create_task_group() as tasks:
            incoming = _Incoming()
            tags = UpstreamTags(write.send, incoming.put, tasks)
            tasks.start_soon(incoming.fill, read, tags.came)
            try:
                yield incoming, _Outgoing(write, tags.sent)
            finally:
                tasks.cancel_scope.cancel()
                await incoming.aclose()

    return tagged


class _Outgoing(Around):
    """The messages to a server, each as it is changed on its way."""

    def __init__(self, stream: Any, change: Callable[[SessionMessage], SessionMessage]) -> None:
        super().__init__(stream)
        self._change = change

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(self._change(item))


class _Incoming(Messages):
    """The messages of a server, in order, and those that are put between them."""

    def __init__(self) -> None:
        self._put, self._got = anyio.create_memory_object_stream[tuple[Item, Context | None]]()
        self._ended: Exception | None = None
        self.last_context: Context | None = None

    async def fill(self, stream: Any, take: Callable[[Item], list[Item]]) -> None:
        """Pass on what is left of each message, until there are no more."""
        with self._put:
            try:
                async for item in stream:
                    for one in take(item):
                        await self._put.send((one, getattr(stream, "last_context", None)))
            except anyio.BrokenResourceError:
                return  # nobody reads any more
            except Exception as error:
                self._ended = error

    async def put(self, item: Item) -> None:
        """Put a message after those that have come."""
        await self._put.send((item, None))

    async def __anext__(self) -> Item:
        try:
            item, self.last_context = await self._got.receive()
        except anyio.EndOfStream:
            raise self._ended or StopAsyncIteration from None
        return item

    async def aclose(self) -> None:
        self._got.close()
        self._put.close()


@define(eq=False)
class UpstreamTags:
    """What is known of the lists of a server over one connection.

    Args:
        send: Sends a message to the server.
        put: Puts a message after those that came from it.
        tasks: Where calls wait that it rejected.
    """

    _send: Callable[[SessionMessage], Any]
    _put: Callable[[Item], Any]
    _tasks: TaskGroup
    _lists: dict[str, _List] = field(init=False, factory=dict[str, _List])
    _reading: dict[str, _List | None] = field(init=False, factory=dict[str, "_List | None"])
    _asked: dict[RequestId, tuple[str, bool]] = field(init=False, factory=dict[RequestId, tuple[str, bool]])
    _calls: dict[RequestId, _Call] = field(init=False, factory=dict[RequestId, _Call])
    _held: dict[RequestId, anyio.CancelScope] = field(init=False, factory=dict[RequestId, anyio.CancelScope])
    _read: anyio.Event = field(init=False, factory=anyio.Event)

    def sent(self, item: SessionMessage) -> SessionMessage:
        """Return a message with the tags of what it depends on, and without those of anybody else."""
        message = item.message
        if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            cancelled: Any = (message.params or {}).get("requestId")
            self._calls.pop(cancelled, None)
            if (scope := self._held.pop(cancelled, None)) is not None:
                scope.cancel()
        return self._stamped(item, message, again=False) if isinstance(message, JSONRPCRequest) else item

    def _stamped(self, item: SessionMessage, message: JSONRPCRequest, *, again: bool) -> SessionMessage:
        params = message.params or {}
        given = table(params.get("_meta")) or {}
        meta: dict[str, Any] = {key: one for key, one in given.items() if key != KNOWN_TAGS}
        if message.method in KINDS_OF:
            self._asked[message.id] = message.method, params.get("cursor") is None
        depends_on = RELEVANT.get(message.method, ()) if PROTOCOL_VERSION_META_KEY in meta else ()
        known = {method: self._lists[method] for method in depends_on if method in self._lists}
        if known:
            meta[KNOWN_TAGS] = {method: one.tag for method, one in known.items()}
        if meta != params.get("_meta", {}):
            message = message.model_copy(update={"params": {**params, "_meta": meta}})
            item = SessionMessage(message, item.metadata)
        if known:
            self._calls[message.id] = _Call(item, message, copy_context(), known, again)
        return item

    def came(self, item: Item) -> list[Item]:
        """Return what is passed on in place of a message that came."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse):
            number = coerce_request_id(message.id)
            if (asked := self._asked.pop(number, None)) is not None:
                return self._listed(item, message, *asked)
            call, meta = self._calls.pop(number, None), table(message.result.get("_meta")) or {}
            if STALE_TAGS in meta:
                rest = {key: one for key, one in meta.items() if key != STALE_TAGS}
                answer = message.model_copy(update={"result": {**message.result, "_meta": rest}})
                return [*self._note(call, stale_methods(meta[STALE_TAGS])), SessionMessage(answer)]
        elif isinstance(message, JSONRPCError) and message.id is not None:
            number = coerce_request_id(message.id)
            self._asked.pop(number, None)
            call, data = self._calls.pop(number, None), table(message.error.data) or {}
            if "staleTags" in data:
                return self._rejected(number, call, message, stale_methods(data["staleTags"]))
        return [item]

    def _listed(self, item: Item, message: JSONRPCResponse, method: str, first: bool) -> list[Item]:
        """Take a page of a list; pages with different tags are of no one list (SPEC NXT-1)."""
        tag, answer = message.result.get("tag"), message.result
        if first:
            self._reading[method] = _List(tag) if isinstance(tag, str) else None
        reading = self._reading.get(method)
        if tag != (None if reading is None else reading.tag) and (isinstance(tag, str) or reading is not None):
            self._lists.pop(method, None)
            self._reading.pop(method, None)
            error = ErrorData(code=INTERNAL_ERROR, message=f"The pages of {method} are of different lists.")
            return [SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error)), _changed(method)]
        if reading is not None:
            listing = LISTS[KINDS_OF[method]]
            for one in filter(None, map(table, array(answer.get(listing.key)) or ())):
                reading.definitions.setdefault(str(one.get("name")), canonical(one))
        if answer.get("nextCursor") is None:
            self._reading.pop(method, None)
            self._lists.pop(method, None)
            if reading is not None:
                self._lists[method] = reading
            self._read.set()
            self._read = anyio.Event()
        return [item]

    def _note(self, call: _Call | None, methods: list[str]) -> list[Item]:
        """Take note of lists that are stale, and return the notifications of that: one until a list is read again.

        One that was read again since the call was sent is not.
        """
        lists = self._lists if call is None else call.lists
        current = {method: one for method, one in lists.items() if self._lists.get(method) is one}
        found = [method for method in methods if method in current and not current[method].stale]
        for method in found:
            self._lists[method].stale = True
        return list(map(_changed, found))

    def _rejected(self, number: RequestId, call: _Call | None, message: JSONRPCError, methods: list[str]) -> list[Item]:
        """Have a rejected call wait for the lists, or pass its error on if it can't be sent again."""
        ours = [] if call is None else [method for method in methods if method in call.lists]
        notices = self._note(call, methods)
        refused = _refused(message)
        if call is None or not ours or call.again:
            return [*notices, refused]
        scope = self._held[number] = anyio.CancelScope()
        self._tasks.start_soon(self._send_again, number, call, ours, refused, scope)
        return notices

    async def _send_again(
        self, number: RequestId, call: _Call, stale: list[str], refused: Item, scope: anyio.CancelScope
    ) -> None:
        with scope:
            with anyio.move_on_after(RELIST_SECONDS):
                while any(self._lists.get(method) is call.lists[method] for method in stale):
                    await self._read.wait()
            if self._held.pop(number, None) is not scope:
                return  # it was cancelled before it could wait
            if any(self._lists.get(method) is call.lists[method] for method in stale) or not call.is_defined_as_in(
                self._lists
            ):
                await self._put(refused)
                return
            item = self._stamped(call.sent, call.request, again=True)
            call.context.run(self._tasks.start_soon, self._send, item)


def _changed(method: str) -> SessionMessage:
    """Return the notification that a list has changed."""
    kind = method.partition("/")[0]
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{kind}/list_changed"))


def _refused(message: JSONRPCError) -> SessionMessage:
    """Return the error of a rejected call for who knows no tags of the server."""
    text = "What this calls has changed at its server, so nothing was done. List the tools again, then decide."
    error = ErrorData(code=STALE, message=text)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
