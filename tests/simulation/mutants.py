"""Mutants of the source, which the worlds have to find (SPEC STO-9).

    python -m tests.simulation.mutants                # all, with the seed that finds each: minutes
    python -m tests.simulation.mutants lease notice   # those with these words

`mutants.toml` has them. Each is applied to a copy of the source, where worlds run until one is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

DATA = Path(__file__).with_suffix(".toml")
ROOT = DATA.parents[2]
SOURCES = ("core", "adapters", "specs", "tests")
SEEDS = 150
"""How many worlds may be needed to find one."""
PATIENCE = 600
"""Seconds of the processor after which the worlds of a mutant are given up, which is no find."""
WAITING = 3 * PATIENCE
"""Seconds after which worlds hang that have not used up the processor's by then: they wait, which is a find."""
WRONG = 1
NOT_WRONG = (0, -24, -9)
"""Exit statuses of worlds that are all right, and of those that are given up: by SIGXCPU, then SIGKILL."""


class DidNotRun(Exception):
    """No world was judged: the program ended otherwise than worlds that are right or wrong do."""


@frozen
class Mutant:
    """A text of a source file that is replaced by another; `does` says what it does wrong."""

    does: str
    file: str
    text: str
    replacement: str

    def applied(self) -> str:
        """Return the source of the file with the replacement; raises `ValueError` if the text is not in it once."""
        source = (ROOT / self.file).read_text(encoding="utf-8")
        if source.count(self.text) != 1:
            raise ValueError(f"{self.does}: {self.text!r} is not in {self.file} exactly once")
        return source.replace(self.text, self.replacement)

    def found(self, *program: str) -> str:
        """Return what finds it; empty if nothing does. Raises `DidNotRun` if no world has run to its end with it.

        `program` is the module that runs worlds until one is wrong, with its arguments.
        """
        program = program or ("tests.simulation", "--until-wrong", str(SEEDS))
        with TemporaryDirectory() as folder:
            for name in SOURCES:
                shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
            Path(folder, self.file).write_text(self.applied(), encoding="utf-8")
            paths = os.pathsep.join(f"{folder}/{name}" for name in ("core", "adapters", "specs", "."))
            worlds = [sys.executable, "-m", *program]
            command = ["sh", "-c", f'ulimit -t {PATIENCE}; exec "$@"', "sh", *worlds]
            environment = {**os.environ, "PYTHONPATH": paths}
            try:
                ran = subprocess.run(
                    command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=WAITING
                )
            except subprocess.TimeoutExpired:
                return f"it hangs: no end after {WAITING} s"
        return verdict(self, ran.returncode, ran.stdout, ran.stderr)


def verdict(mutant: Mutant, status: int, output: str, errors: str) -> str:
    """Return what found a mutant, from how its worlds ended; empty if nothing did, or the time was over.

    What has the status of a wrong world and prints none (an import that fails) is no find, nor is any other status.
    """
    if status == WRONG and output.strip():
        return output.strip().splitlines()[-1]
    if status in NOT_WRONG:
        return ""
    last = (errors or output).strip().splitlines()[-1:]
    raise DidNotRun(f"{mutant.does}: its worlds did not run, status {status}: {', '.join(last) or 'no output'}")


def mutants() -> list[Mutant]:
    """Return all mutants, in the order of the file."""
    files = tomllib.loads(DATA.read_text(encoding="utf-8"))
    return [Mutant(does, file, *row) for file, rows in files.items() for does, row in rows.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run worlds with mutants; the status is 1 if one survives, 2 if worlds could not run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description="Run worlds with mutants.")
    parser.add_argument("words", nargs="*", help="only those whose sentence has one of these words")
    parser.add_argument("--jobs", type=int, default=2, help="how many to run side by side")
    given = parser.parse_args(arguments)
    chosen = [one for one in mutants() if not given.words or any(word in one.does for word in given.words)]
    alive, errors = list[str](), list[DidNotRun]()
    with ThreadPoolExecutor(given.jobs) as pool:
        for mutant, found in zip(chosen, pool.map(_tried, chosen), strict=True):
            if isinstance(found, DidNotRun):
                errors.append(found)
                print(f"ERROR     {found}", flush=True)
                continue
            alive += [] if found else [mutant.does]
            print(f"{'dies' if found else 'SURVIVES':8}  {mutant.does}: {found[:100]}", flush=True)
    print(f"{len(chosen) - len(alive) - len(errors)} of {len(chosen)} die.")
    return 2 if errors else bool(alive)


def _tried(mutant: Mutant) -> str | DidNotRun:
    try:
        return mutant.found()
    except DidNotRun as error:
        return error


if __name__ == "__main__":
    sys.exit(main())
