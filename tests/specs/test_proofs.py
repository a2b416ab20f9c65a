"""The proofs for forests of any size, and the controls that they could fail: premises, mutants, axioms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve

import toolfold.machine
from toolfold_specs import reference
from verification.proofs import logic
from verification.proofs.examination import run
from verification.proofs.induction import BROKEN, INDUCTIONS, Broken, Induction, proved, refuted
from verification.proofs.logic import FALSE, Scene, World, before, every, group
from verification.proofs.mutants import MUTANTS, Mutant
from verification.proofs.proving import occurrence, prove, refute, witness
from verification.proofs.rules import AXIOMS, SPECIFIED, Rules
from verification.proofs.theorems import LEGAL, OCCURRENCES, THEOREMS, Claim, Theorem


def named(items: Iterable[Any]) -> list[Any]:
    return [pytest.param(item, id=item.name) for item in items]


def system_of(world: World) -> tuple[reference.System, dict[str, int]]:
    """Return the world as a system of the reference model, and the number of each group in it."""
    ancestors = {name: {upper for upper, lower in world.above if lower == name} for name in world.groups}
    ordered = sorted(world.groups, key=lambda name: len(ancestors[name]))
    numbers = {name: number for number, name in enumerate(ordered)}
    parents = tuple(max((numbers[upper] for upper in ancestors[name]), default=None) for name in ordered)
    pairs = {frozenset((numbers[one], numbers[two])) for one, two in world.excludes}
    return reference.System(parents, tuple(sorted(pairs, key=sorted))), numbers


def assert_agrees(world: World | None) -> None:
    """Check that the world is legal, and that its states are those of the reference model."""
    assert world is not None
    system, numbers = system_of(world)

    def state(names: Iterable[str]) -> frozenset[int]:
        return frozenset(numbers[name] for name in names)

    now = state(world.states["active before"])
    assert reference.legal(system, now)
    if after := world.states.get("after activating g"):
        assert state(after) == reference.activate(system, now, numbers[world.roles["g"]]).state
    if after := world.states.get("after deactivating g"):
        assert state(after) == reference.deactivate(system, now, numbers[world.roles["g"]]).state


@pytest.mark.spec("INV-1", "INV-2", "INV-4", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "ACT-9")
@pytest.mark.spec("ACT-10", "PER-2", "GWY-16", "CNF-6")
@pytest.mark.parametrize("theorem", named(THEOREMS))
def test_a_theorem_is_proved_for_forests_of_any_size(theorem: Theorem, request: pytest.FixtureRequest) -> None:
    proof = prove(theorem)
    assert proof.verdict == "proved", proof.counterexample or proof.reason
    marked = {clause for mark in request.node.iter_markers("spec") for clause in mark.args}
    assert marked >= set(theorem.clauses)


def test_the_names_of_theorems_and_mutants_are_unique() -> None:
    for named in (THEOREMS + OCCURRENCES, MUTANTS):
        assert len({one.name for one in named}) == len(named)


# The proofs are not vacuous


@pytest.mark.spec("CNF-6")
@pytest.mark.parametrize("theorem", named(THEOREMS))
def test_its_premises_hold_in_a_world_with_nesting_and_exclusion_where_the_reference_agrees(theorem: Theorem) -> None:
    world = witness(theorem)
    assert_agrees(world)
    assert world is not None
    assert len(world.groups) >= 3
    assert world.above
    assert world.excludes


@pytest.mark.spec("CNF-6")
@pytest.mark.parametrize("theorem", named(OCCURRENCES))
def test_each_situation_occurs_in_a_world_where_the_reference_agrees(theorem: Theorem) -> None:
    assert_agrees(occurrence(theorem))


@pytest.mark.spec("CNF-6")
@pytest.mark.parametrize("mutant", named(MUTANTS))
def test_a_wrong_rule_is_refuted_by_a_world_of_three_groups_or_fewer(mutant: Mutant) -> None:
    proof = refute(mutant)
    assert (proof.verdict, proof.theorem.name) == ("refuted", mutant.theorem)
    assert proof.counterexample is not None
    assert len(proof.counterexample.groups) <= 3


def test_every_axiom_is_needed() -> None:
    assert {axiom for mutant in MUTANTS for axiom in mutant.without} == set(AXIOMS)


@pytest.mark.parametrize(
    "name",
    [
        "activation: active groups have active parents",
        "activation: no two active groups exclude one another",
        "the table gives the sets of an activation",
    ],
)
def test_a_single_activation_needs_no_tree(name: str) -> None:
    theorem = next(theorem for theorem in THEOREMS if theorem.name == name)
    assert prove(theorem, without=("ancestors form a chain",)).verdict == "proved"


def test_a_proof_names_the_axioms_and_premises_that_suffice() -> None:
    used = {theorem.name: set(prove(theorem).used) for theorem in THEOREMS[:6]}
    assert used["activation: active groups have active parents"] == {
        "above is transitive",
        "no group excludes an ancestor",
        "INV-1 before",
    }
    assert used["activation: no two active groups exclude one another"] == {
        "no group excludes itself",
        "exclusion is symmetric",
        "INV-2 before",
    }
    assert used["deactivation: active groups have active parents"] == {"above is transitive", "INV-1 before"}
    assert used["deactivation: no two active groups exclude one another"] == {"INV-2 before"}


# Induction


@pytest.mark.spec("INV-1", "INV-2", "INV-4", "ACT-9", "ACT-10", "REG-2", "CNF-6")
@pytest.mark.parametrize("induction", named(INDUCTIONS))
def test_each_obligation_of_an_induction_is_proved_of_facts_that_can_hold(induction: Induction) -> None:
    result = proved(induction)
    assert (result.failures, result.obligations > 0) == ((), True)


@pytest.mark.spec("CNF-6")
@pytest.mark.parametrize("broken", named(BROKEN))
def test_an_induction_with_a_fault_has_an_obligation_that_fails_in_a_small_world(broken: Broken) -> None:
    assert refuted(broken)


def test_every_induction_has_one_that_is_broken() -> None:
    assert {one.of for one in BROKEN} == {one.name for one in INDUCTIONS}


def test_the_table_of_the_proofs_is_the_table_of_the_core() -> None:
    assert SPECIFIED.table is toolfold.machine.TABLE


# The command


def _keeps_all(rules: Rules) -> Claim:
    after = rules.activate(before, group("g"))
    goal = every(lambda x: logic.Implies(before(x), after(x)))
    return Claim(goal, Scene(("g",), {"active before": before, "after": after}), LEGAL)


def _vacuous(rules: Rules) -> Claim:
    return Claim(FALSE, Scene((), {}), {"the impossible": FALSE})


FALSE_THEOREM = Theorem("activation displaces nothing", ("ACT-4",), _keeps_all)
VACUOUS_THEOREM = Theorem("anything follows from the impossible", ("ACT-4",), _vacuous)


def test_the_command_succeeds_if_everything_is_as_expected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([], THEOREMS[:2], OCCURRENCES[:1], MUTANTS[:1], INDUCTIONS[:1], BROKEN[:1]) == 0
    out = capsys.readouterr().out
    assert THEOREMS[0].name in out
    assert "2 of 2 theorems proved, the premises of 2 can hold; 1 of 1 mutants refuted." in out
    assert "1 of 1 inductions proved; 1 of 1 broken ones refuted." in out


def test_the_command_fails_if_an_induction_is_not_proved_or_a_broken_one_is(capsys: pytest.CaptureFixture[str]) -> None:
    fine, wrong = INDUCTIONS[0], BROKEN[0]
    undone = evolve(fine, obligations=lambda _: wrong.obligations)
    assert run([], (), (), (), (undone,), (evolve(wrong, obligations=fine.obligations(SPECIFIED)),)) == 1
    printed = capsys.readouterr().out
    assert "the least number principle: not proved: there is no least number" in printed
    assert 'UNEXPECTED: "nothing holds of 0" should refute that the least number principle' in printed


@pytest.mark.parametrize(
    ("theorems", "sometimes", "mutants", "message"),
    [
        (
            *((FALSE_THEOREM,), (), ()),
            "nothing: refuted: groups a, g; a and g exclude one another; active before: a; after: g",
        ),
        ((VACUOUS_THEOREM,), (), (), "anything follows from the impossible: no world was found"),
        ((), (VACUOUS_THEOREM,), (), "anything follows from the impossible: no world was found"),
        ((), (), (Mutant("nothing wrong", THEOREMS[0].name),), "is proved, and should be refuted"),
    ],
)
def test_the_command_fails_and_says_what_is_unexpected(
    theorems: tuple[Theorem, ...],
    sometimes: tuple[Theorem, ...],
    mutants: tuple[Mutant, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([], theorems, sometimes, mutants, (), ()) == 1
    assert message in capsys.readouterr().out.partition("UNEXPECTED: ")[2]


def test_the_command_fails_if_z3_gives_up(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logic, "EFFORT", 1)
    assert run([], THEOREMS[:1], (), (), (), ()) == 1
    assert "unknown: z3 gave up" in capsys.readouterr().out
