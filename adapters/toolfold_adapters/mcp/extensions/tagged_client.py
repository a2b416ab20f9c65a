"""A client that knows definition tags, as drafted for the revision after 2026-07-28 (SPEC NXT-1). Experimental."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp.client.caching import CacheMode
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParamsMeta,
    Tool,
)

from toolfold.spi import table

from ..client import FollowingClient
from ..sdk import known_to_client
from .tags import KNOWN_TAGS, STALE_TAGS, stale_methods

_ATTEMPTS = 3
"""How often a list is asked for whose pages are not of one list."""


class TaggedTools(ListToolsResult):
    """A list with its tag."""

    tag: str | None = None


@dataclass
class TaggedClient(FollowingClient):
    """A `FollowingClient` that sends the tag of the list that it knows, and lists again when a server says it is stale.

    A call that a server rejects for its tag is made once more if the tool is defined as before in the new list; else
    the error is raised, since the call may make no sense any more.
    """

    known: dict[str, Tool] = field(default_factory=dict[str, Tool], init=False)
    """The tools of the list that is known, by name."""
    tag: str | None = field(default=None, init=False)
    """The tag of that list, if it has one."""
    stale: bool = field(default=False, init=False)
    """Whether the server has said that there is another list by now."""

    async def everything(self) -> Mapping[str, Tool]:
        """Return the tools that are listed, by name, having asked for all pages unless they are known."""
        if self.stale or not self.known:
            await self._refresh()
        return self.known

    async def call_tool(self, name: str, *args: Any, meta: RequestParamsMeta | None = None, **kwargs: Any) -> Any:
        """Call a tool; see the class."""
        try:
            result = await self._with_tag(name, *args, meta=meta, **kwargs)
        except MCPError as error:
            before = self.known.get(name)
            if "tools/list" not in stale_methods((table(error.data) or {}).get("staleTags")):
                raise
            await self._refresh()
            if before is None or self.known.get(name) != before:
                raise
            result = await self._with_tag(name, *args, meta=meta, **kwargs)
        self.stale = self.stale or "tools/list" in stale_methods((result.meta or {}).get(STALE_TAGS))
        return result

    async def _with_tag(self, name: str, *args: Any, meta: Any, **kwargs: Any) -> CallToolResult:
        sent = {} if self.tag is None else {KNOWN_TAGS: {"tools/list": self.tag}}
        return await super().call_tool(name, *args, meta=cast(RequestParamsMeta, {**sent, **(meta or {})}), **kwargs)

    async def _refresh(self) -> None:
        """Ask for all pages, again from the first one if they are not of one list."""
        attempts = _ATTEMPTS
        while not await self._read() and (attempts := attempts - 1):
            pass

    async def _read(self) -> bool:
        """Ask for all pages; return whether they are of one list. If not, it stays stale."""
        self.known, self.tag, self.stale = {}, None, True
        tags, cursor = set[str | None](), None
        while True:
            page = await self.list_tools(cursor=cursor, cache_mode="bypass")
            self.known.update({tool.name: tool for tool in page.tools})
            tags.add(page.tag if isinstance(page, TaggedTools) else None)
            if len(tags) > 1:
                return False
            if (cursor := page.next_cursor) is None:
                (self.tag,), self.stale = tags, False
                return True

    async def _page(self, cursor: str | None, meta: RequestParamsMeta | None, cache_mode: CacheMode) -> ListToolsResult:
        params = PaginatedRequestParams.model_validate({"cursor": cursor, "_meta": meta or {}})
        page = await self.session.send_request(ListToolsRequest(params=params), TaggedTools)
        known_to_client(self.session, page.tools)
        return page
