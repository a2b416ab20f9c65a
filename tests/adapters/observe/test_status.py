"""How each server and store is doing, in a line each (SPEC EXP-4)."""

from __future__ import annotations

import pytest
from attrs import evolve

from toolfold import StoreUnavailable, ToolSet
from toolfold_adapters.gateway.upstream.upstream import UpstreamStatus
from toolfold_adapters.observe.status import as_text, include_status, status_of
from toolfold_adapters.stores import MemoryStore


class Away(MemoryStore):
    """A store that does not answer."""

    async def due(self, kind: str, count: int) -> list[str]:
        raise StoreUnavailable("The store does not answer.")


def server(name: str, state: str, since: float = 0.0, failures: int = 0, tools: int | None = 3) -> UpstreamStatus:
    reason = "it ended" if failures else ""
    connections = int(state == "ready")
    return UpstreamStatus(
        name=name,
        state=state,
        since=since,
        connections=connections,
        failures=failures,
        reason=f"{reason}: hunter2",
        tools=tools,
        public_reason=reason,
    )


SERVERS = (
    server("mail", "ready", 90.0),
    server("disk", "backing off", 1_234.5, failures=3),
    server("slow", "starting", tools=None),
    server("rare", "idle"),
    evolve(server("odd", "idle"), withheld=True),
    evolve(server("loose", "idle"), without_output=("paint", "draw")),
)


@pytest.mark.spec("EXP-4")
async def test_every_server_and_store_has_a_line_that_says_how_it_is_doing() -> None:
    tools = ToolSet("desk", max_sessions=5)
    async with tools.open_session():
        lines = await status_of(tools, SERVERS, Away())
    assert [as_text(line) for line in lines] == [
        "server mail: running; for 90 s, 3 tools, 1 connection",
        "server disk: failed; for 1,234 s, 3 tools, failed 3 times in a row: it ended",
        "server slow: starting",
        "server rare: idle; 3 tools",
        "server odd: quarantined; 3 tools, what changed is withheld until `toolfold approve`",
        "server loose: idle; 3 tools, served without output schemas that clients can't compile: 'paint', 'draw'",
        "store Away: failed; The store does not answer.",
        "sessions desk: running; 1 open, of at most 5",
    ]


@pytest.mark.spec("EXP-4")
async def test_by_choice_a_tool_says_it_too() -> None:
    tools = ToolSet("desk")
    assert tools.list_tools().names == ()
    include_status(tools, lambda session: SERVERS[:1], MemoryStore())
    result = await tools.call_tool("gateway_status")
    assert result.text == (
        "server mail: running; for 90 s, 3 tools, 1 connection\nstore MemoryStore: running\n"
        "sessions desk: running; 1 open"
    )
