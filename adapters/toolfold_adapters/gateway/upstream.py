"""The connection to the MCP server behind a gateway, in a task of its own (SPEC GWY-1, GWY-3).

`Upstream.run` is that task: it starts the server, lists its tools, and holds the connection until it is stopped or the
server ends. Whatever goes wrong in there after the start ends with it: it harms the calls of this server's tools, and
nothing else. There is one time limit, on the start; a call takes as long as its caller waits.
"""

from __future__ import annotations

import logging
import math
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast

import anyio
from anyio.abc import TaskStatus
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND, Implementation
from pydantic import ValidationError

from toolfold import ConfigError, ProtocolError, ToolfoldError, __version__
from toolfold.spi import table
from toolfold_adapters.sdk import connection_lost, is_closed, learn_headers, raw_request

from .config import GatewayConfig, UpstreamConfig
from .definitions import Definitions

log = logging.getLogger("toolfold.gateway")


class UpstreamError(ToolfoldError):
    """The server behind a gateway could not be started, or has stopped (SPEC GWY-3)."""


class _ConnectionLost(UpstreamError):
    """The connection ended while an answer was waited for."""


class Upstream:
    """One MCP server behind a gateway.

    `name`, `version` and `instructions` are its own, once it is started.
    """

    def __init__(self, config: UpstreamConfig) -> None:
        self.config = config
        self.name = config.url or Path((config.command or ("",))[0]).name
        self.version = ""
        self.instructions: str | None = None
        self._session: ClientSession | None = None
        self._stopping = anyio.Event()
        self._stray_lines = 0

    @property
    def target(self) -> str:
        """The command or URL, as its operator wrote it; it may hold secrets, so it is not for clients."""
        return self.config.url or shlex.join(self.config.command or ())

    @property
    def stdout_warning(self) -> str:
        """A sentence on what the server has written that is no message; empty if there was nothing of the kind."""
        if not self._stray_lines:
            return ""
        return f"It wrote {self._stray_lines} line(s) to its stdout that are no messages of the protocol."

    async def run(self, *, task_status: TaskStatus[Definitions] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start the server, report its definitions as they came, and hold the connection to its end.

        Raises:
            UpstreamError: It could not be started; after the start, nothing is raised.
        """
        started = False
        try:
            with anyio.move_on_after(self.config.start_timeout) as limit:
                async with self._client() as client:
                    self._session = client.session
                    self._note(client)
                    tools = await self._list_tools()
                    definitions = self._definitions(tools)
                    limit.deadline = math.inf
                    started = True
                    task_status.started(definitions)
                    await self._stopping.wait()
        except Exception as error:
            if not started:
                raise UpstreamError(f"The MCP server {self.target!r} did not start: {self._reason(error)}") from error
            log.error("the MCP server %s has stopped: %s", self.name, _first_cause(error))
        finally:
            self._session = None
        if not started:
            raise UpstreamError(
                f"The MCP server {self.target!r} did not answer within {self.config.start_timeout:g} seconds, so it "
                f"was stopped.{self._warning()} Check that it is an MCP server, or give it more time by start_timeout."
            )

    def stop(self) -> None:
        """Have `run` end the connection and the server."""
        self._stopping.set()

    async def request(
        self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Return the server's result of a request as it came (SPEC GWY-1); cancelling it cancels it there too.

        Raises:
            ProtocolError: The server answered with this error.
            UpstreamError: The server has stopped.
        """
        session = self._session
        if session is None or is_closed(session):
            raise UpstreamError(f"The MCP server {self.name!r} has stopped.")
        try:
            return await raw_request(session, method, params, on_progress)
        except MCPError as error:
            if not connection_lost(session, error):
                raise ProtocolError(error.code, error.message, error.data) from error
            if is_closed(session):
                self.stop()
            raise _ConnectionLost(
                f"The MCP server {self.name!r} stopped before it answered; what it was asked to do may be done or not."
            ) from error

    def _definitions(self, tools: list[Any]) -> Definitions:
        """Return what the server offers, after preparing calls of its tools."""
        usable: list[Any] = []
        warnings: list[str] = []
        for definition in tools:
            if problem := self._learn_headers(table(definition) or {}):
                warnings.append(f"The tool {definition['name']!r} is left out: {problem}.")
            else:
                usable.append(definition)
        if self.stdout_warning:
            warnings.append(f"The server {self.name!r} is untidy. {self.stdout_warning}")
        return Definitions(
            name=self.name,
            version=self.version,
            instructions=self.instructions,
            tools=usable,
            warnings=tuple(warnings),
        )

    def _learn_headers(self, tool: Mapping[str, Any]) -> str | None:
        """Prepare calls of a tool; return what is wrong with the headers that its schema asks for, if anything."""
        name, schema = tool.get("name"), tool.get("inputSchema")
        if self._session is None or not isinstance(name, str) or not isinstance(schema, dict):
            return None
        return learn_headers(self._session, name, schema)

    def _client(self) -> Client:
        mode = self.config.mode or ("auto" if self.config.url else "legacy")
        info = Implementation(name="toolfold", version=__version__)
        if self.config.url:
            return Client(self.config.url, mode=mode, client_info=info, cache=None)
        program, *arguments = self.config.command or ("",)
        parameters = StdioServerParameters(
            command=program,
            args=arguments,
            env={**os.environ, **self.config.env},
            cwd=self.config.cwd,
            encoding_error_handler="replace",  # one bad byte must not end the connection
        )
        transport = stdio_client(parameters, errlog=_stderr())
        return Client(transport, mode=mode, client_info=info, cache=None, message_handler=self._observe)

    async def _observe(self, message: object) -> None:
        if isinstance(message, Exception):
            self._stray_lines += 1

    def _note(self, client: Client) -> None:
        if client.server_info is not None:
            self.name = client.server_info.name
            self.version = client.server_info.version
        self.instructions = client.instructions

    async def _list_tools(self) -> list[Any]:
        """Return the definitions on all pages of the list."""
        definitions: list[Any] = []
        params: dict[str, Any] = {}
        seen: set[str] = set()
        while True:
            try:
                page = await self.request("tools/list", params)
            except ProtocolError as error:
                if error.code == METHOD_NOT_FOUND and not seen:
                    return []
                raise
            if not isinstance(page.get("tools"), list):
                raise UpstreamError('its answer to tools/list has no list "tools".')
            definitions += page["tools"]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen:
                return definitions
            seen.add(cursor)
            params = {"cursor": cursor}

    def _reason(self, error: Exception) -> str:
        """Return why the start failed, and what to do."""
        cause = _first_cause(error)
        match cause:
            case FileNotFoundError() | NotADirectoryError() if self.config.cwd and not Path(self.config.cwd).is_dir():
                return f"there is no folder {self.config.cwd!r} to run it in; mend cwd."
            case FileNotFoundError():
                return "there is no such program; install it, or give its full path."
            case PermissionError():
                return "the program may not be executed; check its permissions."
            case MCPError(code=code, message="Connection closed") if code == CONNECTION_CLOSED:
                return self._exited()
            case MCPError() | ProtocolError():
                return f"it answered with the error {cause.code} ({cause.message}); check that it is an MCP server."
            case ValidationError():
                return "its first answer is not one of the protocol; check that it is an MCP server."
            case _ConnectionLost():
                return self._exited()
            case UpstreamError():
                return str(cause)
            case _:
                pass
        if self.config.url:
            return f"it can't be reached ({type(cause).__name__}: {cause}); check its address, and that it is running."
        return f"{type(cause).__name__}: {cause}."

    def _exited(self) -> str:
        return f"it ended before it answered.{self._warning()} What it wrote to stderr says why; try it on its own."

    def _warning(self) -> str:
        return f" {self.stdout_warning}" if self.stdout_warning else ""


def check_upstreams(config: GatewayConfig) -> Mapping[str, UpstreamConfig]:
    """Return the servers of a configuration if there are any, else raise `ConfigError`."""
    if not config.upstreams:
        raise ConfigError(f'{config.source} names no server: add [upstream] with command = ["…"] or url = "…".')
    return config.upstreams


def _first_cause(error: BaseException) -> BaseException:
    """Return the error itself, or the first of those that it groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _stderr() -> TextIO:
    """Return where the server's stderr goes: to ours, or where ours is not a file, to the process's own."""
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return sys.__stderr__  # type: ignore[return-value]  # None makes the child inherit it
    return sys.stderr
