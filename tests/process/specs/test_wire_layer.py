"""The checks of what only a protocol shows: our own server passes them over both transports, in both eras."""

from __future__ import annotations

import pytest

from tests.process.specs.support import served_fixture
from toolfold_specs.checks import run_checks
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Era, Link
from toolfold_specs.layers.wire import CHECKS
from toolfold_specs.report import Status

MODERN = ("groups are disclosed", "handles stand", "handles can't", "a modern list", "a request can carry")
LEGACY = ("a list that changes", "a legacy connection", "calling through")


@pytest.mark.spec("NTF-4", "CTL-4", "CTL-5", "CTL-6", "CALL-1", "CALL-2", "CALL-3", "LST-3", "DEL-9")
@pytest.mark.spec("DEL-1", "DEL-2", "DEL-3", "DEL-5", "DEL-7", "DEL-8", "DEL-11", "CNF-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_our_server_passes_every_check_of_its_era(transport: str, era: Era) -> None:
    with served_fixture(transport) as target:
        results = run_checks(CHECKS, lambda: FixtureDriver(Link(target, era)))
    others = MODERN if era == "legacy" else LEGACY
    status = {result.check: result.status for result in results}
    assert status.keys() == {check.name for check in CHECKS}
    for check, found in status.items():
        assert found is (Status.LEFT_OUT if check.startswith(others) else Status.PASSED), check
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert shown == {clause for check in CHECKS if not check.name.startswith(others) for clause in check.clauses}
