"""Disclosure, experimental: the draft extension `io.modelcontextprotocol/groups` (SPEC DEL-5).

A client that declares the extension in a request fetches groups by `groups/list` and `groups/get`. Its lists have only
what is in no group, and it calls the tools of a group directly, without opening it.

The draft prescribes an error that the revision of 2026-07-28 no longer has; an unknown group is -32602 here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    PaginatedRequestParams,
    RequestParams,
)
from pydantic import field_validator

from toolfold import (
    Component,
    GroupSpec,
    Session,
    Snapshot,
    ToolNotFound,
    ToolResult,
    ToolSet,
    TransitionRequest,
    WireNames,
)
from toolfold.spi import KINDS, Kind, ancestors, listed_in, quoted

from .render import LISTS, Renderer
from .selection import SELECTION_FAILURES, DefaultSelection, refusal_text, selection_of

EXTENSION = "io.modelcontextprotocol/groups"
SETTINGS = {"listChanged": False}
_NOT_ALLOWED = re.compile(r"[^a-z0-9]+")
_MAX_LENGTH = 64


class GroupParams(RequestParams):
    """The parameters of `groups/get`."""

    name: str


class GroupsListParams(PaginatedRequestParams):
    """The parameters of `groups/list`, which has one page; so any cursor is refused."""

    @field_validator("cursor")
    @classmethod
    def _refuse(cls, cursor: str | None) -> None:
        if cursor is not None:
            raise ValueError("there is no such page")


class Disclosure:
    """Answers requests that declare the extension, from their initial state.

    Args:
        tools: The tool set.
        wire: The names that clients see.
        default: The initial state that the server was built with.
    """

    def __init__(self, tools: ToolSet, wire: WireNames, default: DefaultSelection) -> None:
        self._tools = tools
        self._wire = wire
        self._default = default
        self._renderer = Renderer(wire, modern=True)

    async def list(self, server: Any, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of what is in no group."""
        catalog = self._start(ctx).catalog.ungrouped
        view = self._tools.view_of(Snapshot.of(catalog), self._wire.to_wire)
        return self._renderer.page(self._tools.page(view, kind, cursor), kind)

    def groups(self, ctx: Any) -> dict[str, Any]:
        """Return the groups at root; `group` returns those inside others."""
        groups = self._start(ctx).selectable_groups
        names = draft_names(groups)
        top = [_group_entry(group, names) for group in groups if group.parent is None]
        return {"resultType": "complete", "groups": top}

    def group(self, ctx: Any, name: str) -> dict[str, Any]:
        """Return the contents of a group: full definitions, and the groups inside; raises `MCPError` if unknown."""
        start = self._start(ctx)
        groups = start.selectable_groups
        names = draft_names(groups)
        path = next((path for path, draft in names.items() if draft == name), None)
        if path is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown group: {quoted(name)}")
        view = self._tools.view_of(start.after(TransitionRequest(activate=(*ancestors(path), path))))
        inner = [_group_entry(group, names) for group in groups if group.parent == path]
        contents: dict[str, Any] = {"groups": inner} if inner else {}
        for kind in KINDS:
            if definitions := self._renderer.definitions(listed_in(view, kind, path)):
                contents[LISTS[kind][1]] = definitions
        described = start.catalog.instructions([path]) or start.catalog.group(path).description
        return {"resultType": "complete", "contents": contents, **({"instructions": described} if described else {})}

    async def call(self, server: Any, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a tool in any group, which is open for this call only.

        Control tools are unknown, since nothing that they open would stay open.
        """
        known = self._wire.from_wire(name)
        try:
            start = self._start(ctx)
            component = start.catalog.tools.get(known)
            if component is not None and component.control is not None:
                raise ToolNotFound(known)
            async with self._session(ctx, start, component) as session:
                view = session.view(to_wire=self._wire.to_wire)
                result = await session.call(
                    known, arguments, progress=ctx.session.report_progress, request=ctx, view=view
                )
        except SELECTION_FAILURES as error:
            result = ToolResult.of_text(refusal_text(error), is_error=True)
        return self._renderer.result(result)

    async def prompt(self, server: Any, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt in any group."""
        start = self._start(ctx)
        async with self._session(ctx, start, start.catalog.components["prompt"].by_name.get(name)) as session:
            return self._renderer.plain(await session.get_prompt(name, arguments, ctx))

    async def read(self, server: Any, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource in any group."""
        start = self._start(ctx)
        components = start.catalog.components
        component = components["resource"].by_name.get(uri)
        if component is None:
            found = next(start.catalog.matching(uri), None)
            component = found[0] if found else None
        async with self._session(ctx, start, component) as session:
            return self._renderer.contents(await session.read(uri, ctx))

    @asynccontextmanager
    async def _session(self, ctx: Any, start: Snapshot, component: Component | None) -> AsyncGenerator[Session]:
        """Yield a session for one call, with the group of `component` open; its hooks run before and after the call."""
        profile = selection_of(self._tools, self._default, ctx.request).profile
        state = _opened(start, component)
        if not state.catalog.has_hooks:
            async with self._tools.request_session(state, profile) as session:
                yield session
            return
        async with self._tools.request_session(Snapshot.of(state.catalog), profile) as session:
            await session.set_up(state.active)
            yield session

    def _start(self, ctx: Any) -> Snapshot:
        return selection_of(self._tools, self._default, ctx.request).start(self._tools)


def _opened(start: Snapshot, component: Component | None) -> Snapshot:
    """Return the state with the group of `component` open, if it is disclosed; raises if it can't be opened."""
    if component is None or component.group not in {group.path for group in start.selectable_groups}:
        return start
    return start.after(TransitionRequest(activate=(*ancestors(component.group), component.group)))


def draft_names(groups: Iterable[GroupSpec]) -> Mapping[str, str]:
    """Return a name for each path, as the draft requires: of lower-case letters, digits and hyphens."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for group in groups:
        plain = _NOT_ALLOWED.sub("-", group.path.lower()).strip("-")[:_MAX_LENGTH] or "group"
        name, number = plain, 1
        while name in used:
            number += 1
            name = f"{plain[: _MAX_LENGTH - len(str(number)) - 1]}-{number}"
        used.add(name)
        names[group.path] = name
    return names


def _group_entry(group: GroupSpec, names: Mapping[str, str]) -> dict[str, Any]:
    return {"name": names[group.path], "title": group.display_name, "description": group.description}
