"""Writes `specs/findings.md`: what the conformance kit finds in servers that others wrote, confirmed by hand.

    python -m tests.external.findings                 run every server, and write the file
    python -m tests.external.findings go tmcp         run some of them, and write what is found in them
    python -m tests.external.findings --check         run every server; the status is 1 if the file says something else
    python -m tests.external.findings --check go tmcp the same for some of them

It needs the packages of `npm ci --prefix tests/external --ignore-scripts`, Go 1.25, cargo, a JDK with Maven, and in
TESTS_FASTMCP_NEWEST the Python of an environment with the fastmcp of `foreign/fastmcp`. TESTS_KUBECTL_MCP and
TESTS_TOOLBOX name the programs of kubectl-mcp-server (PyPI, Python 3.12) and @toolbox-sdk/server (npm: `toolbox`).

A server is a folder in `foreign`, with a `server.toml` and a `confirm.py`. A finding of the kit that no check confirms
is not written down: either `confirm.py` disputes it, with the facts, or it is to be looked into and the status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve, frozen

from tests.external.foreign.confirming import Dispute, Finding, shows
from tests.external.foreign.servers import PROGRAMS, SERVERS, Server, load
from tests.external.support import ROOT, TOOLFOLD
from toolfold_specs.clauses import load_clauses
from toolfold_specs.render.markdown import finding
from toolfold_specs.replay import read_failure
from toolfold_specs.report import ClauseVerdict, Verdict, Violation

FILE = ROOT / "specs" / "findings.md"
CLAUSES = {clause.id: clause for clause in load_clauses()}
STYLE = frozenset(clause.id for clause in CLAUSES.values() if clause.profile == "style")
PATIENCE = 600  # seconds
WIDTH = 120
LONG = 400
"""How many characters of a message are shown."""

HEAD = """\
# Findings

What the conformance kit found in servers that were written without it. None of them claims to follow this
specification: a clause that is violated here says where clients will meet another behaviour, not that a promise was
broken. Clauses of *style* are advice: they are about our own wording, annotations and order. Each finding says who
demands what was not done, MCP or this specification alone, and has the messages that show it, and a script that sends
them. What the kit can't see of a black box it does not judge. Each finding was confirmed by a check of a few lines that
shares no code with the kit, in `confirm.py`, beside each server in `tests/external/foreign`.

`python -m tests.external.findings` writes this file: it builds the servers and runs the kit's layers `exhaustive` and
`wire` against each over stdio. `tests/external/test_conform.py` checks it. `CLAUSES.md` has the clauses.
That one client learns nothing of another (ISO-1) can be seen where they share a process: over HTTP, in the servers that
say so. pydantic-ai has no section: it connects to servers, by toolsets that are clients, and serves none of its own.

"""
TABLE = """\
| server | version | era | held | in part | violated | of style | undecided |
|-|-|-|-|-|-|-|-|
"""


@frozen
class Judged:
    """The kit's verdicts on a server in an era, and which of its findings were confirmed."""

    server: Server
    era: str
    verdicts: Mapping[str, str]
    found: Mapping[str, Violation]
    findings: Mapping[str, Finding]
    confirmed: frozenset[str]
    disputed: Mapping[str, Dispute]
    missed: frozenset[str]
    """The clauses that the kit reports as held although a check shows that they are violated."""
    seconds: float
    apart: str = ""
    """The verdict on whether clients of one process over HTTP learn of one another; empty where it has no HTTP."""

    @property
    def unconfirmed(self) -> list[str]:
        """The clauses of findings that neither a check confirms nor a dispute explains."""
        return [clause for clause in self.found if clause not in self.confirmed and clause not in self.disputed]

    def having(self, verdict: str) -> list[str]:
        """Return the clauses of a verdict, in the order of the specification."""
        return [clause for clause, said in self.verdicts.items() if said == verdict]


def judge(server: Server, era: str) -> Judged:
    """Return what the kit finds in a server, and which of its findings a hand-written client confirms."""
    start = time.monotonic()
    verdicts, found = _conform(server, era)
    seconds = time.monotonic() - start
    known = import_module(f"tests.external.foreign.{server.folder.name}.confirm")
    findings: Mapping[str, Finding] = known.FINDINGS
    disputes: Mapping[str, Dispute] = known.DISPUTES
    disputed = {
        clause: disputes[clause]
        for clause, violation in found.items()
        if clause in disputes and disputes[clause].evidence in f"{violation.message} {_json(violation.got)}"
    }
    held = {clause for clause in findings if verdicts[clause] == "held"}
    shown = {clause for clause in found.keys() - disputed.keys() | held if _shows(server, era, findings.get(clause))}
    missed, apart = frozenset(shown & held), _isolation(server, era) if era in server.http_eras else ""
    return Judged(server, era, verdicts, found, findings, frozenset(shown - held), disputed, missed, seconds, apart)


def _isolation(server: Server, era: str) -> str:
    """Return the kit's verdict on what one client of a process learns of another (SPEC ISO-1), over HTTP."""
    with server.served() as url, TemporaryDirectory() as folder:
        _run_kit(server, era, "wire", folder, url)
        (row,) = (line for line in _report(folder) if line["type"] == "clause" and line["id"] == "ISO-1")
    return f"{row['verdict']} ({row['reason']})" if row["reason"] else str(row["verdict"])


def _conform(server: Server, era: str) -> tuple[dict[str, str], dict[str, Violation]]:
    """Return the kit's verdict on each clause, and for those that are violated the first violation."""
    with TemporaryDirectory() as folder:
        _run_kit(server, era, "exhaustive,wire", folder, "--", *server.started_by)
        verdicts = {line["id"]: line["verdict"] for line in _report(folder) if line["type"] == "clause"}
        violated = [clause for clause, verdict in verdicts.items() if verdict == "violated"]
        return verdicts, {
            clause: read_failure(Path(folder) / f"failure-{clause}.json").violation for clause in violated
        }


def _run_kit(server: Server, era: str, layers: str, folder: str, *target: str) -> None:
    options = ["--layers", layers, "--era", era, "--describe", str(server.description), "-o", folder]
    run = subprocess.run(
        [TOOLFOLD, "conform", *options, *target],
        cwd=ROOT,
        env={**os.environ, **server.env},
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode not in (0, 1):
        raise AssertionError(f"{server.name} could not be judged: {run.stderr}")


def _report(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "report.jsonl").read_text("utf-8").splitlines()]


def _shows(server: Server, era: str, finding: Finding | None) -> bool:
    if finding is None:
        return False
    with server.client(era) as client:
        return shows(finding.check, client)


# -- the file ---------------------------------------------------------------------------------------------------------


def rows(runs: Sequence[Judged]) -> str:
    """Return the rows of a server in the table of what was found where."""
    lines = list[str]()
    for run in runs:
        style = len(run.confirmed & STYLE)
        held = [len(run.having(verdict)) for verdict in ("held", "held in part")]
        counts = [*held, len(run.confirmed) - style, style, len(run.having("undecided"))]
        lines.append(f"| {run.server.name} | {run.server.version} | {run.era} | {' | '.join(map(str, counts))} |")
    return "".join(f"{line}\n" for line in lines)


def written(text: str, runs: Sequence[Judged]) -> str:
    """Return the file with what was found in one server in place of what it says of that."""
    name = re.escape(runs[0].server.name)
    text = re.sub(rf"(^\| {name} \|.*\n)+", lambda _: rows(runs), text, count=1, flags=re.MULTILINE)
    return re.sub(rf"\n## {name}\n.*?(?=\n## |\Z)", lambda _: section(runs), text, count=1, flags=re.DOTALL)


def section(runs: Sequence[Judged]) -> str:
    """Return what was found in one server, in each era."""
    server = runs[0].server
    about = f"`{server.package}` {server.version}, in `{server.folder.relative_to(ROOT)}`. {server.about}"
    return f"\n## {server.name}\n\n" + _wrapped(about) + "".join("".join(_era(run)) for run in runs)


def _era(run: Judged) -> Iterator[str]:
    held = f"Held: {', '.join(run.having('held')) or 'none'}."
    others = {name: ", ".join(run.having(name)) for name in ("held in part", "undecided")}
    rest = "".join(f" {name.capitalize()}: {clauses}." for name, clauses in others.items() if clauses)
    apart = f" Over HTTP, where clients share a process, ISO-1: {run.apart}." if run.apart else ""
    yield "\n" + _wrapped(f"**In the {run.era} era.** {held}{rest}{apart}")
    for clause, violation in run.found.items():
        if clause in run.confirmed:
            row = ClauseVerdict(CLAUSES[clause], Verdict.VIOLATED, aimed_at=clause not in STYLE)
            heading, *lines = (
                f"{line}\n" for line in islice(finding(row, _as_started(violation, run.server), "###", LONG), 1, None)
            )
            yield from (f"\n{heading}", "\n", _wrapped(run.findings[clause].words), *lines)


def _as_started(violation: Violation, server: Server) -> Violation:
    """Return a finding with the command that starts the server in its folder, whatever runs it here."""
    assert violation.exchange is not None
    known = {"{python}": "python", "{fastmcp}": "python", "{node_modules}": "node_modules"}
    known |= {mark: mark.strip("{}") for mark in PROGRAMS}
    command = tuple(reduce(lambda part, mark: part.replace(mark, known[mark]), known, part) for part in server.command)
    return evolve(violation, exchange=evolve(violation.exchange, address=command))


def says(text: str, runs: Sequence[Judged]) -> bool:
    """Return whether the file says what was found in a server, in its section and in the table."""
    return claims(section(runs)) in claims(text) and rows(runs) in text


def _empty(runs: Mapping[str, Sequence[Judged]]) -> str:
    """Return the file before anything is written of the servers."""
    names = [found[0].server.name for found in runs.values()]
    places = "".join(f"| {name} |\n" for name in names) + "".join(f"\n## {name}\n" for name in names)
    return HEAD + TABLE + places


def claims(text: str) -> str:
    """Return what a section says without the messages, whose order and details may differ from run to run."""
    return re.sub(r"(The messages:\n|<details>).*?(?=\n#|\n\*\*In the|\Z)", "", text, flags=re.DOTALL)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of the usual width."""
    filled = textwrap.fill(
        " ".join(text.split()), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return f"{filled}\n"


# -- the command ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the servers, and write or check the file; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.external.findings", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the file is as it would be")
    parser.add_argument(
        "server", nargs="*", choices=[*SERVERS, []], help="the folders of the servers to run, if not all"
    )
    given = parser.parse_args(arguments)
    servers = {name: load(name) for name in given.server or SERVERS}
    if lacking := [f"{name}: {server.lacking}" for name, server in servers.items() if server.lacking]:
        parser.error("; ".join(lacking))
    runs = {name: _run(server) for name, server in servers.items()}
    every = [run for found in runs.values() for run in found]
    fine = not any(run.unconfirmed or run.missed for run in every)
    if not given.check:
        text = FILE.read_text("utf-8") if given.server else _empty(runs)
        FILE.write_text(reduce(written, runs.values(), text), "utf-8")
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", FILE], check=True)
        return 0 if fine else 1
    text = FILE.read_text("utf-8")
    stale = [name for name, found in runs.items() if not says(text, found)]
    if stale:
        print(f"specs/findings.md is stale for {', '.join(stale)}: run this without --check", file=sys.stderr)
    return 0 if fine and not stale else 1


def _run(server: Server) -> list[Judged]:
    start = time.monotonic()
    server.make()
    if server.build:
        print(f"{server.name}: built in {time.monotonic() - start:.0f} s", flush=True)
    runs = []
    for era in server.eras:
        run = judge(server, era)
        counts = f"{len(run.having('held'))} held, {len(run.confirmed)} violated and confirmed"
        print(f"{server.name}, {era}: {counts}, {run.seconds:.0f} s", flush=True)
        for clause, dispute in run.disputed.items():
            print(f"  disputed: {clause}: {run.found[clause].message}: {dispute.words}", flush=True)
        for clause in run.unconfirmed:
            print(f"  not confirmed: {clause}: {run.found[clause].message}", flush=True)
        for clause in sorted(run.missed):
            print(f"  missed by the kit: {clause}: {run.findings[clause].words}", flush=True)
        runs.append(run)
    return runs


if __name__ == "__main__":
    sys.exit(main())
