"""The examination of all proofs: what z3 answers, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from .induction import BROKEN, INDUCTIONS, Broken, Induction, Result, proved, refuted
from .logic import World
from .mutants import MUTANTS, Mutant
from .proving import Proof, occurrence, prove, refute, witness
from .theorems import OCCURRENCES, THEOREMS, Theorem


@frozen
class Examination:
    """The answers of z3 to all questions."""

    proofs: tuple[Proof, ...]
    witnesses: tuple[World | None, ...]
    """A world for each theorem in which its premises hold."""
    occurrences: tuple[tuple[Theorem, World | None], ...]
    refutations: tuple[tuple[Mutant, Proof], ...]
    inductions: tuple[Result, ...]
    broken: tuple[tuple[Broken, bool], ...]
    """Whether each broken induction was refuted."""

    @property
    def failures(self) -> tuple[str, ...]:
        """A sentence for each unexpected answer."""
        return tuple(self._failures())

    def _failures(self) -> Iterator[str]:
        for proof, world in zip(self.proofs, self.witnesses, strict=True):
            if proof.verdict != "proved":
                yield f"{proof.theorem.name}: {_outcome(proof)}"
            if world is None:
                yield f"{proof.theorem.name}: no world was found in which its premises hold, so it may be vacuous"
        for theorem, world in self.occurrences:
            if world is None:
                yield f"{theorem.name}: no world was found in which this occurs"
        for mutant, proof in self.refutations:
            if proof.verdict != "refuted":
                yield f'mutant "{mutant.name}": "{mutant.theorem}" is {_outcome(proof)}, and should be refuted'
        for result in self.inductions:
            yield from (f"{result.name}: {failure}" for failure in result.failures)
        for broken, is_refuted in self.broken:
            if not is_refuted:
                yield f'"{broken.name}" should refute that {broken.of}'


def examine(
    theorems: Sequence[Theorem] = THEOREMS,
    sometimes: Sequence[Theorem] = OCCURRENCES,
    mutants: Sequence[Mutant] = MUTANTS,
    inductions: Sequence[Induction] = INDUCTIONS,
    broken: Sequence[Broken] = BROKEN,
) -> Examination:
    """Prove all theorems, look for worlds in which their premises hold, and refute all mutants."""
    return Examination(
        proofs=tuple(prove(theorem) for theorem in theorems),
        witnesses=tuple(witness(theorem) for theorem in theorems),
        occurrences=tuple((theorem, occurrence(theorem)) for theorem in sometimes),
        refutations=tuple((mutant, refute(mutant)) for mutant in mutants),
        inductions=tuple(map(proved, inductions)),
        broken=tuple((one, refuted(one)) for one in broken),
    )


def run(
    arguments: Sequence[str] | None = None,
    theorems: Sequence[Theorem] = THEOREMS,
    sometimes: Sequence[Theorem] = OCCURRENCES,
    mutants: Sequence[Mutant] = MUTANTS,
    inductions: Sequence[Induction] = INDUCTIONS,
    broken: Sequence[Broken] = BROKEN,
) -> int:
    """Print the answers; return 0, or 1 if an answer is unexpected."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.proofs",
        description="Prove the rules of activation for forests of any size, and refute wrong ones.",
        epilog="Exit status: 0 if every answer is as expected, 1 if not, 2 if z3 is missing.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with a world for every premise")
    options = parser.parse_args(arguments)
    examined = examine(theorems, sometimes, mutants, inductions, broken)
    print(json.dumps(as_data(examined), indent=2) if options.json else as_text(examined))
    return 1 if examined.failures else 0


def as_text(examined: Examination) -> str:
    """Return the answers as a table, with counterexamples in words."""
    rows = [("theorem", "clauses", "verdict", "ms", "from"), ("-", "-", "-", "-", "-")]
    rows += [
        (
            proof.theorem.name,
            " ".join(proof.theorem.clauses),
            proof.verdict,
            f"{proof.milliseconds:.0f}",
            ", ".join(proof.used) or "the definitions",
        )
        for proof in examined.proofs
    ]
    lines = _aligned(rows)
    lines += ["", "Situations that occur, each with a world:"]
    lines += [f"  {theorem.name}\n    {world or 'no such world'}" for theorem, world in examined.occurrences]
    lines += ["", "Wrong rules and missing axioms, with the theorem that each refutes:"]
    lines += [f"  {mutant.name}: {mutant.theorem}\n    {_outcome(proof)}" for mutant, proof in examined.refutations]
    lines += ["", "By induction, from obligations:"]
    lines += [f"  {one.name} ({' '.join(one.clauses)}): {one.obligations}" for one in examined.inductions]
    lines += ["", "Broken inductions, with what each refutes:"]
    lines += [f"  {broken.name}: {broken.of}" for broken, is_refuted in examined.broken if is_refuted]
    whole = sum(not one.failures for one in examined.inductions)
    proofs = sum(proof.verdict == "proved" for proof in examined.proofs)
    satisfied = sum(world is not None for world in examined.witnesses)
    found = sum(proof.verdict == "refuted" for _, proof in examined.refutations)
    lines += [
        "",
        f"{proofs} of {len(examined.proofs)} theorems proved, the premises of {satisfied} can hold; "
        f"{found} of {len(examined.refutations)} mutants refuted.",
        f"{whole} of {len(examined.inductions)} inductions proved; "
        f"{sum(is_refuted for _, is_refuted in examined.broken)} of {len(examined.broken)} broken ones refuted.",
        *(f"UNEXPECTED: {failure}" for failure in examined.failures),
    ]
    return "\n".join(lines)


def as_data(examined: Examination) -> dict[str, Any]:
    """Return the answers as JSON data."""
    return {
        "ok": not examined.failures,
        "failures": list(examined.failures),
        "theorems": [
            {**_proof_data(proof), "premises_hold_in": _words(world)}
            for proof, world in zip(examined.proofs, examined.witnesses, strict=True)
        ],
        "sometimes": [
            {"name": theorem.name, "clauses": list(theorem.clauses), "happens_in": _words(world)}
            for theorem, world in examined.occurrences
        ],
        "mutants": [
            {
                "name": mutant.name,
                "without": list(mutant.without),
                "refutes": mutant.theorem,
                **_verdict_data(proof),
            }
            for mutant, proof in examined.refutations
        ],
        "inductions": [
            {
                "name": one.name,
                "clauses": list(one.clauses),
                "obligations": one.obligations,
                "failures": list(one.failures),
            }
            for one in examined.inductions
        ],
        "broken": [{"name": one.name, "refutes": one.of, "refuted": found} for one, found in examined.broken],
    }


def _proof_data(proof: Proof) -> dict[str, Any]:
    return {
        "name": proof.theorem.name,
        "clauses": list(proof.theorem.clauses),
        **_verdict_data(proof),
        "used": list(proof.used),
        "milliseconds": round(proof.milliseconds, 1),
    }


def _verdict_data(proof: Proof) -> dict[str, Any]:
    return {"verdict": proof.verdict, "counterexample": _words(proof.counterexample), "reason": proof.reason}


def _words(world: World | None) -> str | None:
    return None if world is None else str(world)


def _outcome(proof: Proof) -> str:
    match proof.verdict:
        case "proved":
            return "proved"
        case "refuted":
            return f"refuted: {proof.counterexample or 'by a world too large to show'}"
        case "unknown":
            return f"unknown: z3 gave up ({proof.reason})"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    filled = [
        (cell * width if cell == "-" else cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return ["  ".join(row).rstrip() for row in filled]
