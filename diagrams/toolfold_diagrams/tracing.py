"""Records what happens in a tool set or a session as a trace; it changes nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from attrs import define

from toolfold import Session, ToolSet, events

from . import trace
from .trace import Entry, Trace


@contextmanager
def tracing(source: ToolSet | Session) -> Generator[TraceRecorder]:
    """Return a context manager that records what happens within it; its `trace` is complete at any time.

    ```
    with tracing(tools) as recorder:
        await session.activate("database")
    sequence(recorder.trace).render("trace.svg")
    ```

    Requests in progress when it begins are left out. The texts of errors are recorded; arguments and results are not.

    Args:
        source: A tool set, with all of its sessions, or one session.
    """
    tools = source if isinstance(source, ToolSet) else source.tools
    recorder = TraceRecorder(tools, None if isinstance(source, ToolSet) else source.id)
    detach = tools.trace(recorder.record)
    try:
        yield recorder
    finally:
        detach()


@define
class _Transition:
    """A transition so far: whether hooks ran, and whether it was committed."""

    hooks_ran: bool = False
    committed: bool = False


class TraceRecorder:
    """Records the events of a tool set.

    Args:
        tools: The tool set.
        session: The only session to record; `None` for all.
        entries: What the trace begins with.
    """

    def __init__(self, tools: ToolSet, session: str | None = None, entries: Iterable[Entry] = ()) -> None:
        self._tools = tools
        self._observers = tools.observers
        self._only = session
        self._entries: list[Entry] = list(entries)
        self._asked = 0
        self._under_way: dict[int, int] = {}
        self._transitions: dict[int, _Transition] = {}

    @property
    def trace(self) -> Trace:
        """What happened so far."""
        return Trace(self._tools.name, tuple(self._entries))

    def record(self, event: events.Event | events.Trace) -> None:
        """Record an event."""
        session = getattr(event, "session", None)
        if self._only is not None and session not in (None, self._only):
            return
        match event:
            case events.Requested():
                self._requested(event)
            case events.Planned() | events.HookBegan() | events.HookEnded() | events.Answered() | events.Ended():
                request = self._under_way.get(event.number) if event.number is not None else None
                if request is not None:
                    self._of_request(request, event)
            case events.Committed():
                self._committed(event)
            case events.ListChanged():
                kinds = tuple(sorted(event.kinds))
                self._add(trace.ListChanged(session=event.session, kinds=kinds, listeners=event.listeners))
            case events.SessionOpened():
                self._add(trace.SessionOpened(session=event.session))
            case events.SessionEnded():
                self._add(trace.SessionEnded(session=event.session))
            case events.NotificationFailed():
                self._add(
                    trace.Noted(
                        text=f"a listener failed: {': '.join(described_error(event.error))}", session=event.session
                    )
                )
            case events.PredicateFailed():
                mode = "" if event.mode is None else f"mode {event.mode} of "
                what = f"a predicate or count of {mode}{event.kind} {event.name} failed"
                self._add(trace.Noted(text=f"{what}: {': '.join(described_error(event.error))}"))
            case events.ListsAnnounced():
                self._add(trace.Noted(text=f"lists announced: {', '.join(sorted(event.kinds))}"))
            case events.RolledBack() | events.HooksFailed() | events.EventRefused():
                pass  # shown by what came before: the hooks and the end of their request
            case events.Listed():
                pass  # it changes nothing

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)

    def _requested(self, event: events.Requested) -> None:
        self._asked += 1
        by = self._under_way.get(event.by) if event.by is not None else None
        self._under_way[event.number] = self._asked
        transition = event.request
        self._add(
            trace.Asked(
                request=self._asked,
                session=event.session,
                what=event.what,
                name=self._tools.catalog.spoken(event.name) if event.what == "tool" else event.name,
                by=by,
                activate=transition.activate if transition is not None else (),
                deactivate=transition.deactivate if transition is not None else (),
                force=event.force,
            )
        )

    def _of_request(
        self,
        request: int,
        event: events.Planned | events.HookBegan | events.HookEnded | events.Answered | events.Ended,
    ) -> None:
        match event:
            case events.Planned():
                self._transitions[request] = _Transition()
                self._add(trace.Planned(request=request, activated=event.activated, deactivated=event.deactivated))
            case events.HookBegan():
                self._transitions[request].hooks_ran = True
                group, phase, undoes = event.group, event.phase, event.undoes
                self._add(trace.HookBegan(request=request, group=group, phase=phase, undoes=undoes))
            case events.HookEnded():
                error, problem = described_error(event.error)
                self._add(trace.HookEnded(request=request, error=error, problem=problem))
            case events.Answered():
                self._add(trace.Answered(request=request, is_error=event.is_error))
            case events.Ended():
                self._ended(request, event)

    def _committed(self, event: events.Committed) -> None:
        number = self._observers.request  # not by the session's name, which concurrent requests may share
        request = self._under_way.get(number) if number is not None else None
        if request is not None:
            self._transitions[request].committed = True
            change = event.change
            activated, deactivated, failures = change.activated, change.deactivated, len(change.failures)
            self._add(trace.Committed(request=request, activated=activated, deactivated=deactivated, failures=failures))

    def _ended(self, request: int, event: events.Ended) -> None:
        transition = self._transitions.pop(request, _Transition())
        if transition.hooks_ran and not transition.committed:
            self._add(trace.RolledBack(request=request))
        del self._under_way[event.number]
        error, problem = described_error(event.error)
        self._add(trace.Ended(request=request, error=error, problem=problem))


def described_error(error: BaseException | None) -> tuple[str, str]:
    """Return the type and the text of an error."""
    if error is None:
        return "", ""
    try:
        return type(error).__name__, str(error)
    except Exception:
        return type(error).__name__, ""
