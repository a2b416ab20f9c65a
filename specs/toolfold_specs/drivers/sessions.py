"""What drivers of MCP servers have in common: sessions, transitions, lists and notices, in either era."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from attrs import define, field

from toolfold_specs.driver import MAIN, RESERVED, Answer, Driver, Operation, Setup, TargetFailed, Tool
from toolfold_specs.exchange import Exchange

from .link import Link
from .protocol import ERROR_META, HANDLE, HANDLE_META, INVALID_PARAMS, TOOL
from .replies import Reply, WireError

if TYPE_CHECKING:
    from .connection import Connection

T = TypeVar("T")

GRACE: Final = 0.5
"""Seconds that a notice may arrive after the answer that it belongs to."""

MISSES: Final = 3
"""After how many missing notices in a row no other is awaited, until one arrives."""

SURPLUS_WAITS: Final = 30
"""How often a notice that is not due is awaited, of a server whose notices arrive after its answers."""

SURPLUS_PATIENCE: Final = 5
"""How many times longer than the slowest notice that was due."""


@define
class Session:
    """A session of the kit: its connection, or its handle, and what was seen of it since its last answer."""

    connection: Connection
    handle: str | None = None
    notices: int = 0
    """How many notices of its connection belong to earlier answers."""
    active: tuple[str, ...] | None = ()
    """What was active when it was last read, or is in a new session."""
    facts: set[str] = field(factory=set[str])
    """The facts that were set."""
    due: int = 0
    """How many notices its connection will have received once there is one for each change."""
    under_way: int = 0
    """How many requests have not been answered yet."""
    hooks: list[tuple[str, str]] = field(factory=list[tuple[str, str]])
    names: Sequence[str] = ()
    """The names on the list when it was last read."""
    read_at: tuple[int, int, str | None] | None = None
    """What had happened when the list was last read: calls, notices, and the handle."""
    shown: dict[str, tuple[int, bool]] = field(factory=dict[str, tuple[int, bool]])
    """How many tools of each group the last list had, and what that says of the group."""
    current: bool = False
    """Whether the process behind the connection has the present setup, where each connection has its own process."""

    def shows(self, group: str, tools: int, listed: Collection[str]) -> bool:
        """Return whether a list shows that a group is active: one lost or left over tool is a fault of the list.

        If just half of its tools are listed, it is what it was, unless their number has changed.
        """
        before, was = self.shown.get(group, (0, False))
        half = 2 * len(listed) == tools
        now = (was if len(listed) == before else not was) if half else 2 * len(listed) > tools
        self.shown[group] = len(listed), now
        return now


UNSEEN_ENDS: Final = {
    "SES-3": "a session that has ended can't be asked for its list over MCP",
    "HOOK-9": "the hooks of a session that ends run after its connection is closed",
}
"""Clauses about the end of sessions that no answer over MCP shows, with the reason."""


class McpDriver(Driver):
    """Drives an MCP server. In the legacy era a session is a connection, in the modern one a handle.

    Args:
        link: Where the server is, and which era is spoken. It is closed with the driver.
        grace: Seconds that a notice that is due is awaited if it did not arrive with the answer.
    """

    def __init__(self, link: Link, grace: float = GRACE) -> None:
        self.name = link.name
        self.never_shown = UNSEEN_ENDS
        self.link = link
        self.call_tool: str | None = None
        """The name of the call-tool proxy, if there is one."""
        self.starts_active: Sequence[str] = ()
        """The groups that are active in a new session."""
        self._by_arguments = False
        self.grace = grace
        self._missed = 0
        self._delay = 0.0
        """The longest that a notice was awaited, in seconds, until it arrived."""
        self._surplus_waits = 0
        self._renewals = {False: 0, True: 0}
        """How often a notice of a new system was awaited in vain, by whether the list had followed what was active."""
        self._modern = link.era == "modern"
        self.apart = link.own_processes and not self._modern
        self._setup = Setup()
        self._sessions: dict[str, Session] = {}
        self.main = link.connect()

    def _or_close(self, work: Callable[[], T]) -> T:
        """Return the result of some work; close everything if it fails."""
        try:
            return work()
        except BaseException:
            self.link.close()
            raise

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _prepare(self, session: Session) -> None:
        """Give the process behind a session's connection the present setup."""

    def _request(self, operation: Operation) -> tuple[str, Mapping[str, Any]]:
        """Return the call that an operation is."""
        asked = operation.arguments
        match operation.verb:
            case "activate" | "deactivate":
                return f"{asked['group']}.{operation.verb}", {}
            case "set_fact":
                return TOOL, {"verb": "set_fact", "arguments": asked}
            case _:
                return asked["tool"], asked["arguments"]

    def _is_control(self, name: str) -> bool:
        """Return whether a name is that of a control tool."""
        own = (tool.full_name for tool in self._setup.tools)
        return name.rpartition(".")[2] in RESERVED and name not in own

    def _is_shown(self, name: str) -> bool:
        """Return whether a name on a list belongs to the system, and not to what the server has besides."""
        return name != self.call_tool

    def _active(self, session: Session) -> tuple[str, ...] | None:
        """Return the groups that have a tool on the list; None if some group has none by which it is recognised."""
        marks: dict[str, set[str]] = {}
        for tool in self._setup.tools:
            if tool.follows is not None and tool.when == "group" and not tool.hidden:
                marks.setdefault(tool.follows, set()).add(tool.full_name)
        if "listing" not in self.capabilities or marks.keys() != set(self._setup.paths):
            return None
        listed = set(map(self._label, self._names(session)))
        return tuple(path for path in self._setup.paths if session.shows(path, len(marks[path]), marks[path] & listed))

    def _label(self, name: str) -> str:
        """Return what a tool is called in the setup."""
        return name

    def _names(self, session: Session) -> Sequence[str]:
        """Return the names on the whole list."""
        session.read_at = self._now(session)
        listed = session.connection.list_all_tools(self._meta(session))
        self._note(listed)
        session.names = [str(tool["name"]) for tool in listed]
        return session.names

    def _note(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        """Take note of definitions that were listed."""

    def _latest_names(self, session: Session) -> Sequence[str]:
        """Return the names that were read last, if no call and no notice has followed; otherwise read the list."""
        return session.names if session.read_at == self._now(session) else self._names(session)

    def _now(self, session: Session) -> tuple[int, int, str | None]:
        return session.connection.calls, session.connection.changes, session.handle

    def _forget(self, session: Session) -> None:
        """Discard what the session before this one has left to report."""

    def _hooks(self, session: Session) -> tuple[tuple[str, str], ...] | None:
        """Return the hooks that began since the last answer; None if that is not known."""
        return None

    def exchange(self) -> Exchange | None:
        """Return what was sent and received on the present setup."""
        return self.link.exchange()

    # -- for checks of the wire ---------------------------------------------------------------------------------------

    def control(self, verb: str, group: str) -> tuple[str, Mapping[str, Any]]:
        """Return the call that activates or deactivates a group."""
        return self._request(Operation(verb, {"group": group}))

    def name_of(self, tool: str) -> str:
        """Return what clients call a tool of the setup."""
        return tool

    def another(self, extension: str | None = None) -> Connection:
        """Return another connection with the present setup, for the caller to close; it may declare an extension."""
        connection = self.link.connect(extension)
        if self.link.own_processes:
            self._prepare(Session(connection))
        return connection

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _session(self, name: str) -> Session:
        """Return a session, connected and with the present setup."""
        session = self._sessions.get(name)
        if session is None:
            shared = name == MAIN or (self._modern and not self.apart)
            connection = self.main if shared else self.link.connect()
            session = self._sessions[name] = self._new(connection, current=shared or not self.apart)
        if not session.current:
            self._prepare(session)
            session.notices = session.connection.changes
            session.current = True
        return session

    def _new(self, connection: Connection, current: bool) -> Session:
        """Return a new session on a connection."""
        active = tuple(path for path in self._setup.paths if path in self._setup.pinned)
        return Session(connection, notices=connection.changes, active=active, current=current)

    def end(self, session: str = MAIN) -> Answer:
        """Close the session's connection; its hooks run unseen, and another connection follows."""
        ended = self._session(session)
        del self._sessions[session]
        ended.connection.close()
        if ended.connection is self.main:
            self.main = self.link.connect()
            if self.apart:
                self._prepare(Session(self.main))
        following = self._session(session)
        self._forget(following)
        return Answer(active=self._active(following))

    def close(self) -> None:
        """Close all connections."""
        self.link.close()

    # -- transitions ---------------------------------------------------------------------------------------------------

    def activate(self, group: str, session: str = MAIN) -> Answer:
        """Call `{group}.activate`."""
        return self._perform(Operation("activate", {"group": group}, session))

    def deactivate(self, group: str, force: bool = False, session: str = MAIN) -> Answer:
        """Call `{group}.deactivate`."""
        return self._perform(Operation("deactivate", {"group": group}, session))

    def set_fact(self, fact: str, value: bool, session: str = MAIN) -> Answer:
        """Set a fact."""
        return self._perform(Operation("set_fact", {"fact": fact, "value": value}, session))

    def call(self, tool: str, arguments: Mapping[str, Any], session: str = MAIN) -> Answer:
        """Call a tool by its name."""
        return self._perform(Operation("call", {"tool": tool, "arguments": arguments}, session))

    def snapshot(self, session: str = MAIN) -> Answer:
        """Return the groups that have a tool on the list."""
        found = self._session(session)
        return Answer(active=self._active(found), notified=self._notified(found))

    def _perform(self, operation: Operation) -> Answer:
        session = self._session(operation.session)
        self._expect(session)
        name, arguments = self._request(operation)
        return self._answer(operation, session, self._ask(session, name, arguments))

    def _expect(self, session: Session) -> None:
        """Note that a request is sent: of requests that overlap, notices are due from the first on."""
        if not session.under_way:
            session.due = session.connection.changes
        session.under_way += 1

    def _answer(self, operation: Operation, session: Session, reply: Reply) -> Answer:
        session.under_way -= 1
        self._keep_handle(session, reply)
        if operation.verb == "call":
            if reply.refused is not None:
                return Answer(error=_protocol_error(reply.refused, "ToolNotFound"))
            return Answer(text=reply.text, is_error=reply.is_error)
        error, detail = self._refusal(operation, reply)
        if error is not None and self._setup.relevant_controls and self._is_so(operation, session):
            error = None  # there is no tool for what is so already
        change: Mapping[str, Any] = reply.change if error is None else {}
        active = (
            self._active(session) if change.get("active") is None else canonical(change["active"], self._setup.paths)
        )
        hooks = self._hooks(session)
        changed = change.get("changed") if isinstance(change.get("changed"), bool) else None
        if operation.verb == "set_fact":
            due = self._list_follows_fact(session, **operation.arguments)
        else:
            moved = changed if changed is not None else active != session.active  # not every server says
            due = moved and self._list_follows(session.active, active, session.facts)
        self._await_notices(session, due)
        session.active, session.connection.follows = active, self._list_follows((), active, session.facts)
        return Answer(error, changed, detail, active=active, hooks=hooks, notified=self._notified(session, due))

    def _refusal(self, operation: Operation, reply: Reply) -> tuple[str | None, Mapping[str, Any]]:
        """Return the name of the error that an answer reports, and what it names."""
        if reply.refused is not None:
            if operation.arguments.get("group") not in self._setup.paths:
                return _protocol_error(reply.refused, "GroupNotFound"), {}
            return "error", {}  # whatever the code: that it should have been a result is for CTL-5
        if not reply.is_error:
            return None, {}
        error = reply.meta.get(ERROR_META)
        if not isinstance(error, Mapping) or "errors" not in self.capabilities:
            return "error", {}
        detail = dict(cast("Mapping[str, Any]", error))
        return str(detail.pop("error", "error")), detail

    def _is_so(self, operation: Operation, session: Session) -> bool:
        """Return whether a group already has the state that an operation asks for."""
        active, path = self._active(session), operation.arguments.get("group")
        return active is not None and path in self._setup.paths and (path in active) == (operation.verb == "activate")

    def _keep_handle(self, session: Session, reply: Reply) -> None:
        if self._modern and reply.handle is not None:
            session.handle = reply.handle

    # -- lists --------------------------------------------------------------------------------------------------------

    def list(self, cursor: str | None = None, session: str = MAIN) -> Answer:
        """Ask for a page of the list."""
        found = self._session(session)
        try:
            page = found.connection.list_tools(cursor, self._meta(found))
        except WireError as error:
            return Answer(error=_protocol_error(error, "InvalidCursor"))
        names = [str(tool["name"]) for tool in page["tools"] if self._is_shown(str(tool["name"]))]
        control = [name for name in names if self._is_control(name)]
        tools = tuple(name for name in names if name not in control)
        return Answer(tools=tools, controls=tuple(control), names=tuple(names), next_cursor=page.get("nextCursor"))

    def _list_follows(self, before: Sequence[str] | None, after: Sequence[str] | None, facts: Collection[str]) -> bool:
        """Return whether the list may differ before and after a change, so that a notice is due."""
        if before is None or after is None or self._setup.relevant_controls:
            return True
        return self._shown(before, facts) != self._shown(after, facts)

    def _shown(self, active: Collection[str], facts: Collection[str]) -> tuple[Tool, ...]:
        """Return the tools on the list while these groups are active and these facts true (SPEC VIS-2)."""
        return tuple(
            tool
            for tool in self._setup.tools
            if not (tool.hidden or tool.when == "raises")
            and (tool.follows is None or tool.follows in active)
            and (tool.fact is None or tool.fact in facts)
        )

    def _list_follows_fact(self, session: Session, fact: str, value: bool) -> bool:
        """Note a fact; return whether the list differs before and after it."""
        before, session.facts = session.facts, session.facts | {fact} if value else session.facts - {fact}
        active = self._setup.paths if session.active is None else session.active
        return self._shown(active, before) != self._shown(active, session.facts)

    def _await_notices(self, session: Session, due: bool) -> None:
        """Wait for a notice that is due; or, where notices arrive late, for one that is not, which would too.

        Of operations that overlap, the first answer may take the notices of all: the others await none again.
        """
        if "notifications" not in self.capabilities:
            return
        if due:
            session.due += 1
            if self._missed < MISSES:
                self._await_notice(session.connection, session.due - 1, self.grace)
                self._missed += session.connection.changes < session.due
            session.connection.late += session.connection.changes < session.due
        elif self._delay and self._surplus_waits < SURPLUS_WAITS:
            self._surplus_waits += 1
            self._await_notice(session.connection, session.notices, self._patience)

    def _await_notice_of_renewal(self, connection: Connection, seen: int) -> None:
        """Wait for the notice of a replaced system, which a server may send: late, it would count for a session."""
        followed, connection.follows = connection.follows, False
        missed = self._renewals[followed]
        if "notifications" in self.capabilities and missed < MISSES:
            self._await_notice(connection, seen, self.grace if missed >= 0 else self._patience)
            self._renewals[followed] = -1 if missed < 0 or connection.changes > seen else missed + 1

    @property
    def _patience(self) -> float:
        """Seconds to wait for a notice that may come, since one has."""
        return min(SURPLUS_PATIENCE * self._delay, self.grace)

    def _await_notice(self, connection: Connection, seen: int, seconds: float) -> None:
        if connection.changes > seen or not seconds:
            return
        start = time.monotonic()
        connection.wait_for_change(seen, seconds)
        if connection.changes > seen:
            self._delay = max(self._delay, time.monotonic() - start)

    def _notified(self, session: Session, due: int = 0) -> int | None:
        """Return how many notices arrived since the last answer, without those missing from an earlier one."""
        if "notifications" not in self.capabilities:
            return None
        arrived = session.connection.changes - session.notices
        self._missed = 0 if arrived else self._missed
        session.notices += arrived
        late = min(session.connection.late, max(0, arrived - due))
        session.connection.late -= late
        return arrived - late

    def _ask(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Reply:
        """Call a tool in a session."""
        return session.connection.reply(*self._carrying(session, name, arguments))

    def _carrying(
        self, session: Session, name: str, arguments: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, Any], Mapping[str, Any] | None]:
        """Return a call with the session's handle in it, where it has one."""
        if session.handle is None or not self._by_arguments:
            return name, arguments, self._meta(session)
        if self._is_control(name):
            return name, {**arguments, HANDLE: session.handle}, None
        return str(self.call_tool), {HANDLE: session.handle, "name": name, "arguments": arguments}, None

    def _meta(self, session: Session) -> Mapping[str, Any] | None:
        return {HANDLE_META: session.handle} if session.handle is not None and not self._by_arguments else None


def _protocol_error(error: WireError, name: str) -> str:
    """Return `name` if an error of the protocol is about what was asked for, else that it has no name."""
    return name if error.code == INVALID_PARAMS else "error"


def canonical(active: Any, paths: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the groups that an answer names as active, in canonical order, by the paths that the setup has."""
    if not isinstance(active, list):
        raise TargetFailed(f"It did not name the active groups in a list: {active!r}")
    known = {path.replace(".", separator): path for path in paths for separator in ("__", ".")}
    named = [str(name) for name in cast("list[object]", active)]
    return tuple(sorted((known.get(name, name) for name in named), key=lambda path: path.split(".")))
