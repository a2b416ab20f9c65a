"""Evidence that verdicts can be trusted: writes ``specs/VERDICTS.md``, or checks that it is fresh (SPEC CNF-5).

    python -m verification.verdicts            # write
    python -m verification.verdicts --check    # exit status 1 and say what is wrong

For each clause that the kit checks, the table has three implementations: a mutant that violates this clause and no
other, an honest one, of which the clause holds, and an empty one, which shows nothing of what it does, and of which the
kit must say nothing. All three are run: in process the naive engine and its mutants, and for what only the protocol
shows the same engine behind MCP, in both eras.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from toolfold_specs.driver import IN_A_STORE, OF_PROFILES, Answer, Driver, Operation, Setup
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.protocol import Era
from toolfold_specs.drivers.replies import TIMEOUT
from toolfold_specs.kit import check
from toolfold_specs.layers import all_checks
from toolfold_specs.report import ClauseVerdict, Report, Verdict

from .mutants import MUTANTS, Mutant
from .mutants.driver import EngineDriver
from .mutants.registration import LIVE
from .mutants.server import Fixture
from .mutants.tags import Tagging
from .mutants.wire import MUTANTS as WIRE_MUTANTS
from .mutants.wire import Silent, WireMutant

TABLE = Path("specs/VERDICTS.md")
COMMAND = "python -m verification.verdicts"
MUTANTS_IN = "specs/verification/mutants"
IN_PROCESS, OVER_MCP = ("exhaustive", "vectors", "stateful", "schedules"), ("wire",)
"""The layers that are run in each way."""
ERAS: tuple[Era, ...] = ("legacy", "modern")
Violated = Callable[[Mutant | WireMutant], frozenset[str]]
FEW, SOME = 200, 1500
"""Operations for each check over MCP, and in process."""

INDIRECT: Mapping[str, str] = {"VIS-1": "(what breaks it is found as VIS-2: the rule that holds)"}
"""Clauses that have no mutant of their own, with the reason."""


IN_PART = frozenset({"FND-3"})
"""Clauses of which the kit asks for a part."""
OPTIONAL = frozenset({"NXT-1"})
"""Clauses on what an implementation need not have: to an empty one they do not apply."""


class EmptyDriver(EngineDriver):
    """The honest engine, whose answers say only whether they are refusals."""

    def configure(self, setup: Setup) -> Answer:
        """Configure, and say whether it was refused."""
        return _emptied(super().configure(setup))

    def perform(self, operation: Operation) -> Answer:
        """Perform an operation, and say whether it was refused."""
        return _emptied(super().perform(operation))

    def finish(self, ticket: int) -> Answer:
        """Finish an operation, and say whether it was refused."""
        return _emptied(super().finish(ticket))


def _emptied(answer: Answer) -> Answer:
    return Answer(error=answer.error and "error")


@frozen
class Proof:
    """The verdicts on three implementations by one clause."""

    clause: str
    mutant: str
    violated: frozenset[str]
    """The clauses that the mutant is found to violate."""
    honest: Verdict
    empty: ClauseVerdict

    @property
    def problems(self) -> Iterator[str]:
        """What is not as it should be."""
        if not self.mutant and self.clause not in INDIRECT:
            yield f"{self.clause} has no mutant: add one that violates it and no other clause, in {MUTANTS_IN}"
        elif self.clause not in INDIRECT and self.violated != frozenset({self.clause}):
            found = ", ".join(sorted(self.violated)) or "nothing"
            yield f"{self.clause}: the mutant that {self.mutant} is found to violate {found}"
        if self.honest is not (Verdict.PARTLY if self.clause in IN_PART else Verdict.HELD):
            yield f"{self.clause}: of the honest engine it is {self.honest.value}"
        if self.empty.verdict is not (Verdict.NOT_APPLICABLE if self.clause in OPTIONAL else Verdict.UNDECIDED):
            yield f"{self.clause}: of the empty engine it is {self.empty.verdict.value}"


def violated(mutant: Mutant | WireMutant) -> frozenset[str]:
    """Return the clauses that a mutant is found to violate."""
    if isinstance(mutant, Mutant):
        report = check(mutant.driver, layers=[mutant.layer], budget=mutant.budget)
    else:
        report = check(partial(over_mcp, mutant.fixture, mutant.era), layers=OVER_MCP, budget=FEW)
    return frozenset(violation.clause for violation in report.violations)


def prove(violated: Violated = violated) -> tuple[Proof, ...]:
    """Return the verdicts on three implementations for each clause, over MCP for what is not checked in process.

    Args:
        violated: What returns the clauses that a mutant violates; by default it runs the mutant.
    """
    in_process = [
        partial(make, capabilities=LIVE | IN_A_STORE.keys() | OF_PROFILES.keys())
        for make in (EngineDriver, EmptyDriver)
    ]
    honest, empty = (_rows(check(make, layers=IN_PROCESS, budget=SOME)) for make in in_process)
    proofs = [_proof(clause, honest, empty, MUTANTS.values(), violated) for clause in _checked(IN_PROCESS, empty)]
    honest, empty = (_rows(check(_in_both_eras(served), layers=OVER_MCP, budget=FEW)) for served in (Tagging, Silent))
    besides = [clause for clause in _checked(OVER_MCP, empty) if clause not in {proof.clause for proof in proofs}]
    return (*proofs, *(_proof(clause, honest, empty, WIRE_MUTANTS.values(), violated) for clause in besides))


def over_mcp(served: Callable[[], Fixture], era: Era, timeout: float = TIMEOUT) -> Driver:
    """Return a driver of a server in this process, where a notice never comes after its answer."""
    return FixtureDriver(Link(served().server(), era, timeout), grace=0.01)


def _in_both_eras(served: type[Fixture]) -> dict[str, Callable[[], Driver]]:
    return {era: partial(over_mcp, served, era) for era in ERAS}


def _checked(layers: Iterable[str], rows: Mapping[str, ClauseVerdict]) -> list[str]:
    """Return the clauses that some layers check, in the order of the specification."""
    found = {clause for one in all_checks(tuple(layers)) for clause in one.clauses}
    return [clause for clause in rows if clause in found]


def _rows(report: Report) -> dict[str, ClauseVerdict]:
    return {row.clause.id: row for row in report.rows}


def _proof(
    clause: str,
    honest: Mapping[str, ClauseVerdict],
    empty: Mapping[str, ClauseVerdict],
    mutants: Iterable[Mutant | WireMutant],
    violated: Violated,
) -> Proof:
    name, found = "", frozenset[str]()
    for mutant in sorted((one for one in mutants if one.clause == clause), key=lambda one: len(one.also)):
        name, found = mutant.name, violated(mutant)
        if found == frozenset({clause}):
            break
    return Proof(clause, name, found, honest[clause].verdict, empty[clause])


HEAD = f"""\
# Verdicts

Generated by `{COMMAND}`, which runs every implementation named here. For each clause: a mutant that is found to violate
this clause and no other, the verdict on an honest implementation, and the verdict on an empty one, which shows nothing
of what it does.

| clause | the mutant that violates it alone | honest | empty |
|-|-|-|-|
"""


def render(proofs: Sequence[Proof]) -> str:
    """Return the table as Markdown; the same proofs give the same text."""
    return HEAD + "".join(f"{_row(proof)}\n" for proof in proofs)


def _row(proof: Proof) -> str:
    why = proof.empty.reason.partition("; ")[0].replace("|", r"\|")
    mutant = INDIRECT.get(proof.clause, proof.mutant)
    return f"| {proof.clause} | {mutant} | {proof.honest.value} | {proof.empty.verdict.value}: {why} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the table; return the exit status: 0, or 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=f"Write {TABLE}: evidence that verdicts can be trusted.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is wrong")
    options = parser.parse_args(arguments)
    proofs = prove()
    problems = [problem for proof in proofs for problem in proof.problems]
    if not options.check:
        TABLE.write_text(render(proofs), encoding="utf-8")
    elif not TABLE.exists() or TABLE.read_text(encoding="utf-8") != render(proofs):
        problems.append(f"{TABLE} is stale: run `{COMMAND}`")
    print(*problems or [f"{len(proofs)} clauses: each is violated, held and undecided by an implementation"], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
