"""Disclosure, experimental: the draft extension `io.modelcontextprotocol/groups` (SPEC DEL-5).

A client that declares the extension in a request fetches groups by `groups/list` and `groups/get`. Its lists have only
what is in no group, and it calls the tools of a group directly, without opening it.

The draft prescribes an error that the revision of 2026-07-28 no longer has; an unknown group is -32602 here. Groups are
served to clients of `com.google.cloud/toolbox.v1`, too, which servers have today: it has the methods of the draft, but
`groups/list` has every group on one page, since none is in another. Lists are those of any other client then; what is
in a group is called directly.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PaginatedRequestParams,
    RequestParams,
)

from toolfold import (
    Component,
    Group,
    QuotaExceeded,
    Session,
    Snapshot,
    ToolNotFound,
    ToolSet,
    TransitionRequest,
)
from toolfold.spi import KINDS, Kind, Memo, RequestView, ancestors, available, frozen, listed, paged, quoted

from ...names import GROUPS_EXTENSION, GROUPS_SETTINGS, LISTS, TOOLBOX_EXTENSION, draft_name
from ..address.reference import ListSource, ThisCall
from ..answer.render import Renderer
from ..request import Request, Selections, component_called

if TYPE_CHECKING:
    from ..handlers import RequestHandlers

_SHOWN = Memo[None, Mapping[str, Group]](most=1)
"""The groups that requests with one initial state are offered, where nothing but that state decides."""


class GroupParams(RequestParams):
    """The parameters of `groups/get`."""

    name: str


@frozen(eq=False)
class Disclosed:
    """What one request is offered: the groups that its caller may fetch, and what is in each.

    Args:
        start: The initial state of the request.
        root: A view of what is in no group.
    """

    start: Snapshot
    _root: RequestView

    @cached_property
    def changing(self) -> bool:
        """Whether more decides than the initial state."""
        return any(kind.changing for kind in self.start.catalog.components.values())

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        """The groups by name, in order; not those whose tools are all withheld from the caller."""
        return self._shown() if self.changing else _SHOWN.of(self.start.memo, None, self._shown)

    def _shown(self) -> Mapping[str, Group]:
        shown: dict[str, Group] = {}
        above: dict[str | None, bool] = {}
        for group in reversed(self.start.selectable_groups):  # parents after their children
            visible = above.get(group.path, False) or any(self.of(group.path, kind) for kind in KINDS)
            if visible or (group.path not in above and not self._has_members(group.path)):
                visible, shown[draft_name(group.path)] = True, group
            above[group.parent] = above.get(group.parent, False) or visible
        return dict(sorted(shown.items()))

    def _has_members(self, path: str) -> bool:
        held = self.start.catalog.components.values()
        return any(component.belongs_to(path) for kind in held for component in kind.by_name.values())

    def inside(self, path: str | None) -> dict[str, Group]:
        """Return the groups in a group, or at root."""
        return {name: group for name, group in self.groups.items() if group.parent == path}

    def of(self, path: str, kind: Kind) -> tuple[Component, ...]:
        """Return what a group has, but for what is listed to everybody: nothing is in two places."""
        try:
            opened = self.start.after(TransitionRequest(activate=(*ancestors(path), path)))
        except QuotaExceeded:  # it can't be used
            return ()
        top = {component.name for component in listed(self._root, kind)}
        return tuple(one for one in listed(self._root.of(opened), kind, path) if one.name not in top)

    def contents(self, path: str, kind: Kind) -> tuple[Component, ...]:
        """Return what a group has, each as in the first group that has it: the same in all of them."""
        return tuple(one if one.modes is None else self._first(one, kind) for one in self.of(path, kind))

    def _first(self, component: Component, kind: Kind) -> Component:
        """Return a composite tool, which depends on what is open, as the first group that has it shows it."""
        paths = paths_of(component, self.start)
        return next(one for path in paths for one in self.of(path, kind) if one.name == component.name)


def paths_of(component: Component, start: Snapshot) -> list[str]:
    """Return the groups of something that can be fetched in a state."""
    return [group.path for group in start.selectable_groups if component.belongs_to(group.path)]


@frozen(eq=False)
class Disclosure:
    """The states of requests that declare the extension, in which a group is open for one call, and the groups.

    Args:
        tools: The tool set.
        selections: The initial states of requests.
        renderer: Renders definitions.
    """

    _tools: ToolSet
    _selections: Selections
    _renderer: Renderer

    handle_of: ClassVar[None] = None

    @asynccontextmanager
    async def reading(self, request: Request) -> AsyncGenerator[ListSource]:
        """Yield what a list is made from: what is in no group."""
        start = Snapshot.of(self._start(request.ctx).catalog.ungrouped)
        yield ListSource(start, private=self._selections.is_private(request.ctx))

    @asynccontextmanager
    async def state(
        self, request: Request, kind: Kind, name: str, _: object
    ) -> AsyncGenerator[tuple[Session, ThisCall]]:
        """Yield a session for a request for something, with a group of it open; its hooks run before and after.

        Control tools are unknown, since nothing that they open would stay open.
        """
        start, profile = self._start(request.ctx), self._selections.of(request.ctx).profile
        component = self._find(start, kind, name)
        if component is not None and component.control is not None:
            raise ToolNotFound(component.name)
        state = self._opened(start, component)
        if not state.catalog.has_hooks:
            async with self._tools.request_session(state, profile) as session:
                yield session, ThisCall()
            return
        async with self._tools.request_session(Snapshot.of(state.catalog), profile) as session:
            await session.set_up(state.active)
            yield session, ThisCall()

    def groups(self, ctx: Any, cursor: str | None = None) -> dict[str, Any]:
        """Return a page of the groups at root, in order of name; `group` returns those inside others."""
        disclosed = self._disclosed(ctx)
        issuer = f"{disclosed.start.catalog.name}/groups"
        page, following = paged(self.top(ctx), itemgetter("name"), issuer, cursor, self._tools.runtime.page_size)
        more = {} if following is None else {"nextCursor": following}
        return {**self._complete(ctx, disclosed, groups=list(page)), **more}

    def top(self, ctx: Any) -> tuple[dict[str, Any], ...]:
        """Return the groups at root as they are listed, in order of name."""
        return tuple(_entry(*item) for item in self._disclosed(ctx).inside(None).items())

    def every(self, ctx: Any) -> dict[str, Any]:
        """Return all groups on one page, by name and description, as `toolbox.v1` has them."""
        disclosed = self._disclosed(ctx)
        entries = [{"name": name, "description": group.description} for name, group in disclosed.groups.items()]
        return self._complete(ctx, disclosed, groups=entries)

    def flat(self, ctx: Any, name: str) -> dict[str, Any]:
        """Return the contents of a group as `toolbox.v1` has them: not below `contents`, without groups inside."""
        answer = self.group(ctx, name)
        contents, _ = answer.pop("contents"), answer.pop("instructions", None)
        return {"name": name, **{one.key: contents.get(one.key, []) for one in LISTS.values()}, **answer}

    def has(self, ctx: Any, kind: Kind, name: str) -> bool:
        """Return whether a tool, prompt, resource or instance of a template is in a group that can be fetched."""
        start = self._start(ctx)
        component = self._find(start, kind, name)
        return component is not None and bool(paths_of(component, start))

    def group(self, ctx: Any, name: str) -> dict[str, Any]:
        """Return the contents of a group: full definitions, and the groups inside; raises `MCPError` if unknown."""
        disclosed = self._disclosed(ctx)
        group = disclosed.groups.get(name)
        if group is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown group: {quoted(name)}")
        inner = [_entry(*item) for item in disclosed.inside(group.path).items()]
        contents: dict[str, Any] = {"groups": inner} if inner else {}
        for kind in KINDS:
            if definitions := self._renderer.definitions(disclosed.contents(group.path, kind)):
                contents[LISTS[kind].key] = definitions
        said = disclosed.start.catalog.instructions([group.path]) or ("" if contents else group.description)
        return self._complete(ctx, disclosed, contents=contents, **({"instructions": said} if said else {}))

    def _opened(self, start: Snapshot, component: Component | None) -> Snapshot:
        """Return the state with the first group open that has `component`; raises if it can't be opened."""
        if component is None or (component.group is None and available(component, self._root(start))):
            return start
        if not (paths := paths_of(component, start)):
            return start
        path = component.group if component.group in paths else paths[0]
        return start.after(TransitionRequest(activate=(*ancestors(path), path)))

    def _find(self, start: Snapshot, kind: Kind, name: str) -> Component | None:
        """Return what is registered under a name on the wire, or the template of which a URI is an instance."""
        if kind == "tool":
            return component_called(start.catalog, self._renderer.names, name)
        found = start.catalog.components[kind].by_name.get(name)
        if found is None and kind == "resource":
            return next((template for template, _ in start.catalog.matching(name)), None)
        return found

    def _start(self, ctx: Any) -> Snapshot:
        return self._selections.of(ctx).start

    def _root(self, start: Snapshot) -> RequestView:
        return self._tools.runtime.view_of(Snapshot.of(start.catalog.ungrouped), self._renderer.names.to_wire)

    def _disclosed(self, ctx: Any) -> Disclosed:
        start = self._start(ctx)
        return Disclosed(start, self._root(start))

    def _complete(self, ctx: Any, disclosed: Disclosed, **result: Any) -> dict[str, Any]:
        """Return an answer, private if it depends on more than the parameters of its request."""
        own = self._selections.is_private(ctx) or disclosed.changing
        scope = {"cacheScope": "private"} if own and self._renderer.modern else {}
        return {**self._renderer.complete(result), **scope}


class Groups(Extension):
    """The draft for groups. Its methods are those of `toolbox.v1`, too, whose clients have answers in that form.

    Args:
        handlers: Those of the server, which know what a client declares, and the limits of its requests.
    """

    identifier = GROUPS_EXTENSION

    def __init__(self, handlers: RequestHandlers) -> None:
        self._handlers = handlers

    def settings(self) -> dict[str, Any]:
        """Return that a client is notified of changes."""
        return dict(GROUPS_SETTINGS)

    def methods(self) -> Sequence[MethodBinding]:
        """Return its two methods."""
        return (
            MethodBinding("groups/list", PaginatedRequestParams, self.list),
            MethodBinding("groups/get", GroupParams, self.get),
        )

    async def list(self, ctx: Any, params: PaginatedRequestParams) -> dict[str, Any]:
        """Answer `groups/list`."""
        with self._handlers.answering(ctx, "groups") as request:
            disclosure, nested = self._groups(request, "groups/list")
            if not request.modern:
                async with self._handlers.session(ctx):  # its client is notified when lists change
                    pass
            return disclosure.groups(ctx, params.cursor) if nested else disclosure.every(ctx)

    async def get(self, ctx: Any, params: GroupParams) -> dict[str, Any]:
        """Answer `groups/get`."""
        with self._handlers.answering(ctx, params.name) as request:
            disclosure, nested = self._groups(request, "groups/get")
            return disclosure.group(ctx, params.name) if nested else disclosure.flat(ctx, params.name)

    def _groups(self, request: Request, method: str) -> tuple[Disclosure, bool]:
        """Return what has the groups of a request, and whether groups can be in groups there."""
        self._handlers.delivery(request)
        if (extension := self._handlers.extension(request)) is not None:
            return self._handlers.disclosure[request.modern], extension == GROUPS_EXTENSION
        if not request.modern:
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=method)
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message=f"{method} needs the extension {GROUPS_EXTENSION} in the request's client capabilities.",
            data={"requiredCapabilities": {"extensions": {GROUPS_EXTENSION: {}}}},
        )


class Toolbox(Extension):
    """`com.google.cloud/toolbox.v1`, whose methods are those of the draft."""

    identifier = TOOLBOX_EXTENSION


def _entry(name: str, group: Group) -> dict[str, Any]:
    return {"name": name, "title": group.display_name, "description": group.description}
