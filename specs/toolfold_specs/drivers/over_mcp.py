"""Drivers of any MCP server: one made for the kit, or else a black box with the groups that it has (SPEC CNF-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field

from toolfold_specs.driver import Driver

from .blackbox import BlackBoxDriver
from .description import Description
from .fixture import FixtureDriver
from .link import Link
from .process import Command
from .protocol import TOOL, Era
from .replies import START_TIMEOUT, TIMEOUT
from .sessions import GRACE

if TYPE_CHECKING:
    from mcp.server import Server

Address: TypeAlias = "Callable[[], Command | str | Server[Any]]"


@define(eq=False)
class DriverFactory:
    """Makes drivers of a server, which is asked once whether it was made for the kit.

    Attributes:
        address: Returns the command that starts the server, its URL, or one in this process.
        era: The era of MCP to speak.
        description: The groups of a server that was not made for the kit; without one they are inferred.
        timeout: Seconds within which each request is to be answered.
        grace: Seconds that a notice that is due is awaited if it did not arrive with the answer.
        start_timeout: Seconds within which it is to be ready.

    Raises:
        TargetFailed: The server can't be started, or does not list its tools.
    """

    address: Address
    era: Era
    description: Description | None = None
    timeout: float = TIMEOUT
    grace: float = GRACE
    start_timeout: float = START_TIMEOUT
    _made_for_the_kit: bool | None = field(default=None, init=False)

    def __call__(self) -> Driver:
        """Return a new driver, with a connection of its own."""
        link = Link(self.address(), self.era, self.timeout, self.start_timeout)
        if self._made_for_the_kit is None:
            self._made_for_the_kit = _is_made_for_the_kit(link)
        if self._made_for_the_kit:
            return FixtureDriver(link, self.grace)
        return BlackBoxDriver(link, self.description, self.grace)


def _is_made_for_the_kit(link: Link) -> bool:
    """Return whether a server lists the tool for the kit; closes the link if it can't be asked."""
    try:
        connection = link.connect()
        found = any(tool.get("name") == TOOL for tool in connection.list_all_tools())
        link.put_back(connection)
        return found
    except BaseException:
        link.close()
        raise
