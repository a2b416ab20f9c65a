"""Worlds whose replicas write traces, which the specification has to allow (SPEC TRC-1).

    python -m tests.simulation.traced --seeds 200             # write, and verify
    python -m tests.simulation.traced --seeds 20 --into DIR   # keep the files of each world

Each process of a replica has a file of its own; those of a world are merged by version.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.plan import Plan, StorePlan, drawn
from tests.simulation.worlds import run
from toolfold_adapters.observe.trace import Trace
from toolfold_specs.traces import NotATrace, Outcome, verify


@contextmanager
def traces_in(folder: Path) -> Iterator[Callable[[str, Callable[[], float]], Trace]]:
    """Yield a function that returns a trace in a folder, by the name of its process; all are closed at the end."""
    made: list[Trace] = []

    def traced(process: str, clock: Callable[[], float]) -> Trace:
        made.append(Trace(folder / f"{process}.jsonl", now=clock, by=f"{process:_<6.6}"))
        return made[-1]

    try:
        yield traced
    finally:
        for trace in made:
            trace.abandon()


def written(plan: Plan, folder: Path) -> list[Path]:
    """Run a world, and return the files that its replicas have written, whatever is wrong with it."""
    with traces_in(folder) as traced:
        run(plan, traced)
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


def main(arguments: Iterable[str] | None = None) -> int:
    """Run worlds and verify their traces; the status is 1 if one is not allowed."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.traced", description=about)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--into", type=Path, help="where to keep the files")
    given = parser.parse_args(None if arguments is None else [*arguments])
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
