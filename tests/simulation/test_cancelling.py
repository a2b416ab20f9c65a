"""An operation that is cancelled at any of its awaits, once or twice, has happened or not."""

from __future__ import annotations

import pytest

from tests.simulation.cancelling import Case, swept
from toolfold import StoredSessions


async def _transition(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.transition(activate=["a", "a.b"], deactivate=["x"])


async def _deactivate(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.deactivate("a")


async def _call(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.call("step", {"activate": ["plain"], "deactivate": []})
        await session.call("note", {"name": "p", "value": 1})


async def _end(stored: StoredSessions) -> None:
    await stored.end("desk")


CASES = {
    "a transition": Case(_transition, frozenset({"x"}), frozenset({"a", "a.b"})),
    "a deactivation": Case(_deactivate, frozenset({"a", "a.b"}), frozenset()),
    "a call": Case(_call, frozenset({"a"}), frozenset({"a", "plain"})),
    "the end of a session": Case(_end, frozenset({"a", "a.b"}), frozenset()),
}


@pytest.mark.spec("STO-9", "HOOK-6", "HOOK-9")
@pytest.mark.parametrize("name", CASES)
def test_what_is_cancelled_at_any_await_has_happened_or_not(name: str) -> None:
    coverage = swept(CASES[name])
    assert coverage.wrong == []
    assert coverage.points
    assert coverage.runs > 50
