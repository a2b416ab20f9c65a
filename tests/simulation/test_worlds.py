"""Worlds are right, the same each time, and found to be wrong where the store is."""

from __future__ import annotations

import asyncio
from random import Random

import anyio
import pytest
from attrs import evolve

from tests.simulation.__main__ import command, in_words, kept, main, worlds
from tests.simulation.disk import Disk
from tests.simulation.loop import Loop
from tests.simulation.outcome import Outcome
from tests.simulation.plan import GATEWAY, WIRED, Plan, drawn
from tests.simulation.shrinking import shrunk
from tests.simulation.worlds import run

pytestmark = pytest.mark.spec("STO-9")


@pytest.mark.spec("STO-2", "STO-3", "STO-5", "STO-6", "PER-3", "SES-2", "GWY-3", "GWY-11", "GWY-12")
def test_worlds_are_right() -> None:
    totals = worlds((*range(20), 39, 106))  # the gate runs more
    assert totals.failed == []
    kinds = ("kill", "stop", "away", "lose", "catalog", "end", "lag", "offer", "network")
    assert {*(f"fault: {kind}" for kind in kinds), "killed", "cancelled", "lists that follow"} <= set(totals.counted)


@pytest.mark.parametrize("number", range(len(kept())))
def test_what_ever_failed_does_not_any_more(number: int) -> None:
    assert run(kept()[number]).wrong == []


def test_a_world_is_the_same_each_time() -> None:
    for seed in (GATEWAY, WIRED, 8):  # of each kind
        assert run(drawn(seed)).digest == run(drawn(seed)).digest


def test_scopes_that_are_cancelled_together_are_so_in_the_order_in_which_they_were_made() -> None:
    ended = list[int]()

    async def wait(number: int) -> None:
        with anyio.CancelScope():
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(wait, number)
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()

    Loop(Random(1), 0.0).run(main)
    assert ended == [*range(50)]


def _forget_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Disk.__attrs_post_init__

    def broken(disk: Disk) -> None:
        made(disk)
        engine = disk.engine
        swap = engine.swap

        async def careless(key: str, version: int, data: object, token: int | None = None) -> int | None:
            record = await engine.read(key)
            result: int | None = await swap(key, version if record is None else record.version, data, token)
            return result

        engine.swap = careless

    monkeypatch.setattr(Disk, "__attrs_post_init__", broken)


@pytest.mark.spec("PER-3")
def test_a_store_that_ignores_versions_is_found_out_and_shown_by_a_small_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _forget_versions(monkeypatch)
    seed = next(seed for seed in range(1000) if run(drawn(seed)).wrong)
    plan = shrunk(drawn(seed), run)
    assert len(plan.items) < len(drawn(seed).items) / 2
    assert main(command(plan).split()[3:]) == 1
    assert run(plan).wrong[-1] in capsys.readouterr().out


def test_a_failure_that_depends_on_the_order_of_tasks_is_shown_with_the_draws_that_it_needs() -> None:
    """Of many tasks, the last has to go on before the first once, and the third before the second."""

    def ran(plan: Plan) -> Outcome:
        loop, order = Loop(plan.random("loop"), plan.unfair, plan.turns), list[tuple[int, int]]()

        async def go_on(number: int) -> None:
            for turn in range(12):
                await asyncio.sleep(0)
                order.append((turn, number))

        async def main() -> None:
            await asyncio.gather(*map(go_on, range(4)))

        loop.run(main)
        swapped = [turn for turn in range(12) if order.index((turn, 3)) < order.index((turn, 0))]
        return Outcome(wrong=["3 was before 0"] if len(swapped) > 1 else [], turned=loop.turned)

    drawn_first = next(plan for seed in range(100) if ran(plan := Plan(seed=seed, unfair=0.5, items=())).wrong)
    plan = shrunk(drawn_first, ran)
    assert plan.turns is not None
    assert ran(plan).wrong
    assert len(plan.turns) < len(ran(drawn_first).turned)
    assert all(not ran(evolve(plan, turns=plan.turns - {turn})).wrong for turn in plan.turns)
    assert in_words(plan).startswith("first in, first out but for ")
    assert command(plan).endswith(f" --turns {','.join(map(str, sorted(plan.turns)))}")
