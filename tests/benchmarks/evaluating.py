"""Whether tasks get done, by scripts: figures of the comparison that need no clock."""

from __future__ import annotations

import statistics

import anyio

from toolfold_adapters.evaluation import ARMS, OWN, Plan, Record, World, load_tasks, run, scripted
from toolfold_adapters.manifests.catalogs import load_catalog

from .harness import Comparison

SIZES = (100, 1_000)
PLAYERS = ("perfect", "task-words", "codex", "copilot", "forgets-handles", "reckless")
RULES = ("excluded", "read only", "withdrawn")


def compare(*, quick: bool) -> Comparison:
    """Return what was done and read, by arm; it is the same in every run."""
    found = Comparison("tasks")
    anyio.run(_play, found)
    return found


async def _play(found: Comparison) -> None:
    catalog = load_catalog(OWN / "catalog.toml").catalog
    tasks = load_tasks(OWN / "tasks.toml", catalog)
    players = [scripted(name) for name in PLAYERS]
    plan = Plan(world=World(catalog), tasks=tasks, players=players, sizes=SIZES)
    together: dict[tuple[str, str, int | None], list[Record]] = {}
    async for record in run(plan):
        together.setdefault((record.player, record.arm, record.size), []).append(record)
    for (player, arm, size), records in together.items():
        what = f"{player}, {size}"
        found.add(f"{what}: done", arm, sum(one.done for one in records))
        found.add(f"{what}: requests", arm, statistics.mean(one.requests for one in records))
        found.add(f"{what}: read", arm, statistics.median(one.input_tokens for one in records))
        found.add(f"{what}: context", arm, statistics.median(one.context for one in records))
        reached = sum(one.reached.get(rule, 0) for one in records for rule in RULES)
        found.add(f"{what}: reached", arm, reached)
    assert {arm for _, arm, _ in together} == ARMS.keys()
