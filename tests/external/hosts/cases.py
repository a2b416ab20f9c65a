"""What is tried with each host in one conversation, and what its model is to see of it."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen

from .hosts import BY_NAME, LONG
from .model import Call, Request
from .running import Run
from .upstream import LONG_LINES

ISSUE = {"repo": "acme/shop", "title": "The till is stuck"}
SERVERS = ("acmetracker", "acmewiki", "acmeorders", "acmebilling")
CONTROL = ("find_tools", "open_group", "call_tool")


MIDDLE = f"{LONG_LINES // 2:05}"
"""What a line in the middle of the long result begins with."""


def _reference(request: Request) -> str:
    """Return the reference in the last result, as a host passes it on; any text if there is none."""
    found = re.search(r'result=\\*"([\w-]+)', request.results[-1]) if request.results else None
    return found[1] if found else "none"


def _call(name: str) -> Call:
    return Call("call_tool", {"name": name, "arguments": ISSUE})


TURNS: dict[str, tuple[Call, ...]] = {
    "find": (Call("find_tools", {"query": "create an issue", "open": True}),),
    "call found": (_call("acmetracker__create_issue"),),
    "open two": (Call("open_group", {"group": "acmewiki"}), Call("open_group", {"group": "acmetracker"})),
    "call opened": (_call("acmewiki__update_page"),),
    "own name": (Call("acmewiki__delete_page", ISSUE),),
    "call closed": (_call("acmeorders__create_order"),),
    "broken": (Call("open_group", {"group": "acmebilling"}),),
    "long": (_call("acmetracker__export"),),
    "rest": (Call("read_result", lambda request: {"result": _reference(request), "search": MIDDLE}),),
}
"""The conversation: one turn after the other."""


@frozen
class Case:
    """Something that is tried.

    Attributes:
        name: Its column in the table.
        outcome: Returns what came of it, in a word or two.
        expected: What is to come of it, unless the host says otherwise.
    """

    name: str
    outcome: Callable[[Run], str]
    expected: str = "yes"


def result(run: Run, turn: str, index: int = 0) -> str:
    """Return what a call of a turn returned, as the model read it; nothing if it was not made."""
    before = list(TURNS)[: list(TURNS).index(turn)]
    results = run.results[sum(len(TURNS[name]) for name in before) + index :]
    return results[0] if results else ""


def _ran(turn: str, text: str) -> Callable[[Run], str]:
    return lambda run: "yes" if text in result(run, turn) else "no"


def _shown(run: Run) -> str:
    """Whether the first request names the control tools and all servers, one slow and one broken."""
    text = run.requests[0].text if run.requests else ""
    missing = [name for name in (*CONTROL, *SERVERS) if name not in text]
    return f"not {', '.join(missing)}" if missing else "yes"


def _length(run: Run) -> str:
    """How much of a long result is passed on."""
    lines = result(run, "long").count("in the export of all")
    return "all" if lines == LONG_LINES else f"{lines / LONG_LINES:.0%}"


def _middle(run: Run) -> str:
    """Whether the model has read the middle of a long result, at once or by one more call."""
    return "yes" if any(f"{MIDDLE} in the export" in result(run, turn) for turn in ("long", "rest")) else "no"


CASES = (
    Case("first request names all", _shown),
    Case("found, then `call_tool`", _ran("call found", "acmetracker ran create_issue")),
    Case("two opened at once, then `call_tool`", _ran("call opened", "acmewiki ran update_page")),
    Case(BY_NAME, _ran("own name", "acmewiki ran delete_page"), "no"),
    Case("`call_tool` opens", _ran("call closed", "acmeorders ran create_order")),
    Case("says why a server fails", _ran("broken", "ECONNREFUSED")),
    Case(LONG, _length, "all"),
    Case("the middle of them, in one more call", _middle),
)
