"""What a server in front of a gateway answers in ways of its own (SPEC GWY-1, GWY-4, GWY-11).

Completions, log levels and subscriptions to resources are requests that the core knows nothing of: they are passed to
the upstream that they are about. So is the notification that a client's roots have changed.

Without a cache, a gateway is open before it knows what its servers offer. A call that opens a group of such a server,
or calls one of its tools, waits until it has started or failed, which takes `start_timeout` at most. A search can be of
any server: it waits for all that are starting, but not for long, and goes without those that are missing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.server.context import CallNext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from toolfold import Catalog, Component, Profile, ProtocolError, Session, ToolError, ToolfoldError, events
from toolfold.spi import Kind, RequestView, available, quoted, table

from ...mcp.answer.long_results import READ_RESULT
from ...mcp.answer.proxy import CALL_TOOLS
from ...mcp.answer.render import CACHE_HINTS, dumped, input_required, own_fields
from ...mcp.handlers import RequestHandlers
from ...mcp.principal import Principal, principal_of
from ...mcp.request import is_modern
from ...names import LISTS, WIRE_SEPARATOR
from ..grouping import Placed
from ..stored import CHANGED, Item
from ..upstream.life import LoginRequired, UpstreamError
from ..upstream.link import Link
from ..upstream.notifications import check_uri
from ..upstream.upstream import Upstream
from ..upstream.wire import Wire
from . import extensions, tasks
from .asking import asking, made_meanwhile
from .downstream import DownstreamClient, RequestInProgress, ServerContext, as_it_is, remember_request
from .forward import ForwardedRequest, set_level, unknown_resource
from .watched_tasks import WatchedTasks

if TYPE_CHECKING:
    from ..gateway import Gateway

log = logging.getLogger("toolfold.gateway")

ROOTS_CHANGED = "notifications/roots/list_changed"
SEARCH_SECONDS = 5.0
WATCH_SECONDS = 5.0
"""How long a subscription waits to learn which of its resources servers refuse, before it is acknowledged."""
UNWATCH_SECONDS = 2.0
"""How long a subscription that has ended may take to be ended at upstreams."""


def extend(gateway: Gateway, server: Server[Any], handlers: RequestHandlers) -> None:
    """Have `server`, which delivers a gateway's tools, answer all else that the upstreams answer.

    Args:
        gateway: The gateway, which is open.
        server: The server.
        handlers: Its request handlers.
    """
    requests = Requests(gateway, handlers, server)
    gateway.clients.calls, gateway.clients.room = handlers.calls, handlers.room
    handlers.of_upstreams = True
    handlers.bounds.append(requests.able)
    handlers.selections.rights, handlers.legacy.most_sessions = gateway.rights_of, gateway.sessions_of
    handlers.legacy.on_request = gateway.clients.renew
    if handlers.long_results is not None:
        handlers.long_results.noted = partial(gateway.audit.noted, "", READ_RESULT)

    asked_for: set[str] = set()

    async def ask_after_first(ctx: ServerContext, call_next: CallNext) -> Any:
        """Have the first request answered before any server is started, and none that its profile leaves out.

        SPEC GWY-4, ISO-2.
        """
        try:
            return await call_next(ctx)
        finally:
            profile = handlers.profile(ctx)
            if ask_after_first in server.middleware and (profile is None or not gateway.unknown):
                server.middleware.remove(ask_after_first)  # no other request has more to ask
            admitted = {one.key for one in gateway.unknown if gateway.registration.admits(one.key, profile)}
            if not admitted <= asked_for:
                asked_for.update(admitted)
                gateway.ask_unknown(profile)

    server.middleware += [ask_after_first, remember_request, requests.introduce]
    add = server.add_request_handler
    add("tools/call", types.CallToolRequestParams, as_it_is(requests.call, {"content": []}))
    add("prompts/get", types.GetPromptRequestParams, as_it_is(handlers.get_prompt, {"messages": []}))
    read = as_it_is(handlers.read_resource, {"contents": [], **CACHE_HINTS})
    add("resources/read", types.ReadResourceRequestParams, read)
    for kind, lists in LISTS.items():
        listed = as_it_is(partial(handlers.list, kind), {lists.key: [], **CACHE_HINTS})
        add(lists.method, types.PaginatedRequestParams, listed)

    def offer() -> None:
        """Add what servers offer now, so that clients that connect from now on see it."""
        if gateway.offers("completions"):
            add("completion/complete", types.CompleteRequestParams, requests.complete)
        if gateway.offers("logging"):
            add("logging/setLevel", types.SetLevelRequestParams, requests.set_level)
        if gateway.offers("resources"):
            add("resources/subscribe", types.SubscribeRequestParams, requests.subscribe)
            add("resources/unsubscribe", types.UnsubscribeRequestParams, requests.subscribe)
        if gateway.offers("tasks") or gateway.declares(tasks.EXTENSION):
            for method in tasks.METHODS:
                add(method, types.GetTaskRequestParams, requests.task)
            add(tasks.LIST, types.PaginatedRequestParams, requests.list_tasks)
        if gateway.declares(tasks.EXTENSION):
            server.extensions[tasks.EXTENSION] = {}

    offer()
    gateway.on_learned.append(offer)
    handlers.subscriptions.watch = requests.watch
    handlers.subscriptions.watch_tasks = WatchedTasks(gateway, handlers).watch
    server.add_notification_handler(
        "notifications/roots/list_changed", types.NotificationParams, requests.roots_changed
    )


class Requests:
    """The handlers of a server in front of a gateway, where they differ from those of other servers."""

    def __init__(self, gateway: Gateway, handlers: RequestHandlers, server: Server[Any]) -> None:
        self._gateway = gateway
        self._server = server
        self._handlers = handlers

    def able(self, capabilities: dict[str, Any], profile: Profile, _: Catalog) -> dict[str, Any]:
        """Return the capabilities of a server without those that none has of the servers of a profile (SPEC ISO-2)."""
        offers = partial(self._gateway.offers, profile=profile)
        given = {key: one for key, one in capabilities.items() if key not in ("completions", "logging") or offers(key)}
        if (extensions := table(given.get("extensions"))) is not None and not self._gateway.declares(
            tasks.EXTENSION, profile
        ):
            given["extensions"] = {key: one for key, one in extensions.items() if key != tasks.EXTENSION}
        if (resources := table(given.get("resources"))) is not None and not offers("resources"):
            given["resources"] = {key: one for key, one in resources.items() if key != "subscribe"}
        return given

    async def introduce(self, ctx: ServerContext, call_next: CallNext) -> Any:
        """Add to the answer to a handshake that calls can be tasks and what servers have beside the protocol.

        A method that is none of the protocol is answered by the server that it is for. Middleware of the server.
        """
        if extensions.is_foreign(ctx.method) and (handled := await self._foreign(ctx)) is not None:
            return handled
        answer = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover"):
            return answer
        profile = self._handlers.profile(ctx)
        given = dumped(answer)
        able = extensions.with_declared(given.get("capabilities", {}), extensions.declared(self._admitted(profile)))
        if ctx.method == "initialize" and self._gateway.offers("tasks", profile):
            able["tasks"] = tasks.ABLE
        return {**given, "capabilities": able}

    def _admitted(self, profile: Profile | None) -> list[Upstream]:
        """Return the servers of which a profile has anything."""
        admits = self._gateway.registration.admits
        return [one for one in self._gateway.upstreams.values() if admits(one.key, profile)]

    async def _foreign(self, ctx: ServerContext) -> Any:
        """Answer a request, or pass on a notification, of an extension of a server; `None` if it is of none.

        It is none of those that the gateway answers itself.
        """
        known = self._server.get_request_handler(ctx.method), self._server.get_notification_handler(ctx.method)
        if any(known):
            return None
        if ctx.request_id is None:
            return await self._pass_notification(ctx)
        async with self._handlers.request(ctx) as session:
            client, asked = self._client(session, ctx), own_fields(ctx.params)
            name = asked.get("name")
            if ctx.method == extensions.RESOLVE and isinstance(name, str):
                return await self._resolved(ctx, session, client, asked)
            found = extensions.upstreams_for(ctx.method, self._admitted(session.profile))
            if not found:
                return None
            if len(found) > 1:
                raise extensions.ambiguous(ctx.method, found)
            (upstream,) = found
            if not self._may_all(upstream, session.profile, client):
                self._gateway.audit.refused(upstream.key, ctx.method, "right")
                raise ToolError(f"{quoted(ctx.method)} may do anything that {upstream.name} can, which you may not.")
            return await self._asked_of(upstream, ctx, client, asked)

    async def _resolved(
        self, ctx: ServerContext, session: Session, client: DownstreamClient, asked: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what a server says of a call before it is made; of a call by the call-tool proxy, of that inside.

        Raises:
            MCPError: There is no such tool, or it has changed since it was approved: then its server has no say on how
                little a call does.
        """
        inside, name = table(asked.get("arguments")) or {}, str(asked["name"])
        if name in self._gateway.reserved:
            asked = {**asked, "name": str(inside.get("name")), "arguments": table(inside.get("arguments")) or {}}
        placed = self._find(session, "tool", asked["name"])
        upstream = self._gateway.upstreams[placed.server]
        item: Item = (placed.kind, placed.original)
        answer = await self._asked_of(upstream, ctx, client, {**asked, "name": placed.original}, item)
        definition = session.catalog.components["tool"].by_name[asked["name"]].definition
        if CHANGED in (table(definition.get("_meta")) or {}):
            said = f"{quoted(asked['name'])} has changed since it was approved: it may do anything."
            raise MCPError(code=types.INVALID_PARAMS, message=said)
        return {**answer, "name": name} if answer.get("name") == placed.original else answer

    async def _asked_of(
        self,
        upstream: Upstream,
        ctx: ServerContext,
        client: DownstreamClient,
        asked: dict[str, Any],
        item: Item | None = None,
    ) -> dict[str, Any]:
        call, link = RequestInProgress(ctx), upstream.link(client, call=True)
        ask = partial(tasks.asked, link, ctx.method, asked, client, call, item=item)
        answer = await self._counted(client, upstream, ctx, partial(link.performed, ask, client, call))
        given = own_fields(extensions.checked(answer, ctx.method))
        return {"resultType": "complete", **given} if is_modern(ctx) else given

    def _may_all(self, upstream: Upstream, profile: Profile | None, client: DownstreamClient) -> bool:
        """Return whether a request may ask for whatever a server has: its session may, and so does its own token."""
        rights = self._gateway.rights_of(client.asks_as[0])
        return all(self._gateway.registration.admits_all(upstream.key, one) for one in (profile, rights))

    async def _pass_notification(self, ctx: ServerContext) -> Any:
        """Pass a notification on to the server that it is for, if there is a connection to it."""
        async with self._handlers.session(ctx) as session:
            client = self._client(session, ctx)
            found = extensions.upstreams_for(ctx.method, self._admitted(session.profile))
            may = len(found) == 1 and self._may_all(found[0], session.profile, client)
        if not may:
            return None
        link = found[0].link(client)
        if link.wire is not None and await link.usable(None):
            await link.wire.notify(ctx.method, own_fields(ctx.params))
        return None

    async def _counted(
        self,
        client: DownstreamClient,
        upstream: Upstream,
        ctx: ServerContext,
        answered: Callable[[], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Return the answer of a server to a request that is no call of a tool, which counts and is noted as one."""
        with self._gateway.audit.noted(upstream.key, ctx.method):
            return await self._gateway.forwarding.counted(client, client.asks_as[0], answered)

    async def task(self, ctx: ServerContext, params: types.GetTaskRequestParams) -> dict[str, Any]:
        """Answer a request about a task, which its upstream answers."""
        async with self._handlers.request(ctx) as session:
            client = self._client(session, ctx)
            found = self._gateway.task_of(params.task_id, client, session.profile)
            if found is None:
                raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown task: {quoted(params.task_id)}")
            call, (link, task) = RequestInProgress(ctx), found
            about = {**own_fields(ctx.params), "taskId": task}
            item = link.tasks.item(task)
            ask = partial(tasks.asked, link, ctx.method, about, client, call, item=item)
            answer = await self._counted(client, link.upstream, ctx, partial(link.performed, ask, client, call))
            return tasks.answered(ctx.method, answer, params.task_id, task, link)

    async def list_tasks(self, ctx: ServerContext, params: types.PaginatedRequestParams) -> dict[str, Any]:
        """Return the tasks of a client of the older form, at all upstreams to which it has a connection."""
        if is_modern(ctx):
            raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found", data=ctx.method)
        async with self._handlers.request(ctx) as session:
            client = self._client(session, ctx)
            found: list[dict[str, Any]] = []
            for upstream in self._gateway.upstreams.values():
                if not tasks.lists(upstream) or not self._gateway.registration.admits(upstream.key, session.profile):
                    continue
                with suppress(UpstreamError, ProtocolError):  # one that does not answer has no tasks now
                    found += await self._tasks_at(upstream, client, ctx, session.profile)
            return {"tasks": found}

    async def _tasks_at(
        self, upstream: Upstream, client: DownstreamClient, ctx: ServerContext, profile: Profile | None
    ) -> list[dict[str, Any]]:
        """Return the tasks of a client at an upstream that it may have, with the ids that it has."""
        link, ids = upstream.link(client, call=True), self._gateway.forwarding.task_ids
        ask = partial(link.performed, partial(tasks.listed, link, client), client, RequestInProgress(ctx))
        answer = await self._counted(client, upstream, ctx, ask)
        may = partial(self._gateway.may_have_task, client=client, profile=profile, principal=client.asks_as[0])
        given: list[dict[str, Any]] = [one for one in answer["tasks"] if may(link, one["taskId"])]
        return [{**one, "taskId": ids.of(upstream.key, one["taskId"], client.principal.key)} for one in given]

    async def complete(self, ctx: ServerContext, params: types.CompleteRequestParams) -> dict[str, Any]:
        """Return completions of an argument of a prompt or resource template, as its upstream gives them."""
        asked = own_fields(ctx.params)
        ref = dict(asked.get("ref") or {})
        async with self._handlers.request(ctx) as session:
            if ref.get("type") == "ref/prompt":
                placed = self._find(session, "prompt", str(ref.get("name")))
                ref["name"] = placed.original
            else:
                placed = self._find(session, "resource_template", str(ref.get("uri")))
                ref["uri"] = placed.original
            return await self._pass(ctx, session, placed, {**asked, "ref": ref})

    async def set_level(self, ctx: ServerContext, params: types.SetLevelRequestParams) -> dict[str, Any]:
        """Have the upstreams of a client log at a level, those that start later too."""
        async with self._handlers.request(ctx) as session:
            client = self._client(session, ctx)
        client.level = params.level
        for link, wire in self._open(client):
            await set_level(link, wire, client)
        return {}

    async def subscribe(self, ctx: ServerContext, params: Any) -> dict[str, Any]:
        """Have a client of the legacy era notified when a resource is updated, or no longer."""
        asked, uri = own_fields(ctx.params), str(params.uri)
        async with self._handlers.request(ctx) as session:
            client = self._client(session, ctx)
            async with client.turn(uri):  # so that of requests that overlap the last one counts
                if ctx.method == "resources/unsubscribe":
                    return await self._unwatch(client, session.view(), uri, asked)
                return await self._watch(client, session, uri, asked)

    async def _watch(
        self, client: DownstreamClient, session: Session, uri: str, asked: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Have a client notified of updates of a resource; if that fails, it is notified as it was before."""
        link, before = self._link_of(client, session.view(), uri), client.watched.get(uri)
        check_uri(uri)
        if before is None:
            self._handlers.room.take(client.caller, 1, len(uri))
        client.watched[uri] = link

        def passed_on(update: dict[str, Any]) -> None:
            if self._may_watch(session, client, uri, link):
                link.pass_on(client, partial(client.notify, "notifications/resources/updated", update))

        try:
            return await link.watch(asked, client, passed_on)
        except BaseException:
            if before is None:
                self._give_back(client, uri)
            elif uri in client.watched:
                client.watched[uri] = before
            raise

    async def _unwatch(
        self, client: DownstreamClient, view: RequestView, uri: str, asked: Mapping[str, Any]
    ) -> dict[str, Any]:
        link = client.watched.get(uri) or self._link_of(client, view, uri)
        self._give_back(client, uri)
        return await link.unwatch(asked, client)

    def _link_of(self, client: DownstreamClient, view: RequestView, uri: str) -> Link:
        """Return the connection over which a client watches a resource, or raise the error for an unknown one."""
        upstream = self._gateway.upstream_of(uri, client, view)
        if upstream is None:
            raise unknown_resource(uri, modern=False)
        return upstream.link(client)

    def _may_watch(
        self, session: Session, client: DownstreamClient, uri: str, link: Link, *principals: Principal
    ) -> bool:
        """Return whether a client may have a resource by now, whatever it might when it began to watch it (ISO-2).

        Each of the principals may have it: the client as its last token says, and as that of its subscription does.
        """
        try:
            views = [self._handlers.selections.view(session, one) for one in (client.principal, *principals)]
        except MCPError:
            return False
        return all(self._gateway.upstream_of(uri, client, view) is link.upstream for view in views)

    def _give_back(self, client: DownstreamClient, uri: str) -> None:
        """Take note that a client no longer watches a resource, unless that is noted already."""
        if client.watched.pop(uri, None) is not None:
            self._handlers.room.give_back(client.caller, 1, len(uri))

    async def watch(
        self,
        ctx: ServerContext,
        uris: Sequence[str],
        updated: Callable[[str], None],
        *,
        task_status: TaskStatus[Iterable[str]] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `updated` for a subscription of the modern era when one of its resources is updated, until cancelled.

        `task_status` is started with those that are watched, not those refused: soon, also while servers start.
        """
        said = False
        try:
            async with self._handlers.session(ctx) as session:
                client, view = self._client(session, ctx), session.view()
                own = principal_of(ctx)
                watch = Watch(updated, lambda uri, link: self._may_watch(session, client, uri, link, own))
                try:
                    for uri in uris:
                        await anyio.lowlevel.checkpoint()  # there may be many of them
                        if (upstream := self._gateway.upstream_of(uri, client, view)) is not None:
                            with suppress(ToolfoldError):
                                watch.links[uri] = upstream.link(client)
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(watch.run)
                        with anyio.move_on_after(WATCH_SECONDS):
                            await watch.begun.wait()
                        said = True
                        task_status.started([*watch.links])
                        await anyio.sleep_forever()
                finally:
                    await unwatch([*watch.links.items()], watch)
                    self._gateway.clients.release(client)
        except (MCPError, ToolfoldError) as error:  # of the handle, if it has one
            log.warning("a client can't be notified of updates of resources: %s", error)
            if not said:
                task_status.started(())

    async def roots_changed(self, ctx: ServerContext, params: types.NotificationParams) -> None:
        """Notify the upstreams of a client that its roots have changed."""
        async with self._handlers.request(ctx) as session:
            client = self._client(session, ctx)
        for _, wire in self._open(client):
            if not wire.facts.modern:
                await wire.notify(ROOTS_CHANGED)

    def _open(self, client: DownstreamClient) -> list[tuple[Link, Wire]]:
        """Return the open connections that a client has of its own."""
        links = [link for one in self._gateway.upstreams.values() for link in one.links if link.client is client]
        return [(link, link.wire) for link in links if link.wire is not None]

    def _client(self, session: Session, ctx: ServerContext) -> DownstreamClient:
        return self._gateway.clients.of_session(session.id, ctx)

    def _find(self, session: Session, kind: Kind, name: str) -> Placed:
        """Return something of an upstream that is available in the session."""
        component = session.catalog.components[kind].by_name.get(name)
        placed = self._gateway.registration.find(kind, name)
        if component is None or placed is None or not available(component, session.view()):
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown {kind.replace('_', ' ')}: {name[:200]}")
        return placed

    async def _pass(
        self, ctx: ServerContext, session: Session, placed: Placed, params: dict[str, Any]
    ) -> dict[str, Any]:
        client, item = self._client(session, ctx), (placed.kind, placed.original)
        upstream = self._gateway.upstreams[placed.server]
        asked = ForwardedRequest(upstream, ctx.method, params, client, item)
        answer = await self._gateway.forwarding.request(asked, RequestInProgress(ctx))
        assert isinstance(answer, dict), "only calls, prompts and resources ask for input"
        return {"resultType": "complete", **answer} if is_modern(ctx) else answer

    # -- calls of servers that are starting, or whose tools are withheld ----------------------------------------------

    async def call(self, ctx: ServerContext, params: types.CallToolRequestParams) -> Any:
        """Answer a call of a tool.

        Of a server that the profile of the caller's session leaves out, it says and starts no more than of one that
        there is not (SPEC ISO-2).
        """
        params = await self._named_here(ctx, params)
        name, arguments = self._called(params)
        component = self._gateway.tools.catalog.tools.get(name)
        all_unknown = self._gateway.unknown_to(principal_of(ctx))
        placed = self._gateway.registration.find("tool", name)
        own = placed is not None and placed.by_caller  # else all have it who have its server
        if component is not None and component.control is None and not all_unknown and not own:
            return await self._handlers.call(ctx, params)
        try:
            async with self._handlers.session(ctx) as session:
                profile, catalog, client = session.profile, session.catalog, self._client(session, ctx)
        except (MCPError, ToolfoldError):
            return await self._handlers.call(ctx, params)  # which answers with it
        component = catalog.tools.get(name)
        late = [one for one in all_unknown if self._gateway.registration.admits(one.key, profile)]
        if component is not None and component.control is None and not any(_is_of(one.key, name) for one in late):
            return await self._handlers.call(ctx, params)
        reason, text = catalog.why_withheld(name) or ("", "")
        if component is None and reason == "quarantined":
            self._gateway.tools.observers.notify(events.Refused(session.id, reason))
            return _refusal(text)
        needed, named = self._needed(name, arguments, component, late, catalog)
        if needed:
            try:
                await made_meanwhile(self._gateway.callers, RequestInProgress(ctx))
            except ToolError as declined:
                return _refusal(str(declined))
            failed: dict[Upstream, UpstreamError] = {}
            with self._handlers.answering(ctx, params.name), anyio.move_on_after(None if named else SEARCH_SECONDS):
                await _found_out(needed if named else [one for one in needed if not one.reason], client, failed)
            required = [one for one in failed.values() if isinstance(one, LoginRequired)]
            if named and required and params.name != CALL_TOOLS:
                with suppress(LoginRequired):
                    return self._asking(required[0], client, ctx)
            missing = needed if named else await self._not_said(ctx, needed)
            if text := _missing(missing, principal_of(ctx), failed):
                alone = named and params.name != CALL_TOOLS
                return _refusal(text) if alone else await self._without(ctx, params, text)
        profile = self._handlers.selections.renewed(profile, ctx)
        return self._inside(params, profile) or await self._handlers.call(ctx, params)

    async def _named_here(self, ctx: ServerContext, params: types.CallToolRequestParams) -> Any:
        """Return a call of a tool by its name here: one that a view makes has the name that its server has (GWY-18)."""
        gateway, name = self._gateway, params.name
        if name in gateway.tools.catalog.tools or not gateway.registration.finder.called_by_views(name):
            return params
        async with self._handlers.request(ctx) as session:
            own = gateway.tool_of_view(name, self._client(session, ctx), session.catalog)
        return params if own is None else params.model_copy(update={"name": own})

    def _asking(self, required: LoginRequired, client: DownstreamClient, ctx: ServerContext) -> dict[str, Any]:
        """Return what a client is asked for that has to log in first; raises `LoginRequired` where it can't be."""
        try:
            return input_required(asking(required, client, RequestInProgress(ctx), self._gateway.forwarding.pages))
        except ProtocolError as error:
            raise MCPError(code=error.code, message=error.message, data=error.data) from error

    async def _not_said(self, ctx: ServerContext, upstreams: Sequence[Upstream]) -> list[Upstream]:
        """Return the servers without those that failed for a reason that a client has read beside another answer."""
        async with self._handlers.request(ctx) as session:
            said = self._client(session, ctx).said
        found = [one for one in upstreams if not one.reason or said.get(one.key) != one.reason]
        said |= {one.key: one.reason for one in upstreams}
        return found

    async def _without(self, ctx: ServerContext, params: types.CallToolRequestParams, missing: str) -> Any:
        """Answer a call without the servers that are missing, which the answer says."""
        answer = await self._handlers.call(ctx, params)
        result = table(answer)
        if result is None or "content" not in result:
            return answer
        note = {"type": "text", "text": f"Not all servers have said what they offer. {missing}"}
        return {**result, "content": [*result["content"], note]}

    def _inside(self, params: types.CallToolRequestParams, profile: Profile | None) -> types.CallToolResult | None:
        """Return the groups of a server that was listed as one itself until it had started, if that is opened."""
        catalog = self._gateway.tools.runtime.catalogs.under(profile)
        component = catalog.tools.get(params.name)
        if component is None or component.control is None or component.control[0] != "load":
            return None
        assert component.loader is not None
        server = component.loader.accepted.read(params.arguments or {}).get(component.loader.argument)
        if not isinstance(server, str) or server in catalog.index or server not in self._gateway.config.upstreams:
            return None
        own = self._gateway.registration.groups_of(server)
        lines = [f"- {one.path}: {one.description}" for one in catalog.groups if one.path in own and one.controls]
        text = "\n".join([f"{server} is no group now: its tools are in these. Open the one that you need.", *lines])
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)]) if lines else None

    def _called(self, params: types.CallToolRequestParams) -> tuple[str, Mapping[str, Any]]:
        """Return the tool that a call is of, and its arguments; a call-tool proxy calls another one."""
        arguments = params.arguments or {}
        if params.name in self._gateway.reserved:
            return str(arguments.get("name")), {"arguments": arguments.get("arguments")}
        return params.name, arguments

    def _needed(
        self,
        name: str,
        arguments: Mapping[str, Any],
        component: Component | None,
        unknown: list[Upstream],
        catalog: Catalog,
    ) -> tuple[list[Upstream], bool]:
        """Return which of the servers of which nothing is known a call needs, and whether it names them."""
        if not unknown:
            return [], False
        if component is not None and component.control is not None and component.control[0] == "find":
            return unknown, False
        texts = {name, *_texts(arguments)}
        config = self._gateway.config
        named = [one for one in unknown if not config.prefixed or any(_is_of(one.key, text) for text in texts)]
        if named or name == CALL_TOOLS:
            return named, True
        known = catalog.index.keys() - set(config.paths().values())
        return ([], False) if component is not None and texts & known else (unknown, False)


class Watch:
    """What one subscription of the modern era watches: `links` has the connection by the URI of each resource.

    `updated` is called with what is updated, as long as `may` says of the resource and its connection that it may be.
    `begun` is set once each is watched or refused; what is refused is taken out.
    """

    def __init__(self, updated: Callable[[str], None], may: Callable[[str, Link], bool]) -> None:
        self.links: dict[str, Link] = {}
        self.begun = anyio.Event()
        self._updated = updated
        self._may = may

    async def run(self) -> None:
        """Watch the resources, side by side: a server that starts or is slow holds up those of no other."""
        async with anyio.create_task_group() as tasks:
            for uri, link in self.links.items():
                tasks.start_soon(self._watch, uri, link)
        self.begun.set()

    async def _watch(self, uri: str, link: Link) -> None:
        def passed_on(update: dict[str, Any]) -> None:
            if self._may(uri, link):
                self._updated(str(update.get("uri")))

        try:
            await link.watch({"uri": uri}, self, passed_on)
        except ToolfoldError as error:
            log.warning("a client can't be notified of updates of a resource: %s", error)
            del self.links[uri]


async def unwatch(watched: Sequence[tuple[str, Link]], watcher: object) -> None:
    """Have somebody watch these resources no longer, at once; servers are asked as far as they answer soon."""
    for uri, link in watched:
        link.watched.remove(uri, watcher)
    with anyio.move_on_after(UNWATCH_SECONDS, shield=True):
        for uri, link in watched:
            with suppress(ToolfoldError):
                await link.unwatch({"uri": uri}, watcher)


def _refusal(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _missing(upstreams: Iterable[Upstream], principal: Principal, failed: Mapping[Upstream, UpstreamError]) -> str:
    """Return what a model reads of servers of which nothing is known by now; an empty text if there are none."""
    late = [one for one in upstreams if not one.knows(principal)]
    own = [str(failed[one]) for one in late if one in failed]
    asked = [f"Open the group {one.name} to log in there." for one in late if one not in failed and one.by_each]
    reasons = [f"{one.name} {one.condition[1]}" for one in late if one not in failed and not one.by_each]
    return " ".join([*own, *asked, *reasons, *(["Ask again later, or do without."] if reasons else [])])


async def _found_out(
    upstreams: Iterable[Upstream], client: DownstreamClient, failed: dict[Upstream, UpstreamError]
) -> None:
    """Return once it is known what servers offer to a client; `failed` gets why it is not, where that is his own."""

    async def find_out(upstream: Upstream) -> None:
        try:
            await upstream.found_out_for(client)
        except UpstreamError as error:
            failed[upstream] = error

    async with anyio.create_task_group() as tasks:
        for upstream in upstreams:
            tasks.start_soon(find_out, upstream)


def _is_of(server: str, name: str) -> bool:
    """Return whether a tool or a group is a server's, or the group of all that it has, by its name."""
    return name == server or name.startswith((f"{server}{WIRE_SEPARATOR}", f"{server}."))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts anywhere in the arguments of a call, which hosts may give as JSON text (SPEC GWY-20)."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
            if one[:1] in ("{", "[", '"'):
                with suppress(ValueError, RecursionError):
                    left.append(json.loads(one))
        elif isinstance(one, Mapping):
            left += cast("Mapping[str, Any]", one).values()
        elif isinstance(one, list):
            left += one
