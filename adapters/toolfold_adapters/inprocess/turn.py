"""The order in which the calls of one turn run, where they are carried out and where they are replayed (SPEC AGT-2).

A model writes the calls of a turn one after the other, and is answered once. The calls of control tools run one at a
time, in the order in which they were written. All other calls wait and run at the end of the turn, at once, so that
they can use what the turn opens. Of those that were written before a control call, and whose tools are available by
then, some can't wait:

- If the control call closes groups, all of them run before it: they may need what it closes.
- If not, those run before it whose success opens groups; later, they could undo what the control call was answered.

So what a control call was answered stays true until the end of the turn, unless a call that was written after it
changes it. This does not hold for groups that a handler opens or closes through its context: only the handler knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from toolfold import Catalog, Snapshot, ToolfoldError, TransitionRequest, plan
from toolfold.spi import RequestView, available, request_of

Batch = list[list[int]]
"""The numbers of calls that run at once; those of one list within run one after the other."""


@frozen
class Call:
    """A call of a turn: the full name of its tool, and its arguments, `None` if they can't be read."""

    name: str
    arguments: Mapping[str, Any] | None

    def is_control(self, catalog: Catalog) -> bool:
        """Return whether it is of a control tool."""
        component = catalog.tools.get(self.name)
        return component is not None and component.control is not None

    def opens(self, catalog: Catalog) -> tuple[str, ...]:
        """Return the groups that its success opens, if it is of a tool that groups open on (SPEC SES-6)."""
        return catalog.opened_by.get(self.name, ())

    def requests(self, catalog: Catalog) -> Sequence[TransitionRequest]:
        """Return what it requests if it succeeds: nothing unless it is of a tool that opens or closes groups."""
        component = catalog.tools.get(self.name)
        if component is None or component.control is None:
            return [TransitionRequest(activate=path) for path in self.opens(catalog)] if component is not None else ()
        request = None if self.arguments is None else request_of(component, self.arguments, catalog)
        return () if request is None else (request,)

    def is_available(self, view: RequestView) -> bool:
        """Return whether its tool can be called now."""
        component = view.snapshot.catalog.tools.get(self.name)
        return component is not None and available(component, view)


def batches(calls: Sequence[Call], view: Callable[[], RequestView]) -> Iterator[Batch]:
    """Give the calls of a turn in the order in which they run.

    Args:
        calls: The calls, as they were written.
        view: Gives the present view; it is asked when the calls of the batches before have run.
    """
    waiting: list[int] = []
    for number, call in enumerate(calls):
        now = view()
        catalog = now.snapshot.catalog
        if not call.is_control(catalog):
            waiting.append(number)
            continue
        if due := _due(waiting, calls, call, now):
            yield _batch(due, calls, catalog)
            waiting = [other for other in waiting if other not in due]
        yield [[number]]
    if waiting:
        yield _batch(waiting, calls, view().snapshot.catalog)


def _due(waiting: list[int], calls: Sequence[Call], control: Call, now: RequestView) -> list[int]:
    """Return which of the waiting calls run before a control call."""
    if not waiting:
        return []
    closes = _closes(control, now.snapshot)
    catalog = now.snapshot.catalog
    return [other for other in waiting if (closes or calls[other].opens(catalog)) and calls[other].is_available(now)]


def _closes(control: Call, snapshot: Snapshot) -> bool:
    try:
        return any(plan(snapshot.configuration, request).deactivated for request in control.requests(snapshot.catalog))
    except ToolfoldError:
        return False


def _batch(numbers: list[int], calls: Sequence[Call], catalog: Catalog) -> Batch:
    """Return a batch of these calls: all at once, but for those of different tools that groups open on.

    Which of those came first decides the order of the groups, and which of two that exclude one another stays open.
    """
    openers = [number for number in numbers if calls[number].opens(catalog)]
    if len({calls[number].name for number in openers}) < 2:
        return [[number] for number in numbers]
    return [openers, *([number] for number in numbers if number not in openers)]
