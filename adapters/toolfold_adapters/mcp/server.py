"""`build_server`: a tool set as a low-level MCP server for clients of both eras (SPEC 18)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Literal, get_args

import anyio
from anyio.abc import TaskGroup
from mcp.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from starlette.applications import Starlette

from toolfold import ConfigError, Profile, Session, ToolNotFound, ToolSet, WireNames, __version__
from toolfold.spi import Event, ListsAnnounced, SessionPool, Tally

from ..names import WIRE_LENGTH, WIRE_SEPARATOR
from ..sdk import wrap_endpoint
from ..tokens import ANSWER_TOKENS
from .answers import AnswerForm, AnswerOptions, SessionAnswers
from .disclosure import EXTENSION, SETTINGS, Disclosure, GroupParams, GroupsListParams
from .handlers import RequestHandlers
from .handles import Handles, SignedHandles, Stale, signing_keys
from .http_sessions import BoundedSessions
from .instructions import instructions_for
from .legacy import ConnectionSessions
from .limits import DEFAULTS, Limits
from .modern import HandleDelivery
from .notify import background
from .principal import PrincipalSessions
from .proxy import CallToolProxy, reserve_names
from .render import Renderer
from .selection import Selection
from .sessions import SessionDelivery
from .subscriptions import Subscriptions

log = logging.getLogger("toolfold.mcp")

ENDING_SECONDS = 10
"""How long a server waits at its end for the hooks that tear down its sessions."""

Delivery = Literal["auto", "principal"]
Extend = Callable[[Server[Any], Callable[[Any], AbstractAsyncContextManager[Session]]], None]


class ToolSetServer(Server[TaskGroup]):
    """A low-level MCP server that delivers a tool set; made by `build_server`."""

    legacy_instructions: str = ""
    limits: Limits = DEFAULTS

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Return the HTTP application of the SDK, with sessions limited per caller (SPEC SES-4)."""
        options.setdefault("max_sessions", None)
        app = super().streamable_http_app(**options)
        if not self.session_manager.stateless:
            tally = Tally("sessions", self.limits.sessions)
            wrap_endpoint(self, lambda endpoint: BoundedSessions(endpoint, self, tally))
        return app

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the options of a legacy connection, which advertise that lists change (SPEC NTF-4)."""
        changing = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        options = super().create_initialization_options(
            notification_options or changing, experimental_capabilities, extensions or {}
        )
        return options.model_copy(update={"instructions": self.legacy_instructions or None})


def build_server(
    tools: ToolSet,
    *,
    delivery: Delivery = "auto",
    separator: str = WIRE_SEPARATOR,
    max_name_length: int = WIRE_LENGTH,
    profile: str | Profile | None = None,
    active: Iterable[str] = (),
    selection: bool = True,
    disclosure: bool = True,
    instructions: str | None = None,
    version: str = __version__,
    call_tool: str = "call_tool",
    legacy_call_tool: bool = True,
    handle_key: str | bytes | Sequence[str | bytes] | None = None,
    handle_lifetime: float = 3600,
    stale_handles: Stale = "normalise",
    limits: Limits = DEFAULTS,
    handles: Handles = "auto",
    answers: AnswerForm = "auto",
    answer_tokens: int = ANSWER_TOKENS,
    extend: Extend | None = None,
) -> Server[TaskGroup]:
    """Return a low-level MCP server that delivers `tools` to clients of both eras.

    Each legacy client (up to 2025-11-25) has a session with its own lists, and is notified of each change of them
    (SPEC DEL-1). Modern clients (2026-07-28) have lists that no request changes (SPEC DEL-7); opening a group returns a
    handle, under which the tool `call_tool` calls what became available (SPEC DEL-2). In both eras a request may select
    groups (SPEC DEL-4) and may declare the draft extension for groups (SPEC DEL-5).

    Args:
        tools: The tool set to deliver. Its name is the server's.
        delivery: `"auto"`: by the era of each request. `"principal"`: the same, but each authenticated caller has
            modern lists of its own (SPEC DEL-6).
        separator: Replaces the dot in names on the wire (SPEC NAM-6). Several clients refuse dots; `"."` keeps them.
        max_name_length: How many characters a tool's name may have on the wire; several clients refuse more than 64.
        profile: The profile that sessions are opened under (SPEC PRO-1).
        active: Further groups, or one, that sessions start with.
        selection: Whether a request may select groups in its URL or headers (SPEC DEL-4). It can select only those that
            are `selectable`.
        disclosure: Whether to offer the draft extension for groups (SPEC DEL-5).
        instructions: The server's instructions; how to open groups is added.
        version: The server's version; Toolfold's own by default.
        call_tool: The name of the tool that calls other tools.
        legacy_call_tool: Whether legacy clients are offered it too (SPEC DEL-8).
        handle_key: The secret that signs handles, or several of which the last one signs; by default that in the
            environment variable `TOOLFOLD_HANDLE_KEY`, or a random one of this process (SPEC DEL-3).
        handle_lifetime: Seconds for which a handle is accepted; if groups have hooks, after its last use.
        stale_handles: `"normalise"` or `"refuse"` a handle that was made before the groups changed.
        limits: The limits in all and per caller (SPEC SAF-4).
        handles: `"auto"`: a handle is the signed state itself unless groups have hooks. `"stored"`: it identifies a
            session that the server stores, and has only 22 characters for a model to copy (SPEC DEL-3).
        answers: How an answer to opening a group describes the tools that became available (SPEC CTL-4):
            `"definitions"` with name, description and input schema, for clients that never list again; `"names"` by
            name only; `"auto"` with definitions, except in a session whose client has listed again after an earlier
            change of its list.
        answer_tokens: The maximum length of the library's own answers, in approximate tokens. Beyond it, tools are
            described without schemas, then without descriptions, and finally only their number is given.
        extend: Called with the server and a function that yields the session of a request, to add handlers for
            anything but tools, prompts and resources.

    Raises:
        ConfigError: A setting is wrong, or two names would be the same on the wire.
        ToolfoldError: The initial groups can't be active together.
    """
    if delivery not in get_args(Delivery):
        raise ConfigError(f'There is no delivery {delivery!r}; use "auto" or "principal".')
    if handles not in get_args(Handles):
        raise ConfigError(f'handles must be "auto" or "stored", not {handles!r}.')
    options = AnswerOptions(form=answers, tokens=answer_tokens)
    wire = WireNames(separator, max_name_length)
    default = Selection(tools.profile(profile), active, by_request=selection)
    default.start(tools)
    stored = tools.pool.part("stored sessions", limits.handles, handle_lifetime, time.monotonic)
    subscriptions = Subscriptions(by_caller=delivery == "principal")
    renderer = Renderer(wire, modern=False)
    legacy = SessionDelivery(
        ConnectionSessions(tools, default, Tally("sessions", limits.sessions)),
        renderer,
        SessionAnswers(renderer, options, wire),
        CallToolProxy(call_tool, with_handle=False) if legacy_call_tool else None,
    )
    modern: HandleDelivery | SessionDelivery
    if delivery == "principal":
        renderer = Renderer(wire, modern=True, cache_scope="private")
        principals = PrincipalSessions(tools, default, stored, subscriptions)
        modern = SessionDelivery(principals, renderer, SessionAnswers(renderer, options, wire))
    else:
        signed = SignedHandles(signing_keys(handle_key, os.environ), handle_lifetime, stale_handles, time.time)
        modern = HandleDelivery(
            tools,
            wire,
            default,
            signed,
            handles,
            stored,
            CallToolProxy(call_tool, with_handle=True),
            options,
        )
    handlers = RequestHandlers(
        legacy=legacy,
        modern=modern,
        disclosure=Disclosure(tools, wire, default) if disclosure else None,
        by_principal=delivery == "principal",
        subscriptions=subscriptions,
        calls=Tally("requests in progress", limits.calls),
        streams=Tally("subscriptions", limits.streams),
    )
    # The last step that can fail: a server that is not built must not reserve names.
    reserve_names(tools, wire, call_tool if delivery == "auto" or legacy_call_tool else None)

    def input_schema(name: str) -> Any:
        try:
            component = tools.catalog.tools.get(wire.from_wire(name))
        except ToolNotFound:
            return None
        return component.input_schema if component is not None else None

    proxy, catalog = call_tool if delivery == "auto" else None, tools.catalog_under(default.profile)
    server = ToolSetServer(
        tools.name,
        version=version,
        instructions=instructions_for(instructions, catalog, wire, proxy, modern=True) or None,
        lifespan=lambda _: _lifespan(tools, subscriptions, stored),
        get_tool_input_schema=input_schema,
        on_list_tools=partial(handlers.list, "tool"),
        on_call_tool=handlers.call,
        on_list_prompts=partial(handlers.list, "prompt"),
        on_get_prompt=handlers.get_prompt,
        on_list_resources=partial(handlers.list, "resource"),
        on_list_resource_templates=partial(handlers.list, "resource_template"),
        on_read_resource=handlers.read_resource,
        on_subscriptions_listen=handlers.listen,
    )
    handlers.server = server
    server.limits = limits
    server.legacy_instructions = instructions_for(
        instructions, catalog, wire, call_tool if legacy_call_tool else None, modern=False
    )
    if disclosure:
        server.extensions[EXTENSION] = dict(SETTINGS)
        server.add_request_handler("groups/list", GroupsListParams, handlers.list_groups)
        server.add_request_handler("groups/get", GroupParams, handlers.get_group)
    if extend is not None:
        extend(server, handlers.session)
    return server


@asynccontextmanager
async def _lifespan(
    tools: ToolSet, subscriptions: Subscriptions, stored: SessionPool[Session]
) -> AsyncGenerator[TaskGroup]:
    """Yield the task group of a running server, which sends announcements and ends idle sessions (SPEC SES-3)."""
    async with background() as tasks:

        def announce(event: Event) -> None:
            # in memory, each client runs the server
            if isinstance(event, ListsAnnounced) and subscriptions.running[0] is tasks:
                subscriptions.announce(event.kinds)

        stop = tools.observe(announce)
        for pool in (tools.pool, stored):
            tasks.start_soon(_end_idle_sessions, pool, tasks)
        subscriptions.running.append(tasks)
        try:
            yield tasks
        finally:
            stop()
            subscriptions.running.remove(tasks)
            if not subscriptions.running:
                await end_all(stored, ENDING_SECONDS)


async def _end_idle_sessions(pool: SessionPool[Session], tasks: TaskGroup) -> None:
    """End idle sessions of a pool periodically, each time in a task of its own, since hooks may hang."""
    if pool.idle_timeout is not None:
        while True:
            await anyio.sleep(pool.idle_timeout / 10)
            tasks.start_soon(pool.end_idle)


async def end_all(pool: SessionPool[Session], seconds: float) -> None:
    """End all sessions of a pool, and wait for them at most for `seconds`.

    Sessions whose hooks take longer are abandoned. That needs a task that outlives this call, which only asyncio has;
    on trio there is no such limit.
    """
    sessions = pool.sessions
    with anyio.CancelScope(shield=True):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            await pool.end_all()
            return
        task = asyncio.ensure_future(pool.end_all())
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            named = ", ".join(session.id for session in sessions if session.is_open)
            log.warning(
                "hooks of these sessions were still running %g seconds after the server ended: %s", seconds, named
            )
