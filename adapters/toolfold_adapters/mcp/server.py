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
"""How long the end of a server waits for the hooks that close what it had open."""

Delivery = Literal["auto", "principal"]
Extend = Callable[[Server[Any], Callable[[Any], AbstractAsyncContextManager[Session]]], None]


class ToolSetServer(Server[TaskGroup]):
    """A low-level MCP server that delivers a tool set; made by `build_server`."""

    legacy_instructions: str = ""
    limits: Limits = DEFAULTS

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Return the HTTP application of the SDK, which counts sessions by caller here (SPEC SES-4)."""
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
        """Return the options of a legacy connection, which say that lists change (SPEC NTF-4)."""
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

    Legacy clients (up to 2025-11-25) get a session each: its list, and one notification for each change of it
    (SPEC DEL-1). Modern clients (2026-07-28) get a list that no request changes (SPEC DEL-7); opening a group gives
    them a handle, under which the tool `call_tool` calls what became available (SPEC DEL-2). In both eras the request
    may select groups (SPEC DEL-4); a request that declares the draft extension for groups is served by it (SPEC DEL-5).

    Args:
        tools: What to deliver. Its name is the server's.
        delivery: `"auto"`: by the era of each request. `"principal"`: the same, but modern lists follow the
            authenticated caller (SPEC DEL-6).
        separator: What stands for the dot in names on the wire (SPEC NAM-6). Several clients refuse dots; `"."` gives
            the names of the catalog.
        max_name_length: How many characters a tool's name may have on the wire; several clients refuse more than 64.
        profile: The profile that sessions are opened under (SPEC PRO-1).
        active: More groups, or one, that sessions begin with.
        selection: Whether a request may say which groups it begins with, in its URL or headers (SPEC DEL-4). Groups
            that are not `selectable` are not among those.
        disclosure: Whether to offer the draft extension for groups (SPEC DEL-5).
        instructions: The server's instructions; how groups are opened is added.
        version: The server's version; Toolfold's own unless given.
        call_tool: The name of the tool that calls other tools.
        legacy_call_tool: Whether legacy clients are offered it too (SPEC DEL-8).
        handle_key: The secret that signs handles, or several of which the last one signs; from the environment variable
            `TOOLFOLD_HANDLE_KEY` otherwise, or random, and then of this process alone (SPEC DEL-3).
        handle_lifetime: Seconds for which a handle is accepted; where groups have hooks, after its last use.
        stale_handles: `"normalise"` or `"refuse"` a handle that was made before the groups changed.
        limits: How much there may be at a time, in all and for each caller (SPEC SAF-4).
        handles: `"auto"`: a handle is the signed state itself unless groups have hooks. `"stored"`: it names a session
            that the server stores; that is 22 characters, which a model copies with each call (SPEC DEL-3).
        answers: How an answer to opening a group describes the tools that can be called now (SPEC CTL-4):
            `"definitions"` with name, description and input schema, for clients that never list again; `"names"` by
            name alone; `"auto"` with definitions, except in a session whose client has listed again after an earlier
            change of its list.
        answer_tokens: The greatest length of what the library itself answers, in approximate tokens. Beyond it, tools
            have no schema, then no description, and then only their number is given.
        extend: Is called with the server and a function that yields the session of a request, to add handlers for what
            is none of tools, prompts and resources.

    Raises:
        ConfigError: A setting is wrong, or two names would be the same on the wire.
        ToolfoldError: The groups to begin with can't be active together.
    """
    if delivery not in get_args(Delivery):
        raise ConfigError(f'There is no delivery {delivery!r}; use "auto" or "principal".')
    if handles not in get_args(Handles):
        raise ConfigError(f'handles must be "auto" or "stored", not {handles!r}.')
    options = AnswerOptions(form=answers, tokens=answer_tokens)
    wire = WireNames(separator, max_name_length)
    default = Selection(tools.profile(profile), active, by_request=selection)
    default.start(tools)
    stored = tools.pool.part("kept sessions", limits.handles, handle_lifetime, time.monotonic)
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
        calls=Tally("requests under way", limits.calls),
        streams=Tally("subscriptions", limits.streams),
    )
    # Last of what can fail: a server that is not built must not keep names.
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
    """Yield the task group of a running server, in which announcements go out and idle sessions end (SPEC SES-3)."""
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
    """End the idle sessions of a pool, for ever; each time in a task of its own, since hooks may hang."""
    if pool.idle_timeout is not None:
        while True:
            await anyio.sleep(pool.idle_timeout / 10)
            tasks.start_soon(pool.end_idle)


async def end_all(pool: SessionPool[Session], seconds: float) -> None:
    """End all sessions of a pool, and wait for that, but no longer than for so many seconds.

    A session whose hooks take longer is left behind. That needs a task that outlives this call, which only asyncio has;
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
            log.warning("hooks were still running after %g seconds, at the end of the server: %s", seconds, named)
