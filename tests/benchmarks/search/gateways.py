"""The gateway in front of servers of which only the definitions are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolfold import ToolSet
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig
from toolfold_adapters.gateway.config.settings import OptionsConfig
from toolfold_adapters.gateway.registration import UpstreamRegistration
from toolfold_adapters.gateway.upstream.definitions import Definitions

from .task_sets import Group


def gateway_to(servers: Sequence[Group], **options: Any) -> ToolSet:
    """Return the tools of servers as the gateway has them; `options` are those of its configuration."""
    upstreams = {server.name: UpstreamConfig(command=("never started",)) for server in servers}
    config = GatewayConfig(upstreams=upstreams, options=OptionsConfig(**options))
    tools = config.new_tool_set("gateway")
    offered = {server.name: Definitions(instructions=server.description, tools=server.tools) for server in servers}
    UpstreamRegistration(tools, config, _forwarder, ["call_tool"]).register_tools(offered)
    return tools


def _forwarder(server: str, kind: str, original: str) -> Callable[..., Any]:
    async def handler(arguments: dict[str, Any], context: Any) -> str:
        return ""

    return handler
