"""Servers' definitions, registered in a tool set by a `UpstreamRegistration`, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolfold import Session, ToolSet
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig
from toolfold_adapters.gateway.registration import Registered, UpstreamRegistration
from toolfold_adapters.gateway.upstream.definitions import Definitions

OBJECT = {"type": "object"}
SERVER = UpstreamConfig(command=("server",))


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": OBJECT, **more}


def offering(*tools: Any, **more: Any) -> Definitions:
    return Definitions(tools=[tool(one) if isinstance(one, str) else one for one in tools], **more)


def answering(server: str, kind: str, original: str) -> Callable[..., Any]:
    """A handler that answers with what it would have asked which server for."""

    async def handler(arguments: dict[str, Any], context: Any) -> str:
        return f"{server} {kind} {original}"

    return handler


def registered(servers: Mapping[str, Definitions], **settings: Any) -> tuple[UpstreamRegistration, ToolSet, Registered]:
    config = configured(*servers, **settings)
    tools = config.new_tool_set("gateway")
    registration = UpstreamRegistration(tools, config, answering, ["call_tool"])
    return registration, tools, registration.register_tools(servers)


def configured(*servers: str, **settings: Any) -> GatewayConfig:
    return GatewayConfig(**{"upstreams": dict.fromkeys(servers, SERVER), **settings})


def listed(session: Session) -> list[str]:
    """The tools in the list of a session, control tools apart."""
    return [one.name for one in session.list_tools().tools if one.control is None]


def homes(tools: ToolSet) -> dict[str, str | None]:
    return {name: one.group for name, one in sorted(tools.catalog.tools.items()) if one.control is None}
