"""What changed before somebody watched: the steps that a page has which is opened late.

Of each change there is its event, a line in a list that is bounded; calls are not in it, and cost nothing. The states
are those that lead to the present one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import time

from attrs import frozen

from toolfold import Snapshot, ToolSet, events

from .. import trace
from ..interaction import asked_for
from ..tracing import described_error

RETAINED = 5_000
"""How many events are retained."""
Change = events.Committed | events.RolledBack


@frozen
class PastStep:
    """A change, or one that a hook's failure has prevented.

    Attributes:
        at: When it was, in seconds since 1970.
        session: The name of its session.
        title: What it was, in words.
        before: The state before it.
        after: The state after it.
        errors: What failed in it.
        entries: The same as a trace.
    """

    at: float
    session: str
    title: str
    before: Snapshot
    after: Snapshot
    errors: tuple[Exception, ...]
    entries: tuple[trace.Entry, ...]


class History:
    """The last changes of a tool set's sessions.

    Args:
        tools: The tool set.
    """

    def __init__(self, tools: ToolSet) -> None:
        self._changes: deque[tuple[float, Change]] = deque(maxlen=RETAINED)
        tools.observe(self._observe)

    def _observe(self, event: events.Event) -> None:
        if isinstance(event, Change):
            self._changes.append((time(), event))

    def steps(self, present: Mapping[str, Snapshot]) -> list[PastStep]:
        """Return the changes of some sessions, oldest first, given their present states by name."""
        states = dict(present)
        steps: list[PastStep] = []
        for at, event in reversed(self._changes):
            if (after := states.get(event.session)) is not None:
                step = _step(at, event, after)
                steps.append(step)
                states[event.session] = step.before
        return steps[::-1]


def _step(at: float, event: Change, after: Snapshot) -> PastStep:
    if isinstance(event, events.Committed):
        change = event.change
        asked = _asked(event.session, change.activated, change.deactivated)
        committed = trace.Committed(
            request=1, activated=change.activated, deactivated=change.deactivated, failures=len(change.failures)
        )
        entries = (asked, committed, trace.Ended(request=1))
        return PastStep(at, event.session, asked_for(asked), _before(after, event), after, change.failures, entries)
    hook, (error, problem) = event.error, described_error(event.error)
    opens = hook.phase == "on_activate"
    asked = _asked(event.session, (hook.group,) if opens else (), () if opens else (hook.group,))
    ended = trace.Ended(request=1, error=error, problem=problem)
    return PastStep(at, event.session, asked_for(asked), after, after, (hook,), (asked, ended))


def _asked(session: str, activate: tuple[str, ...], deactivate: tuple[str, ...]) -> trace.Asked:
    return trace.Asked(request=1, session=session, what="transition", activate=activate, deactivate=deactivate)


def _before(after: Snapshot, event: events.Committed) -> Snapshot:
    """Return the state that a change led to another one, as far as the catalog of now has its groups."""
    active = {*after.active, *event.change.deactivated} - {*event.change.activated}
    return after.at(after.catalog.restored(path for path in after.catalog.index if path in active).after)
