"""A catalog of 5,000 tools in 500 groups: registering, listing, planning, activating."""

import statistics
from collections.abc import Callable
from time import perf_counter

import anyio

from toolfold import Snapshot, ToolSet, TransitionRequest, plan
from toolfold._view.listing import page_of
from toolfold.machine import restore

from .harness import GROUPS, Row, deep_forest, flat_forest, median, timed


def measure(*, quick: bool) -> list[Row]:
    """Return all rows about one large catalog."""
    runs = 3 if quick else 7
    flat, deep = flat_forest(), deep_forest()
    return [
        _registering("500 groups side by side", flat_forest, runs),
        _registering("500 groups under 10 roots", deep_forest, runs),
        _first_list("one open group, no control tools", flat, [[f"g{number}"] for number in range(GROUPS)], 10),
        _first_list("10 roots closed, control relevant", deep, [[]] * GROUPS, 10),
        _repeated_list(flat, runs),
        _planning(flat),
        anyio.run(_activating, flat),
    ]


def _registering(what: str, make: Callable[[], ToolSet], runs: int) -> Row:
    def register() -> None:
        assert len(make().catalog.groups) == GROUPS

    seconds = statistics.median(timed(register) for _ in range(runs))
    return Row(
        what="register 5,000 tools one by one", value=seconds, unit="ms", target=1.0, note=f"{what}; processor time"
    )


def _first_list(what: str, tools: ToolSet, states: list[list[str]], expected: int) -> Row:
    """List each of many states for the first time; a fact makes equal ones different."""
    catalog = tools.catalog
    samples = []
    for number, active in enumerate(states):
        snapshot = Snapshot.of(catalog, restore(catalog.forest, active).after, {"number": number})
        start = perf_counter()
        page = page_of(tools.runtime.view_of(snapshot), "tool")
        samples.append(perf_counter() - start)
        assert len(page.tools) == expected
    return Row(what="first list of a state", value=statistics.median(samples), unit="µs", target=200e-6, note=what)


def _repeated_list(tools: ToolSet, runs: int) -> Row:
    async def repeat() -> float:
        async with tools.open_session(active=["g7"]) as session:
            return median(session.list_tools, runs=runs * 10, inner=1000)

    return Row(what="repeated list", value=anyio.run(repeat), unit="µs", target=5e-6, note="10 tools listed")


def _planning(tools: ToolSet) -> Row:
    snapshot = Snapshot.of(tools.catalog).after(TransitionRequest(tools.catalog.groups[0].path))
    samples = []
    for number in [*range(1, GROUPS)] * 5:
        request = TransitionRequest(activate=(f"g{number}",))
        start = perf_counter()
        planned = plan(snapshot.configuration, request)
        samples.append(perf_counter() - start)
        assert planned.changes
    return Row(what="plan", value=statistics.median(samples), unit="µs", target=5e-6, note="activate 1 of 500 groups")


async def _activating(tools: ToolSet) -> Row:
    samples = []
    async with tools.open_session() as session:
        for number in [*range(GROUPS)] * 4:
            path = f"g{number}"
            start = perf_counter()
            await session.activate(path)
            samples.append(perf_counter() - start)
            await session.deactivate(path)
    return Row(
        what="activation without hooks",
        value=statistics.median(samples),
        unit="µs",
        target=150e-6,
        note="with the first list of the new state",
    )
