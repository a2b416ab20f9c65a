"""The clock of what is kept: it goes on, and counts the time for which the machine slept."""

from __future__ import annotations

import sys
import time

import pytest

from toolfold import Place
from toolfold_adapters.clock import elapsed
from toolfold_adapters.stores import MemoryStore


def test_it_goes_on_and_is_no_date() -> None:
    first, second = elapsed(), elapsed()
    assert first <= second < time.time()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the clock of the system counts that itself")
def test_it_counts_what_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 30_000.0, time.CLOCK_MONOTONIC: 1_200.0}.get)
    assert elapsed() == 30_000.0


@pytest.mark.spec("STO-1")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the clock of the system counts that itself")
async def test_a_record_in_memory_expires_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {time.CLOCK_BOOTTIME: 1_000.0, time.CLOCK_MONOTONIC: 1_000.0}
    monkeypatch.setattr(time, "clock_gettime", now.get)
    store = MemoryStore()
    await store.create("key", {}, Place("handle", None, None, None), 3600.0)
    now[time.CLOCK_BOOTTIME] += 8 * 3600.0
    assert await store.read("key") is None
