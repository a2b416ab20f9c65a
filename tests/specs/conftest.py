"""Fixtures of the kit's tests."""

import pytest


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Prevent the core from formatting the traceback of each hook that fails as scripted: there are thousands."""
    caplog.set_level("CRITICAL", logger="toolfold")
