"""`build_server`: a tool set as a low-level MCP server for clients of both eras (SPEC 18)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, Unpack

import anyio
from anyio.abc import TaskGroup
from attrs import evolve
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp_types import InitializeRequestParams, PaginatedRequestParams
from starlette.applications import Starlette

from toolfold import ConfigError, Limit, StoredSessions, ToolNotFound, ToolSet, WireNames, events
from toolfold.spi import SessionKind, Tally, background

from ..names import GROUPS_EXTENSION, GROUPS_SETTINGS, TOOLBOX_EXTENSION
from ..stores import MemoryStore
from .delivery.answers import Answers, instructions_for
from .delivery.disclosure import Disclosure, GroupParams, ToolboxDelivery
from .delivery.handle import HandleDelivery
from .delivery.legacy import LegacySessions, declares_groups
from .delivery.proxy import CallToolProxy, CallTools, proxies_of, reserve_names, with_handle
from .delivery.render import Renderer
from .delivery.session import PrincipalSessions, SessionDelivery
from .delivery.skills import EXTENSION as SKILLS
from .delivery.skills import SkillHandlers, SkillParams, SkillsListParams, skills_of
from .handlers import Context, RequestHandlers, declares, introducing, label_of
from .handles import SharedSessions, SignedHandles, StoredHandles, signing_keys
from .http.sessions import guard_sessions
from .options import ServerOptions, ServerSettings
from .request import Selections
from .subscriptions import Subscriptions

log = logging.getLogger("toolfold.mcp")


class ToolSetServer(Server[TaskGroup]):
    """A low-level MCP server that delivers a tool set; made by `build_server`."""

    def __init__(self, tools: ToolSet, settings: ServerSettings) -> None:
        wire = WireNames(settings.separator, settings.max_name_length)
        service = Service(tools, wire, settings)
        handlers = service.handlers
        super().__init__(
            tools.name,
            version=settings.version,
            lifespan=lambda _: service.running(),
            get_tool_input_schema=partial(_input_schema, tools, wire),
            on_list_tools=partial(handlers.list, "tool"),
            on_call_tool=handlers.call,
            on_list_prompts=partial(handlers.list, "prompt"),
            on_get_prompt=handlers.get_prompt,
            on_list_resources=partial(handlers.list, "resource"),
            on_list_resource_templates=partial(handlers.list, "resource_template"),
            on_read_resource=handlers.read_resource,
            on_subscriptions_listen=handlers.listen,
        )
        self._tools = tools
        self._service = service
        self._settings = settings
        service.attach(self)
        self._introduce()
        service.on_announced = self._introduce
        skills = SkillHandlers(handlers)
        self.add_request_handler("skills/list", SkillsListParams, skills.list)
        self.add_request_handler("skills/get", SkillParams, skills.get)
        if settings.disclosure:
            self.extensions |= {GROUPS_EXTENSION: dict(GROUPS_SETTINGS), TOOLBOX_EXTENSION: {}}
            self.add_request_handler("groups/list", PaginatedRequestParams, handlers.list_groups)
            self.add_request_handler("groups/get", GroupParams, handlers.get_group)
        self.middleware.append(introducing(self._introduced))
        if settings.extend is not None:
            settings.extend(self, handlers)

    def _introduce(self) -> None:
        """Set how the server introduces itself: instructions, which name its groups, and whether it has skills."""
        given = self._settings.instructions
        self.instructions = self._service.instructions(given, modern=True) or None
        self._legacy_instructions = self._service.instructions(given, modern=False) or None
        self.extensions.pop(SKILLS, None)
        if skills_of(self._tools.catalog):
            self.extensions[SKILLS] = {}

    def _introduced(self, ctx: Context, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an introduction with instructions for its client, where they are not those of all clients.

        They have those of the groups that the request selects; and clients that declare the extension for groups are
        told nothing of control tools, which they are not listed.
        """
        modern = ctx.method == "server/discover"
        declared = self._settings.disclosure and _declares_groups(ctx, modern=modern)
        if not declared and not self._service.selects(ctx.request):
            return answer
        answer.pop("instructions", None)
        given = self._settings.instructions
        said = self._service.instructions(given, modern=modern, declared=declared, request=ctx.request)
        return {**answer, "instructions": said} if said else answer

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Return the HTTP application of the SDK, with sessions limited per caller (SPEC SES-4)."""
        options.setdefault("max_sessions", None)
        app = super().streamable_http_app(**options)
        guard_sessions(self, self._settings.limits.sessions, self._service.legacy)
        return app

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the options of a legacy connection, which advertise that lists change (SPEC NTF-4)."""
        changing = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        spoken = {GROUPS_EXTENSION: dict(GROUPS_SETTINGS)} if self._settings.disclosure else {}
        experimental = {**spoken, **(experimental_capabilities or {})}
        options = super().create_initialization_options(
            notification_options or changing, experimental or None, extensions or {}
        )
        return options.model_copy(update={"instructions": self._legacy_instructions})


def _declares_groups(ctx: Context, *, modern: bool) -> bool:
    if modern:
        return declares(ctx, GROUPS_EXTENSION, modern=True)
    # the session has the handshake only once it is answered
    return declares_groups(InitializeRequestParams.model_validate(ctx.params))


def _input_schema(tools: ToolSet, wire: WireNames, name: str) -> Any:
    """Return the input schema of a tool by its name on the wire; `None` if there is no such tool."""
    try:
        component = tools.catalog.tools.get(wire.from_wire(name))
    except ToolNotFound:
        return None
    return component.input_schema if component is not None else None


def build_server(tools: ToolSet, **options: Unpack[ServerOptions]) -> Server[TaskGroup]:
    """Return a low-level MCP server that delivers `tools` to clients of both eras.

    Each legacy client (up to 2025-11-25) has a session with its own lists, and is notified of each change of them
    (SPEC DEL-1). Modern clients (2026-07-28) have lists that no request changes (SPEC DEL-7); opening a group returns a
    handle, under which the tool `call_tool` calls what became available (SPEC DEL-2). In both eras a request may select
    groups (SPEC DEL-4) and may declare the draft extension for groups (SPEC DEL-5).

    Args:
        tools: The tool set to deliver. Its name is the server's.
        options: How it is delivered: see `ServerOptions`, which describes each.

    Raises:
        ConfigError: A setting is wrong, or two names would be the same on the wire.
        ToolfoldError: The initial groups can't be active together.
    """
    if not hasattr(tools, "catalog"):  # a stand-in will do
        raise ConfigError(
            f"A server is built of a ToolSet, not of a {type(tools).__name__}; "
            "group_server puts groups in front of an existing server."
        )
    server = ToolSetServer(tools, ServerSettings(**options))
    if bare := tools.catalog.undescribed:
        log.warning("tools without a description, so that a model can't know what they do: %s", ", ".join(bare))
    return server


# -- the parts of a server that do not depend on whose it is -----------------------------------------------------------

LEGACY_LIFETIME = 24 * 3600.0
"""Seconds for which a legacy session is kept in a store without a request: its client may come back tomorrow."""
ENDING_SECONDS = 10
"""How long a server waits at its end for the hooks that tear down its sessions."""

TasksOf = Callable[[Any], TaskGroup]


class Service:
    """A tool set as it is delivered, whatever server its requests come to.

    Args:
        tools: The tool set.
        wire: The names that clients see.
        settings: How it is delivered.
        tasks_of: Returns the task group of a running server, given the context of a request to it.
        own: The names of an existing server's own tools, by those that they are registered by.
        resumes: Whether the server resumes legacy sessions from a store, if there is one.

    Attributes:
        handlers: Answer the requests.
        on_announced: Is called when lists have changed for everybody, while the server runs.
        legacy: The sessions of legacy connections.

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
        own: Mapping[str, str] | None = None,
        resumes: bool = True,
    ) -> None:
        self._tools = tools
        tools.count_usage(perf_counter, label_of)
        self._wire = wire
        self._settings = settings
        self._tasks_of = tasks_of
        self._renderer = partial(Renderer, wire, own=own)
        self._selections = Selections(tools, settings.profile, settings.active, by_request=settings.selection)
        _ = self._selections.default.start
        limits, by_principal = settings.limits, settings.delivery == "principal"
        self.on_announced: Callable[[], None] = lambda: None
        self._store = settings.store or MemoryStore(time.monotonic, lease=inf)
        shared = evolve(limits.handles, when_full="refuse")  # others use them, too
        self._shared = self._sessions("shared", "stored sessions", shared, settings.handle_lifetime)
        self._handles = self._sessions(
            "handle", "stored sessions", limits.handles, settings.handle_lifetime, owners=self._shared
        )
        self._legacy_sessions = (
            self._sessions("legacy", "sessions", limits.sessions, LEGACY_LIFETIME)
            if resumes and settings.store is not None
            else None
        )
        tally = Tally("sessions", limits.sessions)
        self.legacy = LegacySessions(tools, self._selections, tally, tasks_of, self._legacy_sessions)
        self._subscriptions = Subscriptions(by_caller=by_principal)
        modern = self._by_principal() if by_principal else self._by_handle()
        disclosure = self._disclosure() if settings.disclosure else {}
        self.handlers = RequestHandlers(
            legacy=self._legacy(),
            modern=modern,
            disclosure=disclosure,
            toolbox=ToolboxDelivery(disclosure[True], modern) if disclosure else None,
            by_principal=by_principal,
            subscriptions=self._subscriptions,
            calls=Tally("requests in progress", limits.calls),
            streams=Tally("subscriptions", limits.streams),
        )
        # The last step that can fail: a server that is not built must not reserve names.
        reserve_names(tools, wire, settings.proxies)

    def _sessions(
        self, name: str, what: str, limit: Limit, lifetime: float, owners: StoredSessions | None = None
    ) -> StoredSessions:
        kind = SessionKind(name, what, limit, lifetime)
        return StoredSessions(self._tools.runtime, self._store, kind, owners, local=self._settings.store is None)

    def _answers(self, renderer: Renderer) -> Answers:
        return Answers(renderer, self._settings.answers, self._settings.answer_tokens)

    def _proxies(self, name: str, *, with_handle: bool) -> dict[str, CallToolProxy | CallTools]:
        settings = self._settings
        return proxies_of(name, with_handle=with_handle, read_tool=settings.read_tool, call_tools=settings.call_tools)

    def _legacy(self) -> SessionDelivery:
        renderer = self._renderer(modern=False)
        name = self._settings.call_tool_for(modern=False)
        return SessionDelivery(
            self._tools,
            self._wire,
            self.legacy.session,
            renderer,
            self._answers(renderer),
            {} if name is None else self._proxies(name, with_handle=False),
        )

    def _disclosure(self) -> dict[bool, Disclosure]:
        make = partial(Disclosure, self._tools, self._wire, self._selections)
        return {modern: make(modern=modern) for modern in (False, True)}

    def _by_principal(self) -> SessionDelivery:
        renderer = self._renderer(modern=True, cache_scope="private")
        principals = PrincipalSessions(self._selections, self._shared, self._subscriptions)
        self._subscriptions.before_listening = principals.follow
        return SessionDelivery(self._tools, self._wire, principals.session, renderer, self._answers(renderer))

    def _by_handle(self) -> HandleDelivery:
        settings = self._settings
        signs = settings.handles == "auto" and not self._tools.catalog.has_hooks
        renderer = self._renderer(modern=True, adjust=with_handle)
        keys = signing_keys(settings.handle_key, os.environ, outliving=signs and settings.store is not None)
        return HandleDelivery(
            self._tools,
            self._wire,
            self._selections,
            SignedHandles(keys, settings.handle_lifetime, settings.stale_handles, time.time),
            settings.handles == "stored",
            StoredHandles(self._handles),
            SharedSessions(self._shared),
            self._proxies(settings.call_tool, with_handle=True),
            renderer,
            self._answers(renderer),
            self._tasks_of,
        )

    def attach(self, server: Server[Any]) -> None:
        """Note the server whose requests are answered, and have the sessions that its handshakes open stored."""
        self.legacy.server = server
        if self.legacy.stored is not None:
            server.middleware.append(self.legacy.remember)

    def selects(self, request: Any) -> bool:
        """Return whether an HTTP request selects groups or a profile itself."""
        return self._selections.of(request) is not self._selections.default

    def instructions(self, given: str | None, *, modern: bool, declared: bool = False, request: Any = None) -> str:
        """Return the instructions for clients of an era: how groups are opened, those given, and those of open groups.

        Clients that declared the extension for groups open none here. Groups that an HTTP request selects are open.
        """
        selection = self._selections.of(request)
        catalog = selection.catalog
        begun = catalog.initial_instructions(selection.paths)
        said = "\n\n".join(text for text in (given, begun) if text)
        if declared:
            return said
        proxy = self._settings.call_tool_for(modern=modern)
        return instructions_for(said, catalog, self._wire, proxy, modern=modern)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[TaskGroup]:
        """Yield the task group of a running server, which sends announcements and ends idle sessions (SPEC SES-3)."""
        subscriptions = self._subscriptions
        async with background() as tasks:

            def announce(event: events.Event) -> None:
                # in memory, each client runs the server
                if isinstance(event, events.ListsAnnounced) and subscriptions.running[0] is tasks:
                    self.on_announced()
                    subscriptions.announce(event.kinds)

            stop = self._tools.observe(announce)
            self._tools.pool.upkeep.start(tasks)
            for sessions in (self._shared, self._handles, self._legacy_sessions):
                if sessions is not None:
                    sessions.start(tasks)
            subscriptions.running.append(tasks)
            try:
                yield tasks
            finally:
                stop()
                subscriptions.running.remove(tasks)
                if not subscriptions.running and self._settings.store is None:
                    await end_all((self._handles, self._shared), ENDING_SECONDS)


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
