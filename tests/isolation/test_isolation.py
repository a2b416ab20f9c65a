"""What one caller does is nothing to another, in every delivery (SPEC ISO-1)."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest

from tests.isolation.deliveries import DELIVERIES, Core, Mcp
from tests.isolation.mutants import MUTANTS
from tests.isolation.relation import Delivery, leak_of, observed
from toolfold_specs.systems import systems

pytestmark = pytest.mark.spec("ISO-1")

SMALLEST = next(systems(1))
PAIR = next(systems(2))
"""Two groups at root that do not exclude one another."""


@pytest.fixture(autouse=True)
def without_a_log() -> Generator[None]:
    """Log nothing: most calls fail on purpose."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


async def test_in_process_a_caller_observes_the_same_with_another_as_without() -> None:
    leaks = [leak for size in (1, 2) for system in systems(size) if (leak := (await leak_of(Core(), system))[1])]
    assert leaks == []


@pytest.mark.parametrize("delivery", DELIVERIES[1:], ids=lambda one: one.name)
async def test_in_every_delivery_a_caller_observes_the_same_with_another_as_without(delivery: Delivery) -> None:
    compared, leak = await leak_of(delivery, SMALLEST)
    assert leak is None, leak
    assert compared > 20


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_server_that_leaks_one_thing_is_found(name: str) -> None:
    mutant, delivery = MUTANTS[name]
    with mutant():
        _, leak = await leak_of(delivery, PAIR if isinstance(delivery, Core) else SMALLEST)
    assert leak is not None


@pytest.mark.parametrize("delivery", DELIVERIES, ids=lambda one: one.name)
async def test_what_a_caller_observes_depends_on_what_it_does_itself(delivery: Delivery) -> None:
    seen: dict[str, set[str]] = {}
    for step, found in await observed(delivery, SMALLEST, acting=False, whole=False):
        seen.setdefault(str(step), set()).add(str(found))
    disclosed = isinstance(delivery, Mcp) and delivery.groups  # so that nothing is opened
    for shown in () if disclosed else ("open g0", "close g0", "list", "call g0.tool"):
        assert len(seen[shown]) > 1, shown
    answered = ("groups" if disclosed else "find echo", "call echo", "prompt g0.ask", "resource desk://g0")
    for shown in answered:
        assert any("Unknown" not in found and "not found" not in found for found in seen[shown]), shown
