"""Document B's server with all buffers full: its list with modes and counts, beside the same list without."""

from collections.abc import Awaitable, Callable
from itertools import islice

import anyio

from examples.browser_telemetry import page_tools
from examples.browser_telemetry.events import visit
from examples.browser_telemetry.telemetry import CAPACITY, Telemetry
from toolfold import Session, ToolSet, WireNames
from toolfold_adapters.mcp.answer.render import Renderer

from .harness import Row, turn_by_turn

LIMIT = 1e-3
"""What document B allows for a list."""
TOOLS = 5
INNER = 50


def measure(*, quick: bool) -> list[Row]:
    """Return how long a list takes, as the core makes it, and as it goes on the wire."""
    return anyio.run(_measure, 50 if quick else 400)


async def _measure(samples: int) -> list[Row]:
    telemetry = Telemetry()
    telemetry.record(*islice(visit(seed=7), 20 * CAPACITY))
    assert telemetry.counts().vitals == CAPACITY, "the buffers are not full"
    async with page_tools(telemetry).open_session() as projected:
        await projected.call("observe", {"what": "errors"})
        async with _without_projection(projected).open_session() as plain:
            core, wire = [
                await turn_by_turn([way(projected), way(plain)], samples=samples, inner=INNER)
                for way in (_listed, _rendered)
            ]
            assert [len(session.list_tools().tools) for session in (projected, plain)] == [TOOLS, TOOLS]
    return [
        Row(
            what=f"tools/list with all buffers full, {what}",
            value=with_modes,
            unit="µs",
            target=LIMIT,
            note=f"{without * 1e6:,.3g} µs for the same list without modes and counts",
        )
        for what, (with_modes, without) in (("in process", core), ("with its result for MCP", wire))
    ]


def _without_projection(session: Session) -> ToolSet:
    """Return the same tools with all their modes, whatever there is in the buffers."""
    tools = ToolSet("plain")
    for spec in session.catalog.tools.values():
        tools.register(
            spec.name,
            lambda arguments: None,
            description=spec.description,
            input_schema=spec.input_schema,
            annotations=spec.definition.get("annotations"),
        )
    return tools


def _listed(session: Session) -> Callable[[], Awaitable[object]]:
    async def listed() -> object:
        return session.list_tools()

    return listed


def _rendered(session: Session) -> Callable[[], Awaitable[object]]:
    wire = WireNames(".")
    for name in session.catalog.tools:
        wire.admit(name)
    renderer = Renderer(wire, modern=False)

    async def rendered() -> object:
        return renderer.page(session.list_tools(), "tool")

    return rendered
