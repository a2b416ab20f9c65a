"""`build_server`: a tool set as a low-level MCP server for clients of both eras (SPEC 18)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from anyio.abc import TaskGroup
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.routing import Route

from toolfold import Catalog, ConfigError, Profile, ToolSet, WireNames
from toolfold.spi import table

from ..names import GROUPS_EXTENSION, GROUPS_SETTINGS
from .extensions.groups import Groups, Toolbox
from .extensions.offer import offer
from .extensions.skills import Skills, skills_of
from .handlers import RequestHandlers
from .http.sessions import guard_sessions
from .options import ServerOptions, ServerSettings
from .request import component_called
from .sdk import trace_what_is_recorded

log = logging.getLogger("toolfold.mcp")


MakeRoute = Callable[[str, bool], Route]
"""Returns a route of an HTTP application, given the path of its endpoint and whether anybody may call that."""


class ToolSetServer(Server[TaskGroup]):
    """A low-level MCP server that delivers a tool set; made by `build_server`.

    Attributes:
        routes: Make what its HTTP application has beside its endpoint.
    """

    def __init__(self, tools: ToolSet, settings: ServerSettings) -> None:
        wire = WireNames(settings.separator, settings.max_name_length)
        handlers = RequestHandlers(tools, wire, settings)
        super().__init__(
            tools.name,
            version=settings.version,
            instructions=settings.instructions,
            lifespan=lambda _: handlers.running(),
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
        self._handlers = handlers
        self._settings = settings
        self.routes: list[MakeRoute] = []
        handlers.attach(self)
        disclosing = (Groups(handlers), Toolbox()) if settings.disclosure else ()
        for extension in (Skills(handlers), *disclosing):
            offer(self, extension)
        self._have_skills()
        handlers.on_announced = self._have_skills
        handlers.bounds.append(_with_skills)
        trace_what_is_recorded(self)
        self.middleware.append(_with_arguments)
        if settings.extend is not None:
            settings.extend(self, handlers)

    def _have_skills(self) -> None:
        """Say in introductions whether there are skills."""
        self.extensions.pop(Skills.identifier, None)
        if skills_of(self._tools.catalog):
            self.extensions[Skills.identifier] = {}

    async def end_client(self, client: str) -> None:
        """End the sessions of a client that had a connection of its own, by its name."""
        await self._handlers.end_client(client)

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Return the HTTP application of the SDK, with sessions limited per caller (SPEC SES-4)."""
        options.setdefault("max_sessions", None)
        path, for_all = options.get("streamable_http_path", "/mcp"), options.get("auth") is None
        beside = [make(path, for_all) for make in self.routes]
        options["custom_starlette_routes"] = [*(options.get("custom_starlette_routes") or ()), *beside]
        app = super().streamable_http_app(**options)
        guard_sessions(self, self._settings.limits.sessions, self._handlers.legacy)
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
        return super().create_initialization_options(
            notification_options or changing, experimental or None, extensions or {}
        )


def _with_skills(capabilities: dict[str, Any], _: Profile, catalog: Catalog) -> dict[str, Any]:
    """Return capabilities with the extension for skills only if a catalog has any."""
    extensions = table(capabilities.get("extensions"))
    if extensions is None or skills_of(catalog):
        return capabilities
    return {**capabilities, "extensions": {key: one for key, one in extensions.items() if key != Skills.identifier}}


async def _with_arguments(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a call whose arguments are the JSON text of an object, as some hosts write them (SPEC GWY-20)."""
    params = ctx.params or {}
    if ctx.method != "tools/call" or not isinstance(text := params.get("arguments"), str):
        return await call_next(ctx)
    given: Any = None
    with suppress(ValueError, TypeError):  # which text with half a surrogate raises
        given = from_json(text) if text.strip() else {}
    if not isinstance(given, dict):
        said = "Invalid arguments: they are no object, and no JSON text of one; write the whole of it again."
        raise MCPError(code=INVALID_PARAMS, message=said)
    return await call_next(replace(ctx, params={**params, "arguments": given}))


def _input_schema(tools: ToolSet, wire: WireNames, name: str) -> Any:
    """Return the input schema of a tool by its name on the wire; `None` if there is no such tool."""
    component = component_called(tools.catalog, wire, name)
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
