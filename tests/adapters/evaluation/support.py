"""What the tests of the evaluation share: the built-in world, small ones, and one task played by one player."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolfold import Catalog
from toolfold_adapters.evaluation import OWN, Plan, Player, Record, Task, World, load_tasks, run, scripted
from toolfold_adapters.manifests.catalogs import load_catalog

CATALOG = load_catalog(OWN / "catalog.toml").catalog
TASKS = load_tasks(OWN / "tasks.toml", CATALOG)
FORBIDDING = [task for task in TASKS if task.forbidden or task.withdrawn]
"""Those in which something may not be called."""


def task(name: str) -> Task:
    """One of the built-in tasks."""
    return next(task for task in TASKS if task.id == name)


async def played(
    *tasks: str | Task,
    player: str | Player = "perfect",
    arm: str = "groups+search",
    size: int | None = 100,
    world: World | None = None,
    before: Iterable[Record] = (),
    into: list[Record] | None = None,
    **more: Any,
) -> list[Record]:
    """The records of some tasks, or all; `into` has them also where the run ends with an error."""
    records: list[Record] = [] if into is None else into
    given = [task(one) if isinstance(one, str) else one for one in tasks] or TASKS
    who = scripted(player) if isinstance(player, str) else player
    plan = Plan(world=world or World(CATALOG), tasks=given, players=[who], arms=[arm], sizes=[size], **more)
    async for record in run(plan, before):
        records.append(record)
    return records


def small(folder: Path, text: str) -> Catalog:
    """A catalog in a file."""
    file = folder / "small.toml"
    file.write_text(text, encoding="utf-8")
    return load_catalog(file).catalog
