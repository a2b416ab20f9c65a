"""What tests of examples begin with."""

from pathlib import Path

import pytest

from examples.browser_telemetry.telemetry import Telemetry
from tests.examples.callers import WAYS, Connect
from tests.examples.hub import Hub


@pytest.fixture(params=list(WAYS))
def connect(request: pytest.FixtureRequest) -> Connect:
    """Each way in which a client may see an example, one after the other."""
    return WAYS[request.param]


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """An automation hub in a folder of its own."""
    return Hub.at(tmp_path)


@pytest.fixture
def page() -> Telemetry:
    """The buffers of a page of which nothing is known yet."""
    return Telemetry()
