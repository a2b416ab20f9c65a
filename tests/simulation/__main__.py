"""Runs worlds from seeds, and shows what went wrong in them (SPEC STO-9).

    python -m tests.simulation                            # the seeds that ever failed, the first ones, and fresh ones
    python -m tests.simulation --seeds 10000 --minutes 5  # that many, as far as the time goes, from --first on
    python -m tests.simulation --seed 4711 --without 3,7  # one world, with its log

A failure is made smaller, and printed as the command that shows it. The status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

import anyio
from attrs import define, evolve, field

from tests.simulation.cancelling import CASES, swept_by_gate
from tests.simulation.meetings import meetings, met
from tests.simulation.plan import Plan, drawn
from tests.simulation.shrinking import shrunk
from tests.simulation.worlds import run
from toolfold_adapters.stores import MemoryStore, Stores, check_store

SEEDS = Path(__file__).with_name("seeds.txt")
"""The seeds that ever failed, one a line, with the numbers of what is left out, and why they failed."""
FRESH = 300
"""How many seeds are drawn anew where no number is given."""
NO_TURNS = "none"
"""What stands for no draw that changes the order of tasks."""
AT_ONCE = 20
"""How many worlds a process runs before it reports."""


@define
class Totals:
    """What came of many worlds."""

    worlds: int = 0
    seconds: float = 0.0
    awaits: int = 0
    counted: Counter[str] = field(factory=Counter[str])
    states: set[Any] = field(factory=set[Any])
    failed: list[int] = field(factory=list[int])

    def add(self, other: Totals) -> None:
        """Add those of others."""
        self.worlds += other.worlds
        self.seconds += other.seconds
        self.awaits += other.awaits
        self.counted += other.counted
        self.states |= other.states
        self.failed += other.failed


def kept() -> list[Plan]:
    """Return the plans that ever failed."""
    lines = [line.partition("#")[0].split() for line in SEEDS.read_text(encoding="utf-8").splitlines()]
    return [drawn(int(seed)).without(map(int, without)) for seed, *without in filter(None, lines)]


def worlds(seeds: Iterable[int]) -> Totals:
    """Run the worlds of some seeds."""
    totals = Totals()
    for seed in seeds:
        outcome = run(drawn(seed))
        failed = [seed] if outcome.wrong else []
        totals.add(Totals(1, outcome.seconds, outcome.awaits, outcome.counted, outcome.states, failed))
    return totals


def main(arguments: list[str] | None = None) -> int:
    """Run worlds as the command line says."""
    about = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description=about[0],
        epilog=about[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=1500, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them; what ever failed comes before 0")
    parser.add_argument("--minutes", type=float, help="begin no more worlds after that time")
    parser.add_argument("--fresh", type=int, default=FRESH, help="how many are drawn anew beside them")
    parser.add_argument("--seed", type=int, help="run the world of this one, and show what happened")
    parser.add_argument("--without", default="", help="the numbers of requests and faults to leave out of it")
    parser.add_argument("--turns", help="the only draws that change the order of its tasks, by number, or none")
    parser.add_argument("--until-wrong", type=int, help="run so many in this process, and end with the first failure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes run worlds")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        plan = drawn(given.seed).without(int(number) for number in given.without.split(",") if number)
        return _shown(plan if given.turns is None else evolve(plan, turns=_turns(given.turns)))
    if given.until_wrong is not None:
        return _until_wrong(given.until_wrong)
    failures = [plan for plan in kept() if run(plan).wrong] if given.seeds and not given.first else []
    fresh = SystemRandom().randrange(10**9)
    print(f"fresh seeds from {fresh}", flush=True)
    seeds = [*range(given.first, given.first + given.seeds), *range(fresh, fresh + given.fresh)]
    began = time.perf_counter()
    totals = _all(seeds, given.jobs, None if given.minutes is None else began + 60 * given.minutes)
    took = time.perf_counter() - began
    for name, number in sorted(totals.counted.items()):
        print(f"{number:10,} {name}")
    print(
        f"{totals.worlds:,} seeds in {took:.1f} s, {totals.worlds / took * 60:,.0f} a minute; "
        f"{totals.seconds / took:,.0f} simulated seconds a second; {totals.awaits:,} awaits of replicas; "
        f"{len(totals.states):,} distinct states; {len(failures) + len(totals.failed)} failed"
    )
    for plan in (*failures, *map(drawn, totals.failed[:3])):
        _report(plan)
    return bool(failures or totals.failed)


def _all(seeds: list[int], jobs: int, deadline: float | None) -> Totals:
    totals = Totals()
    parts = [seeds[start : start + AT_ONCE] for start in range(0, len(seeds), AT_ONCE)]
    with ProcessPoolExecutor(jobs) as pool:
        for start in range(0, len(parts), 2 * jobs):
            if deadline is not None and time.perf_counter() > deadline:
                break
            for part in pool.map(worlds, parts[start : start + 2 * jobs]):
                totals.add(part)
    return totals


def _until_wrong(count: int) -> int:
    for plan in (*kept(), *map(drawn, range(count))):
        if wrong := run(plan).wrong:
            print(f"seed {plan.seed}: {wrong[0].splitlines()[0]}")
            return 1
    wrong = next(filter(None, (met(meeting)[1] for meeting in meetings())), [])
    wrong = wrong or [text for name in CASES for text in swept_by_gate(name).wrong] or failing_cases()
    if wrong:
        print(wrong[0].splitlines()[0])
    return bool(wrong)


def failing_cases() -> list[str]:
    """Return which cases of what every store does fail: they have the moments that worlds hardly ever meet."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Stores]:
        async with MemoryStore() as store:
            yield Stores(store, store)

    try:
        anyio.run(check_store, opened)
    except ExceptionGroup as error:
        return [error.message]
    return []


def _report(plan: Plan) -> None:
    """Make a plan smaller that fails, and print it."""
    smallest = shrunk(plan, run)
    print(f"\n{command(smallest)}", in_words(smallest), run(smallest).wrong[0], sep="\n")


def command(plan: Plan) -> str:
    """Return the command that shows a plan."""
    left_out = ",".join(map(str, sorted(drawn(plan.seed).numbers - plan.numbers)))
    turns = "" if plan.turns is None else f" --turns {','.join(map(str, sorted(plan.turns))) or NO_TURNS}"
    return f"python -m tests.simulation --seed {plan.seed} --without {left_out}{turns}"


def in_words(plan: Plan) -> str:
    """Return in which order the tasks of a plan go on."""
    match None if plan.turns is None else len(plan.turns):
        case None:
            return "in an order that is drawn"
        case 0:
            return "first in, first out"
        case 1:
            return "first in, first out but for one draw"
        case number:
            return f"first in, first out but for {number} draws"


def _turns(text: str) -> frozenset[int]:
    return frozenset() if text == NO_TURNS else frozenset(map(int, text.split(",")))


def _shown(plan: Plan) -> int:
    outcome = run(plan)
    print(*(f"{number} {item}" for number, item in plan.items), *outcome.log, *outcome.wrong, sep="\n")
    return bool(outcome.wrong)


if __name__ == "__main__":
    sys.exit(main())
