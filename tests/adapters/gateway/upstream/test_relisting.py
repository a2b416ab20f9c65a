"""A server that says over and over that its lists changed costs the others little."""

from __future__ import annotations

from functools import partial

import pytest

from tests.adapters.gateway.inprocess import Clock, House, config_of, opened
from tests.adapters.gateway.upstream.test_upstream import until
from toolfold_adapters.gateway.upstream.relisting import AT_ONCE, QUIET_SECONDS, Relisting

pytestmark = pytest.mark.spec("GWY-3", "SAF-1")


def pauses(times: int, takes: float, after: float = 0.0) -> list[float]:
    """How long each of several readings waits after the one before, where each takes so long."""
    relisting, now, waited = Relisting(), 100.0, list[float]()
    for _ in range(times):
        now += after
        begun = now if relisting.may_begin(now) else relisting.due
        waited.append(begun - now)
        relisting.begin(begun)
        now = begun + takes
        relisting.end(begun, now)
    return waited


@pytest.mark.parametrize(
    ("takes", "after", "waited"),
    [
        (0.0, 0.0, [0.5, 1, 2, 4, 8, 16, 32, 60, 60]),
        (1.0, 0.0, [9, 9, 9, 9, 9, 16, 32, 60, 60]),
        (10.0, 0.0, [90] * 9),
        (0.0, 75.0, [0.0] * 9),
    ],
)
def test_the_first_readings_in_a_row_are_at_once_and_each_later_one_waits_longer(
    takes: float, after: float, waited: list[float]
) -> None:
    assert pauses(AT_ONCE + 9, takes, after) == [0.0] * AT_ONCE + waited


def test_after_it_was_quiet_a_change_is_read_at_once_again() -> None:
    relisting = Relisting()
    for _ in range(AT_ONCE + 3):
        relisting.begin(relisting.due)
        relisting.end(relisting.due, relisting.due)
    assert not relisting.may_begin(relisting.due - 0.1)
    relisting.begin(relisting.due + QUIET_SECONDS)
    assert relisting.row == 1
    assert relisting.may_begin(0.0)


async def test_changes_that_are_said_while_it_waits_are_read_together_once_that_is_due(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    async with opened(House(), config_of("a"), clock=clock) as (gateway, session):

        def there(*names: str) -> bool:
            return {*names} <= gateway.tools.catalog.tools.keys()

        def tick() -> None:
            for upstream in gateway.upstreams.values():
                upstream.tick(clock.now)

        for number in range(AT_ONCE - 1):  # the first time was when it was connected
            await session.call("grow", {"item": f"grown{number}"})
            await until(partial(there, f"grown{number}"))
        late = [f"late{number}" for number in range(3)]
        for name in late:
            await session.call("grow", {"item": name})
        tick()
        for _ in range(20):
            await session.call("cart")  # in which time they would be there
        assert not any(map(there, late))
        clock.now += 1
        tick()
        await until(partial(there, *late))
    assert [one for one in caplog.messages if "over and over" in one] == [
        "the MCP server shop says over and over that its lists changed; they are read more rarely"
    ]
