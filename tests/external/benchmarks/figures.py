"""The figures of the benchmarks: measured, kept in `figures.json`, and written as tables into their page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolfold import __version__

from . import outside, playing
from .link import progress, worker
from .record import Record

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = Path(__file__).with_suffix(".json")
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

Figures = dict[str, Any]


# -- measuring --------------------------------------------------------------------------------------------------------


async def tau2(record: Record, step: int = 1) -> AsyncGenerator[tuple[playing.Outcome, bool]]:
    """Yield how each task of tau2 goes, by way and player, and whether it is of the half that nothing was tuned on.

    What the record has is not played again. With a step, it is each so many-th task.
    """
    with worker("tau2") as link:
        desks, tasks = playing.Desks(link), [*enumerate(link.ask("tasks"))][::step]
        for player in playing.PLAYERS:
            for way in playing.WAYS:
                progress(f"tau2, {way}, {player}: {len(tasks)} tasks")
                for number, task in tasks:
                    outcome = await record.once(playing.Outcome, desks.play, "tau2", task, way, player)
                    yield outcome, number % 2 == 1


async def agentdojo(record: Record, step: int = 1) -> AsyncGenerator[tuple[str, outside.Outcome]]:
    """Yield how each task of AgentDojo goes, by suite and way: without an attack, and with each of them."""
    for name in outside.ACTS:
        with worker(name) as link:
            suite, tasks = outside.Suite(link, name), link.ask("tasks")
            attacked = [(task, attack) for task in tasks for attack in link.ask("attacks")][::step]
            for way in outside.WAYS:
                progress(f"{name}, {way}: {len(tasks)} tasks, {len(attacked)} attacks")
                for task, attack in [*((task, None) for task in tasks), *attacked]:
                    yield name, await record.once(outside.Outcome, suite.play, name, task, way, attack)


async def measured(record: Record, step: int = 1) -> Figures:
    """Return the figures."""
    with worker("tau2") as link:
        versions = {"Toolfold": __version__, **link.ask("versions")}
    service: dict[str, dict[str, Counter[str]]] = {}
    async for one, held_out in tau2(record, step):
        domain = one.task.partition("/")[0]
        counted = service.setdefault(f"{one.way}, {one.player}", {}).setdefault(domain, Counter())
        counted.update(tasks=1, done=one.done, requests=one.requests, read=one.read, longest=one.longest)
        counted.update(kept=one.done and not one.broke, read_held_out=one.read if held_out else 0)
        counted.update(tried=sum(one.tried.values()), reached=sum(one.reached.values()))
    dojo: dict[str, dict[str, Counter[str]]] = {}
    async for name, played in agentdojo(record, step):
        counted = dojo.setdefault(played.way, {}).setdefault(name, Counter())
        if played.attack is None:
            counted.update(tasks=1, done=played.done, read=played.read)
        else:
            counted.update(attacks=1, lured=played.lured, succeeded=played.attacked, done_beside=played.done)
    return {"versions": versions, "step": step, "tau2": service, "agentdojo": dojo}


# -- the page ---------------------------------------------------------------------------------------------------------


def _sum(parts: Mapping[str, Mapping[str, int]], key: str) -> int:
    return sum(part.get(key, 0) for part in parts.values())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _tau2_table(figures: Figures) -> str:
    ways = list(playing.WAYS)
    found = {player: [figures["tau2"][f"{way}, {player}"] for way in ways] for player in playing.PLAYERS}
    solved, tried = found[playing.SOLUTION], found[playing.TRIES]
    flat = solved[0]
    rows = [
        [f"done of {_sum(flat, 'tasks')}", *(str(_sum(one, "done")) for one in solved)],
        ["… without breaking the policy", *(str(_sum(one, "kept")) for one in solved)],
        ["tokens read, millions", *(f"{_sum(one, 'read') / 1e6:.1f}" for one in solved)],
        ["of those with everything listed", *(_share(_sum(one, "read"), _sum(flat, "read")) for one in solved)],
        *([f"… {domain}", *(_share(one[domain]["read"], flat[domain]["read"]) for one in solved)] for domain in flat),
        [
            "… of the half of tasks that nothing was tuned on",
            *(_share(_sum(one, "read_held_out"), _sum(flat, "read_held_out")) for one in solved),
        ],
        ["requests", *(f"{_sum(one, 'requests'):,}" for one in solved)],
        ["longest request of a task, mean", *(f"{_sum(one, 'longest') // _sum(one, 'tasks'):,}" for one in solved)],
        ["*tries what is forbidden:* tried", *(f"{_sum(one, 'tried'):,}" for one in tried)],
        ["… reached a tool", *(f"{_sum(one, 'reached'):,}" for one in tried)],
        ["… done all the same", *(str(_sum(one, "done")) for one in tried)],
    ]
    return _table(["", *ways], rows)


def _agentdojo_table(figures: Figures) -> str:
    found = [figures["agentdojo"][way] for way in outside.WAYS]
    flat = found[0]
    rows = [
        [f"done of {_sum(flat, 'tasks')}, without attacks", *(str(_sum(one, "done")) for one in found)],
        [f"attacks that succeed, of {_sum(flat, 'attacks')}", *(str(_sum(one, "succeeded")) for one in found)],
        [
            "of those with everything listed",
            *(_share(_sum(one, "succeeded"), _sum(flat, "succeeded")) for one in found),
        ],
        *(
            [f"… {suite}", *(_share(one[suite]["succeeded"], flat[suite]["succeeded"]) for one in found)]
            for suite in flat
        ),
        ["done under attack", *(str(_sum(one, "done_beside")) for one in found)],
        ["tokens read, thousands", *(f"{_sum(one, 'read') // 1000:,}" for one in found)],
        ["of those with everything listed", *(_share(_sum(one, "read"), _sum(flat, "read")) for one in found)],
        *([f"… {suite}", *(_share(one[suite]["read"], flat[suite]["read"]) for one in found)] for suite in flat),
    ]
    return _table(["", *outside.WAYS], rows)


def _versions(figures: Figures) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    part = f"; one in {figures['step']} of the tasks of tau2 and of the attacks" if figures["step"] > 1 else ""
    return f"{versions}{part}.\n"


TABLES = {"versions": _versions, "tau2": _tau2_table, "agentdojo": _agentdojo_table}


def page(text: str, figures: Figures) -> str:
    """Return the page with the tables of these figures."""
    return MARKED.sub(partial(_filled, figures), text)


def _filled(figures: Figures, found: re.Match[str]) -> str:
    return f"{found[1]}{TABLES[found[2]](figures)}{found[4]}"


def kept() -> Figures:
    """Return the figures that are in the repository."""
    figures: Figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures
