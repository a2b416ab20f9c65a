"""A driver behind a tool of an MCP server, which takes every request of the driver protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolfold_specs.driver import TargetFailed

from .link import Link
from .protocol import TOOL
from .remote import RemoteDriver
from .replies import Reply


class ToolDriver(RemoteDriver):
    """Drives an implementation through a tool of an MCP server.

    What the server has besides is not looked at; to put an MCP server itself to the test there is `FixtureDriver`.

    Args:
        link: Where the server is. It is closed with the driver.

    Raises:
        TargetNotStarted: The server can't be reached, or has no such tool.
        DriverFault: The tool does not speak the driver protocol, or another version of it.
    """

    name = "driver over MCP"

    def __init__(self, link: Link) -> None:
        super().__init__(_ToolChannel(link))


class _ToolChannel:
    def __init__(self, link: Link) -> None:
        self._link = link
        try:
            self._connection = link.connect()
        except BaseException:
            link.close()
            raise

    def ask(self, request: Mapping[str, Any]) -> object:
        return structured(request["verb"], self._connection.reply(TOOL, request))

    def close(self) -> None:
        self._link.close()


def structured(verb: str, reply: Reply) -> object:
    """Return the response in a call of the tool; raises `TargetFailed` if the call failed."""
    if reply.refused is not None or reply.is_error:
        raise TargetFailed(f"{TOOL} failed to {verb}: {reply.refused or reply.text}")
    return reply.result.get("structuredContent")
