"""An interrupted run reports what it found; settings run concurrently."""

from __future__ import annotations

import json
import threading
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.specs.made import CHECKS, FACT, LISTS, PAIRS, UNKNOWN, BrokenDriver, TinyDriver
from toolfold_specs import runs
from toolfold_specs.checks import Check, Options
from toolfold_specs.driver import Answer, Operation, Setup, TargetFailed
from toolfold_specs.kit import KitRun, check
from toolfold_specs.render import journal, write_reports
from toolfold_specs.report import Report, Result, Status, Verdict
from toolfold_specs.runs import TestRun
from verification.library.driver import CoreDriver
from verification.library.quiet import QuietLoop

pytestmark = pytest.mark.spec("CNF-3")


def _broken_off(test_run: TestRun) -> None:
    test_run.violated("ACT-10", "there is no limit")
    raise KeyboardInterrupt


BROKEN_OFF = Check("a limit, broken off", "vectors", ("ACT-10", "ACT-1"), _broken_off)


def interrupted(*checks: Check) -> Report:
    run = KitRun(TinyDriver, Options(checks=checks))
    with pytest.raises(KeyboardInterrupt):
        run.perform()
    return run.report("the power went off")


@pytest.mark.spec("CNF-8")
def test_an_interrupted_run_reports_its_verdicts_and_leaves_the_rest_undecided() -> None:
    report = interrupted(PAIRS, BROKEN_OFF, FACT)
    verdicts = {row.clause.id: row.verdict for row in report.rows}
    assert (verdicts["ACT-4"], verdicts["ACT-10"]) == (Verdict.HELD, Verdict.VIOLATED)
    assert (verdicts["ACT-1"], verdicts["INV-3"]) == (Verdict.UNDECIDED, Verdict.UNDECIDED)
    ended = {
        result.check: (result.status, result.reason) for result in report.results if result.status.value != "left out"
    }
    assert ended == {
        PAIRS.name: (Status.PASSED, ""),
        BROKEN_OFF.name: (Status.INTERRUPTED, "the power went off"),
        FACT.name: (Status.INTERRUPTED, "the power went off"),
    }
    assert report.exit_status == 2


def test_an_interrupted_check_has_the_time_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=2.0)
    monkeypatch.setattr(runs, "monotonic", lambda: next(clock))
    report = interrupted(BROKEN_OFF)
    assert [result.seconds for result in report.results if result.check == BROKEN_OFF.name] == [2.0]


def test_an_interrupted_report_is_written_in_every_form(tmp_path: Path) -> None:
    write_reports(interrupted(PAIRS, BROKEN_OFF, FACT), tmp_path)
    assert "INTERRUPTED  in process\n  the power went off" in (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert (tmp_path / "failure-ACT-10.json").exists()


def test_each_result_is_in_the_journal_once_its_check_has_ended(tmp_path: Path) -> None:
    for old in ("report.txt", "failure-ACT-4.json", "mine.txt"):
        (tmp_path / old).write_text("of an earlier run", encoding="utf-8")
    seen: list[list[str]] = []

    def names() -> list[str]:
        lines = (tmp_path / "report.jsonl").read_text(encoding="utf-8").splitlines()
        return list(dict.fromkeys(json.loads(line)["check"] for line in lines))

    look = Check("a look", "wire", ("INV-3",), lambda _: seen.append(names()))
    with journal(tmp_path) as ended:
        KitRun(TinyDriver, Options(checks=[PAIRS, UNKNOWN, look], ended=ended)).perform()
    assert seen == [[PAIRS.name, UNKNOWN.name]]
    assert names() == [PAIRS.name, UNKNOWN.name, look.name]
    assert {path.name for path in tmp_path.iterdir()} == {"report.jsonl", "mine.txt"}


def test_a_loop_that_was_interrupted_at_the_end_of_a_run_can_settle() -> None:
    loop = QuietLoop()
    loop.call_soon(loop.stop)  # what such a run leaves behind
    loop.resume()
    loop.settle()
    loop.close()


def test_the_driver_of_the_core_closes_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(loop: QuietLoop, *_: object) -> None:
        loop.call_soon(loop.stop)
        raise KeyboardInterrupt

    driver = CoreDriver()
    with monkeypatch.context() as patched:
        patched.setattr(QuietLoop, "settle", interrupt)
        with pytest.raises(KeyboardInterrupt):
            driver.start(Operation("snapshot"))
    driver.close()


# -- side by side -----------------------------------------------------------------------------------------------------


class Meeting(TinyDriver):
    """Waits in its first configuration until another driver is in its own."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self._barrier = barrier
        self._met = False

    def configure(self, setup: Setup) -> Answer:
        if not self._met:
            self._barrier.wait(30)
            self._met = True
        return super().configure(setup)


@pytest.mark.spec("CNF-1")
def test_settings_are_checked_concurrently_and_reported_in_order() -> None:
    meeting = partial(Meeting, threading.Barrier(2))
    report = check({"one": meeting, "other": meeting, "last": BrokenDriver}, checks=[PAIRS], at_once=2)
    assert report.settings == ("one", "other", "last")
    assert [violation.setting for violation in report.violations] == ["last"]


@pytest.mark.spec("CNF-1")
def test_settings_are_checked_one_after_another_by_default() -> None:
    threads: list[threading.Thread] = []
    where = Check("where", "wire", ("INV-3",), lambda _: threads.append(threading.current_thread()))
    check({"one": TinyDriver, "other": TinyDriver}, checks=[where])
    assert threads == [threading.current_thread()] * 2


def test_an_error_in_one_of_several_settings_ends_the_run() -> None:
    def wrong() -> TinyDriver:
        raise ValueError("the description is wrong")

    with pytest.raises(ValueError, match="the description is wrong"):
        check({"good": TinyDriver, "bad": wrong}, checks=CHECKS, at_once=2)


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_setting_that_fails_does_not_affect_the_others(at_once: int) -> None:
    def none() -> TinyDriver:
        raise TargetFailed("It ended with status 3.")

    report = check({"gone": none, "there": TinyDriver}, checks=[PAIRS, LISTS], at_once=at_once)
    results: dict[str, list[Result]] = {name: [] for name in report.settings}
    for result in report.results:
        results[result.setting].append(result)
    assert {(result.status, result.reason) for result in results["gone"]} == {(Status.DIED, "It ended with status 3.")}
    assert results["there"][0].status is Status.PASSED
