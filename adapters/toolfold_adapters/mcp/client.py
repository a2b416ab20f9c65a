"""A client whose lists follow the groups that it opens: by handles, or by fetching them (SPEC DEL-11, DEL-5)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

from mcp import Client
from mcp.client.caching import CacheMode
from mcp.client.extension import advertise
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    InputResponses,
    ListToolsResult,
    Request,
    RequestParams,
    RequestParamsMeta,
    Result,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, ValidationError

from toolfold import GroupNotFound
from toolfold.spi import frozen

from ..names import HANDLE_META, NO_HANDLE
from .extensions.offered_groups import EXTENSIONS, different, extension_of, get_group, is_entry, list_groups
from .sdk import known_to_client

log = logging.getLogger("toolfold.mcp")


class _Params(RequestParams):
    name: str | None = None
    cursor: str | None = None


class _GetGroup(Request[_Params, str]):
    """Asks for a group, which HTTP headers name too."""

    name_param = "name"


class _Answer(Result):
    model_config = ConfigDict(extra="allow")


@frozen
class FetchedGroup:
    """A group as `FollowingClient.open_group` fetched it, with the entries of the groups in it."""

    name: str
    instructions: str
    tools: Sequence[Tool]
    groups: Sequence[Mapping[str, Any]]


def _tool_of(definition: Mapping[str, Any]) -> Tool | None:
    """Return a tool by its definition, or `None` for one that would have clients refuse a whole list."""
    try:
        return Tool.model_validate(definition)
    except ValidationError:
        return None


@dataclasses.dataclass
class FollowingClient(Client):
    """An `mcp.Client` whose lists and calls follow the groups that it opens, in either era.

    In the modern era it stores the handle of the latest result and sends it with each later list and call. In the
    legacy era the server keeps a session, and this class changes nothing. Make its calls one at a time: if two
    concurrent calls both open a group, only the handle of the later answer is retained. To continue from an earlier
    state, set `handle` to an earlier handle; to start over, set it to `None`.

    With `groups=True` it declares the extensions for groups, `io.modelcontextprotocol/groups` and
    `com.google.cloud/toolbox.v1`. A server that has one of them lists what is in no group, and keeps no state: then
    `list_groups` has the groups, `open_group` fetches one, and `list_tools` has its tools after all others, so that
    what a provider has cached of earlier turns stays valid.
    """

    handle: str | None = dataclasses.field(default=None, kw_only=True)
    """The handle that the next request carries."""
    groups: bool = dataclasses.field(default=False, kw_only=True)
    """Whether to declare the extensions for groups."""
    opened: dict[str, FetchedGroup] = dataclasses.field(default_factory=dict[str, FetchedGroup], init=False)
    """The groups that were fetched and are open, by name, in that order."""

    def __post_init__(self) -> None:
        if self.groups:
            self.extensions = [*(self.extensions or ()), *(advertise(one, {}) for one in EXTENSIONS)]
        super().__post_init__()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def list_tools(
        self, *, cursor: str | None = None, meta: RequestParamsMeta | None = None, cache_mode: CacheMode = "use"
    ) -> ListToolsResult:
        """List the tools that are available under the handle, or without it if the server refuses it.

        The tools of groups that were fetched come last, each once.
        """
        listed = await self._list(cursor, meta, cache_mode)
        if not self.opened or listed.next_cursor is not None:
            return listed
        known = {tool.name for tool in listed.tools}
        more = [tool for name, tool in self._fetched().items() if name not in known]
        return listed.model_copy(update={"tools": [*listed.tools, *more]})

    def _fetched(self) -> dict[str, Tool]:
        """Return the tools of the open groups by name; one that several of them have is that of the first."""
        found: dict[str, Tool] = {}
        for group in self.opened.values():
            for tool in group.tools:
                found.setdefault(tool.name, tool)
        return found

    async def _list(self, cursor: str | None, meta: RequestParamsMeta | None, cache_mode: CacheMode) -> ListToolsResult:
        carrying = self._carrying(meta)
        try:
            return await self._page(cursor, carrying, cache_mode if carrying is meta else "bypass")
        except MCPError as error:
            if not self._forgets(error.data, carrying):
                raise
            return await self._page(cursor, meta, cache_mode)

    async def _page(self, cursor: str | None, meta: RequestParamsMeta | None, cache_mode: CacheMode) -> ListToolsResult:
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
        if (tool := self._fetched().get(name)) is not None:  # each list makes the session forget it
            known_to_client(self.session, [tool])
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

    async def list_groups(self) -> list[Mapping[str, Any]]:
        """Return the entries of the groups at the top; none if the server has no extension for groups."""
        if not self._has_groups():
            return []
        return [entry for entry in await list_groups(self._ask) if is_entry(entry)]

    async def open_group(self, name: str) -> FetchedGroup:
        """Fetch a group, and have lists contain its tools from now on; fetching it again brings it up to date.

        A tool that another open group defines differently is logged; the group that was opened first has it.

        Raises:
            GroupNotFound: The server has no extension for groups, or this client did not declare it.
            MCPError: It has no such group.
        """
        if not self._has_groups():
            raise GroupNotFound(name, ())
        fetched = await get_group(self._ask, {"name": name})
        tools = [tool for one in fetched.contents["tool"] if (tool := _tool_of(one)) is not None]
        self.opened[name] = FetchedGroup(
            name,
            fetched.group.instructions,
            known_to_client(self.session, tools),
            [entry for entry in fetched.inner if is_entry(entry)],
        )
        self._compare(self.opened[name])
        return self.opened[name]

    def _compare(self, fetched: FetchedGroup) -> None:
        """Log which tools of a group other open groups define differently."""
        order = list(self.opened)
        for other in self.opened.values():
            first, second = sorted((other.name, fetched.name), key=order.index)
            for tool in other.tools:
                if any(one.name == tool.name and one != tool for one in fetched.tools):
                    log.warning(different("tool", tool.name, first, second))

    def close_group(self, name: str) -> None:
        """Leave the tools of a group that was fetched out of lists again."""
        self.opened.pop(name, None)

    def _has_groups(self) -> bool:
        capabilities = self.server_capabilities.model_dump(by_alias=True, exclude_none=True)
        return self.groups and extension_of(capabilities) is not None

    async def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        kind = _GetGroup if method == "groups/get" else Request[_Params, str]
        request = kind(method=method, params=_Params.model_validate(dict(params)))
        return dict((await self.session.send_request(request, _Answer)).model_extra or {})

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
