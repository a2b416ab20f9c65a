"""Evidence: a clause is held only if an answer has the member that shows it, in a case in which it could fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve

from toolfold_specs.checks import Check, run_checks
from toolfold_specs.clauses import load_clauses
from toolfold_specs.driver import MAIN, Answer, Driver, Group, Operation, Setup, Tool
from toolfold_specs.kit import check
from toolfold_specs.report import ClauseVerdict, Report, Result, Status, Verdict
from toolfold_specs.runs import TestRun
from verification.mutants import MUTANTS, Mutant
from verification.mutants.driver import EngineDriver
from verification.mutants.engine import Engine

pytestmark = pytest.mark.spec("CNF-3", "CNF-5", "CNF-9")

TRANSITIONS = ("ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2", "INV-4", "INV-5")


def silent_about(*members: str, capabilities: frozenset[str] = EngineDriver.capabilities) -> Callable[[], Driver]:
    """Return a driver of the naive engine whose answers lack some members."""

    class Silent(EngineDriver):
        def finish(self, ticket: int) -> Answer:
            without: dict[str, Any] = dict.fromkeys(members)
            return evolve(super().finish(ticket), **without)

    Silent.capabilities = capabilities
    return Silent


def rows(report: Report) -> dict[str, ClauseVerdict]:
    return {row.clause.id: row for row in report.rows}


def of_check(run: Callable[[TestRun], object], *clauses: str, make: Callable[[], Driver] = EngineDriver) -> Report:
    def ran(test_run: TestRun) -> None:
        run(test_run)

    return Report({}, run_checks([Check("it", "vectors", clauses, ran)], make), load_clauses())


def activate(group: str) -> Operation:
    return Operation("activate", {"group": group})


def test_a_driver_that_never_shows_the_state_leaves_the_transitions_undecided() -> None:
    report = check(silent_about("active", "changed"), layers=["exhaustive"], budget=700)
    found = {clause: (row.verdict, row.reason) for clause, row in rows(report).items() if clause in TRANSITIONS}
    assert {verdict for verdict, _ in found.values()} == {Verdict.UNDECIDED}
    assert found["ACT-4"][1] == "the answers never show active, changed"
    assert rows(report)["ACT-1"].verdict is Verdict.HELD  # a refusal by its name shows itself


@pytest.mark.parametrize(
    ("member", "clauses"),
    [
        ("hooks", {"HOOK-1", "HOOK-3", "HOOK-5", "HOOK-9"}),
        ("notified", {"NTF-1", "NTF-3"}),
        ("controls", {"CTL-1", "CTL-2"}),
        ("tools", {"NAM-2", "VIS-2", "LST-2"}),
        ("names", {"LST-1"}),
        ("groups", {"LST-4"}),
        ("text", {"VIS-7"}),
    ],
)
def test_a_clause_is_held_only_if_answers_have_the_member_that_shows_it(member: str, clauses: set[str]) -> None:
    assert held(EngineDriver) >= clauses
    assert not held(silent_about(member)) & clauses


@cache
def held(make: Callable[[], Driver]) -> set[str]:
    """Return the clauses that are held of a driver."""
    found = rows(check(make, layers=["exhaustive", "vectors"], budget=700))
    return {clause for clause, row in found.items() if row.verdict is Verdict.HELD}


def test_that_a_new_session_is_empty_is_no_evidence_of_how_the_old_one_ended() -> None:
    class Unlisted(EngineDriver):
        def finish(self, ticket: int) -> Answer:
            return evolve(super().finish(ticket), detail={})

    row = rows(check(Unlisted, layers=["vectors"]))["SES-3"]
    assert row.verdict is Verdict.UNDECIDED
    assert row.reason == "the answers never show detail.list"


def test_a_missing_capability_of_a_member_makes_a_clause_not_applicable() -> None:
    make = silent_about("notified", capabilities=EngineDriver.capabilities - {"notifications"})
    row = rows(check(make, layers=["exhaustive"], budget=300))["NTF-1"]
    assert (row.verdict, row.reason) == (Verdict.NOT_APPLICABLE, "no notifications")


def test_a_clause_on_notifications_is_held_only_if_one_is_due() -> None:
    never = MUTANTS["never notifies of transitions"].driver
    quiet = Setup(groups=[Group("a")])
    report = of_check(lambda run: run.play(quiet, [activate("a")]), "NTF-1", make=never)
    assert rows(report)["NTF-1"].verdict is Verdict.NOT_APPLICABLE


def test_the_order_of_hooks_is_held_only_if_there_are_two() -> None:
    hooks = ("on_activate", "on_deactivate")
    one, two = (Setup(groups=[Group(path, hooks=hooks) for path in paths]) for paths in (("a",), ("a", "a.b")))
    steps = [activate("a"), activate("a.b"), Operation("deactivate", {"group": "a"})]
    assert rows(of_check(lambda run: run.play(one, steps[:1]), "HOOK-3"))["HOOK-3"].verdict is Verdict.NOT_APPLICABLE
    assert rows(of_check(lambda run: run.play(two, steps), "HOOK-3"))["HOOK-3"].verdict is Verdict.HELD


def test_a_tour_that_a_violation_ends_is_no_evidence_of_reachability() -> None:
    report = check(MUTANTS["displaces nothing"].driver, layers=["exhaustive"], budget=8)
    assert rows(report)["INV-4"].verdict is not Verdict.HELD


# -- what is hidden ---------------------------------------------------------------------------------------------------


class Misnames(Engine):
    """Names the nearest inactive ancestor, and runs hooks in the wrong order."""

    locked = MUTANTS["names the nearest inactive ancestor"].engine.locked
    hook_order = MUTANTS["runs activation hooks before deactivation hooks"].engine.hook_order


class Shuffles(Engine):
    """Runs hooks of siblings in the wrong order, and compensates nothing."""

    teardown_hooks = MUTANTS["runs deactivation hooks of siblings in canonical order"].engine.teardown_hooks
    undo = MUTANTS["compensates no hooks"].engine.undo


def driver_of(engine: type[Engine]) -> Callable[[], Driver]:
    return lambda: EngineDriver(engine)


@pytest.mark.parametrize("layers", [["vectors"], ["exhaustive", "vectors", "stateful"]])
def test_more_layers_never_find_less(layers: list[str]) -> None:
    found = {violation.clause for violation in check(driver_of(Misnames), layers=layers, budget=700).violations}
    assert {"ACT-2", "HOOK-3"} <= found


@pytest.mark.spec("CNF-10")
def test_what_follows_from_a_violation_in_its_own_case_is_listed_and_its_clause_undecided() -> None:
    found = rows(check(MUTANTS["displaces nothing"].driver, layers=["exhaustive", "vectors"], budget=700))
    row = found["HOOK-3"]
    assert row.verdict is Verdict.UNDECIDED
    assert "INV-2, which is violated, may be why a case of it went wrong" in row.reason
    assert row.masked
    (first, *_) = row.hidden
    assert first.clause == "HOOK-3"
    assert first.history
    assert found["INV-2"].verdict is Verdict.VIOLATED


@pytest.mark.spec("CNF-10")
@pytest.mark.parametrize("capability", [None, "transition"])
def test_a_fault_of_its_own_is_reported_whatever_else_is_violated(capability: str | None) -> None:
    make = Mutant("shuffles", "HOOK-5", capabilities=EngineDriver.capabilities - {capability or ""}).being(Shuffles)
    found = {violation.clause for violation in check(make.driver, layers=["vectors"]).violations}
    assert {"HOOK-3", "HOOK-5"} <= found


@pytest.mark.spec("CNF-10")
def test_a_fault_of_style_leaves_what_is_not_applicable_as_it_is() -> None:
    def verdicts(make: Callable[[], Driver]) -> dict[str, Verdict]:
        return {clause: row.verdict for clause, row in rows(check(make, layers=["exhaustive"], budget=700)).items()}

    right = verdicts(EngineDriver)
    wrong = verdicts(MUTANTS["lists in the order of registration"].driver)
    assert right["CTL-2"] is Verdict.NOT_APPLICABLE
    assert {clause for clause in right if right[clause] is not wrong[clause]} == {"LST-1"}


@pytest.mark.spec("CNF-10")
def test_a_hook_that_never_ends_is_reported_whatever_else_is_violated() -> None:
    class Hangs(Engine):
        locked = MUTANTS["names the nearest inactive ancestor"].engine.locked
        hook_order = MUTANTS["runs activation hooks before deactivation hooks"].engine.hook_order
        refuse_reentry = MUTANTS["deadlocks on a hook that asks for a transition"].engine.refuse_reentry

    found = {
        violation.clause
        for violation in check(driver_of(Hangs), layers=["exhaustive", "vectors"], budget=700).violations
    }
    assert {"ACT-2", "HOOK-3", "HOOK-7"} <= found


@pytest.mark.spec("CNF-10")
def test_a_reason_names_only_what_the_report_shows() -> None:
    for name in ("displaces nothing", "never activates a displaced group again", "refuses every activation"):
        report = check(MUTANTS[name].driver, layers=["exhaustive", "vectors", "schedules"], budget=300)
        named = {clause for row in report.rows if row.masked for clause in re.findall(r"[A-Z]+-[0-9]+", row.reason)}
        assert named <= {violation.clause for violation in report.violations}, name


@pytest.mark.spec("CNF-10")
def test_that_a_target_can_t_be_closed_is_its_own_fault() -> None:
    class Unclosable(EngineDriver):
        def close(self) -> None:
            raise OSError("the socket is gone")

    report = check(Unclosable, layers=["exhaustive"], budget=20)
    (result,) = [result for result in report.results if result.status is Status.DIED]
    assert result.reason == "It can't be closed: OSError: the socket is gone"
    assert report.exit_status == 2


def test_a_clause_is_undecided_if_another_ended_its_case() -> None:
    setup = Setup(groups=[Group("a"), Group("b")], exclusions=[("a", "b")], tools=[Tool("tool", "a")])
    make = MUTANTS["displaces nothing"].driver
    report = of_check(lambda run: run.play(setup, [activate("a"), activate("b"), activate("b")]), "ACT-3", make=make)
    row = rows(report)["ACT-3"]
    assert (row.verdict, row.reason) == (Verdict.UNDECIDED, "it: the check ended when INV-2 was violated")


def test_a_wrong_list_does_not_end_the_judgement_of_the_state() -> None:
    class Backwards(Engine):
        sorted_names = MUTANTS["lists in the order of registration"].engine.sorted_names
        deactivated = MUTANTS["deactivates siblings"].engine.deactivated

    found = {violation.clause for violation in check(driver_of(Backwards), layers=["exhaustive"]).violations}
    assert found == {"LST-1", "ACT-6"}


@pytest.mark.spec("CNF-8")
def test_a_check_whose_clauses_no_answer_can_show_does_not_run() -> None:
    class Blind(EngineDriver):
        never_shown = MappingProxyType({"INV-3": "it has no lists"})

    ran: list[str] = []
    unseen = Check("unseen", "wire", ("INV-3",), lambda _: ran.append("unseen"))
    partly = Check("partly", "wire", ("INV-3", "INV-1"), lambda _: ran.append("partly"))
    result, *_ = run_checks([unseen, partly], Blind)
    assert (result.status, result.reason) == (Status.LEFT_OUT, "it has no lists")
    assert ran == ["partly"]


# -- part by part -----------------------------------------------------------------------------------------------------


def test_a_clause_with_a_part_that_no_answer_shows_is_held_in_part_and_the_part_is_named() -> None:
    row = rows(check(silent_about("changed"), layers=["exhaustive"], budget=700))["ACT-3"]
    assert (row.verdict, row.reason) == (Verdict.PARTLY, "the answers never show changed")
    assert not row.fails


def test_a_part_is_shown_if_one_check_shows_it() -> None:
    parts: list[dict[str, dict[str, bool]]] = [{"ACT-4": {"active": True, "changed": False}}]
    first, second = (
        Result(name, "vectors", "here", ("ACT-4",), Status.PASSED, parts=shown)
        for name, shown in (("one", parts[0]), ("two", {"ACT-4": {"changed": True}}))
    )
    assert rows(Report({}, (first,), load_clauses()))["ACT-4"].verdict is Verdict.PARTLY
    assert rows(Report({}, (first, second), load_clauses()))["ACT-4"].verdict is Verdict.HELD


def test_that_a_part_needs_a_missing_capability_leaves_the_clause_held() -> None:
    make = silent_about("hooks", capabilities=EngineDriver.capabilities - {"hooks"})
    assert rows(check(make, layers=["exhaustive", "vectors"], budget=700))["ACT-3"].verdict is Verdict.HELD


def test_what_shows_the_core_of_a_clause_is_needed_whatever_else_is_shown() -> None:
    row = rows(check(silent_about("active"), layers=["vectors"]))["PER-1"]
    assert (row.verdict, row.reason) == (Verdict.UNDECIDED, "the answers never show active")


class Pretends(EngineDriver):
    """Restores nothing: the session has never been away."""

    def restore(self, setup: Setup | None = None, session: str = MAIN) -> Answer:
        return self.perform(Operation("snapshot", session=session))


@pytest.mark.parametrize("capability", [None, "sessions"])
def test_a_restore_that_does_nothing_is_found_out(capability: str | None) -> None:
    class Driven(Pretends):
        capabilities = EngineDriver.capabilities - {capability or ""}

    assert "PER-1" in {violation.clause for violation in check(Driven, layers=["vectors"]).violations}
