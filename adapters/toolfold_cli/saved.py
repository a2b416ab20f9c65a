"""What was used of a server in a time, and what that saved, in one sentence (SPEC EXP-4)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from toolfold import Usage
from toolfold_adapters.observe.stored_usage import today_in_utc
from toolfold_adapters.tokens import plural, rounded

from .failures import run
from .records import calls_of_tools, usage_in

WEEK = 7
"""How many days a week has: today and the six days before it, in UTC, as records have days."""


def line_of_week(source: str) -> dict[str, Any]:
    """Return a line on what was used this week, as a record has it."""
    usage: Usage = run(partial(usage_in, source, WEEK))
    since = today_in_utc() - timedelta(WEEK - 1)
    return {**line_of(usage, "this week"), "since": since.isoformat()}


def line_of(usage: Usage, when: str) -> dict[str, Any]:
    """Return a line on what was used in a time, with its `figures` as numbers."""
    figures = figures_of(usage)
    state = "used" if any(figures.values()) else "unused"
    return {"what": "use", "name": when, "state": state, "text": _sentence(figures), "figures": figures}


def figures_of(usage: Usage) -> dict[str, int]:
    """Return what was used and saved, in numbers.

    Calls of the tools that open, close and find others are no use of their own, so they are left out; their answers
    have definitions that lists did not, so their tokens are taken from what lists saved.
    """
    own, control = calls_of_tools(usage)
    answers = control.tokens
    opened = [each.opened for each in usage.groups.values() if each.opened]
    return {
        "calls": sum(calls.calls for calls in own.values()),
        "errors": sum(calls.errors for calls in own.values()),
        "tools": len({name for name, _ in own}),
        "sessions": usage.sessions,
        "groups_opened": len(opened),
        "openings": sum(opened),
        "tokens_without_groups": usage.lists.ungrouped,
        "tokens_of_lists": usage.lists.tokens,
        "tokens_of_openings": answers,
        "tokens_not_sent": usage.lists.ungrouped - usage.lists.tokens - answers,
    }


def _sentence(figures: dict[str, int]) -> str:
    if not any(figures.values()):
        return "nothing was used"
    calls, tools, sessions = figures["calls"], figures["tools"], figures["sessions"]
    return "; ".join(
        [
            f"{plural(calls, 'call')} of {plural(tools, 'tool')} by {plural(sessions, 'session')}",
            f"{plural(figures['groups_opened'], 'group')} opened",
            _saved(figures["tokens_not_sent"]),
        ]
    )


def _saved(tokens: int) -> str:
    if tokens >= 0:
        return f"about {rounded(tokens)} tokens of definitions were not sent"
    return f"about {rounded(-tokens)} tokens more were sent than without groups"
