"""A short version of `python -m tests.process.runtime.kills`."""

from __future__ import annotations

import sys

import pytest

from tests.process.runtime.kills import killed


@pytest.mark.spec("GWY-15")
@pytest.mark.skipif(sys.platform != "linux", reason="it looks for processes in /proc")
def test_a_runtime_that_is_killed_at_any_moment_loses_nothing_and_carries_out_no_write_twice() -> None:
    figures = killed(kills=5, clients=4, seed=0)
    assert (figures.lost, figures.twice) == ([], 0)
    assert figures.calls > 0
