"""`find_tools`: a control tool that searches all tools of a session, and opens their groups on request (SPEC FND-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from .._catalog.catalog import Catalog
from .._catalog.components import Component, Group
from .._catalog.rules import Always
from .._limits import quoted
from .._session.context import Context
from .._snapshot import Change
from .._usercode import caller
from .._view.calling import AboutTools, ToolResult
from .._view.describe import Described, Directory, describe_best
from .._view.reasons import reason_of
from .._view.search import Findings, Found, Ranker, objection, search_of, to_state, unsearched
from .._view.visibility import RequestView
from .control import REFUSALS, control_component, refusal, states_of

FINDER = "find_tools"
"""What it is called."""

LIMIT = 5
"""How many tools it shows unless the caller says otherwise."""

MAX_LIMIT = 50
MAX_QUERY = 1_000
"""How many characters of a query are looked at (SPEC SAF-1)."""

ROOM = 32_000
"""How many characters of definitions an answer has in process; adapters have budgets of their own (SPEC CTL-4)."""

_ROOM_FOR_GROUPS = 1_000
"""How many characters an answer has for the groups that were not searched, unless their names alone need more."""

_ADVICE = "Try other words for what it should do, in the language of the tools' own descriptions."

_OPENED = "Opened: "
_UNSURE = "it is not certain that any of these fits"
_READY = "Can be called now"

_DESCRIPTION = "Find tools in all groups, to get, list, create, edit or send things, and open them."
"""Its verbs are those of requests: hosts that defer tools search descriptions for the words of one (SPEC CTL-7)."""

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What the tool should do, in a few words of the tools' language, or a name.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_LIMIT,
            "default": LIMIT,
            "description": "How many tools to return at most.",
        },
        "open": {
            "type": "boolean",
            "default": False,
            "description": "Whether to open the group of the best one, so that it can be called.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


def finder_component(ranker: Ranker, groups: Iterable[Group] = ()) -> Component:
    """Return the tool that searches with `ranker` (SPEC FND-1); its first line names `groups` (SPEC CTL-7)."""

    async def handle(arguments: dict[str, Any], context: Context) -> ToolResult:
        return await find_tools(context, ranker, arguments)

    description = Directory.openable(groups).introduced(_DESCRIPTION)
    return control_component(("find", ""), FINDER, description, _SCHEMA, handle, Always(), None)


async def find_tools(context: Context, ranker: Ranker, arguments: Mapping[str, Any]) -> ToolResult:
    """Return the tools that fit a query best, after opening the group of the best if that is asked for (FND-1, FND-5).

    The ranking runs in a worker thread; what may be found is decided before, on the snapshot of the call.
    """
    query, limit = arguments["query"][:MAX_QUERY], arguments.get("limit", LIMIT)
    search = search_of(context.request_view, ranker)
    findings: Findings = await caller(search.best, in_thread=True)(query, int(limit))
    best = findings.found
    view, change, why = context.request_view, Change(), ""
    opens = bool(arguments.get("open", False) and best and best[0].closed)  # more would make the list of a client long
    if opens and not (why := _UNSURE if findings.doubtful else objection(query, best[0], view)):
        try:
            change = await context.session.transition(activate=best[0].wanted, view=context.request_view)
        except REFUSALS as error:
            return refusal(error, context)
        _, view = states_of(change, context)
        findings = evolve(findings, found=to_state(best, view))
    return _answer(context, arguments["query"], findings, view, change, int(limit), why)


def _answer(
    context: Context, query: str, findings: Findings, view: RequestView, change: Change, limit: int, why: str
) -> ToolResult:
    best = findings.found
    tools = tuple(one.component for one in best)
    structured = {
        "changed": bool(change),
        "active": list(view.snapshot.active),
        "displaced": list(change.deactivated),
        "tools": [context.to_wire(one.component.name) for one in best if not one.closed],
        "found": [context.to_wire(component.name) for component in tools],
    }
    changes = [f"Nothing opened: {why}."] if why else _changes(change, view.snapshot.catalog)
    missing = _missing(view) if findings.doubtful or not best else []
    text = _text(query, findings, changes, _places(best, view, change.activated), missing)
    about = AboutTools(tools, text, ranked=True, describe=describe_best(limit))
    described, _ = about.describe([Described.of(component.render(view.to_wire)) for component in tools], ROOM)
    return evolve(ToolResult.of_text(text(described), structured), about=about)


def _changes(change: Change, catalog: Catalog) -> list[str]:
    """Return what was opened and closed, and the instructions of what was opened."""
    parts: list[str] = []
    if change.activated:
        parts.append(f"{_OPENED}{', '.join(change.activated)}.")
    if change.deactivated:
        parts.append(f"Closed to make room: {', '.join(change.deactivated)}.")
    instructions = catalog.instructions(change.activated)
    return [*parts, f"\n{instructions}\n"] if instructions else parts


def _text(
    query: str, findings: Findings, changes: Sequence[str], places: Sequence[str], missing: Sequence[str]
) -> Callable[[str], str]:
    """Return what makes the text of an answer from the description of the tools in it.

    It says what ranked them, how sure the first is where it is, and whether one does fit (SPEC FND-6). `changes` are
    lines on what was opened, and `missing` on what was not searched.
    """
    by = f" by {findings.by}" if findings.by else ""
    head = f"Found{by}, the best first{f', which {findings.sure}' if findings.sure else ''}:"
    if findings.doubtful:
        head = f"No tool fits {quoted(query)!r} for certain, and there may be none. The nearest{by}:"

    def text(described: str) -> str:
        if not described:
            return "\n".join([f"No tool matches {quoted(query)!r}{by}. {_ADVICE}", *missing])
        return "\n".join([*changes, head, described, *places, *missing])

    return text


def _missing(view: RequestView) -> list[str]:
    """Return lines that say of which groups no tools are known, so that they were not searched (SPEC FND-5)."""
    groups = unsearched(view)
    lines = Directory(groups).lines(_ROOM_FOR_GROUPS, None)
    return ["Not searched, as no tools of theirs are known:", *lines] if groups else []


def opened_by_search(text: str) -> tuple[str, ...]:
    """Return the groups that a search opened, by the text of its answer."""
    first = text.partition("\n")[0]
    return tuple(first.removeprefix(_OPENED).removesuffix(".").split(", ")) if first.startswith(_OPENED) else ()


def _places(best: Sequence[Found], view: RequestView, opened: Sequence[str]) -> list[str]:
    """Return lines that say where tools are, and what opens their groups, one for each group.

    The group of a tool that can be called now is left out if its name shows it, or the answer says that it was opened.
    """
    places: dict[str, list[str]] = {}
    for one in best:
        places.setdefault(_place(one, view, opened), []).append(view.to_wire(one.component.name))
    if [*places] == [_READY]:
        return [f"{_READY}."]
    return [f"{place}: {', '.join(names)}" for place, names in places.items()]


def _place(one: Found, view: RequestView, opened: Sequence[str]) -> str:
    group = one.component.group or (one.closed[-1] if one.closed else None)
    where = "In no group" if group is None else f"In group {group}"
    if not one.closed:
        known = group is not None and (group in opened or one.component.name.startswith(group))
        return _READY if known else f"{where}, can be called now"
    how = reason_of(one.component, view).how
    return f"{where}, not open" + (f"; {how}" if how else "")
