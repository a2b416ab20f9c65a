"""Servers in which a client learns one thing of another: of these only ISO-1 speaks."""
# ruff: noqa: D101, D102 - the table in `wire` says what is wrong with each

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from .engine import Refused, Session
from .server import Fixture

Page = types.ListToolsResult
Result = types.CallToolResult

MOST = 2


class Others(Fixture):
    """Knows its clients, what each has open, and how to reach it."""

    def install(self, engine: Any) -> None:
        super().install(engine)
        self.reached: dict[str, Any] = {}
        self.open_of: defaultdict[str, set[str]] = defaultdict(set)

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> Page:
        self.reached[ctx.lifespan_context] = ctx.session
        return await super().list_tools(ctx, params)

    async def change(self, ctx: Any, session: Session, verb: str, path: str) -> Result:
        answer = await super().change(ctx, session, verb, path)
        self.open_of[ctx.lifespan_context] = set(session.active)
        return answer

    def elsewhere(self, ctx: Any) -> set[str]:
        """Return the groups that other clients have open."""
        return {path for name, paths in self.open_of.items() if name != ctx.lifespan_context for path in paths}

    async def tell_others(self, ctx: Any, message: Any) -> None:
        for name, session in self.reached.items():
            if name != ctx.lifespan_context:
                with suppress(Exception):  # it has gone
                    await session.send_notification(message)


class NotifiesOthersOfCalls(Others):
    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> Result:
        if name in self.engine.tools:
            await self.tell_others(ctx, types.ToolListChangedNotification())
        return await super().call(ctx, name, arguments)


class LogsToOthers(Others):
    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> Result:
        if name in self.engine.tools:
            params = types.LoggingMessageNotificationParams(level="info", data="a call")
            await self.tell_others(ctx, types.LoggingMessageNotification(params=params))
        return await super().call(ctx, name, arguments)


class LimitsTogether(Others):
    async def change(self, ctx: Any, session: Session, verb: str, path: str) -> Result:
        if verb == "activate" and len(self.elsewhere(ctx)) >= MOST:
            raise Refused("QuotaExceeded", limit=MOST)
        return await super().change(ctx, session, verb, path)


class CachesCalls(Others):
    """What is in the cache is dropped with a transition of the client that put it there."""

    def install(self, engine: Any) -> None:
        super().install(engine)
        self.cached: dict[str, tuple[str, Result]] = {}

    def answer(self, ctx: Any, session: Session, name: str, arguments: Mapping[str, Any]) -> Result:
        of, cached = self.cached.get(name, ("", None))
        if cached is not None and of != ctx.lifespan_context and not arguments:
            return cached
        answer = super().answer(ctx, session, name, arguments)
        if not arguments:
            self.cached[name] = ctx.lifespan_context, answer
        return answer

    async def change(self, ctx: Any, session: Session, verb: str, path: str) -> Result:
        self.cached = {name: one for name, one in self.cached.items() if one[0] != ctx.lifespan_context}
        return await super().change(ctx, session, verb, path)


class ExplainsByOthers(Others):
    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> Result:
        try:
            return await super().call(ctx, name, arguments)
        except MCPError as error:
            others = self.elsewhere(ctx)
            said = f"{error.message} Others have {len(others)} groups open." if others else error.message
            raise MCPError(error.code, said) from None


class OrdersByUse(Others):
    """What others called last comes first."""

    def install(self, engine: Any) -> None:
        super().install(engine)
        self.last = "", ""

    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> Result:
        if name in self.engine.tools:
            self.last = ctx.lifespan_context, name
        return await super().call(ctx, name, arguments)

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> Page:
        page = await super().list_tools(ctx, params)
        by, name = self.last
        if by in ("", ctx.lifespan_context):
            return page
        return page.model_copy(update={"tools": sorted(page.tools, key=lambda tool: tool.name != name)})
