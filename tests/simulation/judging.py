"""What replicas answered is judged by the kit's checker, and what their hooks did by what they wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

from attrs import frozen

from tests.simulation.desk import PATHS
from toolfold_diagrams import Trace
from toolfold_diagrams.trace import Asked, Committed, Ended
from toolfold_specs import reference as model
from toolfold_specs.linearize import Operation, linearizable
from toolfold_specs.reference import System

A, _, BAD, PLAIN, X = range(len(PATHS))
SYSTEM = System((None, A, None, None, None), (frozenset({A, X}),))
"""The groups of `desk.make_tools`, by their places in `PATHS`."""

Facts = frozenset[tuple[str, int]]
Groups = tuple[frozenset[int], frozenset[int]]
"""The active groups, and the numbers of the transitions that have taken effect."""
CHANGES = ("step", "control", "note")
"""The kinds of requests that change a session."""


@frozen
class Request:
    """A request, or what its answer shows of a later state.

    Attributes:
        number: Its number among those of the session.
        kind: `step`; `control` if it is made by a control tool, which answers whether it changed anything; `note`,
            `look` or `list`; `another` for a session beyond the caller's limit; `shown` for the active groups in the
            answer to a transition.
        activate: The groups that a transition activates.
        deactivate: Those that it deactivates.
        fact: The fact that is set.
    """

    number: int
    kind: str
    activate: tuple[int, ...] = ()
    deactivate: tuple[int, ...] = ()
    fact: tuple[str, int] | None = None


def stepped(state: Groups, request: Request) -> tuple[Groups, Any]:
    """Return what the reference makes of a request: the groups and transitions after it, and the answer."""
    active, done = state
    if request.kind == "shown":
        return state, active if request.number in done else None
    if request.kind in ("look", "list"):
        return state, active
    answer = model.step(SYSTEM, active, request.activate, request.deactivate)
    unchanged = (active, done | {request.number})
    if answer.kind == "refused":
        return unchanged, answer.error
    if BAD in answer.state:
        return unchanged, "HookFailed"
    changed = (answer.state - active, active - answer.state)
    return (answer.state, done | {request.number}), answer.kind == "changed" if request.kind == "control" else changed


def noted(facts: Facts, request: Request) -> tuple[Facts, Any]:
    """Return what a request makes of the facts, and the answer."""
    if request.fact is None:
        return facts, facts
    return frozenset(fact for fact in facts if fact[0] != request.fact[0]) | {request.fact}, ()


@frozen
class Start:
    """What a session is from a time on: without anything at first, or what its store has after a loss.

    Attributes:
        at: The time, by the counter of the history.
        active: The active groups.
        facts: The facts.
    """

    at: float = -inf
    active: frozenset[int] = frozenset()
    facts: Facts = frozenset()

    @classmethod
    def of(cls, at: float, text: str | None) -> Start:
        """Return what the text of a record says; without one, the session is lost whole."""
        found = {"active": [], "facts": {}} if text is None else json.loads(text)
        return cls(at, numbered(found["active"]), frozenset(found["facts"].items()))


def explained(history: Sequence[Operation], losses: Sequence[Start] = (), first: frozenset[int] = frozenset()) -> bool:
    """Return whether an order of the requests explains their answers, from the beginning and from each loss on.

    The groups that a session begins with are the `first`.
    """
    starts = (Start(active=first), *losses, Start(inf))
    return all(_explained([*_between(history, one.at, after.at)], one) for one, after in pairwise(starts))


def _between(history: Iterable[Operation], start: float, end: float) -> Iterator[Operation]:
    """Yield what may have taken effect between two losses; if one came in between, nobody knows whether it has."""
    for one in history:
        if one.ret is not None and start < one.call and one.ret < end:
            yield one
        elif one.call < end and (one.ret is None or start < one.ret) and one.request.kind in CHANGES:
            yield one if one.ret is None else replace(one, ret=None, answer=one.ret)


def _explained(history: Sequence[Operation], start: Start) -> bool:
    """Return whether an order of the requests explains their answers.

    Where a fact is set it is seen before it is stored, and elsewhere after that. So whoever looks meanwhile is judged
    by the groups alone.
    """
    notes = [one for one in history if one.request.kind == "note"]
    looks = [one for one in history if one.request.kind == "look" and one.ret is not None]
    calm = [one for one in looks if not any(overlap(one, note) for note in notes)]
    facts = [*notes, *(replace(one, answer=one.answer[1]) for one in calm)]
    steps = [replace(one, answer=one.answer[0]) if one in looks else one for one in history if one not in notes]
    groups: Groups = (start.active, frozenset())
    return linearizable(groups, stepped, steps) and linearizable(start.facts, noted, facts)


def traced(trace: Trace, session: str) -> list[Operation]:
    """Return the history of the transitions of a session of `desk.make_tools` in the trace of a real run."""
    asked: dict[int, tuple[int, Asked]] = {}
    changed: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
    history: list[Operation] = []
    for clock, entry in enumerate(trace.entries):
        match entry:
            case Asked(what="transition") if entry.session == session:
                asked[entry.request] = clock, entry
            case Committed():
                changed[entry.request] = numbered(entry.activated), numbered(entry.deactivated)
            case Ended() if entry.request in asked:
                called, one = asked.pop(entry.request)
                activate, deactivate = (tuple(map(PATHS.index, paths)) for paths in (one.activate, one.deactivate))
                step = Request(entry.request, "step", activate, deactivate)
                nothing = (frozenset[int](), frozenset[int]())
                answer = entry.error or changed.get(entry.request, nothing)
                history.append(Operation(entry.request, called, clock, step, answer))
            case _:
                pass
    return history


def overlap(one: Operation, other: Operation) -> bool:
    """Return whether two requests overlap; one without an answer has as its answer when that was given up, if known."""
    ends = [each.answer if each.ret is None else each.ret for each in (one, other)]
    return None not in ends and one.call < ends[1] and other.call < ends[0]


def numbered(paths: Iterable[str]) -> frozenset[int]:
    """Return groups by their numbers."""
    return frozenset(map(PATHS.index, paths))


def opened(lines: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return the groups that the hooks of a session have left open, and what is wrong with the order of the hooks.

    A line says that a process begins a hook, has done it, or ends it. A process that was killed in between does not say
    the last. What a transition has done is undone at most once after it, whether or not it was done.
    """
    found: set[str] = set()
    wrong: list[str] = []
    running: str | None = None
    for number, line in enumerate(lines):
        first, *rest = line.split()
        if rest == ["begins"]:
            if running is not None and f"{running} ends" in lines[number:]:
                wrong.append(f"line {number}: the hooks of two processes overlap")
            running = first
        elif rest == ["ends"]:
            running = None
        else:
            verb, group = rest if first == "undo" else (first, rest[0])
            if first != "undo" and (verb == "open") == (group in found):
                wrong.append(f"line {number}: {line}, which it is already")
            (found.add if verb == "open" else found.discard)(group)
    return found, wrong
