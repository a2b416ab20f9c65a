"""A driver in a process of its own, over stdio: it can do all that one in process can, and fails in words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.preloaded import forked
from tests.process.specs.support import environment
from toolfold_specs import check
from toolfold_specs.driver import (
    AT_RUN_TIME,
    CAPABILITIES,
    OF_PROFILES,
    Driver,
    DriverFault,
    Group,
    Operation,
    Setup,
    TargetFailed,
)
from toolfold_specs.drivers.piped import PipedDriver
from toolfold_specs.drivers.replies import TargetNotStarted
from toolfold_specs.report import Report, Status, Verdict

TARGET = Path(__file__).with_name("targets") / "piped.py"
ACTIVATE = Operation("activate", {"group": "a"})


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


def faulty(fault: str, timeout: float = 60) -> PipedDriver:
    return PipedDriver(forked(str(TARGET), fault), timeout=timeout)


def script(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def checked(driver: Callable[[], Driver], **options: object) -> Report:
    return check(driver, layers=["exhaustive"], budget=100, **options)  # type: ignore[arg-type]


@pytest.mark.spec("CNF-1", "CNF-7", "CNF-8")
def test_the_vectors_and_schedules_hold_of_the_core_over_the_protocol() -> None:
    report = check(partial(PipedDriver, forked(str(TARGET))), layers=["vectors", "schedules"], budget=300)
    assert {row.clause.id for row in report.rows if row.verdict is Verdict.HELD} >= {
        "ACT-9",
        "HOOK-2",
        "HOOK-6",
        "PER-1",
    }
    assert (report.exit_status, report.violations) == (0, ())


@pytest.mark.spec("CNF-8")
def test_a_driver_has_the_capabilities_that_it_names() -> None:
    driver = PipedDriver(forked(str(TARGET)))
    assert driver.capabilities == {*CAPABILITIES, *AT_RUN_TIME, *OF_PROFILES}
    assert driver.configure(Setup(groups=[Group("a")])).error is None
    assert driver.perform(ACTIVATE).active == ("a",)
    driver.close()


@pytest.mark.spec("CNF-8", "CNF-10")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("garbage", "It answered activate with a line that is not JSON: 'activated a'."),
        ("second line", "with more than one line."),
        ("other id", "with a response to 0."),
        ("list", "Its response to activate breaks the driver protocol"),
        ("wrong type", "Its response to activate breaks the driver protocol in active"),
        ("unknown member", "'actvie' was unexpected"),
        ("not supported", "It does not support activate, which belongs to a capability that it names."),
    ],
)
def test_nonsense_ends_the_run_with_a_sentence_and_attributes_it_to_no_clause(fault: str, message: str) -> None:
    report = checked(partial(faulty, fault))
    (broken,) = [result for result in report.results if result.status is Status.BROKEN]
    assert message in broken.reason
    assert (report.exit_status, report.violations) == (2, ())


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("die", "It ended with status 1 before it answered activate. Its stderr ends with: out of memory"),
        ("hang", "It did not answer activate within 0 seconds."),
    ],
)
def test_a_driver_that_ends_or_hangs_has_failed_with_its_output(fault: str, message: str) -> None:
    driver = faulty(fault, timeout=0 if fault == "hang" else 60)  # it is asked nothing else
    with pytest.raises(TargetFailed) as caught:
        driver.perform(ACTIVATE)
    assert str(caught.value) == message
    driver.close()


def test_a_slow_starter_is_waited_for_longer_than_for_any_other_answer(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    introduces = f'import sys; input(); open({str(gate)!r}).read(); print(\'{{"protocol": 1, "capabilities": []}}\')'
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(PipedDriver, script(f"{introduces}; sys.stdout.flush(); input(); input()"), timeout=0)
        with gate.open("w"):  # is open once the driver has read the first request
            assert not started.done()
        driver = started.result()
    with pytest.raises(TargetFailed, match="did not answer snapshot within 0 seconds"):
        driver.perform(Operation("snapshot"))
    driver.close()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/no/such/program",), "It can't be started: No such file or directory: /no/such/program"),
        (
            script("import sys; sys.exit('no licence')"),
            "It ended with status 1 before it answered hello. Its stderr ends with",
        ),
        (script("import time; time.sleep(60)"), "It did not answer hello within 0.5 seconds."),
    ],
)
def test_a_command_that_never_says_hello_could_not_be_started(command: tuple[str, ...], message: str) -> None:
    with pytest.raises(TargetNotStarted, match=message):
        PipedDriver(command, start_timeout=0.5 if "sleep" in command[-1] else 60)


def test_a_command_that_speaks_something_else_is_reported() -> None:
    with pytest.raises(DriverFault, match="breaks the driver protocol"):
        PipedDriver(("cat",))
    with pytest.raises(DriverFault, match="It answered hello with a line that is not JSON: 'Welcome!'"):
        PipedDriver(script("print('Welcome!', flush=True); input()"))


def test_a_driver_that_will_not_end_is_ended_with_what_it_started() -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    introduction = '{"protocol": 1, "capabilities": [], "left_out": {"calls": "%d"}}'
    introduces = f"import os; input(); print({introduction!r} % os.getpid(), flush=True)\n"
    driver = PipedDriver(script(stubborn + introduces + "while True: signal.pause()"))
    pid = int(driver.left_out["calls"])
    os.kill(pid, 0)
    driver.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
