"""A gateway: opened, it is a tool set in front of a running MCP server (SPEC GWY-1)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from toolfold import ToolSet

from .config import GatewayConfig
from .registration import Report, register_tools
from .upstream import Upstream, check_upstream

log = logging.getLogger("toolfold.gateway")


class Gateway:
    """A server's tools in groups; made by `open_gateway` and opened by `async with`, once.

    `report` says, once it is open, how the server's tools were registered.
    """

    report: Report

    def __init__(self, config: GatewayConfig, reserved: Iterable[str]) -> None:
        self._config = config
        self._reserved = tuple(reserved)
        self._upstream = Upstream(check_upstream(config.upstream, config.source))
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> ToolSet:
        """Start the server and return its tools as a tool set.

        Raises:
            ConfigError: The configuration is wrong, in general or for this server.
            UpstreamError: The server could not be started.
        """
        self._config.new_tool_set("scratch")  # a wrong option is found before anything is started
        tasks = await anyio.create_task_group().__aenter__()
        self._tasks = tasks
        try:
            definitions = await tasks.start(self._upstream.run)
            tools = self._config.new_tool_set(self._upstream.name)
            self.report = register_tools(tools, self._config, self._upstream, definitions, self._reserved)
        except BaseException:
            await self._close()
            raise
        for warning in self.report.warnings:
            log.warning("%s", warning)
        return tools

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the connection and the server."""
        await self._close()

    async def _close(self) -> None:
        """End the task group without an error of its own, so that what is raised within comes out unchanged."""
        self._upstream.stop()
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            await tasks.__aexit__(None, None, None)


def open_gateway(config: GatewayConfig, *, reserved: Iterable[str] = ("call_tool",)) -> Gateway:
    """Return a gateway: `async with` opens it as a tool set that has the tools of the configured server (SPEC GWY-1).

    Every tool keeps its definition and, where it is allowed, its name; a call of it is one of the server's. Groups come
    from the configuration, or from the names of the tools (SPEC GWY-2). When the block ends, so does the server.

    Args:
        config: From `load_config`, or made in Python.
        reserved: Names that no tool may have here, because an adapter needs them; a tool that has one is renamed.

    Raises:
        ConfigError: The configuration names no server.
    """
    return Gateway(config, reserved)
