"""How a run is ended: in the main thread if it reacts, else by another."""

from __future__ import annotations

import signal
import threading

import pytest

from toolfold_cli.runs import Ended, watched

FOR_EVER = 3600.0


def nothing(_: object) -> None:
    raise AssertionError("the main thread has reacted")


@pytest.fixture
def left() -> list[int]:
    return []


def test_a_run_that_takes_too_long_is_interrupted(left: list[int]) -> None:
    with pytest.raises(Ended) as ended, watched(0.01, nothing, grace=FOR_EVER, leave=left.append):
        threading.Event().wait()
    assert (ended.value.reason, ended.value.status) == ("the limit of 0.01 seconds was reached", 2)
    assert left == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_interrupts_with_the_usual_status(number: signal.Signals, status: int, left: list[int]) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Ended) as ended, watched(FOR_EVER, nothing, grace=FOR_EVER, leave=left.append):
        signal.raise_signal(number)
    assert (ended.value.reason, ended.value.status) == (f"it was ended by {number.name}", status)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("fails", [False, True])
def test_a_main_thread_that_catches_the_exception_gets_its_report_and_the_process_is_ended(
    fails: bool, left: list[int]
) -> None:
    reported: list[str] = []
    gone = threading.Event()

    def report(ended: Ended) -> None:
        reported.append(ended.reason)
        if fails:
            raise OSError("the disk is full")

    def leave(status: int) -> None:
        left.append(status)
        gone.set()

    with watched(0.05, report, grace=0.05, leave=leave):
        while not gone.is_set():
            try:
                gone.wait()
            except Ended:
                continue
    assert (reported, left) == (["the limit of 0.05 seconds was reached"], [2])


def test_a_run_that_ends_in_time_is_not_interrupted(left: list[int]) -> None:
    with watched(FOR_EVER, nothing, leave=left.append):
        pass
    assert left == []
