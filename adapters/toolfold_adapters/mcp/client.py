"""A client that sends the newest handle with each request, so that lists follow the groups it opens (SPEC DEL-11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

from mcp import Client
from mcp.client.caching import CacheMode
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputResponses, ListToolsResult, RequestParamsMeta
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..names import HANDLE_META, NO_HANDLE


@dataclass
class FollowingClient(Client):
    """An `mcp.Client` whose lists and calls follow the groups that it opens, in either era.

    In the modern era it stores the handle of the latest result and sends it with each later list and call. In the
    legacy era the server keeps a session, and this class changes nothing. Make its calls one at a time: if two
    concurrent calls both open a group, only the handle of the later answer is retained. To continue from an earlier
    state, set `handle` to an earlier handle; to start over, set it to `None`.
    """

    handle: str | None = field(default=None, kw_only=True)
    """The handle that the next request carries."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def list_tools(
        self, *, cursor: str | None = None, meta: RequestParamsMeta | None = None, cache_mode: CacheMode = "use"
    ) -> ListToolsResult:
        """List the tools that are available under the handle, or without it if the server refuses it."""
        carrying = self._carrying(meta)
        try:
            return await super().list_tools(
                cursor=cursor, meta=carrying, cache_mode=cache_mode if carrying is meta else "bypass"
            )
        except MCPError as error:
            if not self._forgets(error.data, carrying):
                raise
            return await super().list_tools(cursor=cursor, meta=meta, cache_mode=cache_mode)

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: ProgressFnT | None = None,
        *,
        input_responses: InputResponses | None = None,
        request_state: str | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> CallToolResult:
        """Call a tool under the handle, and store the handle of the result, if it has one."""
        carrying = self._carrying(meta)
        result = await super().call_tool(
            name,
            arguments,
            read_timeout_seconds,
            progress_callback,
            input_responses=input_responses,
            request_state=request_state,
            meta=carrying,
        )
        if not self._forgets(result.meta, carrying) and (handle := (result.meta or {}).get(HANDLE_META)):
            self.handle = str(handle)
        return result

    def _carrying(self, meta: RequestParamsMeta | None) -> RequestParamsMeta | None:
        """Return the `_meta` of a request, with the handle unless the request has one of its own."""
        if self.handle is None or self.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return meta
        return cast(RequestParamsMeta, {HANDLE_META: self.handle, **(meta or {})})

    def _forgets(self, answer: Any, carried: Mapping[str, Any] | None) -> bool:
        """Discard the handle that a request carried if the answer refuses it; return whether it does."""
        refused = isinstance(answer, Mapping) and cast("Mapping[str, Any]", answer).get(HANDLE_META) == NO_HANDLE
        if not refused or self.handle != (carried or {}).get(HANDLE_META):
            return False
        self.handle = None
        return True
