"""Fixtures of the tests of examples."""

from pathlib import Path

import pytest

from examples.browser_telemetry.telemetry import Telemetry
from tests.examples.callers import WAYS, Connect
from tests.examples.hub import Hub


@pytest.fixture(params=list(WAYS))
def connect(request: pytest.FixtureRequest) -> Connect:
    """Each way in which a client can use an example."""
    return WAYS[request.param]


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """An automation hub in its own folder."""
    return Hub.at(tmp_path)


@pytest.fixture
def page() -> Telemetry:
    """The buffers of a page that has reported nothing."""
    return Telemetry()
