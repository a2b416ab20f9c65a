"""Session delivery: requests are answered from a session, of a connection or of a caller (SPEC DEL-1, DEL-6).

A group that a request opens stays open in its session, and the client's list changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, Protocol

from toolfold import InvalidArguments, Session, StoreError, ToolNotFound, ToolResult, ToolSet
from toolfold.spi import Kind

from ..callers import one_client
from ..meta import STORE_AWAY_META
from ..stored_connections import is_store_away
from .answers import SessionAnswers
from .proxy import CallToolProxy, ToolCall, offered, open_for, with_opened
from .render import Renderer, unknown_text
from .selection import SELECTION_FAILURES, refusal_text


class SessionSource(Protocol):
    """Finds the session of a request."""

    def session(self, server: Any, ctx: Any) -> AbstractAsyncContextManager[Session]:
        """Yield the session for the duration of a request, opened if need be."""
        ...


class SessionDelivery:
    """Answers requests from their sessions.

    Args:
        tools: The tool set.
        source: Finds the session of a request.
        renderer: Renders results.
        answers: Makes the library's own answers.
        proxies: The call-tool proxies by name, for clients that never list again, if there are any (SPEC DEL-8).
    """

    def __init__(
        self,
        tools: ToolSet,
        source: SessionSource,
        renderer: Renderer,
        answers: SessionAnswers,
        proxies: Mapping[str, CallToolProxy] = MappingProxyType({}),
    ) -> None:
        self._tools = tools
        self._source = source
        self._renderer = renderer
        self._answers = answers
        self._proxies = proxies

    def session(self, server: Any, ctx: Any) -> AbstractAsyncContextManager[Session]:
        """Return a context manager that yields the session of a request."""
        return self._source.session(server, ctx)

    async def list(self, server: Any, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of what the session lists."""
        async with self._source.session(server, ctx) as session:
            extra = offered(self._proxies, kind, session.catalog)
            page = self._tools.page(self._answers.view(session), kind, cursor, extra, session.id)
            if kind == "tool":
                self._answers.listed(session, page, cursor)
            return self._renderer.page(page, kind, {STORE_AWAY_META: True} if is_store_away(session) else {})

    async def call(self, server: Any, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a tool in the session."""
        try:
            async with self._source.session(server, ctx) as session:
                result = await self._answer(ctx, session, name, arguments)
        except (*SELECTION_FAILURES, StoreError) as error:
            result = ToolResult.of_text(refusal_text(error), is_error=True)
        return self._renderer.result(result)

    async def prompt(self, server: Any, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt in the session."""
        async with self._source.session(server, ctx) as session:
            return self._renderer.plain(await session.get_prompt(name, arguments, ctx, self._answers.view(session)))

    async def read(self, server: Any, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource in the session."""
        async with self._source.session(server, ctx) as session:
            return self._renderer.contents(await session.read(uri, ctx, self._answers.view(session)))

    async def _answer(self, ctx: Any, session: Session, name: str, arguments: dict[str, Any] | None) -> ToolResult:
        proxy = self._proxies.get(name) if session.catalog.groups else None
        call = ToolCall(name, dict(arguments or {}), None)
        try:
            call = call if proxy is None else proxy.unpack(arguments)
            known = self._answers.wire.from_wire(call.name)
            opens = proxy is not None and one_client.get() and proxy.calls(session.catalog.tools.get(known))
            opened = await open_for(session, known) if opens else ()
            answer = await self._answers.call(session, call.name, call.arguments, ctx, proxy)
        except InvalidArguments as error:
            return ToolResult.of_text(str(error), is_error=True)
        except ToolNotFound as error:
            if proxy is None:
                raise
            return ToolResult.of_text(unknown_text(error, call.name), is_error=True)
        return with_opened(answer, opened)
