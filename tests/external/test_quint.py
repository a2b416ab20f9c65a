"""The modules of Quint, checked by Quint: what holds is not violated, and what is broken is found (SPEC TRC-1)."""

from __future__ import annotations

import pytest

from tests.external.support import FOLDER
from verification.quint.__main__ import TRACES, VIOLATED, traces, wrong

pytestmark = [pytest.mark.usefixtures("node_packages"), pytest.mark.spec("TRC-1")]

QUINT = str(FOLDER / "node_modules" / ".bin" / "quint")


def test_the_modules_hold_in_simulation_and_each_broken_variant_is_found() -> None:
    assert len(VIOLATED) >= 10
    assert list(wrong(QUINT, 50)) == []


def test_the_traces_that_are_shipped_are_those_that_quint_writes() -> None:
    made = dict(traces(QUINT))
    assert made == {path.name: path.read_text(encoding="utf-8") for path in TRACES.glob("*.itf.json")}
