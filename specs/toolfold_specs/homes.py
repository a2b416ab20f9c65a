"""The clause that says what the outcome of an operation is: its home.

A wrong answer is attributed to the home of its operation unless another clause describes the mismatch better, and a
right one is evidence for it.
"""

from __future__ import annotations

from typing import cast

from .driver import Answer, Operation
from .oracle import Oracle, SessionState
from .properties import Members, Request, Step


def of_step(oracle: Oracle, operation: Operation, expected: Answer) -> str:
    """Return the home of a transition request."""
    refused = {"GroupNotFound": "ACT-1", "ParentInactive": "ACT-2", "QuotaExceeded": "ACT-10", "HookFailed": "HOOK-4"}
    if expected.error in refused:
        return refused[expected.error]
    if oracle.setup.max_active is not None:
        return "FND-3" if oracle.setup.evict_idlest else "ACT-10"
    if operation.verb == "transition":
        return "ACT-9"
    if not expected.changed:
        return "ACT-3"
    if operation.verb == "activate":
        return "ACT-4"
    return "HOOK-8" if operation.arguments.get("force") else "ACT-5"


def of_call(oracle: Oracle, before: SessionState, operation: Operation, expected: Answer) -> str:
    """Return the home of a call."""
    tool = next((tool for tool in oracle.setup.tools if tool.full_name == operation.arguments["tool"]), None)
    if tool is None:
        return "CALL-1"
    if expected.error is not None:
        return "VIS-5"
    if tool.hidden:
        return "VIS-6"
    if not expected.is_error:
        return "VIS-7"
    return "CALL-3" if tool.does != "echo" else "CALL-2"


def of_restore(oracle: Oracle, operation: Operation) -> str:
    """Return the home of a restored session."""
    return "PER-1" if oracle.following(operation).setup == oracle.setup else "PER-2"


def of_register(oracle: Oracle, operation: Operation) -> str:
    """Return the home of a registration while sessions are open."""
    there = oracle.following(operation)
    if len(there.paths) < len(oracle.paths):
        return "REG-5"
    return "REG-3" if len(there.setup.exclusions) > len(oracle.setup.exclusions) else "REG-7"


def as_step(oracle: Oracle, before: SessionState, operation: Operation, answer: Answer) -> Step | None:
    """Return an operation as a step of the machine; None where a limit on active groups has rules of its own."""
    if oracle.setup.max_active is not None or answer.active is None or not {*answer.active} <= {*oracle.paths}:
        return None
    group = None if operation.verb == "transition" else oracle.number[operation.arguments["group"]]
    after = Members(oracle.number[path] for path in answer.active)
    return Step(oracle.system.forest, cast(Request, operation.verb), group, Members(before.active), after)
