"""A trace of a real run is judged as a world is, so that the two can't drift apart."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import anyio
import pytest
from attrs import evolve

from tests.simulation.desk import make_tools
from tests.simulation.judging import Request, explained, opened, traced
from tests.simulation.plan import drawn_request
from tests.simulation.replicas import asked
from toolfold import StoredSessions
from toolfold_adapters.stores import MemoryStore
from toolfold_diagrams import Trace, tracing
from toolfold_diagrams.trace import Committed

pytestmark = pytest.mark.spec("STO-9")


async def use(stored: StoredSessions, requests: Sequence[Request]) -> str:
    """Make requests one after the other, and return the key of the session."""
    async with stored.open("desk") as session:
        for request in requests:
            await asked(session, request)
        return session.id


async def recorded(seed: int) -> tuple[Trace, str, list[str]]:
    """Return the trace of clients who use one session side by side, its key, and what its hooks did."""
    random, lines = Random(seed), list[str]()
    tools = make_tools(lambda session, fence, line: lines.append(line), "process", random, 0.0)
    kinds = ("step", "control")
    drawn = [[drawn_request(random, 10 * client + place) for place in range(9)] for client in range(3)]
    async with tools.stored_sessions(MemoryStore()) as stored:
        key = await use(stored, ())
        with tracing(tools) as recorder:
            async with anyio.create_task_group() as tasks:
                for requests in drawn:
                    tasks.start_soon(use, stored, [one for one in requests if one.kind in kinds])
    return recorder.trace, key, lines


async def test_traces_of_real_runs_are_explained() -> None:
    steps = 0
    for seed in range(10):
        trace, key, lines = await recorded(seed)
        history = traced(trace, key)
        steps += len(history)
        assert explained(history), history
        assert opened(lines)[1] == []
    assert steps > 100


async def test_a_trace_in_which_one_transition_has_another_outcome_is_not_explained() -> None:
    trace, key, _ = await recorded(0)
    first = next(entry for entry in trace.entries if isinstance(entry, Committed))
    other = evolve(first, activated=("a", "a.b", "x"), deactivated=())
    entries = tuple(other if entry is first else entry for entry in trace.entries)
    assert not explained(traced(evolve(trace, entries=entries), key))
