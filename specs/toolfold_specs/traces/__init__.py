"""Traces of what ran: whether the specification allows it (SPEC TRC-1).

    outcome = verify([Path("trace.jsonl")])
    outcome.problem              # None, or the first line that is not allowed, with why

reading     the lines of files, in one order: those of several processes are merged by version
records     what the operations of a store say of a record: versions, leases, intents
intervals   what they say by when they began and ended, whoever made them
sessions    what the steps of a session say: plans, hooks, states
verifying   a whole trace
showing     a line that is not allowed, in words
"""

from __future__ import annotations

from .reading import Line, NotATrace
from .showing import shown
from .verifying import Outcome, Problem, verify

__all__ = ["Line", "NotATrace", "Outcome", "Problem", "shown", "verify"]
