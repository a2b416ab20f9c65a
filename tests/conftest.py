"""What every test shares."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that async tests run on."""
    return "asyncio"
