"""What the tests of the kit with servers share."""

import pytest


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the core from formatting the traceback of each hook that the kit tells to fail: there are thousands."""
    caplog.set_level("CRITICAL", logger="toolfold")
