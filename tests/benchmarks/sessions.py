"""Open sessions: what each costs, and that it does not grow with what happened in it."""

import gc
import statistics
import tracemalloc
from pathlib import Path
from time import perf_counter

import anyio

from toolfold import Session, ToolSet
from toolfold._session.usage import MAX_SESSIONS

from .harness import GROUPS, Row, flat_forest

SESSIONS = 100_000


def resident(*, quick: bool) -> list[Row]:
    """Return the growth of the resident set per session; apart, because tracing memory takes memory."""
    number = SESSIONS // 10 if quick else SESSIONS
    tools = flat_forest()
    anyio.run(_open, tools, GROUPS)
    before = _resident_bytes()
    opened = anyio.run(_open, tools, number)
    return [_per_session("resident set", number, (_resident_bytes() - before) / len(opened))]


def traced(*, quick: bool) -> list[Row]:
    """Return what tracemalloc counts per session."""
    number = SESSIONS // 10 if quick else SESSIONS
    return [_traced(flat_forest(), number, "tracemalloc")]


def traced_counted(*, quick: bool) -> list[Row]:
    """Return what tracemalloc counts per session where use is counted, of as many as are told apart."""
    tools = flat_forest()
    tools.count_usage(perf_counter)
    return [_traced(tools, MAX_SESSIONS // 10 if quick else MAX_SESSIONS, "tracemalloc, use counted")]


def _traced(tools: ToolSet, number: int, how: str) -> Row:
    anyio.run(_open, tools, GROUPS)
    tracemalloc.start()
    before = _traced_bytes()
    opened = anyio.run(_open, tools, number)
    return _per_session(how, number, (_traced_bytes() - before) / len(opened))


def growth(*, quick: bool) -> list[Row]:
    """Return how list times compare after many and after few transitions."""
    return anyio.run(_list_times, 10, 10_000 if quick else 100_000)


def traced_growth(*, quick: bool) -> list[Row]:
    """Return how much memory a session has gained after many transitions."""
    return anyio.run(_traced_growth, [10, 1000, 10_000 if quick else 100_000])


def _per_session(how: str, number: int, size: float) -> Row:
    return Row(what=f"{number:,} open sessions, each", value=size, unit="bytes", target=436, note=how)


async def _open(tools: ToolSet, number: int) -> list[Session]:
    return [await tools.open_session(active=[f"g{index % GROUPS}"]).start() for index in range(number)]


async def _list_times(few: int, many: int) -> list[Row]:
    """Measure an old session and a new one alternately."""
    tools = flat_forest()
    async with tools.open_session() as old, tools.open_session() as new:
        await _toggle(old, many)
        await _toggle(new, few)
        gc.collect()
        gc.disable()
        repeated, first = await _ratios(old, new)
    note = f"after {many:,} transitions against {few}"
    return [
        Row(what="repeated list, old session against new", value=repeated, unit="×", target=1.15, note=note),
        Row(what="first list after a transition, likewise", value=first, unit="×", target=1.15, note=note),
    ]


async def _traced_growth(counts: list[int]) -> list[Row]:
    """Trace one session; another one has been through every group before, for what the catalog caches of each."""
    tools = flat_forest()
    sizes: list[int] = []
    done = 0
    tracemalloc.start()
    async with tools.open_session() as session, tools.open_session() as other:
        await _toggle(other, 2 * GROUPS)
        for count in counts:
            await _toggle(session, count - done)
            done = count
            sizes.append(_traced_bytes())
    return [
        Row(
            what="growth of one session",
            value=size - sizes[0],
            unit="bytes",
            target=1024,
            note=f"from {counts[0]} to {count:,} transitions",
        )
        for count, size in zip(counts[1:], sizes[1:], strict=True)
    ]


async def _toggle(session: Session, transitions: int) -> None:
    for number in range(transitions // 2):
        await session.activate(f"g{number % GROUPS}")
        await session.deactivate(f"g{number % GROUPS}")


async def _ratios(old: Session, new: Session) -> tuple[float, float]:
    repeated: dict[Session, list[float]] = {old: [], new: []}
    first: dict[Session, list[float]] = {old: [], new: []}
    for number in range(400):
        for session in (old, new) if number % 2 else (new, old):
            repeated[session].append(_time_of_lists(session, 300))
            await session.activate(f"g{number}")
            first[session].append(_time_of_lists(session, 1))
            await session.deactivate(f"g{number}")
    return (
        statistics.median(repeated[old]) / statistics.median(repeated[new]),
        statistics.median(first[old]) / statistics.median(first[new]),
    )


def _time_of_lists(session: Session, number: int) -> float:
    start = perf_counter()
    for _ in range(number):
        session.list_tools()
    return perf_counter() - start


def _traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _resident_bytes() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) * 1024
