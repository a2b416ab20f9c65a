"""The replay of a recorded violation."""

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


def test_a_recorded_violation_is_read_unchanged(tmp_path: Path) -> None:
    for violation in (FOUND, NO_HISTORY):
        read = read_failure(recorded(tmp_path, violation)).violation
        assert (read.clause, read.check, read.setting) == (violation.clause, violation.check, violation.setting)
        assert (read.setup, read.history) == (violation.setup, violation.history)
        assert failure(report(), read) == failure(report(), violation)
    assert read_failure(recorded(tmp_path, FOUND)).seed == 7
    assert not read_failure(recorded(tmp_path, FOUND)).deep


def test_a_violation_is_reproduced_on_the_same_implementation(tmp_path: Path) -> None:
    write_reports(check(BrokenDriver, checks=CHECKS), tmp_path)
    violation = read_failure(tmp_path / "failure.json").violation
    assert replay(violation, BrokenDriver()) == FOUND


def test_a_fixed_violation_is_not_reproduced() -> None:
    assert replay(FOUND, TinyDriver()) is None


def test_every_answer_of_the_history_is_judged() -> None:
    longer = evolve(FOUND, history=(*BOTH, step("deactivate", "a")))
    shown = replay(longer, BrokenDriver())
    assert shown is not None
    assert shown.history == BOTH


def test_a_wrong_answer_to_the_last_operation_violates_the_recorded_clause() -> None:
    shown = replay(evolve(FOUND, clause="NAM-4"), BrokenDriver())
    assert shown is not None
    assert (shown.clause, shown.history) == ("NAM-4", BOTH)


def test_an_earlier_wrong_answer_violates_its_own_clause() -> None:
    shown = replay(evolve(FOUND, clause="NAM-4", history=(*BOTH, step("deactivate", "a"))), BrokenDriver())
    assert shown is not None
    assert (shown.clause, shown.history) == (FOUND.clause, BOTH)


def test_a_violation_without_a_history_is_replayed_by_its_check() -> None:
    good, bad = TinyDriver(), TinyDriver()
    bad.name = "bad"
    assert replay(NO_HISTORY, good, CHECKS) is None
    assert replay(NO_HISTORY, bad, CHECKS) == NO_HISTORY


def test_overlapping_operations_are_replayed_by_their_check() -> None:
    overlapping = evolve(FOUND, history=(*BOTH, Operation("release", {"group": "a", "phase": "on_activate"})))
    assert replay(overlapping, BrokenDriver(), CHECKS) == FOUND
    assert replay(overlapping, TinyDriver(), CHECKS) is None


def test_a_violation_outside_the_answers_is_replayed_by_its_check() -> None:
    bad = TinyDriver()
    bad.name = "bad"
    beside = evolve(NO_HISTORY, setup=PAIR, history=(step("activate", "a"),))
    assert replay(beside, bad, CHECKS) == NO_HISTORY
    assert replay(beside, TinyDriver(), CHECKS) is None


def test_a_history_is_replayed_even_if_its_check_no_longer_exists() -> None:
    gone = evolve(FOUND, check="gone")
    assert replay(gone, TinyDriver(), CHECKS) is None
    assert replay(gone, BrokenDriver(), CHECKS) == gone


@pytest.mark.parametrize(
    ("violation", "message"),
    [
        (evolve(NO_HISTORY, check="gone"), "This kit has no check 'gone'"),
        (evolve(NO_HISTORY, check="lists"), "needs capabilities that this target lacks: listing"),
    ],
)
def test_a_violation_that_cannot_be_replayed_is_refused(violation: Violation, message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        replay(violation, TinyDriver(), CHECKS)


def test_a_violation_on_another_system_than_the_target_s_is_refused() -> None:
    class Given(TinyDriver):
        capabilities = frozenset({"errors"})
        given = PAIR

    assert replay(evolve(FOUND, setup=PAIR), Given()) is None
    with pytest.raises(ReplayError, match="a system other than"):
        replay(evolve(FOUND, setup=evolve(PAIR, exclusions=())), Given())


@pytest.mark.spec("CNF-8")
def test_a_target_that_fails_during_a_replay_is_a_failure() -> None:
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
    ("content", "message"),
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
def test_a_file_other_than_a_recorded_violation_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "failure.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ReplayError) as refused:
        read_failure(path)
    assert message in str(refused.value)
    assert "failure.json" in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="can't be read"):
        read_failure(tmp_path / "nowhere.json")
