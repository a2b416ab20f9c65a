"""`build_server`: a tool set as a low-level MCP server for clients of both eras (SPEC 18)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from anyio.abc import TaskGroup
from mcp.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from starlette.applications import Starlette

from toolfold import ConfigError, Profile, Store, ToolNotFound, ToolSet, WireNames, __version__
from toolfold.spi import undescribed

from ..names import WIRE_LENGTH, WIRE_SEPARATOR
from ..tokens import ANSWER_TOKENS
from .answers import AnswerForm
from .deliveries import Delivery, DeliverySettings, Service
from .disclosure import EXTENSION, SETTINGS, GroupParams, GroupsListParams
from .handlers import RequestHandlers
from .handles import Handles, Stale
from .http_sessions import guard_sessions
from .limits import DEFAULTS, Limits
from .stored_connections import StoredConnections

log = logging.getLogger("toolfold.mcp")

Extend = Callable[[Server[Any], RequestHandlers], None]


class ToolSetServer(Server[TaskGroup]):
    """A low-level MCP server that delivers a tool set; made by `build_server`."""

    legacy_instructions: str = ""
    limits: Limits = DEFAULTS
    stored: StoredConnections | None = None

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Return the HTTP application of the SDK, with sessions limited per caller (SPEC SES-4)."""
        options.setdefault("max_sessions", None)
        app = super().streamable_http_app(**options)
        guard_sessions(self, self.limits.sessions, self.stored)
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
    read_tool: bool = False,
    handle_key: str | bytes | Sequence[str | bytes] | None = None,
    handle_lifetime: float = 3600,
    stale_handles: Stale = "normalise",
    limits: Limits = DEFAULTS,
    handles: Handles = "auto",
    answers: AnswerForm = "auto",
    answer_tokens: int | Callable[[], int] = ANSWER_TOKENS,
    extend: Extend | None = None,
    store: Store | None = None,
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
        profile: The profile that sessions are opened under (SPEC PRO-1). One that is given by name may be registered
            anew later; new sessions are then opened under that.
        active: Further groups, or one, that sessions start with.
        selection: Whether a request may select groups in its URL or headers (SPEC DEL-4). It can select only those that
            are `selectable`.
        disclosure: Whether to offer the draft extension for groups (SPEC DEL-5).
        instructions: The server's instructions; how to open groups is added.
        version: The server's version; Toolfold's own by default.
        call_tool: The name of the tool that calls other tools.
        legacy_call_tool: Whether legacy clients are offered it too (SPEC DEL-8).
        read_tool: Whether to offer `read_tool` beside `call_tool`: it calls only tools whose `readOnlyHint` is true, so
            that a client's approval can tell them apart (SPEC CTL-9).
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
        answer_tokens: The maximum length of the library's own answers, in approximate tokens; less for clients that are
            known to cut. Beyond it, tools are described by signatures in place of schemas, then without, then without
            descriptions, and finally only their number is given. A function that returns it is called for each answer.
        extend: Called with the server and its request handlers, to add more for anything but tools, prompts and
            resources.
        store: Where sessions are that outlive a request, such as `SQLiteStore("state.db")`; every server that shares it
            serves them all (SPEC STO-1, STO-4). By default they are in the memory of this process.

    Raises:
        ConfigError: A setting is wrong, or two names would be the same on the wire.
        ToolfoldError: The initial groups can't be active together.
    """
    if not hasattr(tools, "catalog"):  # a stand-in will do
        raise ConfigError(
            f"A server is built of a ToolSet, not of a {type(tools).__name__}; "
            "group_server puts groups in front of an existing server."
        )
    settings = DeliverySettings(
        delivery=delivery,
        profile=profile,
        active=active,
        selection=selection,
        disclosure=disclosure,
        call_tool=call_tool,
        legacy_call_tool=legacy_call_tool,
        read_tool=read_tool,
        handle_key=handle_key,
        handle_lifetime=handle_lifetime,
        stale_handles=stale_handles,
        limits=limits,
        handles=handles,
        answers=answers,
        answer_tokens=answer_tokens,
        store=store,
    )
    wire = WireNames(separator, max_name_length)
    service = Service(tools, wire, settings)
    handlers = service.handlers

    def input_schema(name: str) -> Any:
        try:
            component = tools.catalog.tools.get(wire.from_wire(name))
        except ToolNotFound:
            return None
        return component.input_schema if component is not None else None

    server = ToolSetServer(
        tools.name,
        version=version,
        lifespan=lambda _: service.running(),
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
    server.stored = service.connections
    if service.connections is not None:
        service.connections.server = server
        server.middleware.append(service.connections.remember)

    def instruct() -> None:
        server.instructions = service.instructions(instructions, modern=True) or None
        server.legacy_instructions = service.instructions(instructions, modern=False)

    if bare := undescribed(tools.catalog.tools.values()):
        log.warning("tools without a description, so that a model can't know what they do: %s", ", ".join(bare))
    instruct()
    service.on_announced = instruct
    if disclosure:
        server.extensions[EXTENSION] = dict(SETTINGS)
        server.add_request_handler("groups/list", GroupsListParams, handlers.list_groups)
        server.add_request_handler("groups/get", GroupParams, handlers.get_group)
    if extend is not None:
        extend(server, handlers)
    return server
