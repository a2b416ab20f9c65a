"""Which clauses an answer is evidence for.

A clause counts as held only where a case put it to the test and the answers showed each of its parts: `evidence` names
the clauses that a right answer is evidence for, each with the members that show it. These are the members by which
`attribution` would have found the clause violated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from .driver import Answer, Operation
from .homes import as_step, of_call, of_register, of_restore, of_step
from .oracle import Oracle, SessionState, World
from .properties import SOMETIMES

TRANSITIONS = ("activate", "deactivate", "transition")

Part: TypeAlias = tuple[str, str]
"""A clause that a case puts to the test, and a member of the answer that shows a part of it."""

REFUSAL = "a refusal by its name, or with `active` or `text`"
"""What shows that something is refused: this says little without the reason, or the state."""

NAMED = "the name of an error"
"""What shows why something is refused."""

IN_DETAIL = "detail."
CAUSE, ENDED = f"{IN_DETAIL}cause", f"{IN_DETAIL}list"
"""What shows the error that a hook met, and how an ended session answers a list."""

ABOUT_HOOKS = frozenset({"ACT-1", "ACT-2", "ACT-3", "HOOK-4", "HOOK-8"})
"""Clauses about the outcome of a step that also say which hooks run, or that none does."""

CORE: Mapping[str, str] = MappingProxyType(
    {
        "HOOK-7": CAUSE,
        "SES-3": ENDED,
        "PER-1": "active",
        "CALL-3": "text",
        "LST-2": "tools",
        "NAM-4": "tools",
        **dict.fromkeys(("NTF-1", "NTF-3"), "notified"),
    }
)
"""What shows the core of a clause, without which no other part of it is evidence."""


def observed(answer: Answer, member: str) -> bool:
    """Return whether an answer shows a member; what is absent is evidence for nothing (SPEC CNF-8, CNF-9)."""
    if member == NAMED:
        return answer.error not in (None, "error")
    if member == REFUSAL:
        shown = answer.error != "error" or answer.active is not None or answer.text is not None
        return answer.error is not None and shown
    if member.startswith(IN_DETAIL):
        return member.removeprefix(IN_DETAIL) in answer.detail
    return getattr(answer, member) is not None


def evidence(oracle: Oracle, world: World, operation: Operation, expected: Answer) -> Iterable[Part]:
    """Return the clauses that a case puts to the test, each with the members of the answer that show it."""
    return tuple(dict.fromkeys(_evidence(oracle, world, operation, expected)))


def _evidence(oracle: Oracle, world: World, operation: Operation, expected: Answer) -> Iterator[Part]:
    before = world.state_of(operation.session)
    if operation.verb in TRANSITIONS:
        yield from _evidence_of_step(oracle, world, operation, expected)
    elif operation.verb == "list":
        yield from _evidence_of_list(oracle, before, operation, expected)
    elif operation.verb == "list_groups" and oracle.paths:
        yield "LST-4", "groups"
    elif operation.verb == "call":
        home = of_call(oracle, before, operation, expected)
        yield from ((home, member) for member in (("is_error", "text") if expected.error is None else (REFUSAL,)))
        if expected.error is not None:
            yield "CALL-1", NAMED
    elif operation.verb == "why":
        yield "EXP-1", "why"
    elif operation.verb == "set_fact" and expected.notified:
        yield "NTF-3", "notified"
    elif operation.verb == "end" and before.order:
        yield "SES-3", ENDED
        if expected.hooks:
            yield "HOOK-9", "hooks"
    elif operation.verb == "restore":
        yield of_restore(oracle, operation), "active"
        if expected.detail["dropped"]:
            yield of_restore(oracle, operation), f"{IN_DETAIL}dropped"
        if operation.arguments.get("setup") is None:
            yield "PER-1", f"{IN_DETAIL}equal"
    elif operation.verb == "register":
        yield of_register(oracle, operation), "active"
        if expected.hooks:
            yield "REG-5", "hooks"


def _evidence_of_step(oracle: Oracle, world: World, operation: Operation, expected: Answer) -> Iterator[Part]:
    home = of_step(oracle, operation, expected)
    if home == "HOOK-8" and not any(
        dict(world.scripts).get((hook[1], hook[0])) == "fail" for hook in expected.hooks or ()
    ):
        home = "ACT-5"  # no hook fails, so nothing is forced
    yield from ((home, member) for member in _shown_at_home(oracle, home, expected))
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


def _shown_at_home(oracle: Oracle, home: str, expected: Answer) -> Iterator[str]:
    """Yield the members that show the clause about the outcome of a step."""
    yield REFUSAL if home in ("ACT-1", "ACT-2") else "active"
    if expected.error is None:
        yield "changed"
    else:
        yield NAMED
        yield from (f"{IN_DETAIL}{name}" for name in expected.detail if name not in ("outcome", "cause"))
    if home in ABOUT_HOOKS and any(group.hooks for group in oracle.setup.groups):
        yield "hooks"


def _evidence_of_list(oracle: Oracle, before: SessionState, operation: Operation, expected: Answer) -> Iterator[Part]:
    if expected.error is not None:
        yield from (("LST-3", REFUSAL), ("LST-3", NAMED))
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
        if expected.next_cursor is not None:
            yield "LST-2", "next_cursor"
