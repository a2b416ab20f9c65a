"""The clients of a gateway, as its upstreams are to know them (SPEC GWY-1).

Each has connections of its own to the upstreams, with its own capabilities, and is asked what these upstreams ask of
their client. A client is a session: a connection of the legacy era, a handle, a session of a program. Requests of the
modern era that name no session belong to the process that sends them (stdio), to the principal that they carry, or each
to itself.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeGuard
from weakref import WeakValueDictionary

import anyio
from attrs import define, field
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import CallNext, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    Notification,
    Request,
)
from mcp_types.methods import MONOLITH_NOTIFICATIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from toolfold import Context, ToolError, events
from toolfold.spi import MAX_URI, Caller, Full, array, frozen, table

from ...mcp.answer.asked import has, method_of, needed_by_method
from ...mcp.options import DEFAULTS
from ...mcp.principal import Principal, local_user, principal_of
from ...mcp.request import caller_of, is_modern, own_client, record_refusal
from ...mcp.sdk import connection_of
from ...mcp.subscriptions import Room
from ...tally import Tally
from ..views import views_named

if TYPE_CHECKING:
    from ..stored import Item
    from ..upstream.link import Link

log = logging.getLogger("toolfold.gateway")

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
URL_MODE = "url"
NOT_PASSED = frozenset({"tasks"})
NO_EXTENSIONS = frozenset({"io.modelcontextprotocol/groups"})
"""Capabilities and extensions that end here: what they add to the protocol is not passed on."""

ANSWER_SECONDS = 600.0
"""How long a client may take to answer what it is asked: it may be gone."""
MOST_LINKS = 256
"""How many links to resources are remembered for one client."""

RequestHandler = Callable[[Any, Any], Awaitable[Any]]
ServerContext = ServerRequestContext[Any, Any]


class _Answer(BaseModel):
    """A client's answer, as it came."""

    model_config = ConfigDict(extra="allow")


def links_of(answer: Mapping[str, Any]) -> list[str]:
    """Return the URIs of the resources that the result of a call links to or names, as far as they are remembered."""
    blocks = [table(given) or {} for given in array(answer.get("content")) or ()]
    linked: list[Any] = [(table(block.get("resource")) or block).get("uri") for block in blocks]
    named = (uri for one in (answer, *blocks) for uri in views_named(one))
    return [uri for uri in (*linked, *named) if isinstance(uri, str) and len(uri) <= MAX_URI][-MOST_LINKS:]


@define(eq=False)
class RequestInProgress:
    """A request of a client that is being answered.

    `asks` has what is asked of a client of the modern era by other means than an answer of its upstream: see
    `dialogue`. `passes` says that such an answer passes all the same, and `asked` counts what that client has not
    answered yet. `lacks` has the capabilities that the last question needed that its client could not be asked.
    """

    ctx: ServerContext | None
    asks: Callable[[str, Mapping[str, Any]], Any] | None = None
    passes: bool = False
    asked: int = 0
    lacks: Mapping[str, Any] = field(factory=dict[str, Any])

    @property
    def modern(self) -> bool:
        """Whether the client is of the modern era."""
        return self.ctx is not None and is_modern(self.ctx)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the client answers to a question that came of this request; raises `MCPError`."""
        if self.asks is not None:
            self.asked += 1
            try:
                answer: Mapping[str, Any] = await self.asks(method, params)
            finally:
                self.asked -= 1
            return answer
        if self.ctx is None or self.modern:
            raise MCPError(code=METHOD_NOT_FOUND, message=f"The client can't be asked for {method} here")
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        return await _asked(self.ctx.session, method, params, related)


async def _asked(
    session: Any, method: str, params: Mapping[str, Any], related: ServerMessageMetadata | None
) -> Mapping[str, Any]:
    request = Request[dict[str, Any], str](method=method, params=dict(params))
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            answer = await session.send_request(request, _Answer, metadata=related)
    except TimeoutError as error:
        raise MCPError(code=INVALID_REQUEST, message=f"The client did not answer {method} in time") from error
    except ValidationError as error:
        raise MCPError(
            code=INVALID_REQUEST, message=f"The client's answer to {method} is not one of the protocol"
        ) from (error)
    return dict(answer.model_extra or {})


@frozen
class StartedTask:
    """A task that a client has started: over which connection, and by calling which tool of the upstream."""

    link: Link
    item: Item


@define(eq=False)
class DownstreamClient:
    """Whoever has connections of its own to upstreams.

    Attributes:
        id: What it is known by here.
        held: Counts a request in progress of a caller while it lasts, or raises `Full`.
        principal: Who is behind it: one and the same as long as it lasts, with the claims of its last token (SPEC
            GWY-19).
        caller: By what that one is counted, where it is known (SPEC SAF-4).
        capabilities: What it can do, as declared to its upstreams.
        level: The least level of log messages that it wants; `None` if it did not say.
        session: The session of the SDK that its last request came on, for what belongs to no request.
        links: The upstream by the URI of each resource that results of its calls linked to, the newest last.
        shown: The upstreams whose views it has read.
        watched: The connection by the URI of each resource that it has subscribed to in the legacy era.
        tasks: The tasks that it has started, by upstream and id, the newest last.
        said: Why servers failed, by their names, as it has read beside other answers.
        among: The clients among which it is known so.
    """

    id: str
    held: Callable[[Caller], AbstractContextManager[None]]
    principal: Principal = field(factory=local_user)
    caller: Caller = None
    capabilities: Mapping[str, Any] = field(factory=dict[str, Any])
    level: str | None = None
    session: Any = None
    links: OrderedDict[str, str] = field(factory=OrderedDict[str, str])
    shown: set[str] = field(factory=set[str])
    watched: dict[str, Link] = field(factory=dict[str, "Link"])
    tasks: OrderedDict[tuple[str, str], StartedTask] = field(factory=OrderedDict[tuple[str, str], "StartedTask"])
    said: dict[str, str] = field(factory=dict[str, str])
    among: object = None
    _turns: WeakValueDictionary[str, anyio.Lock] = field(factory=WeakValueDictionary[str, anyio.Lock])

    def turn(self, uri: str) -> anyio.Lock:
        """Return what is held by a request of the client to watch a resource or not: they take effect in turn."""
        return self._turns.setdefault(uri, anyio.Lock())

    def note(self, ctx: ServerContext | None) -> None:
        """Learn from a request what the client can do and where it is reached; raises `ToolError` for another's."""
        if ctx is None:
            return
        if (principal := principal_of(ctx)) != self.principal:
            raise ToolError("This session is another caller's, so nothing was done.")
        self.caller = self.caller or caller_of(ctx)
        self.session = ctx.session
        self.capabilities = capabilities_of(ctx)
        if is_modern(ctx):  # else its claims are renewed when a request arrives: see `Clients.renew`
            self.principal = principal
            level: Any = (ctx.meta or {}).get(LOG_LEVEL_META_KEY)
            self.level = level if level in LEVELS else None

    @property
    def asks_as(self) -> tuple[Principal, str]:
        """Its principal, as the token of the request says that is being answered, and that token, if there is one.

        Two requests of one client may have tokens of other scopes and claims, and be answered side by side.
        """
        token = get_access_token()
        if token is None or (now := Principal.of(token)) != self.principal:
            return self.principal, ""
        return now, token.token

    @property
    def answers_calls_only(self) -> bool:
        """Whether it has answers for upstreams that start, such as its roots, and can be asked within a call alone."""
        return self.session is not None and is_modern(self.session) and "roots" in self.capabilities

    def note_links(self, upstream: str, uris: Iterable[str]) -> None:
        """Note which resources the result of a call links to or names: they need not be in any list."""
        for uri in uris:
            self.links[uri] = upstream
            self.links.move_to_end(uri)
            if len(self.links) > MOST_LINKS:
                self.links.popitem(last=False)

    async def ask(
        self, method: str, params: Mapping[str, Any], calls: Sequence[RequestInProgress]
    ) -> Mapping[str, Any]:
        """Return what the client answers to what an upstream asks, or raise `MCPError`.

        It is asked within the newest of its calls there, so that it learns of it also where it has no standing stream;
        in the modern era, within the one with the fewest questions, since nobody may wait for the newest any more.
        Until it has answered, the question counts as a request in progress of its caller (SPEC GWY-12, SAF-4).

        Args:
            method: What is asked.
            params: Its parameters.
            calls: The client's calls in progress that can have caused it, the newest last.
        """
        if not can_answer(self.capabilities, method, params):
            for call in calls:
                call.lacks = needed_to_answer(method, params)
            raise MCPError(code=METHOD_NOT_FOUND, message=f"The client does not answer {method}")
        try:
            with self.held(self.caller):
                if calls:
                    return await min(reversed(calls), key=lambda call: call.asked).ask(method, params)
                if self.session is None or is_modern(self.session):
                    raise MCPError(code=METHOD_NOT_FOUND, message=f"The client can't be asked for {method} now")
                return await _asked(self.session, method, params, None)
        except Full as full:
            record_refusal(full)
            raise MCPError(code=INVALID_REQUEST, message=str(full)) from full

    async def notify(self, method: str, params: Mapping[str, Any], calls: Sequence[RequestInProgress] = ()) -> None:
        """Pass a notification of an upstream on: a log message, or that a resource was updated.

        Args:
            method: What is notified.
            params: Its parameters.
            calls: The client's calls in progress that can have caused it, the newest last.
        """
        call = calls[-1] if calls else None
        session, related = self.session, None
        if call is not None and call.ctx is not None:
            session, related = call.ctx.session, call.ctx.request_id
        if session is None:
            return
        if method == "notifications/message":
            if not self._wants(params):
                return
        elif is_modern(session):
            if method in MONOLITH_NOTIFICATIONS or related is None:
                return  # it subscribes to what it wants to be notified of
        else:
            related = None
        try:
            message: Any = Notification[dict[str, Any], str](method=method, params=dict(params))  # as it came
            await session.send_notification(message, related)
        except Exception:
            log.debug("a notification could not be passed on", exc_info=True)

    def _wants(self, params: Mapping[str, Any]) -> bool:
        """Return whether the client is to have a log message: in the modern era only if its request asked for it."""
        if self.level is None:
            return self.session is not None and not is_modern(self.session)
        level = params.get("level")
        return level in LEVELS and self.level in LEVELS and LEVELS.index(level) >= LEVELS.index(self.level)


class Clients:
    """All clients of a gateway.

    Args:
        on_end: Is called with each that has ended.

    `calls` counts their requests in progress, and what they are asked, and `room` what they subscribe to; both are the
    server's, where there is one.
    """

    def __init__(self, on_end: Callable[[DownstreamClient], None]) -> None:
        self.calls = Tally("requests in progress", DEFAULTS.calls)
        self.room = Room()
        self._on_end = on_end
        self._sessions: set[str] = set()
        self._clients: dict[str, DownstreamClient] = {}
        self._connected: WeakValueDictionary[str, DownstreamClient] = WeakValueDictionary()

    def observe(self, event: events.Event) -> None:
        """Note the sessions that open and end; an observer of the tool set."""
        if isinstance(event, events.SessionOpened):
            self._sessions.add(event.session)
        elif isinstance(event, events.SessionEnded):
            self._sessions.discard(event.session)
            if (client := self._clients.pop(event.session, None)) is not None:
                self._on_end(client)

    def of(self, context: Context) -> DownstreamClient:
        """Return the client that a call came from."""
        return self.of_session(context.session.id, server_context(context.request) or current_request())

    def of_session(self, session: str, ctx: ServerContext | None) -> DownstreamClient:
        """Return the client of a request that belongs to a session, by its id."""
        key = self._key(session, ctx)
        client = self._clients.get(key)
        if client is None:
            principal = local_user() if ctx is None else principal_of(ctx)
            client = DownstreamClient(key, lambda caller: self.calls.held(caller), principal, among=self)
            if key in self._sessions or key.startswith(_STANDING):
                self._clients[key] = client
                if ctx is not None and (name := connection_of(ctx).session_id) is not None:
                    self._connected[name] = client
        client.note(ctx)
        return client

    def renew(self, connection: str, principal: Principal) -> None:
        """Take note of the token that a request has on a connection of the legacy era, by the SDK's name of it.

        The request may be refused: what its token lacks, the client is notified of no longer either (SPEC GWY-19).
        """
        client = self._connected.get(connection)
        if client is not None and client.principal == principal:
            client.principal = principal

    def entered(self, session: str, ctx: ServerContext | None) -> DownstreamClient | None:
        """Return the client of a session, by its id, that opened a group; `None` if no such session is open (yet)."""
        if session not in self._sessions and (ctx is None or ctx.request is not None):
            return None
        return self.of_session(session, ctx)

    def opened(self, event: events.Event) -> tuple[str, ...]:
        """Return the groups that a session has opened by an event, once it is open.

        The session of a handle opens after its first transition, within the same request.
        """
        answering = _answering.get()
        if isinstance(event, events.Committed):
            if answering is None or self.entered(event.session, answering.ctx) is not None:
                return event.change.activated
            answering.opened = event.change.activated
        elif isinstance(event, events.SessionOpened) and answering is not None:
            opened, answering.opened = answering.opened, ()
            return opened
        return ()

    def left(self, own: str) -> None:
        """Take note that a client that had a connection of its own has gone, by its name (see `own_client`)."""
        if (client := self._clients.pop(f"{_STANDING}{own}", None)) is not None:
            self._on_end(client)

    def release(self, client: DownstreamClient) -> None:
        """Take note that a request is over: a client that was only this request has ended."""
        if self._clients.get(client.id) is not client:
            self._on_end(client)

    def _key(self, session: str, ctx: ServerContext | None) -> str:
        if ctx is None or not is_modern(ctx):
            return session
        if ctx.request is None:
            return f"{_STANDING}{own_client.get() or 'process'}"
        if session not in self._sessions and (principal := principal_of(ctx)).authenticated:
            return f"{_STANDING}{principal.key}"
        return session


_STANDING = "client "


def capabilities_of(ctx: ServerContext) -> dict[str, Any]:
    """Return what the client of a request can do, without what is not passed on."""
    declared = table((ctx.meta or {}).get(CLIENT_CAPABILITIES_META_KEY))
    if declared is None:
        known = ctx.session.client_capabilities
        declared = {} if known is None else known.model_dump(by_alias=True, mode="json", exclude_none=True)
    passed = {key: value for key, value in declared.items() if key not in NOT_PASSED and value is not None}
    if (extensions := table(passed.pop("extensions", None))) is not None:
        retained = {key: value for key, value in extensions.items() if key not in NO_EXTENSIONS}
        if retained:
            passed["extensions"] = retained
    return passed


def can_answer(capabilities: Mapping[str, Any], method: str, params: Mapping[str, Any]) -> bool:
    """Return whether a client with such capabilities answers what is asked; one may know one mode of elicitation."""
    needed = needed_to_answer(method, params)
    return bool(needed) and has(capabilities, needed)


def needed_to_answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capabilities of a client who answers what is asked; none if nobody does."""
    return needed_by_method(method_of({"method": method, "params": params}))


def server_context(request: Any) -> ServerContext | None:
    """Return the request that a server of the SDK got, or `None` for what a program asks."""
    return request if _is_context(request) else None


def _is_context(request: Any) -> TypeGuard[ServerContext]:
    return isinstance(request, ServerRequestContext)


@define(eq=False)
class _Answering:
    """A request that a server is answering.

    Attributes:
        ctx: The request.
        result: What with, if that is to pass unchanged.
        opened: The groups that it has opened in a session that is not open yet.
    """

    ctx: ServerContext
    result: dict[str, Any] | None = None
    opened: tuple[str, ...] = ()


_answering: ContextVar[_Answering | None] = ContextVar("toolfold_gateway_request", default=None)


def current_request() -> ServerContext | None:
    """Return the request that a server is answering, for what only learns of its consequences."""
    answering = _answering.get()
    return answering.ctx if answering is not None else None


async def remember_request(ctx: ServerContext, call_next: CallNext) -> Any:
    """Make the request known while it is answered, and answer it with what an upstream said; middleware of the server.

    The SDK validates what a handler returns, refuses content that it does not know, and leaves out what its schema does
    not have. What a middleware returns is sent unchanged.
    """
    token = _answering.set(answering := _Answering(ctx))
    try:
        sent = await call_next(ctx)
    finally:
        _answering.reset(token)
    if answering.result is None:
        return sent
    given = [table((table(one) or {}).get("_meta")) or {} for one in (sent, answering.result)]
    meta: dict[str, Any] = {**given[0], **given[1]}
    return {**answering.result, **({"_meta": meta} if meta else {})}


def as_it_is(handler: RequestHandler, instead: Mapping[str, Any]) -> RequestHandler:
    """Return a handler whose results pass as they are, while the SDK validates `instead` of them."""

    async def answered(ctx: ServerContext, params: Any) -> Any:
        result = await handler(ctx, params)
        answering = _answering.get()
        if answering is None or not isinstance(result, dict):
            return result
        answering.result = result
        return {**instead, "resultType": "complete"}

    return answered
