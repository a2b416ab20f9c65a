"""A gateway: opened, it is a tool set in front of running MCP servers (SPEC GWY-1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup

from toolfold import ToolSet
from toolfold.spi import Kind

from .config import GatewayConfig
from .definitions import Definitions
from .forward import forwarder
from .registration import Registration, Report
from .upstream import Upstream, UpstreamError, check_upstreams

log = logging.getLogger("toolfold.gateway")


class Gateway:
    """The tools of servers, in groups; made by `open_gateway` and opened by `async with`, once.

    `report` says, once it is open, how the tools were registered.
    """

    report: Report
    registration: Registration

    def __init__(self, config: GatewayConfig, reserved: Iterable[str]) -> None:
        self._config = config
        self._reserved = tuple(reserved)
        self._upstreams = {name: Upstream(given) for name, given in check_upstreams(config).items()}
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> ToolSet:
        """Start the servers and return their tools as a tool set.

        Raises:
            ConfigError: The configuration is wrong, in general or for these servers.
            UpstreamError: The only server could not be started.
        """
        self._config.new_tool_set("scratch")  # a wrong option is found before anything is started
        tasks = await anyio.create_task_group().__aenter__()
        self._tasks = tasks
        try:
            started = await self._start(tasks)
            only = next(iter(self._upstreams.values()))
            tools = self._config.new_tool_set(only.name if len(self._upstreams) == 1 else "toolfold")
            self.registration = Registration(tools, self._config, self._forwarder, self._reserved)
            self.report = self.registration.register_tools(started)
        except BaseException:
            await self._close()
            raise
        for warning in self.report.warnings:
            log.warning("%s", warning)
        return tools

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the connections and the servers."""
        await self._close()

    async def _start(self, tasks: TaskGroup) -> dict[str, Definitions]:
        """Start all servers side by side, and return what those offer that start."""
        started: dict[str, Definitions] = {}
        failures: list[UpstreamError] = []

        async def start(name: str, upstream: Upstream) -> None:
            try:
                started[name] = await tasks.start(upstream.run)
            except UpstreamError as error:
                failures.append(error)

        async with anyio.create_task_group() as starting:
            for name, upstream in self._upstreams.items():
                starting.start_soon(start, name, upstream)
        if failures and len(self._upstreams) == 1:
            raise failures[0]
        for failure in failures:
            log.error("%s", failure)
        return started

    def _forwarder(self, server: str, kind: Kind, original: str) -> Callable[..., Any]:
        return forwarder(self._upstreams[server], original)

    async def _close(self) -> None:
        """End the task group without an error of its own, so that what is raised within comes out unchanged."""
        for upstream in self._upstreams.values():
            upstream.stop()
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            await tasks.__aexit__(None, None, None)


def open_gateway(config: GatewayConfig, *, reserved: Iterable[str] = ("call_tool",)) -> Gateway:
    """Return a gateway: `async with` opens it as a tool set that has the tools of the configured servers (SPEC GWY-1).

    Every tool keeps its definition; with one server, it keeps its name where that is allowed, and with several it is
    called `server__tool` (SPEC GWY-6). A call of it is one of the server's. Groups come from the configuration, or are
    derived (SPEC GWY-2). When the block ends, so do the servers.

    Args:
        config: From `load_config`, or made in Python.
        reserved: Names that no tool may have here, because an adapter needs them; a tool that has one is renamed.

    Raises:
        ConfigError: The configuration names no server.
    """
    return Gateway(config, reserved)
