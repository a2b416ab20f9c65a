"""Sessions in a store conform too, and outlive the process that serves them."""

from __future__ import annotations

import pytest

from toolfold_specs.kit import check
from toolfold_specs.report import Verdict
from verification.library.stored import StoredDriver

ENOUGH = 800
"""Operations for each check."""


@pytest.mark.spec("STO-2", "STO-3", "SES-2", "CNF-7")
def test_sessions_in_a_store_conform_and_another_process_undoes_what_one_that_stopped_had_begun() -> None:
    report = check(StoredDriver, layers=("vectors", "schedules"), budget=ENOUGH)
    assert report.violations == ()
    assert report.exit_status == 0
    verdicts = {row.clause.id: row.verdict for row in report.rows}
    assert {verdicts[clause] for clause in ("STO-2", "STO-3", "SES-2", "HOOK-2")} == {Verdict.HELD}
