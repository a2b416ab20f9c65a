"""Worlds whose replicas write traces, which the specification has to allow (SPEC TRC-1).

    python -m tests.simulation.traced --seeds 200             # write, and verify
    python -m tests.simulation.traced --seeds 20 --into DIR   # keep the files of each world
    python -m tests.simulation.traced --mutants               # mutants of the source, found from traces alone

Each process of a replica has a file of its own; those of a world are merged by version. Besides, sessions of random
catalogs walk at random, in memory, with hooks that fail and limits that evict.

The mutants are all of `mutants.toml` that are of sessions and stores, and those of `source_mutants.toml` and of the
machine, but for those that are about what a trace does not say.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from tests.simulation.mutants import ROOT, DidNotRun, Mutant, mutants
from tests.simulation.plan import Plan, StorePlan, drawn
from tests.simulation.worlds import run
from toolfold import ToolError, ToolfoldError, ToolSet
from toolfold_adapters.observe.trace import Trace
from toolfold_specs.traces import NotATrace, Outcome, verify
from verification.source_mutants import source_mutants


@contextmanager
def traces_in(folder: Path) -> Iterator[Callable[[str, Callable[[], float]], Trace]]:
    """Yield a function that returns a trace in a folder, by the name of its process.

    All are closed at the end, but for those of processes that were killed. If the body raises, none is closed.
    """
    made: list[Trace] = []

    def traced(process: str, clock: Callable[[], float]) -> Trace:
        made.append(Trace(folder / f"{process}.jsonl", now=clock, by=f"{process:_<6.6}"))
        return made[-1]

    try:
        yield traced
        for trace in made:
            trace.close()
    finally:
        for trace in made:
            trace.abandon()


class _Wrong(Exception):
    """Something is wrong with a world, so that its processes have ended where they were."""


def written(plan: Plan, folder: Path) -> list[Path]:
    """Run a world, and return the files that its replicas have written, whatever is wrong with it."""
    with suppress(_Wrong), traces_in(folder) as traced:
        if run(plan, traced).wrong:
            raise _Wrong
    return sorted(folder.glob("*.jsonl"))


def plans(count: int) -> Iterator[StorePlan]:
    """Yield plans of replicas and a store that loses nothing: what it gives back is what a trace says of it."""
    number = 0
    while count:
        plan, number = drawn(number), number + 1
        if isinstance(plan, StorePlan) and not any(fault.kind == "lose" for fault in plan.faults):
            count -= 1
            yield plan


def found(plan: Plan, folder: Path) -> Outcome | None:
    """Return what is found in the traces of a world; `None` if it wrote none."""
    folder.mkdir(parents=True, exist_ok=True)
    files = written(plan, folder)
    return verify(files) if files else None


# -- walks ------------------------------------------------------------------------------------------------------------

PATHS = ("a", "a.b", "a.b.c", "a.d", "e", "e.f", "g")
EXCLUSIONS = (("a", "e"), ("a.b", "a.d"), ("e.f", "g"), ("a.d", "g"))


def _catalog(random: Random) -> ToolSet:
    """Return a tool set with random groups, hooks and limits."""
    limits: dict[str, Any] = {}
    if random.random() < 0.4:
        limits = {"max_active": random.randrange(2, 5), "evict": random.choice([None, "oldest"])}
    tools = ToolSet("walk", **limits)

    def hook() -> None:
        if random.random() < 0.15:
            raise ToolError("on purpose")

    for path in PATHS:
        parent, _, name = path.rpartition(".")
        phases = [phase for phase in ("on_activate", "on_deactivate", "on_rollback") if random.random() < 0.5]
        hooks: dict[str, Any] = dict.fromkeys(phases, hook)
        if "on_rollback" not in hooks and random.random() < 0.2:
            hooks["on_rollback"] = False
        tools.register_group(name, path, parent=parent or None, **hooks)
    for excluded in random.sample(EXCLUSIONS, random.randrange(len(EXCLUSIONS))):
        tools.register_exclusion(*excluded)
    return tools


async def _walk(random: Random, trace: Trace) -> None:
    tools = _catalog(random)
    trace.listen(tools)
    dumped: dict[str, Any] | None = None
    for _ in range(4):
        opening = tools.open_session() if dumped is None else tools.restore_session(dumped)
        with suppress(ToolfoldError, ExceptionGroup):
            async with opening as session:
                for _ in range(12):
                    opened, closed = ([path for path in PATHS if random.random() < often] for often in (0.25, 0.15))
                    with suppress(ToolfoldError):
                        await session.transition(activate=opened, deactivate=closed, force=random.random() < 0.3)
                dumped = session.dump()


def walked(seed: int, folder: Path) -> Outcome:
    """Return what is found in the trace of sessions that walk at random."""
    file = folder / "walk.jsonl"
    trace = Trace(file, by="walk__")
    logging.disable()
    try:
        anyio.run(_walk, Random(seed), trace)
    finally:
        logging.disable(logging.NOTSET)
        trace.close()
    return verify([file])


# -- mutants ----------------------------------------------------------------------------------------------------------

OF_TRACES = ("core/toolfold/machine", "core/toolfold/_session", "adapters/toolfold_adapters/stores")
WALKS, WORLDS = 60, 100
"""How many walks and worlds may be needed to find a mutant."""
NOT_WRITTEN = re.compile(r"\bfacts?\b|notices?\b|notified|caller|records (never )?expire|expired|swept|\blists?\b")
"""What mutants are about that change nothing that a trace says: facts, notices, lists, limits and expiry."""


def mutants_of_traces() -> list[Mutant]:
    """Return the mutants of the machine, of sessions and of stores."""
    found = [mutant for mutant in mutants() if mutant.file.startswith(OF_TRACES)]
    for one in source_mutants():
        if one.package == "core":
            file = one.applied(ROOT)[0].relative_to(ROOT).as_posix()
            if file.startswith(OF_TRACES):
                found.append(Mutant(one.does, file, one.text, one.replacement))
    return found


def until_found() -> str:
    """Return the first line that is not allowed, of walks and then of worlds; empty if all are."""
    with TemporaryDirectory() as temporary:
        for seed in range(WALKS):
            folder = Path(temporary, f"walk {seed}")
            folder.mkdir()
            if (problem := walked(seed, folder).problem) is not None:
                return f"walk {seed}, line {problem.line.number}: {problem.why}"
        for plan in plans(WORLDS):
            outcome = found(plan, Path(temporary, str(plan.seed)))
            if outcome is not None and outcome.problem is not None:
                return f"seed {plan.seed}, line {outcome.problem.line.number}: {outcome.problem.why}"
    return ""


def _judge_mutants(words: Sequence[str], jobs: int) -> int:
    chosen = [one for one in mutants_of_traces() if not words or any(word in one.does for word in words)]
    if not words:
        left_out = [one.does for one in chosen if NOT_WRITTEN.search(one.does)]
        chosen = [one for one in chosen if one.does not in left_out]
        print(f"{len(left_out)} are about what a trace does not say: {'; '.join(left_out)}", flush=True)
    seen = 0

    def tried(mutant: Mutant) -> str:
        try:
            return mutant.found("tests.simulation.traced", "--until-found")
        except DidNotRun as error:
            return f"ERROR {error}"

    with ThreadPoolExecutor(jobs) as pool:
        for mutant, why in zip(chosen, pool.map(tried, chosen), strict=True):
            seen += bool(why) and not why.startswith("ERROR")
            print(
                f"{'found' if why else 'NOT FOUND':10}{mutant.does}: {why[:110]}",
                flush=True,
            )
    print(f"{seen} of {len(chosen)} are found from traces alone.")
    return int(seen < len(chosen))


def main(arguments: Iterable[str] | None = None) -> int:
    """Run worlds and verify their traces; the status is 1 if one is not allowed."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.traced", description=about)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--into", type=Path, help="where to keep the files")
    parser.add_argument("--until-found", action="store_true", help="end with the first line that is not allowed")
    parser.add_argument("--mutants", nargs="*", metavar="WORD", help="judge mutants, or those with a word")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants side by side")
    given = parser.parse_args(None if arguments is None else [*arguments])
    if given.mutants is not None:
        return _judge_mutants(given.mutants, given.jobs)
    if given.until_found:
        print(why := until_found())
        return int(bool(why))
    lines = steps = 0
    for plan in plans(given.seeds):
        with TemporaryDirectory() as temporary:
            folder = (given.into or Path(temporary)) / str(plan.seed)
            try:
                outcome = found(plan, folder)
            except NotATrace as error:
                print(f"seed {plan.seed}: {error}")
                return 1
        if outcome is None:
            continue
        lines, steps = lines + outcome.lines, steps + outcome.steps
        if outcome.problem is not None:
            line = outcome.problem.line
            print(f"seed {plan.seed}: {line.file.name}, line {line.number}: {outcome.problem.why}")
            return 1
    print(f"{given.seeds} worlds, {lines:,} lines, {steps:,} steps: all are allowed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
