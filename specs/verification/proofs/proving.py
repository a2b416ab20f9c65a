"""Proving: a theorem holds if the axioms, its premises and the negation of its goal are unsatisfiable."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Literal

from attrs import frozen

from .logic import And, Formula, Not, World, above, ask, excludes, smallest_world, some
from .mutants import Mutant
from .rules import AXIOMS, SPECIFIED, Rules
from .theorems import THEOREMS, Claim, Theorem

Verdict = Literal["proved", "refuted", "unknown"]

NEGATION = "the negation of the goal"
RICH = And(
    some(lambda x, y, z: And(x != y, y != z, x != z)),
    some(lambda x, y: excludes(x, y)),
    some(lambda x, y: above(x, y)),
)
"""A nontrivial world: at least three groups, with an exclusion and nesting."""


@frozen
class Proof:
    """The result for a theorem under some rules and axioms."""

    theorem: Theorem
    verdict: Verdict
    used: tuple[str, ...] = ()
    """The axioms and premises that suffice, if it is proved."""
    counterexample: World | None = None
    """A smallest one, if it is refuted."""
    reason: str = ""
    """Why z3 gave up, if it did."""
    milliseconds: float = 0.0


def prove(theorem: Theorem, rules: Rules = SPECIFIED, without: tuple[str, ...] = ()) -> Proof:
    """Return whether a theorem holds for `rules` in forests of any size, with all axioms except those in `without`."""
    start = perf_counter()
    claim = theorem.claim(rules)
    facts = {**_assumptions(claim, without), NEGATION: Not(claim.goal)}
    finding = ask(facts)
    spent = (perf_counter() - start) * 1000
    match finding.answer:
        case "impossible":
            used = tuple(name for name in finding.core if name != NEGATION)
            return Proof(theorem, "proved", used, milliseconds=spent)
        case "possible":
            counterexample = smallest_world(facts.values(), claim.scene)
            return Proof(theorem, "refuted", counterexample=counterexample, milliseconds=spent)
        case "unknown":
            return Proof(theorem, "unknown", reason=finding.reason, milliseconds=spent)


def witness(theorem: Theorem) -> World | None:
    """Return a small, nontrivial world in which the premises of a theorem hold; `None` if there is none."""
    claim = theorem.claim(SPECIFIED)
    return smallest_world([*_assumptions(claim).values(), RICH], claim.scene, least=3)


def occurrence(theorem: Theorem) -> World | None:
    """Return a small world in which the premises and the goal of a theorem hold; `None` if none is found.

    The goal should be about single groups: a goal about all groups after an update is outside the decidable fragment
    unless it is negated, and z3 may give up.
    """
    claim = theorem.claim(SPECIFIED)
    return smallest_world([*_assumptions(claim).values(), RICH, claim.goal], claim.scene, least=3)


def refute(mutant: Mutant) -> Proof:
    """Return the result for the theorem that a mutant should refute."""
    theorem = next(theorem for theorem in THEOREMS if theorem.name == mutant.theorem)
    return prove(theorem, mutant.rules, mutant.without)


def _assumptions(claim: Claim, without: tuple[str, ...] = ()) -> Mapping[str, Formula]:
    return {name: axiom for name, axiom in AXIOMS.items() if name not in without} | dict(claim.premises)
