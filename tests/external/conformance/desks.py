"""Servers for the scenarios for definition tags, with tags that are not ours: right ones, and one for each fault.

Their tags are those of the kit's servers (`verification.mutants.tags`), and some of what is wrong, too.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import anyio
import uvicorn
from mcp.shared.exceptions import MCPError

from tests.specs.test_tag_mutants import Constant, ForgetsHandles, LooksFirst, Numbered, OfPages, TakesNumbers, of
from toolfold_adapters.mcp import http_app
from toolfold_specs.drivers.protocol import HANDLE_META
from verification.mutants.server import handle_in
from verification.mutants.tags import TOOLS, Ignoring, Json, NeverOfOpening, Rejecting, Tagging, mapping

HOST = "127.0.0.1"
LATER = "later"
"""The handle of the second list."""
CHANGE, COUNT, REMOVED, ADDED = (f"test_definition_tags_{name}" for name in ("change", "count", "removed", "added"))


class Desk(Tagging):
    """The one that signals."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = count(1)

    def names(self, ctx: Any) -> list[str]:
        return [CHANGE, COUNT, ADDED if handle_in(ctx) == LATER else REMOVED]

    async def plain(self, ctx: Any, own: Mapping[str, Json], call_next: Any) -> Json:
        if ctx.method == TOOLS:
            return self.page(ctx, int(mapping(ctx.params).get("cursor", 0)))
        if ctx.method == "tools/call":
            return self.called(ctx, mapping(ctx.params)["name"])
        return await super().plain(ctx, own, call_next)

    def page(self, ctx: Any, first: int) -> Json:
        names = self.names(ctx)
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names[first : first + 2]]
        more = {"nextCursor": str(first + 2)} if first + 2 < len(names) else {}
        return {"tools": tools, **more, "ttlMs": 60_000, "cacheScope": "private", "resultType": "complete"}

    def called(self, ctx: Any, name: str) -> Json:
        if name not in self.names(ctx):
            raise MCPError(-32602, f"Unknown tool: {name}")
        text = str(next(self.calls)) if name == COUNT else name.rpartition("_")[2]
        meta = {"_meta": {HANDLE_META: LATER}} if name == CHANGE else {}
        return {"content": [{"type": "text", "text": text}], "resultType": "complete", **meta}

    async def tag(self, ctx: Any, method: str, plain: Any, page: Json | None = None) -> str:
        if method == TOOLS:
            return self.digest(method, self.names(ctx))
        return await super().tag(ctx, method, plain, page)


class Honours(Desk):
    """The one that calls a tool in the state of the list that its client knows."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, str | None] = {}

    async def tag(self, ctx: Any, method: str, plain: Any, page: Json | None = None) -> str:
        tag = await super().tag(ctx, method, plain, page)
        if method == TOOLS:
            self.held[tag] = handle_in(ctx)
        return tag

    async def answered(self, ctx: Any, plain: Any) -> Json:
        known = self.known(ctx).get(TOOLS)
        if ctx.method != "tools/call" or known is None or known == await self.tag(ctx, TOOLS, plain):
            return await super().answered(ctx, plain)

        async def under(one: Any) -> Json:
            return await plain(self.then(ctx, known) if one is ctx else one)  # type: ignore[no-any-return]

        return await super().answered(ctx, under)

    def then(self, ctx: Any, known: str) -> Any:
        if known not in self.held:
            self.reject([TOOLS])
        return replace(ctx, meta={**(ctx.meta or {}), HANDLE_META: self.held[known]})


class Rejects(Rejecting, Desk):
    """The one that rejects."""


class Ignores(Ignoring, Desk):
    """The one that ignores what clients know."""


# -- what is wrong with lists -----------------------------------------------------------------------------------------


class NumbersPrompts(Desk):
    async def answered(self, ctx: Any, plain: Any) -> Json:
        answer = await super().answered(ctx, plain)
        return {**answer, "tag": 7} if ctx.method == "prompts/list" else answer


class SameForAll(Constant, Desk):
    pass


class OtherEachTime(Numbered, Desk):
    pass


class TagsPages(OfPages, Desk):
    pass


class SharesPages(Desk):
    def page(self, ctx: Any, first: int) -> Json:
        return {**super().page(ctx, first), "cacheScope": "public" if first else "private"}


# -- with hints -------------------------------------------------------------------------------------------------------


class StaysStale(of(TOOLS, "honour"), Desk):  # type: ignore[misc]
    pass


class RejectsNumbers(TakesNumbers, Desk):
    pass


class RejectsForPrompts(of("prompts/list", "reject"), Desk):  # type: ignore[misc]
    pass


# -- with stale calls -------------------------------------------------------------------------------------------------


class NamesByTag(Rejects):
    def reject(self, stale: list[str]) -> None:
        raise MCPError(-31001, "List again.", {"staleTags": dict.fromkeys(stale, "its tag")})


class CallsFirst(LooksFirst, Desk):
    pass


class LooksForTools(Rejects):
    async def answered(self, ctx: Any, plain: Any) -> Json:
        if ctx.method == "tools/call" and (name := mapping(ctx.params)["name"]) not in self.names(ctx):
            raise MCPError(-32602, f"Unknown tool: {name}")
        return await super().answered(ctx, plain)


# -- with those that are honoured -------------------------------------------------------------------------------------


class CallsWhatIsGone(Honours):
    def names(self, ctx: Any) -> list[str]:
        return [*super().names(ctx), *([REMOVED] if ctx.method == "tools/call" and handle_in(ctx) == LATER else [])]


class HoldsNothing(Honours):
    def then(self, ctx: Any, known: str) -> Any:
        return ctx


class SaysNothing(Ignoring, Honours):
    pass


class TakesAnyTag(Honours):
    def then(self, ctx: Any, known: str) -> Any:
        return super().then(ctx, known) if known in self.held else ctx


# -- with what opens --------------------------------------------------------------------------------------------------


class OpensSilently(NeverOfOpening, Desk):
    pass


class StaleUnderHandles(ForgetsHandles, Desk):
    pass


@asynccontextmanager
async def on_a_port(desk: Desk) -> AsyncGenerator[str]:
    """Serve one over HTTP and yield its URL."""
    with socket.create_server((HOST, 0)) as listener:
        running = uvicorn.Server(uvicorn.Config(http_app(desk.server(), host=HOST), log_level="warning", ws="none"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.serve, [listener])
            yield f"http://{HOST}:{listener.getsockname()[1]}/mcp"
            running.should_exit = True
