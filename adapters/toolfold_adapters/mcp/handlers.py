"""The request handlers of a server: each request goes to the delivery of its era, within the limits of its caller."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from attrs import evolve
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server

from toolfold import Catalog, Limit, Profile, Session, StoredSessions, ToolfoldError, ToolSet, WireNames, events
from toolfold.spi import Full, Kind, Memo, SessionKind, background

from ..clock import elapsed
from ..hosts import lists_again
from ..names import GROUPS_EXTENSION, TOOLBOX_EXTENSION
from ..stores import MemoryStore
from ..tally import Tally
from .address.handle import HandleStates
from .address.legacy import LegacySessions
from .address.principal import PrincipalSessions, unauthenticated
from .address.signed import SignedHandles, signing_keys
from .answer.answers import Answers, instructions_for, way_of_calling
from .answer.asked import answerable
from .answer.delivery import Address, Check, Delivery
from .answer.long_results import LongResults
from .answer.proxy import proxies_of, reserve_names, with_handle
from .answer.render import Renderer, dumped, raise_on_wire, wire_errors
from .extensions.groups import Disclosure
from .options import ServerSettings
from .principal import principal_of
from .request import (
    Request,
    Selections,
    client_of,
    declared,
    declares_groups,
    is_modern,
    own_client,
    record_refusal,
)
from .subscriptions import Room, Subscriptions

log = logging.getLogger("toolfold.mcp")

RequestContext = ServerRequestContext[TaskGroup, Any]
LEGACY_LIFETIME = 24 * 3600.0
"""Seconds for which a legacy session stays in a store without a request: its client may come back tomorrow."""
ENDING_SECONDS = 10
"""How long a server waits at its end for the hooks that tear down its sessions."""

TasksOf = Callable[[Any], TaskGroup]
Bound = Callable[[dict[str, Any], Profile, Catalog], dict[str, Any]]
"""Returns those of a server's capabilities that there are under a profile, whose catalog this is."""


class RequestHandlers:
    """The handlers of the requests for a tool set, whatever server receives these.

    Args:
        tools: The tool set.
        wire: The names that clients see.
        settings: How it is delivered.
        tasks_of: Returns the task group of a running server, given the context of a request to it.
        resumes: Whether the server resumes legacy sessions from a store, if there is one.

    Attributes:
        tools: The tool set.
        selections: What requests select, within the rights of their callers.
        legacy: The sessions of legacy connections.
        subscriptions: The subscriptions of modern clients.
        calls: Counts requests in progress.
        disclosure: The groups for clients that fetch them, by era, if they are served.
        on_announced: Is called when lists have changed for everybody, while the server runs.
        of_upstreams: Whether the tools are those of other servers, which may change at any time.
        shared: The sessions of callers, and of clients with a process of their own.
        bounds: Each returns those of the server's capabilities that there are under a profile.
        checks: Each is asked before a tool is called, and may refuse that.

    Raises:
        ConfigError: A setting is wrong, or two names would be the same on the wire.
        ToolfoldError: The initial groups can't be active together.
    """

    def __init__(
        self,
        tools: ToolSet,
        wire: WireNames,
        settings: ServerSettings,
        tasks_of: TasksOf = lambda ctx: ctx.lifespan_context,
        *,
        resumes: bool = True,
    ) -> None:
        self.tools = tools
        tools.count_usage(perf_counter, label_of, name_of)
        self.wire = wire
        self._said = Memo[tuple[Any, ...], str](most=8)
        self._settings = settings
        self.selections = Selections(tools, settings.profile, settings.active, by_request=settings.selection)
        _ = self.selections.default.start
        limits, self._by_principal = settings.limits, settings.delivery == "principal"
        self.on_announced: Callable[[], None] = lambda: None
        self.bounds: list[Bound] = []
        self.checks: list[Check] = []
        self.of_upstreams = False
        self._store = settings.store or MemoryStore(elapsed, lease=inf)
        shared = evolve(limits.handles, when_full="refuse")  # others use them, too
        self.shared = self._sessions("shared", "stored sessions", shared, settings.handle_lifetime)
        self._handles = self._sessions(
            "handle", "stored sessions", limits.handles, settings.handle_lifetime, owners=self.shared
        )
        self.calls, self._streams = Tally("requests in progress", limits.calls), Tally("subscriptions", limits.streams)
        self.long_results = LongResults() if settings.read_result else None
        self.room, self.subscriptions = Room(), Subscriptions(by_caller=self._by_principal)
        in_store = resumes and settings.store is not None
        stored = self._sessions("legacy", "sessions", limits.sessions, LEGACY_LIFETIME) if in_store else None
        tally = Tally("sessions", limits.sessions)
        self.legacy = LegacySessions(tools, self.selections, tally, tasks_of, stored)
        render = partial(Renderer, wire)
        legacy = self._delivery(self.legacy, render(modern=False), settings.call_tool_for(modern=False))
        if self._by_principal:
            principals = PrincipalSessions(self.selections, self.shared, self.subscriptions)
            self.subscriptions.before_listening = principals.follow
            modern = self._delivery(principals, render(modern=True, cache_scope="private"))
            self._of_process = modern
        else:
            states = self._handle_states(tasks_of)
            modern = self._delivery(states, render(modern=True, adjust=with_handle), settings.call_tool, handles=True)
            self._of_process = self._delivery(states, render(modern=True), settings.call_tool)
        self._deliveries = {False: legacy, True: modern}
        renderers = {era: render(modern=era) for era in self._deliveries if settings.disclosure}
        self.disclosure = {era: Disclosure(tools, self.selections, one) for era, one in renderers.items()}
        self._disclosed = {era: self._delivery(self.disclosure[era], one) for era, one in renderers.items()}
        # The last step that can fail: a server that is not built must not reserve names.
        reserve_names(tools, wire, settings.added_tools)

    def _sessions(
        self, name: str, what: str, limit: Limit, lifetime: float, owners: StoredSessions | None = None
    ) -> StoredSessions:
        kind = SessionKind(name, what, limit, lifetime, record_refusal)
        return StoredSessions(self.tools, self._store, kind, owners, local=self._settings.store is None)

    def _delivery(
        self, address: Address, renderer: Renderer, call_tool: str | None = None, *, handles: bool = False
    ) -> Delivery:
        """Return a delivery, with the tools that call others if `call_tool` names the one that calls any.

        Their definitions have a handle if its clients are issued `handles`.
        """
        settings = self._settings
        answers = Answers(renderer, settings.answers, settings.answer_tokens)
        proxies = proxies_of(
            call_tool,
            with_handle=handles,
            read_tool=settings.read_tool,
            call_tools=settings.call_tools,
        )
        return Delivery(self.tools, address, renderer, answers, proxies, self.long_results, self.checks)

    def _handle_states(self, tasks_of: TasksOf) -> HandleStates:
        settings = self._settings
        signs = settings.handles == "auto" and not self.tools.catalog.has_hooks
        keys = signing_keys(settings.handle_key, os.environ, outliving=signs and settings.store is not None)
        signed = SignedHandles(keys, settings.handle_lifetime, settings.stale_handles, time.time)
        short = settings.handles == "stored"
        return HandleStates(self.tools, self.selections, signed, short, self._handles, self.shared, tasks_of)

    # -- requests -----------------------------------------------------------------------------------------------------

    def delivery(self, request: Request, kind: Kind = "tool", name: str | None = None) -> Delivery:
        """Return the delivery of a request for something, or of a list.

        Raises if lists are per caller and the caller is not authenticated.
        """
        modern = request.modern
        if modern and self._by_principal and not request.principal.authenticated:
            raise unauthenticated()
        extension = self.extension(request)
        if extension == GROUPS_EXTENSION or (
            extension == TOOLBOX_EXTENSION and name is not None and self.disclosure[True].has(request.ctx, kind, name)
        ):
            return self._disclosed[modern]
        return self._usual(modern=modern)

    def _usual(self, *, modern: bool) -> Delivery:
        """Return the delivery to clients without an extension; one that a process has alone is issued no handles."""
        return self._of_process if modern and own_client.get() else self._deliveries[modern]

    def extension(self, request: Request) -> str | None:
        """Return the extension for groups that the client of a request declares, if it is served."""
        return request.extension if self.disclosure else None

    def profile(self, ctx: RequestContext) -> Profile | None:
        """Return the profile that a request selects, or that all have."""
        return self.selections.of(ctx).profile

    def session(self, ctx: RequestContext) -> AbstractAsyncContextManager[Session]:
        """Return a context manager that yields the session of a request."""
        request = Request.of(ctx)
        return self._usual(modern=request.modern).session(request)

    @asynccontextmanager
    async def request(self, ctx: RequestContext) -> AsyncGenerator[Session]:
        """Yield the session of a request that the caller of this answers, within the limits of who asked."""
        with self.answering(ctx, ctx.method) as request:
            async with self._usual(modern=request.modern).session(request) as session:
                yield session

    @contextmanager
    def answering(self, ctx: RequestContext, asked: str) -> Generator[Request]:
        """Yield a request for `asked`; count it while it is answered, and convert errors into those of the protocol."""
        request = Request.of(ctx)
        try:
            with self.calls.held(request.caller):
                yield request
        except Exception as error:
            raise_on_wire(error, asked, modern=request.modern)

    async def list(self, kind: Kind, ctx: RequestContext, params: types.PaginatedRequestParams | None) -> Any:
        """Answer a request for a list."""
        with self.answering(ctx, kind) as request:
            return await self.delivery(request).list(request, kind, params.cursor if params else None)

    async def call(self, ctx: RequestContext, params: types.CallToolRequestParams) -> Any:
        """Answer a call of a tool; a limit that is reached is reported in an error result, which models read."""
        request = Request.of(ctx)
        try:
            with self.calls.held(request.caller):
                delivery = self.delivery(request, name=params.name)
                return answerable(ctx, params.name, await delivery.call(request, params.name, params.arguments))
        except Full as full:
            record_refusal(full)
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(full))], is_error=True)
        except Exception as error:
            raise_on_wire(error, params.name, modern=request.modern)

    async def get_prompt(self, ctx: RequestContext, params: types.GetPromptRequestParams) -> Any:
        """Answer a request for a prompt."""
        with self.answering(ctx, params.name) as request:
            delivery = self.delivery(request, "prompt", params.name)
            return answerable(ctx, params.name, await delivery.prompt(request, params.name, params.arguments))

    async def read_resource(self, ctx: RequestContext, params: types.ReadResourceRequestParams) -> Any:
        """Answer a request for a resource."""
        uri = str(params.uri)
        with self.answering(ctx, uri) as request:
            return answerable(ctx, uri, await self.delivery(request, "resource", uri).read(request, uri))

    async def listen(self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve a subscription."""
        request = Request.of(ctx)
        with (
            wire_errors("subscriptions", modern=True),
            self._streams.held(request.caller),
            self.room.held(request.caller, ctx, params.notifications),
        ):
            shown = self.extension(request) == GROUPS_EXTENSION
            groups = partial(self.disclosure[request.modern].top, ctx) if shown else None
            return await self.subscriptions.listen(ctx, params, groups, self.profile(ctx))

    # -- the server ---------------------------------------------------------------------------------------------------

    async def end_client(self, client: str) -> None:
        """End the sessions of a client that had a connection of its own, by its name (see `own_client`)."""
        if self.long_results is not None:
            self.long_results.end(client)
        with suppress(ToolfoldError):  # what can't be ended now expires
            await self.legacy.end(client)
            await self.shared.end(client)

    def attach(self, server: Server[Any]) -> None:
        """Note the server whose requests are answered, and have its handshakes answered with what groups add."""
        self.legacy.server = server
        if self.legacy.stored is not None:
            server.middleware.append(self.legacy.remember)
        server.middleware.append(self.introduce)

    async def introduce(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Add to the answer to a handshake how groups are opened, and that lists change; middleware of the server."""
        result = await call_next(ctx)
        if ctx.request_id is None or ctx.method not in ("initialize", "server/discover"):
            return result
        answer, modern = dumped(result), ctx.method == "server/discover"
        answer["capabilities"] = self._capabilities(answer.get("capabilities", {}), ctx)
        if said := self._instructions(answer.pop("instructions", None), ctx, modern=modern):
            answer["instructions"] = said
        if not modern:
            capabilities = answer.get("capabilities", {})
            changing = {**capabilities.get("tools", {}), "listChanged": True}
            answer["capabilities"] = {**capabilities, "tools": changing}
        return answer

    def _capabilities(self, given: dict[str, Any], ctx: RequestContext) -> dict[str, Any]:
        """Return the capabilities that a client has under its profile, which may be fewer (SPEC ISO-2)."""
        selection = self.selections.of(ctx)
        if selection.profile is not None:
            for bound in self.bounds:
                given = bound(given, selection.profile, selection.catalog)
        return given

    def _instructions(self, given: str | None, ctx: RequestContext, *, modern: bool) -> str:
        """Return the instructions for a client: how groups are opened, those given, and those of open groups.

        Groups that an HTTP request selects are open. Clients that declare the extension for groups open none, and are
        listed no tool that does.
        """
        selection = self.selections.of(ctx)
        proxy, issued = self._settings.call_tool_for(modern=modern), modern and not own_client.get()
        if modern:  # the list of a client stays the same
            discloses = bool(self.disclosure) and declared(ctx, modern=True) == GROUPS_EXTENSION
            then = way_of_calling(proxy, handles=issued, lists_again=False)
        else:  # the session has the handshake only once it is answered
            handshake = types.InitializeRequestParams.model_validate(ctx.params)
            discloses = bool(self.disclosure) and declares_groups(handshake)
            then = way_of_calling(proxy, handles=False, lists_again=lists_again(handshake.client_info.name))
        catalog, paths = selection.catalog, selection.paths

        def instructions() -> str:
            said = "\n\n".join(text for text in (given, catalog.initial_instructions(paths)) if text)
            return said if discloses else instructions_for(said, catalog, self.wire, then)

        return self._said.of(catalog.memo, (given, paths, then, discloses), instructions)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[TaskGroup]:
        """Yield the task group of a running server, which sends announcements and ends idle sessions (SPEC SES-3)."""
        subscriptions = self.subscriptions
        async with background() as tasks:

            def announce(event: events.Event) -> None:
                if isinstance(event, events.SessionEnded) and self.long_results is not None:
                    self.long_results.end(event.session)
                # in memory, each client runs the server
                if isinstance(event, events.ListsAnnounced) and subscriptions.running[0] is tasks:
                    self.on_announced()
                    subscriptions.announce(event.kinds, concerns=event.concerns)

            stop = self.tools.observe(announce, (events.ListsAnnounced, events.SessionEnded))
            self.tools.pool.upkeep.start(tasks)
            for sessions in (self.shared, self._handles, self.legacy.stored):
                if sessions is not None:
                    sessions.start(tasks)
            subscriptions.running.append(tasks)
            try:
                yield tasks
            finally:
                stop()
                subscriptions.running.remove(tasks)
                if not subscriptions.running and self.long_results is not None:
                    self.long_results.close()
                if not subscriptions.running and self._settings.store is None:
                    await end_all((self._handles, self.shared), ENDING_SECONDS)


async def end_all(kinds: Iterable[StoredSessions], seconds: float) -> None:
    """End all sessions, kind after kind since the first inherit from the next, and wait at most for `seconds`.

    Sessions whose hooks take longer are abandoned. That needs a task that outlives this call, which only asyncio has;
    on trio there is no such limit.
    """
    ending = [*kinds]
    sessions = [session for kind in ending for session in kind.known]

    async def end() -> None:
        for kind in ending:
            await kind.end_all()

    with anyio.CancelScope(shield=True):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            await end()
            return
        task = asyncio.ensure_future(end())
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            named = ", ".join(session.id for session in sessions if session.is_open)
            log.warning(
                "hooks of these sessions were still running %g seconds after the server ended: %s", seconds, named
            )


def name_of(ctx: Any) -> str:
    """Return the name of the authenticated caller of a request, or `""` (SPEC GWY-19)."""
    if not isinstance(ctx, ServerRequestContext):
        return ""
    principal = principal_of(ctx)
    return str(principal) if principal.authenticated else ""


def label_of(ctx: Any) -> tuple[str, str]:
    """Return the name of the client of a request, and its era, as use is counted by (SPEC EXP-3)."""
    if not isinstance(ctx, ServerRequestContext):
        return "", "in process"
    return client_of(ctx), "modern" if is_modern(ctx) else "legacy"
