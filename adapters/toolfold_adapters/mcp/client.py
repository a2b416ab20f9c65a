"""A client whose lists follow the groups that it opens: by handles, or by fetching them (SPEC DEL-11, DEL-5, GWY-2).

Groups are fetched by `groups/list` and `groups/get`, which two extensions have: the draft
`io.modelcontextprotocol/groups`, and `com.google.cloud/toolbox.v1`, which servers of today have. The latter has no
groups in groups, no instructions and no pages, and its answers have at the top what the draft has in `contents`. No
answer is trusted: what is wrong is left out, with a sentence about it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, cast

from attrs import define, field, frozen
from mcp import Client
from mcp.client import advertise
from mcp.client.caching import CacheMode
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

from toolfold import GroupNotFound, ProtocolError
from toolfold.spi import KINDS, Kind, array, enumerated, quoted, table

from ..names import GROUPS_EXTENSION, HANDLE_META, NO_HANDLE, TOOLBOX_EXTENSION
from ..sdk import known_to_client
from .delivery.render import LISTS

log = logging.getLogger("toolfold.mcp")


class _Params(RequestParams):
    name: str | None = None
    cursor: str | None = None


class _ListGroups(Request[_Params, str]):
    """Asks for the groups at the top."""


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
        kind = _GetGroup if method == "groups/get" else _ListGroups
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


# -- the groups of another server --------------------------------------------------------------------------------------

EXTENSIONS = (GROUPS_EXTENSION, TOOLBOX_EXTENSION)
"""The extensions for groups, the one that says more first."""
MOST_GROUPS = 500
"""How many groups of a server are fetched, and how many pages of their list."""
IDENTIFIED_BY: Mapping[Kind, str] = {
    "tool": "name",
    "prompt": "name",
    "resource": "uri",
    "resource_template": "uriTemplate",
}
"""What identifies a definition of each kind within its server."""

Table = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a request, by its method and parameters, and returns its result; raises `ProtocolError`."""


@frozen(kw_only=True)
class OfferedGroup:
    """A group of another server: `parent` is the group that it is in, and `tools` names those that are in it."""

    name: str
    title: str | None = None
    description: str = ""
    instructions: str = ""
    parent: str | None = None
    tools: tuple[str, ...] = ()


@frozen(kw_only=True)
class Fetched:
    """A group with the definitions that are in it, and the entries of the groups that are."""

    group: OfferedGroup
    contents: Mapping[Kind, tuple[Table, ...]]
    inner: tuple[Any, ...]


def extension_of(capabilities: Mapping[str, Any]) -> str | None:
    """Return the extension for groups that a server says it has, or `None`."""
    offered = table(capabilities.get("extensions")) or {}
    return next((one for one in EXTENSIONS if one in offered), None)


async def list_groups(ask: Ask) -> list[Any]:
    """Return the entries on all pages of `groups/list`; raises `ProtocolError`."""
    entries: list[Any] = []
    cursors: dict[str | None, None] = {None: None}
    for _ in range(MOST_GROUPS):
        cursor = next(reversed(cursors))
        page = await ask("groups/list", {} if cursor is None else {"cursor": cursor})
        entries += array(page.get("groups")) or []
        following = page.get("nextCursor")
        if not isinstance(following, str) or following in cursors:
            break
        cursors[following] = None
    return entries


async def get_group(ask: Ask, entry: Table, parent: str | None = None) -> Fetched:
    """Return what is in a group, given its entry in a list; raises `ProtocolError`."""
    answer = await ask("groups/get", {"name": entry["name"]})
    inside = table(answer.get("contents")) or answer
    contents: dict[Kind, tuple[Table, ...]] = {
        kind: tuple(one for one in map(table, array(inside.get(key)) or ()) if one and _identity(kind, one))
        for kind, (_, key) in LISTS.items()
    }
    group = OfferedGroup(
        name=entry["name"],
        title=_text(entry.get("title")) or None,
        description=(description := _text(entry.get("description"))),
        instructions="" if (text := _text(answer.get("instructions"))) == description else text,
        parent=parent,
        tools=tuple(one["name"] for one in contents["tool"]),
    )
    return Fetched(group=group, contents=contents, inner=tuple(array(inside.get("groups")) or ()))


def is_entry(given: Any) -> bool:
    """Return whether something is an entry of a group: it has a name."""
    return bool(_text((table(given) or {}).get("name")))


@define
class OfferedGroups:
    """All groups of a server, those in groups after these, with what is in any of them, each once.

    Attributes:
        groups: The groups by name.
        contents: The definitions by what identifies them, for each kind.
        warnings: Sentences on what is wrong with them.
    """

    groups: dict[str, OfferedGroup] = field(factory=dict[str, OfferedGroup])
    contents: dict[Kind, dict[str, Table]] = field(factory=lambda: {kind: {} for kind in KINDS})
    warnings: list[str] = field(factory=list[str])
    _origins: dict[tuple[Kind, str], str] = field(factory=dict[tuple[Kind, str], str])

    async def fetch(self, ask: Ask) -> None:
        """Fetch all groups, level by level; raises `ProtocolError` if there is no list of them."""
        waiting: list[tuple[Any, str | None]] = [(entry, None) for entry in await list_groups(ask)]
        for entry, parent in waiting:
            if self._is_new(entry, parent):
                waiting += await self._fetch_one(ask, entry, parent)

    def _is_new(self, entry: Any, parent: str | None) -> bool:
        """Return whether a group is to be fetched; one that is in several groups is in the first of them here."""
        place = "groups/list" if parent is None else f"the group {quoted(parent)!r}"
        if not is_entry(entry):
            self.warnings.append(f"A group in {place} has no name, so it is left out.")
            return False
        name = entry["name"]
        if name in (above := self._above(parent)):
            circle = enumerated([*above[: above.index(name) + 1][::-1], name])
            self.warnings.append(f"The groups {circle} contain one another, so {place} is served without {name!r}.")
        elif name not in self.groups and len(self.groups) == MOST_GROUPS:
            self.warnings.append(f"There are more than {MOST_GROUPS} groups, so {quoted(name)!r} is left out.")
        return name not in self.groups and len(self.groups) < MOST_GROUPS

    def _above(self, name: str | None) -> list[str]:
        """Return a group and those that it is in, the innermost first."""
        found: list[str] = []
        while name is not None:
            found.append(name)
            name = self.groups[name].parent
        return found

    async def _fetch_one(self, ask: Ask, entry: Table, parent: str | None) -> list[tuple[Any, str | None]]:
        """Add a group and what is in it; return the entries of the groups in it."""
        try:
            fetched = await get_group(ask, entry, parent)
        except ProtocolError as error:
            self.warnings.append(
                f"The group {quoted(entry['name'])!r} is left out: groups/get answered with the error {error.code} "
                f"({error.message})."
            )
            return []
        name = fetched.group.name
        self.groups[name] = fetched.group
        for kind, definitions in fetched.contents.items():
            for one in definitions:
                self._add(kind, one, name)
        return [(inner, name) for inner in fetched.inner]

    def _add(self, kind: Kind, definition: Table, group: str) -> None:
        identity = _identity(kind, definition)
        if self.contents[kind].setdefault(identity, definition) != definition:
            self.warnings.append(different(kind, identity, self._origins[kind, identity], group))
        self._origins.setdefault((kind, identity), group)


def different(kind: Kind, identity: str, first: str, second: str) -> str:
    """Return a sentence on something that two groups define differently."""
    return (
        f"The {kind.replace('_', ' ')} {quoted(identity)!r} is defined differently by the groups {quoted(first)!r} and "
        f"{quoted(second)!r}; the definition in {quoted(first)!r} is used."
    )


def _identity(kind: Kind, definition: Table) -> str:
    return _text(definition.get(IDENTIFIED_BY[kind]))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
