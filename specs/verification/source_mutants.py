"""Mutants of the core and the adapters themselves, which the kit must catch from outside (SPEC CNF-5).

    python -m verification.source_mutants                # all, with what catches each: minutes
    python -m verification.source_mutants eviction list  # those with these words
    python -m verification.source_mutants --check        # only that each still applies to the source

`source_mutants.toml` has them. Each is applied to a copy of the source, and the kit run on that: in process, in a store
if that finds nothing, and then over MCP in both eras.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import field, frozen

DATA = Path(__file__).with_suffix(".toml")
ROOT = DATA.parents[2]
SOURCES = ("core", "adapters", "specs")
COMMAND = (sys.executable, "-m", "toolfold_cli", "conform", "--json", "--profile", "all")
IN_PROCESS = (*COMMAND, "verification.library.driver:CoreDriver")
IN_A_STORE = (*COMMAND, "--layers", "schedules", "verification.library.stored:StoredDriver")
OVER_MCP = (*COMMAND, "--transport", "stdio", "--", sys.executable, "-m", "verification.library.server")


def _clauses(text: str) -> frozenset[str]:
    return frozenset(text.split())


@frozen
class SourceMutant:
    """A text of a source file that is replaced by another."""

    does: str
    """What it does wrong, in a sentence."""
    package: str
    """The folder that has the file."""
    clauses: frozenset[str] = field(converter=_clauses)
    """The clauses that it violates, of which the kit must report one."""
    text: str
    replacement: str
    held_out: bool
    """Whether it was chosen without looking at the kit."""

    def applied(self, root: Path) -> tuple[Path, str]:
        """Return the file with the text, and its source with the replacement; raises `ValueError` if there is none."""
        files = ((path, path.read_text(encoding="utf-8")) for path in (root / self.package).rglob("*.py"))
        found = [(path, source) for path, source in files if self.text in source]
        if len(found) != 1 or found[0][1].count(self.text) != 1:
            raise ValueError(f"{self.does}: {self.text!r} is not in {self.package} exactly once")
        return found[0][0], found[0][1].replace(self.text, self.replacement)

    def reported(self) -> frozenset[str]:
        """Return the clauses that the kit reports as violated."""
        with TemporaryDirectory() as folder:
            for name in SOURCES:
                shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
            path, source = self.applied(Path(folder))
            path.write_text(source, encoding="utf-8")
            within = [IN_PROCESS, IN_A_STORE] if self.package == "core" else []
            for command in (*within, OVER_MCP):
                if found := _violated(command, folder):
                    return found
        return frozenset()


def source_mutants() -> list[SourceMutant]:
    """Return all mutants, in the order of the file."""
    return [
        SourceMutant(does, package, clauses, text, replacement, kind == "held_out")
        for kind, packages in tomllib.loads(DATA.read_text(encoding="utf-8")).items()
        for package, rows in packages.items()
        for does, (clauses, text, replacement) in rows.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit against mutants; the exit status is 1 if one survives."""
    parser = argparse.ArgumentParser(description="Run the kit against mutants of the source.")
    parser.add_argument("words", nargs="*", help="run only those whose sentence has one of these words")
    parser.add_argument("--check", action="store_true", help="only check that each still applies")
    parser.add_argument("--jobs", type=int, default=2, help="how many to run side by side")
    given = parser.parse_args(arguments)
    chosen = [one for one in source_mutants() if not given.words or any(word in one.does for word in given.words)]
    if given.check:
        return _checked(chosen)
    with ThreadPoolExecutor(given.jobs) as pool:
        return _shown(chosen, pool.map(SourceMutant.reported, chosen))


def _checked(mutants: Iterable[SourceMutant]) -> int:
    status = 0
    for mutant in mutants:
        try:
            mutant.applied(ROOT)
        except ValueError as error:
            print(error)
            status = 1
    return status


def _shown(mutants: Sequence[SourceMutant], reported: Iterable[frozenset[str]]) -> int:
    right = 0
    for mutant, found in zip(mutants, reported, strict=True):
        verdict = "caught" if found & mutant.clauses else "other clause" if found else "SURVIVES"
        right += verdict == "caught"
        print(f"{verdict:12}  {mutant.does}: {', '.join(sorted(found)) or '-'}", flush=True)
    print(f"{right} of {len(mutants)} are caught by the right clause.")
    return int(right < len(mutants))


def _violated(command: Sequence[str], folder: str) -> frozenset[str]:
    """Return the clauses that a run of the kit reports, with the packages in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(f"{folder}/{name}" for name in SOURCES)}
    ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    found = frozenset(line["id"] for line in lines if line["type"] == "clause" and line["verdict"] == "violated")
    return found if ran.returncode in (0, 1) else found | {"(the run failed)"}


if __name__ == "__main__":
    sys.exit(main())
