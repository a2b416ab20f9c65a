"""What the live page shows: the sessions of a tool set and their last steps, recorded while somebody watches.

A step is a request of a session from outside, with all that its handlers and hooks request of that session. Until
somebody watches, only what changed is retained, in history.py; a minute after the last one has left, the next event
ends the recording. No recorded value is a handle: sessions have numbers here, and the requests of a caller
without a session, such as those with a signed handle, are shown together.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from time import monotonic, perf_counter, time
from typing import Literal
from weakref import ref

from attrs import define, field

from toolfold import HookFailed, Session, Snapshot, ToolfoldError, ToolNotFound, ToolSet, events, explain
from toolfold.spi import KINDS, Kind, RequestView, available, is_hidden

from ..interaction import asked_for
from ..text import printable
from ..trace import Asked
from ..tracing import TraceRecorder, described_error
from .history import History

STEPS, ALL_STEPS = 50, 5_000
"""How many steps of a session, and of all sessions, are retained."""
ENTRIES = 400
"""How many entries of a step are drawn."""
SESSIONS = 1_000
"""How many sessions are retained; those that ended, and then those without steps for the longest time, go first."""
PROBLEMS = 100
LINGER = 60.0
"""Seconds for which recording goes on when nobody watches, so that a page can be reloaded."""
LETTERS = 500
"""The letters of a reason."""

Outcome = Literal["running", "changed", "done", "refused", "failed", "cancelled"]
SessionSource = Callable[[], Session | None]
"""Where a state is read: a weak reference to a session, or what returns `None`."""


@define(eq=False)
class RecordedRequest:
    """A request of a session from outside, and what came of it.

    Attributes:
        number: Its number among the steps of its session.
        at: When it began, in seconds since 1970.
        title: What was requested.
        before: The state in which it began.
        after: The state in which it ended, or the present one.
        outcome: How it ended, or `running`.
        reasons: Why it, or a part of it, was refused or failed.
        planned: The groups to activate and to deactivate in a transition that is under way.
        recorder: Records what happens.
        session: The session's name.
        source: The session.
        entries: How many events were recorded.
    """

    number: int
    session: str
    source: SessionSource
    before: Snapshot
    after: Snapshot
    recorder: TraceRecorder
    at: float = field(factory=time)
    title: str = ""
    outcome: Outcome = "running"
    reasons: list[str] = field(factory=list[str])
    planned: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    entries: int = 0
    _hook: str = ""
    _is_error: bool = False

    def add(self, event: events.Event | events.Trace, view_of: Callable[[Snapshot], RequestView]) -> None:
        """Record an event; `view_of` returns what explains why something could not be called (SPEC EXP-1)."""
        self.entries += 1
        if self.entries <= ENTRIES:
            self.recorder.record(event)
        if not self.title and isinstance(asked := self.recorder.trace.entries[0], Asked):
            self.title = asked_for(asked)[:LETTERS]
        match event:
            case events.Planned():
                self.planned = (event.activated, event.deactivated)
            case events.Committed() | events.RolledBack():
                self.planned = ((), ())
            case events.HookBegan():
                self._hook = f"{event.phase} of {event.group}"
            case events.HookEnded(error=BaseException() as error):
                self._failed(f"{self._hook}: {_text(error)}")
            case events.EventRefused():
                self._failed(f"{event.event} could not open a group: {_text(event.error)}")
            case events.Answered():
                self._is_error |= event.is_error
            case events.Ended(error=Exception() as error):
                if not (isinstance(error, HookFailed) and self.reasons):  # the hook has said why
                    why = _why(error, view_of(self.after)) if isinstance(error, ToolNotFound) else ""
                    self._failed(f"{_text(error)}{why}")
            case _:
                pass

    def end(self, error: BaseException | None) -> None:
        """Note how it ended."""
        self.planned = ((), ())
        if error is not None and not isinstance(error, Exception):
            self.outcome = "cancelled"
        elif isinstance(error, ToolfoldError) and not isinstance(error, HookFailed):
            self.outcome = "refused"
        elif error is not None or self._is_error or self.reasons:
            self.outcome = "failed"
        else:
            self.outcome = "changed" if self.after.active != self.before.active else "done"

    def _failed(self, reason: str) -> None:
        if reason not in self.reasons and len(self.reasons) < PROBLEMS:
            self.reasons.append(reason)


@define(eq=False)
class SessionRecord:
    """A session, or the requests of a caller without one: its last steps.

    Attributes:
        key: Its number on the page.
        name: What the session is called in logs.
        caller: Whose it is, where that is known.
        snapshot: Its last known state.
        version: The version of the recording in which it changed last.
        source: The session, or that of the last request.
    """

    key: int
    name: str
    caller: str
    snapshot: Snapshot
    version: int = 0
    is_session: bool = True
    ended: bool = False
    steps: deque[RecordedRequest] = field(factory=lambda: deque[RecordedRequest](maxlen=STEPS))
    count: int = 0
    source: SessionSource = lambda: None

    @property
    def session(self) -> Session | None:
        """The session, if it is open; `None` for requests without one."""
        session = self.source() if self.is_session else None
        return session if session is not None and session.is_open else None

    def refresh(self) -> Snapshot:
        """Return the present state, which of a session that has ended is its last."""
        self.snapshot = _state_of(self.source, self.snapshot)
        return self.snapshot


@define(eq=False)
class Problem:
    """A refusal or a failure: why, how often the same was noted, and when, in which session and step it was last."""

    version: int
    at: float
    text: str
    key: int | None = None
    step: int | None = None
    outcome: Outcome = "failed"
    times: int = 1


class Recording:
    """What happens in a tool set, as far as somebody watches it; what is used is counted, and what changed retained.

    Args:
        tools: The tool set.
        clock: Returns the time in seconds.
    """

    def __init__(self, tools: ToolSet, clock: Callable[[], float] = monotonic) -> None:
        self.tools = tools
        self.usage = tools.count_usage(perf_counter)
        self.version = 0
        self.began = time()
        self.records: OrderedDict[int, SessionRecord] = OrderedDict()
        self.problems: deque[Problem] = deque(maxlen=PROBLEMS)
        self._history = History(tools)
        self._clock = clock
        self._watched = 0.0
        self._stop: Callable[[], None] | None = None
        self._keys: dict[tuple[bool, str], int] = {}
        self._under_way: dict[int, tuple[SessionRecord, RecordedRequest]] = {}
        self._retained: deque[tuple[SessionRecord, RecordedRequest]] = deque()
        self._created = 0

    @property
    def runs(self) -> bool:
        """Whether the tool set is traced for it."""
        return self._stop is not None

    def watch(self) -> None:
        """Note that somebody watches now, and begin to record unless that has begun."""
        self._watched = self._clock()
        if self._stop is None:
            self.began = time()
            self.records.clear()
            self.problems.clear()
            self._keys.clear()
            self._under_way.clear()
            self._retained.clear()
            pool = self.tools.pool
            stored = (one for one in pool.live if one.is_stored)
            for session in [*dict.fromkeys((*pool.sessions, *stored))][-SESSIONS:]:
                self._new(session.id, session.caller or "", is_session=True).source = ref(session)
            self._recall()
            self._stop = self.tools.trace(self.record)

    def _recall(self) -> None:
        """Add the steps of open sessions that changed them before."""
        records = {record.name: record for record in self.records.values()}
        for past in self._history.steps({name: record.refresh() for name, record in records.items()}):
            record = records[past.session]
            record.count += 1
            recorder = TraceRecorder(self.tools, entries=past.entries)
            step = RecordedRequest(
                record.count, past.session, record.source, past.before, past.after, recorder, past.at
            )
            step.title, step.entries = past.title[:LETTERS], len(past.entries)
            step.outcome, step.reasons = "failed" if past.errors else "changed", [_text(error) for error in past.errors]
            self._add(record, step)
            if step.reasons:
                self.problem("; ".join(step.reasons), record, step)

    def record(self, event: events.Event | events.Trace) -> None:
        """Record an event; the first one after nobody has watched for a while ends the recording."""
        if self._clock() - self._watched > LINGER and self._stop is not None:
            self._stop()
            self._stop = None
            return
        self.version += 1
        match event:
            case events.Requested():
                self._requested(event)
            case events.SessionOpened():
                self._touched(self._of(event.session, opened=True))
            case events.SessionEnded():
                self._session_ended(event.session)
            case events.Listed(kind="tool"):
                record = self._of(event.session)
                record.refresh()
                self._touched(record)
            case events.ListsAnnounced():
                for record in self.records.values():
                    self._touched(record)
            case _:
                pass
        self._of_step(event)

    def problem(self, text: str, record: SessionRecord | None = None, step: RecordedRequest | None = None) -> None:
        """Note a refusal or a failure."""
        key, number = None if record is None else record.key, None if step is None else step.number
        outcome: Outcome = "refused" if step is not None and step.outcome == "refused" else "failed"
        at = time() if step is None else step.at
        problem = Problem(self.version, at, printable(text)[: 2 * LETTERS], key, number, outcome)
        for same in self.problems:
            if (same.text, same.outcome) == (problem.text, problem.outcome):
                problem.times += same.times
                self.problems.remove(same)
                break
        self.problems.append(problem)

    # -- events -------------------------------------------------------------------------------------------------------

    def _view(self, snapshot: Snapshot) -> RequestView:
        return self.tools.runtime.view_of(snapshot, snapshot.catalog.spoken)

    def _of_step(self, event: events.Event | events.Trace) -> None:
        number = getattr(event, "number", None) or self.tools.observers.request
        record, step = self._under_way.get(number or 0, (None, None))
        if record is not None and step is not None:
            step.add(event, self._view)
            step.after = record.snapshot = _state_of(step.source, step.after)
            self._touched(record)
        match event:
            case events.Ended() if record is not None and step is not None:
                self._ended(event, record, step)
            case events.PredicateFailed():
                what = f"the mode {event.mode} of {event.name}" if event.mode else event.name
                self.problem(f"A predicate or count of {what} failed: {_text(event.error)}", record, step)
            case events.NotificationFailed():
                self.problem(f"A listener failed: {_text(event.error)}", self._of(event.session), step)
            case events.HooksFailed() if step is None:
                for error in event.failures:
                    self.problem(_text(error), self._of(event.session))
            case _:
                pass

    def _requested(self, event: events.Requested) -> None:
        record, step = self._under_way.get(event.by or 0, (None, None))
        if record is None or step is None or step.session != event.session:
            record = self._of(event.session)
            record.count += 1
            state = record.refresh()
            step = RecordedRequest(record.count, event.session, record.source, state, state, TraceRecorder(self.tools))
            self._add(record, step)
        self._under_way[event.number] = (record, step)

    def _ended(self, event: events.Ended, record: SessionRecord, step: RecordedRequest) -> None:
        del self._under_way[event.number]
        if any(other is step for _, other in self._under_way.values()):
            return
        step.end(event.error)
        if step.reasons:
            self.problem("; ".join(step.reasons), record, step)

    def _add(self, record: SessionRecord, step: RecordedRequest) -> None:
        record.steps.append(step)
        self._retained.append((record, step))
        if len(self._retained) > ALL_STEPS:
            of, oldest = self._retained.popleft()
            if of.steps and of.steps[0] is oldest:
                of.steps.popleft()

    def _session_ended(self, name: str) -> None:
        record = self.records.get(self._keys.get((True, name), 0))
        if record is not None:
            record.ended = True
            self._touched(record)

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _of(self, name: str, *, opened: bool = False) -> SessionRecord:
        """Return the record of a session by its name, made if there is none; `opened` says that it is no request's."""
        record = self.records.get(self._keys.get((True, name), 0))
        if record is not None:
            return record
        session = next((one for one in reversed(self.tools.pool.live) if one.id == name), None)
        caller = (session.caller if session is not None else None) or ""
        if session is not None and (opened or _outlives_its_request(self.tools, session)):
            record = self._new(name, caller, is_session=True)
        else:
            record = self.records.get(self._keys.get((False, caller), 0)) or self._new("", caller, is_session=False)
        if session is not None:
            record.source = ref(session)
        return record

    def _new(self, name: str, caller: str, *, is_session: bool) -> SessionRecord:
        if len(self.records) >= SESSIONS:
            gone = next((one for one in self.records.values() if one.ended), next(iter(self.records.values())))
            del self.records[gone.key]
            self._keys = {of: key for of, key in self._keys.items() if key != gone.key}
        self._created += 1
        self._keys[is_session, name if is_session else caller] = self._created
        empty = Snapshot.of(self.tools.catalog)
        record = SessionRecord(self._created, name, caller, empty, self.version, is_session)
        self.records[record.key] = record
        return record

    def _touched(self, record: SessionRecord) -> None:
        record.version = self.version
        if record.key in self.records:
            self.records.move_to_end(record.key)


def _outlives_its_request(tools: ToolSet, session: Session) -> bool:
    return session.is_stored or session in tools.pool.sessions


def _state_of(source: SessionSource, known: Snapshot) -> Snapshot:
    session = source()
    return session.snapshot if session is not None and session.is_open else known


def _text(error: BaseException) -> str:
    kind, text = described_error(error)
    cause = error.__cause__ if isinstance(error, HookFailed) else None
    because = f" ({': '.join(filter(None, described_error(cause)))})" if cause is not None else ""
    return printable(f"{kind}: {text}{because}" if text else f"{kind}{because}")[:LETTERS]


def _why(error: ToolNotFound, view: RequestView) -> str:
    """Return why something could not be called, in a sentence that follows the error."""
    kinds: dict[str, Kind] = {kind: kind for kind in KINDS}
    return f". {printable(str(explain(view, error.name, kinds[error.kind])))[:LETTERS]}"


@lru_cache(maxsize=1_024)
def listed_tokens(snapshot: Snapshot) -> tuple[int, int, int]:
    """Return about how many tokens the list of tools has in a state, and how many it would have without groups.

    The third number is that of tools whose listing the program decides; they are left out, since only it can be asked.
    """
    view, listed, ungrouped, undecided = RequestView(snapshot), 0, 0, 0
    for component in snapshot.catalog.tools.values():
        if not component.is_settled:
            undecided += 1
        elif available(component, view) and not is_hidden(component, view):
            listed += component.tokens
        if component.control is None and not component.never_listed:
            ungrouped += component.tokens
    return listed, ungrouped, undecided
