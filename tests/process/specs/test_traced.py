"""Mutants of the machine, of sessions and of stores are found from traces alone (SPEC TRC-1)."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from tests.simulation.traced import NOT_FOUND, NOT_TOLD, mutants_of_traces, operate, walk
from toolfold_specs.traces import verify

pytestmark = pytest.mark.spec("TRC-1")

MUTANTS = {one.does: one for one in mutants_of_traces()}
SAMPLE = (
    "groups in a displaced one stay open",
    "a hook that was cancelled counts as done",
    "a lease never expires",
)
"""One of the machine, one of sessions and one of stores, each found by a walk; nightly all are tried."""


def test_of_all_mutants_that_change_what_a_trace_says_at_least_92_percent_are_to_be_found() -> None:
    left_out = [*chain.from_iterable(NOT_TOLD.values())]
    assert len({*left_out, *NOT_FOUND}) == len(left_out) + len(NOT_FOUND)
    assert {*left_out, *NOT_FOUND} <= MUTANTS.keys()
    judged = len(MUTANTS) - len(left_out)
    assert judged >= 60
    assert judged - len(NOT_FOUND) >= 0.92 * judged


@pytest.mark.parametrize("does", SAMPLE)
def test_a_mutant_is_found_from_traces_alone(does: str) -> None:
    assert MUTANTS[does].found("tests.simulation.traced", "--until-found")


def test_walks_of_what_is_right_are_allowed(tmp_path: Path) -> None:
    for seed in range(4):
        for write in (operate, walk):
            (folder := tmp_path / f"{write.__name__} {seed}").mkdir()
            write(seed, folder)
            outcome = verify(sorted(folder.glob("*.jsonl")))
            assert outcome.problem is None
            assert outcome.lines > 100
