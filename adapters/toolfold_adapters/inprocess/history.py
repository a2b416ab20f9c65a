"""The groups that a conversation had loaded, according to its messages (SPEC GRP-6).

Messages do not always mark errors. So an answer is compared with the texts with which the library refuses a call. These
are made by the same code as for the model, with placeholders for names, so a changed wording needs no change here. Any
other answer is no evidence of a failure: the application that stores the messages may have shortened or removed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, cast

from attrs import define

from toolfold import (
    Catalog,
    GroupNotFound,
    HandleInvalid,
    HookFailed,
    InvalidArguments,
    ParentInactive,
    QuotaExceeded,
    ReentrantTransition,
    Snapshot,
    ToolfoldError,
    ToolNotFound,
    ToolSet,
    TransitionRequest,
)
from toolfold.spi import Saved, internal_error, misfit, opened_by_search, refused

from .formats import PastCall, read_arguments, unreadable_arguments
from .late_providers import search_tool
from .turn import Call, batches
from .wire_names import ToolOrder

_PLACEHOLDER = "\N{SYMBOL FOR NULL}"

FailureCheck = Callable[[PastCall], bool | None]
"""Returns whether a call failed; `None` to decide by its answer."""


@define
class Replay:
    """Replays the transition requests of past turns, in the order in which they were made.

    Attributes:
        snapshot: The state after the requests so far.
        tools: The tool set.
        order: The order of the tools that the model was given.
        check: Returns whether a call failed, in place of its answer.
    """

    snapshot: Snapshot
    tools: ToolSet
    order: ToolOrder
    check: FailureCheck | None = None

    def after(self, turns: Iterable[Iterable[PastCall]]) -> Snapshot:
        """Return the state after these turns; the order is then that of the tools which the model was given."""
        self.order.listed(self.tools.runtime.view_of(self.snapshot))
        for turn in turns:
            before = self.snapshot
            for state in self._states(turn):
                self.order.update(state)
            if self.snapshot is not before:
                self.order.listed(self.tools.runtime.view_of(self.snapshot))
        return self.snapshot

    def _states(self, turn: Iterable[PastCall]) -> Iterator[Snapshot]:
        """Yield the states after the calls of a turn, one after the other.

        Calls that failed, or that would now be refused, have no effect. Where answers have a state, nothing is
        replayed: the turn leads to the latest of them.
        """
        catalog = self.snapshot.catalog
        past = list(turn)
        if (recorded := self._recorded(past)) is not None:
            self.snapshot = recorded
            yield recorded
            return
        calls = [Call(self._tool_name(one, catalog), read_arguments(one.arguments)) for one in past]
        for batch in batches(calls, lambda: self.tools.runtime.view_of(self.snapshot)):
            for number in chain.from_iterable(batch):
                requests = calls[number].requests(catalog) or self._of_search(calls[number], past[number], catalog)
                for request in () if not requests or self._failed(past[number], calls[number], catalog) else requests:
                    try:
                        self.snapshot = self.snapshot.after(request)
                    except ToolfoldError:
                        continue
                    yield self.snapshot

    def _recorded(self, past: Iterable[PastCall]) -> Snapshot | None:
        """Return the state that was stored with the answers, the latest one, as the current catalog allows it."""
        states = (one.state for one in past if one.state is not None and one.state.get("tools") == self.tools.name)
        latest = max(states, key=_answers_before, default=None)
        try:
            return None if latest is None else Saved.read(self.tools.name, latest).snapshot(self.snapshot.catalog)
        except HandleInvalid:
            return None

    def _tool_name(self, past: PastCall, catalog: Catalog) -> str:
        if past.name:
            return self.order.names.from_wire(past.name)
        search = search_tool(catalog)
        return "" if search is None else search.name

    def _failed(self, past: PastCall, call: Call, catalog: Catalog) -> bool:
        failed = None if self.check is None else self.check(past)
        return has_failed(past, call, self.order.names.to_wire(call.name), catalog) if failed is None else failed

    def _of_search(self, call: Call, past: PastCall, catalog: Catalog) -> Sequence[TransitionRequest]:
        """Return what a search requested, by its answer: what it opened depended on what it found (SPEC FND-1)."""
        component = catalog.tools.get(call.name)
        if component is None or component.control is None or component.control[0] != "find":
            return ()
        opened = opened_by_search(past.text)
        if past.found is not None:
            found = [catalog.tools.get(self.order.names.from_wire(name)) for name in past.found]
            opened = tuple(dict.fromkeys(one.group for one in found if one is not None and one.group is not None))
        known = tuple(path for path in opened if path in catalog.index)
        return (TransitionRequest(activate=known),) if known else ()


def _answers_before(state: Mapping[str, Any]) -> int:
    count = state.get("answered")
    return count if isinstance(count, int) else 0


def has_failed(past: PastCall, call: Call, name: str, catalog: Catalog) -> bool:
    """Return whether a past call failed, by the mark of its answer or else by its text.

    Args:
        past: The call in the messages.
        call: The same call in terms of the catalog.
        name: The name by which the model knows its tool.
        catalog: The current catalog.
    """
    if past.marked is not None:
        return past.marked
    if past.found is not None:  # a search that loads a group returns its tools
        return not past.found and any(
            _has_tools(path, catalog) for request in call.requests(catalog) for path in request.activate
        )
    texts = [*_refusals_of(name), *(_refusals_of_control(call, catalog) if call.is_control(catalog) else ())]
    return any(_reads_as(past.text, text) for text in texts)


def _has_tools(path: str, catalog: Catalog) -> bool:
    """Return whether a group has tools that are certainly listed."""
    return any(component.group == path and component.hidden is False for component in catalog.tools.values())


def _refusals_of(name: str) -> Iterator[str]:
    """Yield the texts with which a call of any tool is refused."""
    yield str(ToolNotFound(name))
    yield str(InvalidArguments(name, {_PLACEHOLDER: _PLACEHOLDER}))
    for result in (unreadable_arguments(name), internal_error(name), misfit(name, _PLACEHOLDER)):
        yield result.text


def _refusals_of_control(call: Call, catalog: Catalog) -> Iterator[str]:
    """Yield the texts with which a call of a control tool is refused."""
    yield from _refused_transitions()
    loader = catalog.tools[call.name].loader
    if loader is not None and call.arguments is not None:
        yield from loader.refusals(str(call.arguments.get(loader.argument)), _PLACEHOLDER, _PLACEHOLDER)


@cache
def _refused_transitions() -> tuple[str, ...]:
    errors = (QuotaExceeded(_PLACEHOLDER, cast("Any", _PLACEHOLDER), _PLACEHOLDER), ReentrantTransition(_PLACEHOLDER))
    open_ended = [
        str(GroupNotFound(_PLACEHOLDER)),
        *(refused(HookFailed(_PLACEHOLDER, phase)) for phase in ("on_activate", "on_deactivate")),
    ]
    # the text after the name depends on the groups that exist, and on the reason
    locked = refused(ParentInactive(_PLACEHOLDER, _PLACEHOLDER), _PLACEHOLDER)
    return locked, *map(refused, errors), *(text[: text.rindex(_PLACEHOLDER) + 1] for text in open_ended)


def _reads_as(text: str, made: str) -> bool:
    """Return whether a text begins like one made with placeholders, whatever stands in their place."""
    beginning, *rest = made.split(_PLACEHOLDER)
    if not made.replace(_PLACEHOLDER, "").strip() or not text.startswith(beginning):
        return False
    at = len(beginning)
    for literal in rest:
        at = text.find(literal, at)
        if at < 0:
            return False
        at += len(literal)
    return True
