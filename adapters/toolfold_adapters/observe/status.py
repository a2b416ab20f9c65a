"""How a server is doing, in a line each: the servers behind it, its store, its sessions (SPEC EXP-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolfold import Calls, Context, Session, Store, StoreError, ToolResult, ToolSet
from toolfold.spi import enumerated

from ..gateway.upstream.upstream import UpstreamStatus
from ..tokens import plural

STATUS_TOOL = "gateway_status"
MOST_CALLERS, MOST_TOOLS = 100, 3
"""How many callers have a line, those who called most; and how many tools one names."""

Line = Mapping[str, Any]
"""`what` something is, its `name`, its `state` in a word, and a `text` of one line."""


_UNAPPROVED = {True: "all of it is withheld", False: "changes are noticed only until this ends"}
"""What follows from approvals that can't be stored or read, by whether something is withheld."""


async def status_of(
    tools: ToolSet, servers: Iterable[UpstreamStatus], store: Store | None = None, caller: str | None = None
) -> list[Line]:
    """Return how each server and the store is doing, what callers did, and how many sessions are open.

    Args:
        tools: What is served.
        servers: How each server of a gateway is doing.
        store: Where its sessions are, if it has a store.
        caller: Who alone is to be among the callers; all are unless it is given (SPEC GWY-19).
    """
    lines = [_of_server(one) for one in servers]
    if store is not None:
        lines.append(await _of_store(store))
    lines += _of_callers(tools, caller)
    limit = tools.pool.upkeep.kind.limit.total
    text = f"{len(tools.sessions)} open" + (f", of at most {limit:,}" if limit is not None else "")
    return [*lines, _line("sessions", tools.name, "running", text)]


def include_status(
    tools: ToolSet, servers: Callable[[Session], Iterable[UpstreamStatus]], store: Store | None = None
) -> None:
    """Register the tool `gateway_status`, which says how each server and the store is doing, in a line each.

    Args:
        tools: What is served.
        servers: Returns how each server of a gateway is doing that a session may know of (SPEC ISO-2).
        store: Where the sessions are, if they have a store.
    """

    async def gateway_status(context: Context) -> ToolResult:
        who = "" if tools.usage is None else tools.usage.who(context.request)
        lines = await status_of(tools, servers(context.session), store, who)
        return ToolResult.of_text("\n".join(map(as_text, lines)))

    description = "Say how each server and store behind this one is doing."
    tools.register(STATUS_TOOL, gateway_status, description=description, annotations={"readOnlyHint": True})


def as_text(line: Line) -> str:
    """Return a line as text."""
    return f"{line['what']} {line['name']}: {line['state']}" + (f"; {line['text']}" if line["text"] else "")


def _of_server(one: UpstreamStatus) -> Line:
    failed = bool(one.approvals or one.rights or one.credentials) or (one.failures and one.state != "ready")
    parts = [f"for {one.since:,.0f} s"] if one.since >= 1 else []
    if one.tools is not None:
        parts.append(f"{one.tools} tools")
    if one.connections:
        parts.append(plural(one.connections, "connection"))
    if one.failures:
        times = "once" if one.failures == 1 else f"{one.failures} times in a row"
        parts.append(f"failed {times}: {one.public_reason}")
    if one.cut:
        parts.append(f"it lists more than is kept, so {one.cut:,} or more are left out")
    if one.withheld:
        parts.append("what changed is withheld until `toolfold approve`")
    if one.approvals:
        parts.append(f"what is approved {one.approvals}, so {_UNAPPROVED[one.withheld]}")
    if one.rights:
        parts.append(f"nobody may use it while what callers may do can't be read ({one.rights})")
    if one.credentials:
        parts.append(f"withheld, since the credentials of its callers can't be used: {one.credentials}")
    if one.callers:
        said = [f"{who} {'' if how == 'has to log in' else 'is '}{how}" for who, how in one.callers[:MOST_CALLERS]]
        parts.append(f"as themselves: {', '.join(said)}")
    if one.without_output:
        parts.append(f"served without output schemas that clients can't compile: {enumerated(one.without_output)}")
    state = "failed" if failed else "running" if one.state == "ready" else one.state
    return _line("server", one.name, "quarantined" if one.withheld and not failed else state, ", ".join(parts))


def _of_callers(tools: ToolSet, alone: str | None) -> list[Line]:
    """Return a line on each caller that is known, by how much it called: what it called most."""
    did: dict[str, Calls] = {}
    most: dict[str, Counter[str]] = {}
    for (who, tool), calls in ({} if tools.usage is None else tools.usage.callers).items():
        if alone is None or who == alone:
            did.setdefault(who, Calls()).add(calls)
            most.setdefault(who, Counter())[tool] += calls.calls
    lines: list[Line] = []
    for who, calls in sorted(did.items(), key=lambda one: -one[1].calls)[:MOST_CALLERS]:
        named = ", ".join(f"{tool} {number:,}" for tool, number in most[who].most_common(MOST_TOOLS))
        text = f"{plural(calls.calls, 'call')}, {calls.errors:,} of them with an error; most of {named}"
        lines.append(_line("caller", who, "running", text))
    return lines


async def _of_store(store: Store) -> Line:
    name = type(store).__name__
    try:
        await store.due("", 1)
    except StoreError as error:
        return _line("store", name, "failed", str(error))
    return _line("store", name, "running", "")


def _line(what: str, name: str, state: str, text: str) -> Line:
    return {"what": what, "name": name, "state": state, "text": text}
