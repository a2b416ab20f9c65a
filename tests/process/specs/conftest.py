"""What the tests of the kit with servers share."""

import pytest


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Do not format the traceback of each hook that fails for the kit: there are thousands."""
    caplog.set_level("CRITICAL", logger="toolfold")
