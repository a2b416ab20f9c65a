"""How a run is ended: in the main thread if it reacts, else by another."""

from __future__ import annotations

import signal
import threading

import pytest

from toolfold_cli.watchdog import Ended, watched

FOR_EVER = 3600.0


def nothing(_: object) -> None:
    raise AssertionError("the main thread has reacted")


@pytest.fixture
def left() -> list[int]:
    return []


def test_what_takes_too_long_is_interrupted(left: list[int]) -> None:
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


def test_where_no_exception_gets_through_the_report_is_given_and_the_process_ended(left: list[int]) -> None:
    told: list[str] = []
    gone = threading.Event()

    def leave(status: int) -> None:
        left.append(status)
        gone.set()

    with watched(0.01, lambda ended: told.append(ended.reason), grace=0.0, leave=leave):
        while not gone.is_set():
            try:
                gone.wait()
            except Ended:
                continue
    assert told == ["the limit of 0.01 seconds was reached"]
    assert left == [2]


def test_a_report_that_fails_does_not_keep_the_process_from_ending(left: list[int]) -> None:
    gone = threading.Event()

    def fail(_: Ended) -> None:
        raise OSError("the disk is full")

    def leave(status: int) -> None:
        left.append(status)
        gone.set()

    with watched(0.01, fail, grace=0.0, leave=leave):
        while not gone.is_set():
            try:
                gone.wait()
            except Ended:
                continue
    assert left == [2]


def test_what_ends_in_time_is_left_alone(left: list[int]) -> None:
    with watched(FOR_EVER, nothing, leave=left.append):
        pass
    assert left == []
