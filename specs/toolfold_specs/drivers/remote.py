"""A driver that speaks the driver protocol, by whatever carries its messages (specs/DRIVER-PROTOCOL.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from toolfold_specs.driver import Answer, Driver, DriverFault, Operation, Setup, TargetFailed

from .messages import HELLO, accepted, introduction, validated
from .replies import TargetNotStarted


class Channel(Protocol):
    """What carries requests to a driver."""

    def ask(self, request: Mapping[str, Any]) -> object:
        """Return the response to a request as JSON data; raises `TargetFailed` or `DriverFault`."""
        ...

    def close(self) -> None:
        """Close the driver."""
        ...


class RemoteDriver(Driver):
    """Drives an implementation by requests of the driver protocol.

    Args:
        channel: Carries the requests; it is closed with the driver.

    Raises:
        TargetNotStarted: It failed before it responded to the first request.
        DriverFault: It does not speak the protocol, or another version of it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        try:
            said = introduction(channel.ask(HELLO))
        except TargetFailed as error:
            channel.close()
            raise TargetNotStarted(str(error)) from None
        except BaseException:
            channel.close()
            raise
        self.capabilities = said.capabilities
        self.left_out = said.left_out

    def configure(self, setup: Setup) -> Answer:
        """Install a system."""
        return self._outcome("configure", self._ask("configure", {"setup": setup.to_json()}))

    def perform(self, operation: Operation) -> Answer:
        """Send an operation and return its outcome."""
        return self._outcome(operation.verb, self._channel.ask(operation.to_json()))

    def start(self, operation: Operation) -> int:
        """Begin an operation and return its ticket."""
        said = self._done("start", {"operation": operation.to_json()})
        if "ticket" not in said:
            raise DriverFault("Its response to start has no ticket.")
        ticket: int = said["ticket"]
        return ticket

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Return the hooks that are blocked now."""
        return tuple((phase, group) for phase, group in self._done("blocked", {}).get("blocked", ()))

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Let a blocked hook end."""
        self._done("release", {"group": group, "phase": phase, "fail": fail})

    def cancel(self, ticket: int) -> None:
        """Cancel an operation under way."""
        self._done("cancel", {"ticket": ticket})

    def finish(self, ticket: int) -> Answer:
        """Return the outcome of an operation."""
        return self._outcome("finish", self._ask("finish", {"ticket": ticket}))

    def close(self) -> None:
        """Close the driver."""
        self._channel.close()

    def _ask(self, verb: str, arguments: Mapping[str, Any]) -> object:
        return self._channel.ask({"verb": verb, "arguments": arguments})

    def _outcome(self, verb: str, response: object) -> Answer:
        return Answer.from_json(validated(verb, response))

    def _done(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the response to a request that can't be refused."""
        return accepted(verb, self._ask(verb, arguments))
