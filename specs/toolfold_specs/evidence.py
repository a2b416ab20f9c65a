"""Which clauses an answer is evidence for.

A clause counts as held only where a case put it to the test and the answer showed it: `evidence` names the clauses that
a right answer is evidence for, each with the member of the answer that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from .driver import Answer, Operation
from .homes import as_step, of_call, of_register, of_restore, of_step
from .oracle import Oracle, SessionState, World
from .properties import SOMETIMES

TRANSITIONS = ("activate", "deactivate", "transition")

Evidence: TypeAlias = Mapping[str, str]
"""The clauses that a case puts to the test, each with the member of the answer that shows it."""

REFUSAL = "a refusal by its name, or with `active` or `text`"
"""What shows a clause about a refusal: that something is refused says little without the reason, or the state."""

CAUSE = "in `detail` the `cause` of a failed hook"
"""What shows a clause about the error that a hook met."""

ENDED = "in `detail` how a `list` of the ended session is answered"
"""What shows a clause about a session that has ended: that a new one is empty says nothing of the old one."""

SHOWN_BY: Evidence = MappingProxyType({"HOOK-7": CAUSE, "SES-3": ENDED})
"""Clauses that nothing else is evidence for, whichever member a check has looked at."""


def observed(answer: Answer, member: str) -> bool:
    """Return whether an answer shows a member; what is absent is evidence for nothing (SPEC CNF-8)."""
    if member == REFUSAL:
        shown = answer.error != "error" or answer.active is not None or answer.text is not None
        return answer.error is not None and shown
    if member in (CAUSE, ENDED):
        return {CAUSE: "cause", ENDED: "list"}[member] in answer.detail
    return getattr(answer, member) is not None


def evidence(oracle: Oracle, world: World, operation: Operation, expected: Answer) -> Evidence:
    """Return the clauses that a case puts to the test, and the member of the answer that shows each."""
    return dict(_evidence(oracle, world, operation, expected))


def _evidence(oracle: Oracle, world: World, operation: Operation, expected: Answer) -> Iterator[tuple[str, str]]:
    before = world.state_of(operation.session)
    if operation.verb in TRANSITIONS:
        yield from _evidence_of_step(oracle, world, operation, expected)
    elif operation.verb == "list":
        yield from _evidence_of_list(oracle, before, operation, expected)
    elif operation.verb == "list_groups" and oracle.paths:
        yield "LST-4", "groups"
    elif operation.verb == "call":
        yield of_call(oracle, before, operation, expected), "text" if expected.error is None else REFUSAL
    elif operation.verb == "set_fact" and expected.notified:
        yield "NTF-3", "notified"
    elif operation.verb == "end" and before.order:
        yield "SES-3", ENDED
        if expected.hooks:
            yield "HOOK-9", "hooks"
    elif operation.verb == "restore":
        yield of_restore(oracle, operation), "active"
    elif operation.verb == "register":
        yield of_register(oracle, operation), "active"


def _evidence_of_step(
    oracle: Oracle, world: World, operation: Operation, expected: Answer
) -> Iterator[tuple[str, str]]:
    home = of_step(oracle, operation, expected)
    if home == "HOOK-8" and not any(
        dict(world.scripts).get((hook[1], hook[0])) == "fail" for hook in expected.hooks or ()
    ):
        home = "ACT-5"  # no hook fails, so nothing is forced
    yield home, REFUSAL if home in ("ACT-1", "ACT-2") else "active"
    yield "INV-5", "active"
    if expected.notified:
        yield "NTF-1", "notified"
    if expected.hooks:
        yield "HOOK-1", "hooks"
    if len(expected.hooks or ()) > 1 and expected.error is None:
        yield "HOOK-3", "hooks"
    if expected.error == "HookFailed":
        if expected.hooks and expected.hooks[-1] != (expected.detail["phase"], expected.detail["group"]):
            yield "HOOK-5", "hooks"
        if expected.detail["outcome"] == "ask":
            yield "HOOK-7", CAUSE
    before = world.state_of(operation.session)
    if expected.changed and (step := as_step(oracle, before, operation, expected)) is not None:
        known = (known for known in SOMETIMES if step.request in known.requests and known(step))
        yield from ((known.clause, "active") for known in known)


def _evidence_of_list(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer
) -> Iterator[tuple[str, str]]:
    if expected.error is not None:
        yield "LST-3", REFUSAL
        return
    if len(expected.names or ()) > 1:
        yield "LST-1", "names" if expected.controls else "tools"
    if any(tool.group is not None for tool in oracle.setup.tools):
        yield "VIS-2", "tools"
        if any(
            tool.group and not tool.flat and tool.full_name in (expected.tools or ()) for tool in oracle.setup.tools
        ):
            yield "NAM-2", "tools"
    if oracle.paths:
        yield "CTL-2" if oracle.setup.relevant_controls else "CTL-1", "controls"
    if any(tool.hidden and oracle.available(before, tool) for tool in oracle.setup.tools):
        yield "VIS-6", "tools"
    if any(tool.when.removeprefix("fact ") in before.facts for tool in oracle.setup.tools):
        yield "SES-5", "tools"
    if operation.arguments.get("cursor") is not None or expected.next_cursor is not None:
        yield "LST-2", "tools"
