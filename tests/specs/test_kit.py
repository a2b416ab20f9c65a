"""The kit as a callable."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.specs.made import (
    CHECKS,
    FACT,
    PAIRS,
    UNKNOWN,
    BrokenDriver,
    DyingDriver,
    TinyDriver,
    no_driver,
)
from toolfold_specs.checks import LAYERS, Check
from toolfold_specs.clauses import load_clauses, load_revision
from toolfold_specs.driver import CAPABILITIES, Driver, TargetFailed
from toolfold_specs.expected import ExpectationError
from toolfold_specs.extras import MissingPackage
from toolfold_specs.kit import ALL, check, kit_version
from toolfold_specs.layers import all_checks
from toolfold_specs.render.trace import summary
from toolfold_specs.report import Expectation, Report, Status, Verdict

pytestmark = pytest.mark.spec("CNF-2")


def verdict(report: Report, clause: str) -> Verdict:
    (row,) = [row for row in report.rows if row.clause.id == clause]
    return row.verdict


def test_checking_a_factory_returns_a_report() -> None:
    report = check(TinyDriver, checks=CHECKS, seed=5)
    assert report.exit_status == 0
    assert report.settings == ("in process",)
    assert {clause: verdict(report, clause) for clause in ("ACT-1", "ACT-4", "INV-3")} == dict.fromkeys(
        ("ACT-1", "ACT-4", "INV-3"), Verdict.HELD
    )
    assert report.clauses == load_clauses()
    assert report.header["target"] == "tests.specs.made:TinyDriver"
    assert (report.header["spec"], report.header["seed"]) == (load_revision(), "5")


@pytest.mark.spec("CNF-3")
def test_a_violation_is_reported_under_its_clause() -> None:
    report = check(BrokenDriver, checks=CHECKS)
    assert report.exit_status == 1
    assert {violation.check for violation in report.violations} == {PAIRS.name}
    assert verdict(report, report.violations[0].clause) is Verdict.VIOLATED


@pytest.mark.spec("CNF-1")
def test_every_setting_is_checked_under_its_name() -> None:
    report = check({"good": TinyDriver, "bad": TinyDriver}, checks=CHECKS)
    assert report.settings == ("good", "bad")
    assert [(found.clause, found.setting) for found in report.violations] == [("INV-3", "bad")]
    assert report.header["target"] == "good, bad"


def test_only_the_requested_layers_run() -> None:
    report = check(TinyDriver, checks=CHECKS, layers=["wire", "vectors"])
    assert {result.layer for result in report.results} == {"vectors", "wire"}
    assert report.header["layers"] == "vectors,wire"


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="no layer 'vector'; there are exhaustive, vectors"):
        check(TinyDriver, layers=["vector"])


def test_drivers_are_closed() -> None:
    made: list[TinyDriver] = []

    def make() -> Driver:
        made.append(TinyDriver())
        return made[-1]

    check(make, checks=CHECKS)
    assert [driver.closed for driver in made] == [True]


@pytest.mark.spec("CNF-8")
def test_missing_capabilities_are_listed_with_the_reason() -> None:
    class Some(TinyDriver):
        left_out = {"hooks": "it has none"}  # noqa: RUF012

    report = check(Some, checks=CHECKS)
    assert set(report.left_out) == ALL.keys() - Some.capabilities
    assert report.left_out["hooks"] == "it has none"
    assert report.left_out["listing"] == f"the driver does not have it ({CAPABILITIES['listing']})"
    (lists,) = [result for result in report.results if result.check == "lists"]
    assert (lists.status, lists.reason) == (Status.LEFT_OUT, "no listing")


@pytest.mark.spec("CNF-8")
def test_a_capability_that_one_setting_lacks_is_listed_with_the_setting() -> None:
    class More(TinyDriver):
        capabilities = TinyDriver.capabilities | {"listing"}

    report = check({"one": TinyDriver, "other": More}, checks=[FACT])
    assert report.left_out["listing"].startswith("one: the driver does not have it")
    assert report.left_out["calls"].startswith("the driver does not have it")


@pytest.mark.spec("CNF-8")
def test_a_target_that_cannot_be_restarted_is_not_tried_again() -> None:
    tries: list[int] = []

    def make() -> Driver:
        tries.append(1)
        if len(tries) > 1:
            raise TargetFailed("The port is taken.")
        return DyingDriver()

    looks = Check("looks at the wire", "wire", ("DEL-1",), lambda test_run: test_run.driver.link)  # type: ignore[attr-defined]
    report = check(make, checks=[*CHECKS, looks])
    ended = {result.check: (result.status, result.reason) for result in report.results}
    assert ended[PAIRS.name] == (Status.DIED, "It ended with status 3.")
    assert ended[UNKNOWN.name] == (Status.DIED, "It failed before, and no new driver can be made: The port is taken.")
    assert ended[looks.name] == ended[UNKNOWN.name]
    assert len(tries) == 2


@pytest.mark.spec("CNF-8")
def test_a_setting_that_cannot_be_started_is_left_out_only_if_it_is_optional() -> None:
    settings = {"there": TinyDriver, "gone": no_driver}
    assert check(settings, checks=CHECKS).exit_status == 2
    report = check(settings, checks=CHECKS, optional=True)
    assert report.exit_status == 0
    assert {row.verdict for row in report.rows_in("gone")} == {Verdict.NOT_APPLICABLE}
    assert report.left_out["setting gone"] == "It can't be started: no such file."


@pytest.mark.spec("CNF-4")
def test_expected_failures_are_read_from_a_file_and_checked_against_the_checks(tmp_path: Path) -> None:
    (clause,) = {found.clause for found in check(BrokenDriver, checks=[PAIRS]).violations}
    path = tmp_path / "expected.toml"
    path.write_text(f"[[expected]]\nclause = '{clause}'\nreason = 'not yet'\ncheck = '{PAIRS.name}'")
    assert check(BrokenDriver, checks=CHECKS, expected=path).exit_status == 0
    again = check(TinyDriver, checks=CHECKS, expected=str(path))
    assert (again.exit_status, verdict(again, clause)) == (1, Verdict.FIXED)
    assert check(BrokenDriver, checks=CHECKS, expected=[Expectation(clause, "not yet")]).exit_status == 0
    with pytest.raises(ExpectationError, match="no check"):
        check(BrokenDriver, checks=[FACT], expected=path)


def test_the_version_of_a_kit_that_is_not_installed_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    assert kit_version() != "unknown"
    monkeypatch.setattr("toolfold_specs.kit.version", missing)
    assert kit_version() == "unknown"


def test_a_report_says_how_long_the_run_took_and_not_its_settings_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolfold_specs.kit.monotonic", iter((10.0, 12.5)).__next__)
    report = check({"one": TinyDriver, "other": TinyDriver}, checks=CHECKS, at_once=2)
    assert report.seconds == 2.5
    assert summary(report).endswith(" answers judged in 2.5 s.")


@pytest.mark.spec("CNF-3")
def test_the_first_unexpected_violation_of_each_clause_is_announced_before_its_check_has_ended() -> None:
    order: list[str] = []

    def announced(expected: list[Expectation]) -> Report:
        return check(
            {"one": BrokenDriver, "two": BrokenDriver},
            checks=[PAIRS],
            expected=expected,
            found=lambda violation: order.append(violation.clause),
            ended=lambda result: order.append(result.check),
        )

    violated = [one.clause for one in announced([]).violations]
    assert order[: order.index(PAIRS.name)] == list(dict.fromkeys(violated))
    assert all(order.count(clause) == 1 for clause in violated), "in one of the settings alone"
    order.clear()
    announced([Expectation(clause, "not yet") for clause in violated])
    assert not {*order} & {*violated}


def test_progress_is_reported() -> None:
    reported: list[str] = []
    check(TinyDriver, checks=[PAIRS], progress=reported.append)
    assert reported == [f"in process: {PAIRS.name}, check 1 of 1"]


@pytest.mark.spec("CNF-7")
def test_checks_are_in_the_order_of_layers_and_have_unique_names() -> None:
    checks = all_checks()
    assert [check.layer for check in checks] == sorted((check.layer for check in checks), key=LAYERS.index)
    assert len({check.name for check in checks}) == len(checks)
    known = {clause.id for clause in load_clauses()}
    assert all(known.issuperset(check.clauses) for check in checks)
    assert all(ALL.keys() >= check.needs for check in checks)


def test_a_layer_with_a_missing_package_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "toolfold_specs.layers.stateful", raising=False)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert all_checks(["exhaustive"])
    with pytest.raises(MissingPackage, match=r'pip install "toolfold\[conformance\]"'):
        all_checks(["stateful"])
