"""A recorded violation, tried again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.specs.made import BOTH, CHECKS, FACT, PAIR, BrokenDriver, DyingDriver, TinyDriver, report, step
from toolfold_specs.driver import Operation, TargetFailed
from toolfold_specs.kit import check
from toolfold_specs.render import failure, write_reports
from toolfold_specs.replay import ReplayError, read_failure, replay
from toolfold_specs.report import Violation

pytestmark = pytest.mark.spec("CNF-3")

FOUND = check(BrokenDriver, checks=CHECKS).violations[0]
NO_HISTORY = Violation("INV-3", FACT.name, "bad", "there is a group root")


def recorded(folder: Path, violation: Violation) -> Path:
    path = folder / "failure.json"
    path.write_text(failure(report(), violation), encoding="utf-8")
    return path


def test_a_recorded_violation_is_read_as_it_was(tmp_path: Path) -> None:
    for violation in (FOUND, NO_HISTORY):
        read = read_failure(recorded(tmp_path, violation)).violation
        assert (read.clause, read.check, read.setting) == (violation.clause, violation.check, violation.setting)
        assert (read.setup, read.history) == (violation.setup, violation.history)
        assert failure(report(), read) == failure(report(), violation)
    assert read_failure(recorded(tmp_path, FOUND)).seed == 7
    assert not read_failure(recorded(tmp_path, FOUND)).deep


def test_what_a_run_writes_is_reproduced_on_the_same_implementation(tmp_path: Path) -> None:
    write_reports(check(BrokenDriver, checks=CHECKS), tmp_path)
    violation = read_failure(tmp_path / "failure.json").violation
    assert replay(violation, BrokenDriver()) == FOUND


def test_a_violation_that_was_repaired_does_not_show() -> None:
    assert replay(FOUND, TinyDriver()) is None


def test_every_answer_of_the_history_is_judged() -> None:
    longer = evolve(FOUND, history=(*BOTH, step("deactivate", "a")))
    shown = replay(longer, BrokenDriver())
    assert shown is not None
    assert shown.history == BOTH


def test_a_wrong_answer_to_the_same_operation_breaks_the_clause_that_its_check_knows() -> None:
    shown = replay(evolve(FOUND, clause="NAM-4"), BrokenDriver())
    assert shown is not None
    assert (shown.clause, shown.history) == ("NAM-4", BOTH)


def test_a_wrong_answer_on_the_way_breaks_its_own_clause() -> None:
    shown = replay(evolve(FOUND, clause="NAM-4", history=(*BOTH, step("deactivate", "a"))), BrokenDriver())
    assert shown is not None
    assert (shown.clause, shown.history) == (FOUND.clause, BOTH)


def test_what_has_no_history_is_found_by_its_check_again() -> None:
    good, bad = TinyDriver(), TinyDriver()
    bad.name = "bad"
    assert replay(NO_HISTORY, good, CHECKS) is None
    assert replay(NO_HISTORY, bad, CHECKS) == NO_HISTORY


def test_overlapping_operations_are_left_to_their_check() -> None:
    overlapping = evolve(FOUND, history=(*BOTH, Operation("release", {"group": "a", "phase": "on_activate"})))
    assert replay(overlapping, BrokenDriver(), CHECKS) == FOUND
    assert replay(overlapping, TinyDriver(), CHECKS) is None


def test_what_is_beside_the_answers_is_found_by_its_check_although_there_is_a_history() -> None:
    bad = TinyDriver()
    bad.name = "bad"
    beside = evolve(NO_HISTORY, setup=PAIR, history=(step("activate", "a"),))
    assert replay(beside, bad, CHECKS) == NO_HISTORY
    assert replay(beside, TinyDriver(), CHECKS) is None


def test_a_history_is_tried_although_its_check_is_not_in_the_kit_any_more() -> None:
    gone = evolve(FOUND, check="gone")
    assert replay(gone, TinyDriver(), CHECKS) is None
    assert replay(gone, BrokenDriver(), CHECKS) == gone


@pytest.mark.parametrize(
    ("violation", "said"),
    [
        (evolve(NO_HISTORY, check="gone"), "This kit has no check 'gone'"),
        (evolve(NO_HISTORY, check="lists"), "needs capabilities that this target lacks: listing"),
    ],
)
def test_what_this_kit_or_target_cannot_try_is_refused(violation: Violation, said: str) -> None:
    with pytest.raises(ReplayError, match=said):
        replay(violation, TinyDriver(), CHECKS)


def test_a_target_with_a_system_of_its_own_is_not_tried_with_another() -> None:
    class Given(TinyDriver):
        capabilities = frozenset({"errors"})
        given = PAIR

    assert replay(evolve(FOUND, setup=PAIR), Given()) is None
    with pytest.raises(ReplayError, match="a system other than"):
        replay(evolve(FOUND, setup=evolve(PAIR, exclusions=())), Given())


@pytest.mark.spec("CNF-8")
def test_a_target_that_fails_on_the_way_is_told_from_one_that_answers() -> None:
    with pytest.raises(TargetFailed, match="status 3"):
        replay(FOUND, DyingDriver())


def _without(data: dict[str, Any], *path: str) -> dict[str, Any]:
    copy = json.loads(json.dumps(data))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return copy  # type: ignore[no-any-return]


WRITTEN = json.loads(failure(report(), FOUND))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not a recorded violation"),
        ("[]", "as a whole"),
        (json.dumps({**WRITTEN, "version": 2}), "version"),
        (json.dumps({**WRITTEN, "type": "report"}), "type"),
        (json.dumps(_without(WRITTEN, "violation", "clause")), '"clause" is a required property'),
        (json.dumps(_without(WRITTEN, "header")), '"header" is a required property'),
        (json.dumps(WRITTEN).replace('"groups"', '"grps"'), "unexpected keyword argument 'grps'"),
    ],
    ids=["no JSON", "no object", "another version", "another file", "no clause", "no header", "no setup"],
)
def test_a_file_that_is_no_recorded_violation_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "failure.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ReplayError) as refused:
        read_failure(path)
    assert said in str(refused.value)
    assert "failure.json" in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="can't be read"):
        read_failure(tmp_path / "nowhere.json")
