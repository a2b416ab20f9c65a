"""What every test shares."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else the processes under test would never be told


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that async tests run on."""
    return "asyncio"
