"""Requests of the modern era, 2026-07-28, which has no sessions: the list is a function of the request (SPEC DEL-7).

The list is that of the state a session would begin in, whatever any client has called. Groups can't be opened: what a
client would open has nowhere to live between requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolfold import Profile, Session, Snapshot, Step, ToolResult, ToolSet, WireNames, plan
from toolfold.catalog import Kind
from toolfold.listing import page_of

from .render import Renderer

CANNOT_OPEN = (
    "Groups can't be opened or closed on this connection: it speaks MCP 2026-07-28, which has no sessions to keep them "
    "in. Use the tools that are listed. Whoever runs this server can list more of them from the start, or connect a "
    "client with revision 2025-11-25."
)


class StaticDelivery:
    """Answers modern requests from one state that no request changes."""

    def __init__(self, tools: ToolSet, wire: WireNames, profile: Profile | None, active: Iterable[str]) -> None:
        self._tools = tools
        self._wire = wire
        self._profile = profile
        self._step = Step(activate=(*(profile.active if profile else ()), *active))
        self._renderer = Renderer(wire, modern=True)

    async def list(self, server: Any, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of what is listed at the start."""
        view = self._tools.view_of(self._snapshot())
        return self._renderer.page(page_of(view, kind, cursor, self._tools.page_size), kind)

    async def call(self, server: Any, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return what a tool answers."""
        session = self._session()
        spec = session.catalog.tools.get(self._wire.from_wire(name))
        if spec is not None and spec.control is not None:
            return self._renderer.result(ToolResult.of_text(CANNOT_OPEN, is_error=True))
        result = await session.call(
            self._wire.from_wire(name),
            arguments,
            progress=ctx.session.report_progress,
            request=ctx,
            spell=self._wire.to_wire,
        )
        return self._renderer.result(result)

    async def prompt(self, server: Any, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt."""
        return self._renderer.other(await self._session().get_prompt(name, arguments, ctx))

    async def read(self, server: Any, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource."""
        contents = await self._session().read(uri, ctx)
        return self._renderer.other({**contents, "ttlMs": 0, "cacheScope": "private"})

    def _snapshot(self) -> Snapshot:
        return plan(Snapshot.of(self._tools.catalog_under(self._profile)), self._step).after

    def _session(self) -> Session:
        return self._tools.request_session(self._snapshot(), self._profile)
