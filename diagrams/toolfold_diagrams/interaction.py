"""A trace as an interaction of UML: lifelines, and the messages and notes between them, row by row.

What is drawn is decided here, once for all formats; how it looks is up to the writers of each format.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from attrs import define, field, frozen

from .text import ELLIPSIS, plural, printable
from .trace import (
    Answered,
    Asked,
    Committed,
    Ended,
    Entry,
    HookBegan,
    HookEnded,
    ListChanged,
    Noted,
    Planned,
    RolledBack,
    SessionEnded,
    SessionOpened,
    Trace,
)

SHOWN_BY_HOOKS = "HookFailed"
"""The error whose text says no more than that a hook failed, which is in the picture."""
QUEUED = ("transition", "close", "start")
"""Requests that wait until earlier ones of their session have ended."""


class Role(Enum):
    """What a lifeline stands for; the text is put above its name."""

    CALLER = "caller of"
    SESSION = "session"
    TOOLS = "tool set"
    HOOKS = "hooks of"
    LISTENERS = "listeners"


class Look(Enum):
    """What kind of message or note a row is."""

    CALL = "call"
    REPLY = "reply"
    SIGNAL = "signal"
    PLAIN = "plain"
    DONE = "done"
    FAILED = "failed"


@frozen
class Lifeline:
    """A participant: a caller or a session by its session's name, the hooks of a group by its path."""

    role: Role
    name: str = ""


@frozen
class Message:
    """An arrow from one lifeline to another or to itself."""

    tail: Lifeline
    head: Lifeline
    text: str
    look: Look


@frozen
class Note:
    """A text on a lifeline."""

    over: Lifeline
    text: str
    look: Look = Look.PLAIN


@frozen
class Bar:
    """The beginning or the end of the activity of a lifeline for one request or hook, which `key` names."""

    on: Lifeline
    key: str
    begins: bool


Fragment = Message | Note | Bar


@frozen
class Interaction:
    """Lifelines from left to right, and rows from top to bottom."""

    lifelines: tuple[Lifeline, ...]
    rows: tuple[Fragment, ...]

    @classmethod
    def of(cls, trace: Trace) -> Interaction:
        """Return the picture of a trace."""
        builder = _RowBuilder(trace)
        for number, entry in enumerate(trace.entries):
            builder.add(entry, builder.next_of_request[number], trace.entries[number + 1 : number + 2])
        rows = builder.rows or [Note(builder.tools, "nothing happened")]
        return cls(_in_order(rows), (*rows, *builder.open_bars()))


def _in_order(rows: Iterable[Fragment]) -> tuple[Lifeline, ...]:
    """Return the lifelines: each session after its callers, then hooks as they come, then listeners."""
    seen: dict[Lifeline, None] = {}
    for row in rows:
        ends = (row.tail, row.head) if isinstance(row, Message) else (row.over if isinstance(row, Note) else row.on,)
        seen.update(dict.fromkeys(ends))
    sessions = dict.fromkeys(line.name for line in seen if line.role in (Role.CALLER, Role.SESSION))
    callers = [Lifeline(role, name) for name in sessions for role in (Role.CALLER, Role.SESSION)]
    rest = [line for role in (Role.TOOLS, Role.HOOKS, Role.LISTENERS) for line in seen if line.role is role]
    return tuple(line for line in (*callers, *rest) if line in seen)


@define
class _Request:
    """A request under way."""

    asked: Asked
    tail: Lifeline
    head: Lifeline
    hook: Lifeline | None = None
    hooks: int = 0
    planned: bool = False
    committed: bool = False
    rolled_back: bool = False
    is_error: bool = False


@define
class _RowBuilder:
    """Turns entries into rows."""

    trace: Trace
    rows: list[Fragment] = field(factory=list[Fragment])
    next_of_request: list[Entry | None] = field(init=False)
    _requests: dict[int, _Request] = field(factory=dict[int, _Request])

    def __attrs_post_init__(self) -> None:
        later: dict[int, Entry] = {}
        following: list[Entry | None] = []
        for entry in reversed(self.trace.entries):
            request = getattr(entry, "request", None)
            following.append(later.get(request) if isinstance(request, int) else None)
            if isinstance(request, int):
                later[request] = entry
        self.next_of_request = following[::-1]

    @property
    def tools(self) -> Lifeline:
        return Lifeline(Role.TOOLS, self.trace.name)

    def add(self, entry: Entry, followed_by: Entry | None, following: tuple[Entry, ...]) -> None:
        """Add the rows of an entry, given the next entry of its request and the next of all."""
        match entry:
            case Asked():
                self._asked(entry, waits=bool(following) and followed_by is not following[0])
            case Planned():
                self._planned(entry, isinstance(followed_by, HookBegan))
            case HookBegan():
                self._hook_began(entry)
            case HookEnded():
                self._hook_ended(entry)
            case Committed():
                self._committed(entry)
            case RolledBack():
                self._requests[entry.request].rolled_back = True
                self._note(self._requests[entry.request].head, "rolled back: nothing has changed", Look.FAILED)
            case Answered():
                self._requests[entry.request].is_error = entry.is_error
            case Ended():
                self._ended(entry)
            case ListChanged():
                self._list_changed(entry)
            case SessionOpened():
                self._note(_session(entry.session), "the session is open")
            case SessionEnded():
                self._note(_session(entry.session), "the session has ended")
            case Noted():
                self._note(self.tools if entry.session is None else _session(entry.session), entry.text)

    def open_bars(self) -> list[Fragment]:
        """Return the ends of the bars that are open when the trace ends."""
        bars: list[Fragment] = []
        for number, request in reversed(self._requests.items()):
            if request.hook is not None:
                bars.append(Bar(request.hook, _hook_key(number, request), begins=False))
            bars.append(Bar(request.head, _key(number), begins=False))
        return bars

    def _note(self, over: Lifeline, text: str, look: Look = Look.PLAIN) -> None:
        self.rows.append(Note(over, printable(text) or ELLIPSIS, look))

    def _asked(self, entry: Asked, *, waits: bool) -> None:
        by = self._requests.get(entry.by) if entry.by is not None else None
        tail = Lifeline(Role.CALLER, entry.session) if by is None else by.hook or by.head
        head = _session(entry.session)
        self._requests[entry.request] = _Request(entry, tail, head)
        self.rows += [
            Message(tail, head, asked_for(entry), Look.CALL),
            Bar(head, _key(entry.request), begins=True),
        ]
        if waits and entry.what in QUEUED:  # a request that need not wait is planned at once
            self._note(head, "waits for its turn")

    def _planned(self, entry: Planned, hooks_follow: bool) -> None:
        request = self._requests[entry.request]
        again = "planned again" if request.planned else "planned"
        request.planned = True
        if hooks_follow:
            self._note(request.head, f"{again}: {_signed(entry.activated, entry.deactivated)}")
        elif not entry.activated and not entry.deactivated and request.asked.what != "close":
            self._note(request.head, "nothing to change")

    def _hook_began(self, entry: HookBegan) -> None:
        request = self._requests[entry.request]
        request.hook = Lifeline(Role.HOOKS, entry.group)
        request.hooks += 1
        undoes = "" if entry.undoes is None else f", undoes {entry.undoes}"
        self.rows += [
            Message(request.head, request.hook, f"{entry.phase}{undoes}", Look.CALL),
            Bar(request.hook, _hook_key(entry.request, request), begins=True),
        ]

    def _hook_ended(self, entry: HookEnded) -> None:
        request = self._requests[entry.request]
        if request.hook is not None:
            text, look = (_failure(entry.error, entry.problem), Look.FAILED) if entry.error else ("", Look.REPLY)
            self.rows += [
                Message(request.hook, request.head, text, look),
                Bar(request.hook, _hook_key(entry.request, request), begins=False),
            ]
        request.hook = None

    def _committed(self, entry: Committed) -> None:
        request = self._requests[entry.request]
        request.committed = True
        ignored = f"; {plural(entry.failures, 'failed hook')} passed over" if entry.failures else ""
        self._note(request.head, f"committed: {_signed(entry.activated, entry.deactivated)}{ignored}", Look.DONE)

    def _ended(self, entry: Ended) -> None:
        request = self._requests.pop(entry.request)
        if entry.error:
            shown = request.rolled_back and entry.error == SHOWN_BY_HOOKS
            text = _failure(entry.error, "" if shown else entry.problem)
            self.rows.append(Message(request.head, request.tail, text, Look.FAILED))
        elif request.tail != request.head:
            self.rows.append(Message(request.head, request.tail, _answer(request), Look.REPLY))
        self.rows.append(Bar(request.head, _key(entry.request), begins=False))

    def _list_changed(self, entry: ListChanged) -> None:
        if entry.listeners:
            to = f" ({plural(entry.listeners, 'listener')})" if entry.listeners > 1 else ""
            kinds = ", ".join(kind.replace("_", " ") for kind in entry.kinds)
            text = f"lists changed: {kinds}{to}"
            self.rows.append(Message(_session(entry.session), Lifeline(Role.LISTENERS), text, Look.SIGNAL))


def _session(name: str) -> Lifeline:
    return Lifeline(Role.SESSION, name)


def _key(request: int) -> str:
    return f"request {request}"


def _hook_key(number: int, request: _Request) -> str:
    return f"hook {request.hooks} of request {number}"


def asked_for(entry: Asked) -> str:
    """Return what was asked for, in words."""
    if entry.what == "transition":
        asked = {"close": entry.deactivate, "open": entry.activate}
        text = ", ".join(f"{verb} {' and '.join(paths)}" for verb, paths in asked.items() if paths)
        return (text or "change nothing") + (" [force]" if entry.force else "")
    verbs = {"tool": "call", "prompt": "get prompt", "set_fact": "set fact", "success": "on success of"}
    return " ".join((verbs.get(entry.what, "read" if entry.name else entry.what), entry.name)).strip()


def _answer(request: _Request) -> str:
    if request.asked.what == "tool":
        return "an error result" if request.is_error else "result"
    if request.asked.what == "transition":
        return "changed" if request.committed else "unchanged"
    return ""


def _failure(error: str, problem: str) -> str:
    return f"✗ {error}: {problem}" if problem else f"✗ {error}"


def _signed(activated: Iterable[str], deactivated: Iterable[str]) -> str:
    """Return activated and deactivated groups as `+a −b`."""
    return " ".join([*(f"+{path}" for path in activated), *(f"−{path}" for path in deactivated)])
