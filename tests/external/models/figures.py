"""The figures of models from packages: one line for each model, number of tools and arm, and their table on a page.

A line has what its figure depends on: the seed, the tasks, the versions, the options, and the model's name, which ends
in the first digits of the hash of its weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from toolfold_adapters.evaluation import OWN, Choice, Record, load_tasks, read_lines
from toolfold_adapters.evaluation.choosing import NO_MODEL, WAYS, wilson
from toolfold_adapters.manifests.catalogs import load_catalog

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = Path(__file__).with_suffix(".jsonl")
MARKED = re.compile(r"(<!-- figures of models -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CHOSEN, DONE = "chosen", "done"

Figure = Mapping[str, Any]


def measured(folder: Path) -> list[Figure]:
    """Return the figures of the records in a folder."""
    made = [one for file in sorted(folder.glob("*-choices.jsonl")) for one in read_lines(file, Choice)]
    played = [one for file in sorted(folder.glob("*-tasks.jsonl")) for one in read_lines(file, Record)]
    return sorted([*_chosen(made), *_done(played)], key=lambda one: (one["what"], one["size"]))


def _chosen(made: Iterable[Choice]) -> list[Figure]:
    """Return how many choices are right; a request counts once it was asked in all ways, so that they compare."""
    asked: dict[tuple[Any, ...], dict[str, Choice]] = {}
    for one in made:
        asked.setdefault((*_alike(one), one.task, one.number), {})[one.way] = one
    together: dict[tuple[Any, ...], list[Choice]] = {}
    for ways in asked.values():
        for way in WAYS if ways.keys() == WAYS.keys() else ():
            together.setdefault((*_alike(ways[way]), way), []).append(ways[way])
    return [
        {
            "what": CHOSEN,
            "arm": several[0].way,
            **_with_what(several[0]),
            "of": len(several),
            "right": sum(one.right for one in several),
            "read": round(mean(one.tokens for one in several)),
        }
        for several in together.values()
    ]


def _done(played: Iterable[Record]) -> list[Figure]:
    """Return how many tasks are done, of those that need a tool: a model that calls none does all others."""
    tasks = load_tasks(OWN / "tasks.toml", load_catalog(OWN / "catalog.toml").catalog)
    need = {task.id for task in tasks if task.calls}
    together: dict[tuple[Any, ...], list[Record]] = {}
    for one in played:
        if one.task in need:
            together.setdefault((*_alike(one), one.arm), []).append(one)
    return [
        {
            "what": DONE,
            "arm": several[0].arm,
            **_with_what(several[0]),
            "of": len(several),
            "right": sum(one.done for one in several),
        }
        for several in together.values()
    ]


def _with_what(one: Choice | Record) -> Figure:
    return {
        "player": one.player,
        "size": one.size,
        "seed": one.seed,
        "tasks": one.tasks,
        "options": dict(one.options),
        "versions": dict(one.versions),
    }


def _alike(one: Choice | Record) -> tuple[Any, ...]:
    return (
        one.player,
        one.size,
        one.seed,
        one.tasks,
        *sorted(one.options.items()),
        *sorted(one.versions.items()),
    )


def table(figures: Sequence[Figure]) -> str:
    """Return what is chosen and done, with intervals of 95 %, and with what it was measured."""
    heads = ["", *WAYS]
    rows = [heads, ["---", *("---:" for _ in heads[1:])]]
    for size in sorted({one["size"] for one in figures}):
        own = [one for one in figures if one["size"] == size]
        together: dict[tuple[str, str, int], dict[str, Figure]] = {}
        for one in own:
            together.setdefault((one["what"], one["player"], one["of"]), {})[one["arm"]] = one
        for (what, player, of), found in together.items():
            counted = f"right of {of} choices" if what == CHOSEN else f"done of {of} tasks that need a tool"
            cells = [_share(found[arm]) if arm in found else "–" for arm in heads[1:]]
            rows.append([f"{player.rpartition('-')[0]}, {size} tools: {counted}", *cells])
        most = max((one for one in together if one[0] == CHOSEN), key=lambda one: one[2])
        read = {arm: f"{one['read']:,}" for arm, one in together[most].items() if arm != NO_MODEL}
        rows.append([f"tokens read for a choice, {size} tools", *(read.get(arm, "–") for arm in heads[1:])])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows) + f"\n{_measured_with(figures)}\n"


def _share(figure: Figure) -> str:
    low, high = wilson(figure["right"], figure["of"])
    return f"{100 * figure['right'] / figure['of']:.0f} % ({100 * low:.0f}–{100 * high:.0f})"


def _measured_with(figures: Sequence[Figure]) -> str:
    """Return the models with the hashes of their weights, and what else the figures depend on."""
    players = ", ".join(f"`{player}`" for player in dict.fromkeys(one["player"] for one in figures))
    versions = {name: version for one in figures for name, version in one["versions"].items()}
    said = [f"seed {seed}" for seed in sorted({one["seed"] for one in figures})]
    said += [f"tasks {tasks}" for tasks in sorted({one["tasks"] for one in figures})]
    said += sorted({f"temperature {one['options']['temperature']:g}" for one in figures})
    said += [f"{name} {version}" for name, version in versions.items()]
    return f"{players}; {', '.join(said)}."


def page(text: str, figures: Sequence[Figure]) -> str:
    """Return the page with the table of these figures."""
    return MARKED.sub(lambda found: f"{found[1]}{table(figures)}{found[3]}", text)


def kept() -> list[Figure]:
    """Return the figures that are in the repository."""
    return [json.loads(line) for line in FIGURES.read_text(encoding="utf-8").splitlines()]


def write(figures: Sequence[Figure]) -> None:
    """Write the figures, and the page that has them."""
    lines = (json.dumps(one, ensure_ascii=False) for one in figures)
    FIGURES.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
