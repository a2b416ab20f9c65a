"""The driver of a server made for the kit: every capability over MCP (see `protocol`, `messages`)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from attrs import frozen

from toolfold_specs.driver import CAPABILITIES, MAIN, Answer, Operation, Setup, TargetFailed

from .link import Link
from .messages import HELLO, Introduction, accepted, introduction, validated
from .protocol import BEYOND, BEYOND_MODERN, CLAIMED, TOOL, wire_capabilities
from .replies import Pending
from .sessions import GRACE, McpDriver, Session, canonical
from .tool import structured

if TYPE_CHECKING:
    from .connection import Connection

ROLLBACK_LOOKS = 2
"""After how many looks a cancelled call that is still under way is taken to be blocked in its rollback."""


@frozen
class _Ticket:
    operation: Operation
    pending: Pending | None
    answer: Answer | None = None
    """The answer to an operation that waits for nothing, known at once."""


class FixtureDriver(McpDriver):
    """Drives a server that has the driver protocol over MCP.

    Args:
        link: Where the server is, and which era is spoken. It is closed with the driver.
        grace: Seconds that a notice that is due is awaited if it did not arrive with the answer.

    Raises:
        TargetNotStarted: The server can't be started.
        DriverFault: It breaks the driver protocol, or speaks another version of it.
        TargetFailed: It does not have the tool for it.
    """

    def __init__(self, link: Link, grace: float = GRACE) -> None:
        super().__init__(link, grace)
        self._scripts: dict[tuple[str, str], str] = {}
        self._tickets: dict[int, _Ticket] = {}
        said = self._or_close(self._introduction)
        self.call_tool = said.call_tool
        self._by_arguments = said.by_arguments
        self.capabilities, self.left_out = self._able(said)

    def _introduction(self) -> Introduction:
        return introduction(structured("hello", self.main.reply(TOOL, HELLO)))

    def _able(self, said: Introduction) -> tuple[frozenset[str], Mapping[str, str]]:
        """Return what can be driven, and why the rest can't."""
        unnamed = {name: said.left_out.get(name, "the server does not name it") for name in CLAIMED - said.capabilities}
        missing = {**unnamed, **BEYOND}
        if self._modern:
            missing.update(BEYOND_MODERN)
        tools = self.main.capabilities.get("tools")
        if tools is None or not tools.get("listChanged"):
            missing.setdefault("notifications", "the server does not advertise tools.listChanged")
        if self.call_tool is not None and "paging" not in missing:
            missing["paging"] = f"pages have the tool {self.call_tool} besides"
        if self._modern and self._by_arguments:
            missing["listing"] = "a request for a list can't carry a handle"
        there = {*CAPABILITIES, *CLAIMED, *wire_capabilities(self.link.era, self.call_tool)}
        return frozenset(there - missing.keys()), missing

    # -- configuring --------------------------------------------------------------------------------------------------

    def configure(self, setup: Setup) -> Answer:
        """Replace the system; connections stay open where the sessions behind them are new anyway."""
        self._abandon()
        self.link.begin()
        response = self.change(self.main, setup)
        if "error" in response:
            return Answer(error=response["error"])
        self._setup = setup
        self._scripts.clear()
        self._renew()
        return Answer()

    def change(self, connection: Connection, setup: Setup) -> Mapping[str, Any]:
        """Replace the system behind a connection, which stays open."""
        seen, request = connection.changes, {"verb": "configure", "arguments": {"setup": setup.to_json()}}
        response = validated("configure", structured("configure", connection.reply(TOOL, request)))
        self._await_notice_of_renewal(connection, seen)
        return response

    def expire(self) -> None:
        """Let the handles expire that were given so far."""
        self._ask_kit(self._session(MAIN), "expire", {})

    def _renew(self) -> None:
        """Begin every session anew, the main one on the same connection."""
        for name, session in tuple(self._sessions.items()):
            main = session.connection is self.main
            if main or self.apart:
                self._sessions[name] = self._new(session.connection, current=main)
            else:  # a notice of its end might come late, and be taken for one of the new session
                session.connection.close()
                del self._sessions[name]

    def _prepare(self, session: Session) -> None:
        self.change(session.connection, self._setup)
        for (group, phase), outcome in self._scripts.items():
            self._script(session, group, phase, outcome)

    def _is_shown(self, name: str) -> bool:
        return super()._is_shown(name) and name != TOOL

    def _active(self, session: Session) -> tuple[str, ...] | None:
        """Return the groups that have a tool in the list, or what the server says if there are groups without any."""
        active = super()._active(session)
        if active is not None or "hooks" not in self.capabilities:
            return active
        active = self._observe(session).get("active")
        return None if active is None else canonical(active)

    # -- hooks --------------------------------------------------------------------------------------------------------

    def _hooks(self, session: Session) -> tuple[tuple[str, str], ...] | None:
        """Return the hooks that began since the last answer."""
        if "hooks" not in self.capabilities:
            return None
        if any(group.hooks for group in self._setup.groups):
            self._observe(session)
        began = tuple(session.hooks)
        session.hooks.clear()
        return began

    def _observe(self, session: Session, settled: bool = False) -> Mapping[str, Any]:
        response = self._ask_kit(session, "observe", {"settled": settled})
        session.hooks += _pairs(response.get("hooks", ()))
        return response

    def _forget(self, session: Session) -> None:
        if "hooks" in self.capabilities and not self.apart:
            self._observe(session, settled=True)
            session.hooks.clear()

    def script(self, group: str, phase: str, outcome: str, session: str = MAIN) -> Answer:
        """Set what a hook does, in every process that there is or will be."""
        self._scripts[group, phase] = outcome
        found = self._session(session)
        for process in self._processes(found):
            self._script(process, group, phase, outcome)
        return Answer()

    def _script(self, session: Session, group: str, phase: str, outcome: str) -> None:
        self._ask_kit(session, "script", {"group": group, "phase": phase, "outcome": outcome})

    def _processes(self, session: Session) -> Sequence[Session]:
        """Return one session for each process with the present setup."""
        return [found for found in self._sessions.values() if found.current] if self.apart else [session]

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Return the hooks that are blocked now."""
        found = [
            pair
            for one in self._processes(self._session(MAIN))
            for pair in _pairs(self._observe(one).get("blocked", ()))
        ]
        return tuple(sorted(found))

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Let a blocked hook end, wherever it is."""
        for session in self._processes(self._session(MAIN)):
            if (phase, group) in _pairs(self._observe(session).get("blocked", ())):
                self._ask_kit(session, "release", {"group": group, "phase": phase, "fail": fail})
        self._settle()

    # -- several operations at a time ---------------------------------------------------------------------------------

    def start(self, operation: Operation) -> int:
        """Send a request, and return once the server has it and waits."""
        ticket = max(self._tickets, default=0) + 1
        if operation.verb in ("list", "snapshot"):  # these wait for nothing
            self._tickets[ticket] = _Ticket(operation, None, self.perform(operation))
            return ticket
        session = self._session(operation.session)
        self._expect(session)
        pending = session.connection.start_call(*self._carrying(session, *self._request(operation)))
        self._tickets[ticket] = _Ticket(operation, pending)
        self._settle()
        return ticket

    def cancel(self, ticket: int) -> None:
        """Withdraw a request, and return once the server has dealt with that."""
        pending = self._tickets[ticket].pending
        if pending is not None:
            pending.cancel()
        self._settle()

    def finish(self, ticket: int) -> Answer:
        """Wait for the answer to a request."""
        found = self._tickets.pop(ticket)
        if found.pending is None:
            return found.answer or Answer()
        session = self._session(found.operation.session)
        reply = found.pending.reply()
        if reply is not None:
            return self._answer(found.operation, session, reply)
        session.under_way -= 1
        hooks, notified = self._hooks(session), self._notified(session)
        return Answer("Cancelled", active=self._active(session), hooks=hooks, notified=notified)

    def _settle(self) -> None:
        """Return once the server has every request under way, and all of them wait."""
        limit = time.monotonic() + self.link.timeout
        for session in self._processes(self._session(MAIN)):
            for observed in count():
                under_way = self._observe(session, settled=True).get("under_way", -1)
                waiting, cancelled = self._open_tickets(session)
                if under_way == waiting or (observed >= ROLLBACK_LOOKS and waiting < under_way <= waiting + cancelled):
                    break
                if time.monotonic() > limit:
                    raise TargetFailed('observe never counted as many calls "under_way" as wait for their responses.')

    def _open_tickets(self, session: Session) -> tuple[int, int]:
        """Return how many requests to a session's process are not answered, and how many were cancelled."""
        pending = [
            ticket.pending
            for ticket in self._tickets.values()
            if ticket.pending is not None and (not self.apart or self._sessions[ticket.operation.session] is session)
        ]
        return sum(not one.done for one in pending), sum(one.cancelled for one in pending)

    def _abandon(self) -> None:
        for ticket in self._tickets.values():
            if ticket.pending is not None:
                ticket.pending.cancel()
        self._tickets.clear()

    def _ask_kit(self, session: Session, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the response to a request of the driver protocol that can't be refused."""
        reply = session.connection.reply(TOOL, {"verb": verb, "arguments": arguments}, self._meta(session))
        return accepted(verb, structured(verb, reply))


def _pairs(hooks: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return pairs of phase and group."""
    return [(phase, group) for phase, group in hooks]
