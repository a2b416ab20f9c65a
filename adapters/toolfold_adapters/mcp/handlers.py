"""The request handlers of a server: each request goes to the delivery of its era, within the limits of its caller."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import mcp_types as types
from anyio.abc import TaskGroup
from attrs import define
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.shared.exceptions import MCPError

from toolfold import Session
from toolfold.spi import Full, Kind, Tally

from ..names import GROUPS_EXTENSION, TOOLBOX_EXTENSION
from .delivery.disclosure import Disclosure, GroupParams, ToolboxDelivery
from .delivery.handle import HandleDelivery
from .delivery.legacy import declares_groups
from .delivery.render import dumped, wire_errors
from .delivery.session import SessionDelivery
from .request import caller_of, client_of, is_modern, principal_of, record_refusal
from .subscriptions import Subscriptions, unauthenticated

Context = ServerRequestContext[TaskGroup, Any]
MAX_CLIENT_NAME = 64


@define(eq=False)
class RequestHandlers:
    """The handlers of a server's requests.

    Attributes:
        legacy: Answers requests of the era up to 2025-11-25.
        modern: Answers those of 2026-07-28.
        disclosure: Answers the requests of clients that declare the extension for groups, by whether they are modern;
            empty to serve it to no client.
        toolbox: Answers modern requests that declare `toolbox.v1` in its place, if they are answered.
        by_principal: Whether modern requests must be authenticated.
        subscriptions: The subscriptions of modern clients.
        calls: Counts requests in progress.
        streams: Counts subscriptions.
    """

    legacy: SessionDelivery
    modern: HandleDelivery | SessionDelivery
    disclosure: Mapping[bool, Disclosure]
    toolbox: ToolboxDelivery | None
    by_principal: bool
    subscriptions: Subscriptions
    calls: Tally
    streams: Tally

    def delivery(self, ctx: Context) -> SessionDelivery | HandleDelivery | Disclosure | ToolboxDelivery:
        """Return the delivery of a request; raises if lists are per caller and the caller is not authenticated."""
        modern = is_modern(ctx)
        if modern and self.by_principal and not principal_of(ctx):
            raise unauthenticated()
        if self.disclosure and declares(ctx, GROUPS_EXTENSION, modern=modern):
            return self.disclosure[modern]
        if self.toolbox is not None and modern and declares(ctx, TOOLBOX_EXTENSION, modern=True):
            return self.toolbox
        return self.modern if modern else self.legacy

    def session(self, ctx: Context) -> AbstractAsyncContextManager[Session]:
        """Return a context manager that yields the session of a request."""
        delivery = self.modern if is_modern(ctx) else self.legacy
        return delivery.session(ctx)

    @asynccontextmanager
    async def request(self, ctx: Context) -> AsyncGenerator[Session]:
        """Yield the session of a request that the caller of this answers, within the limits of who asked."""
        with self.answering(ctx, ctx.method):
            async with self.session(ctx) as session:
                yield session

    @contextmanager
    def answering(self, ctx: Context, asked: str) -> Generator[None]:
        """Count a request for `asked` while it is answered, and convert errors into those of the protocol."""
        with wire_errors(asked, modern=is_modern(ctx)), self.calls.held(caller_of(ctx)):
            yield

    async def list(self, kind: Kind, ctx: Context, params: types.PaginatedRequestParams | None) -> Any:
        """Answer a request for a list."""
        with self.answering(ctx, kind):
            return await self.delivery(ctx).list(ctx, kind, params.cursor if params else None)

    async def call(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        """Answer a call of a tool; a limit that is reached is reported in an error result, which models read."""
        with wire_errors(params.name, modern=is_modern(ctx)):
            try:
                with self.calls.held(caller_of(ctx)):
                    return await self.delivery(ctx).call(ctx, params.name, params.arguments)
            except Full as full:
                record_refusal(full)
                return types.CallToolResult(content=[types.TextContent(type="text", text=str(full))], is_error=True)

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        """Answer a request for a prompt."""
        with self.answering(ctx, params.name):
            return await self.delivery(ctx).prompt(ctx, params.name, params.arguments)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        """Answer a request for a resource."""
        with self.answering(ctx, str(params.uri)):
            return await self.delivery(ctx).read(ctx, str(params.uri))

    async def listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve a subscription."""
        with wire_errors("subscriptions", modern=True), self.streams.held(caller_of(ctx)):
            delivery = self.delivery(ctx)
            groups = partial(delivery.top, ctx) if isinstance(delivery, Disclosure) else None
            return await self.subscriptions.listen(ctx, params, groups)

    async def list_groups(self, ctx: Context, params: types.PaginatedRequestParams) -> Any:
        """Answer `groups/list`."""
        with self.answering(ctx, "groups"):
            disclosure = self._disclosure(ctx, "groups/list")
            if not is_modern(ctx):
                async with self.session(ctx):  # its client is notified when lists change
                    pass
            return disclosure.groups(ctx, params.cursor)

    async def get_group(self, ctx: Context, params: GroupParams) -> Any:
        """Answer `groups/get`."""
        with self.answering(ctx, params.name):
            return self._disclosure(ctx, "groups/get").group(ctx, params.name)

    def _disclosure(self, ctx: Context, method: str) -> Disclosure | ToolboxDelivery:
        delivery = self.delivery(ctx)
        if isinstance(delivery, Disclosure | ToolboxDelivery):
            return delivery
        if not is_modern(ctx):
            raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found", data=method)
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message=f"{method} needs the extension {GROUPS_EXTENSION} in the request's client capabilities.",
            data={"requiredCapabilities": {"extensions": {GROUPS_EXTENSION: {}}}},
        )


def label_of(ctx: Any) -> tuple[str, str]:
    """Return the name of the client of a request, and its era, as use is counted by (SPEC EXP-3)."""
    if not isinstance(ctx, ServerRequestContext):
        return "", "in process"
    return client_of(ctx)[:MAX_CLIENT_NAME], "modern" if is_modern(ctx) else "legacy"


def introducing(introduced: Callable[[Context, dict[str, Any]], dict[str, Any]]) -> ServerMiddleware[Any]:
    """Return middleware that has `introduced` adapt the introduction of a server to each client."""

    async def answered(ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.request_id is None or ctx.method not in ("initialize", "server/discover"):
            return result
        return introduced(ctx, dumped(result))

    return answered


def declares(ctx: Context, extension: str, *, modern: bool) -> bool:
    """Return whether the client declares an extension: in this request or, for groups, in its handshake."""
    if modern:
        return bool(ctx.session.check_client_capability(types.ClientCapabilities(extensions={extension: {}})))
    return declares_groups(ctx.session.client_params)
