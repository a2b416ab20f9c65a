"""What every test shares, and the rule that tests stay in the process, except in the folders for processes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
ALLOWED = tuple(TESTS / folder for folder in ("process", "external", "typing"))
"""Folders whose tests may start processes and open sockets."""
LEAVING = {"os.fork", "os.posix_spawn", "os.system", "subprocess.Popen"}
"""Audit events of code that leaves the process."""
if sys.platform != "win32":  # where an event loop connects two sockets of its own
    LEAVING |= {"socket.bind", "socket.connect"}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in background jobs of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else the processes under test would ignore it

# Tests see no runtime of whoever runs them, and leave none in its place.
os.environ["TOOLFOLD_RUNTIME"] = str(Path(tempfile.gettempdir()) / f"toolfold-tests-{os.getpid()}")

# A busy machine must fail no test, so there are no deadlines. To measure coverage, few examples do.
settings.register_profile("few", deadline=None, max_examples=5)
settings.register_profile("quick", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

_guarded = False

# What is imported to collect the tests is a million objects that stay: looking through them again and again for garbage
# takes longer than the imports, and later as long as many tests.
gc.disable()


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if _guarded and event in LEAVING:
        pytest.fail(f"{event}: a test that leaves the process belongs in tests/process; arguments: {arguments!r}")


sys.addaudithook(_refuse)  # it can't be removed again, hence the flag


def pytest_collection_finish() -> None:
    """Collect garbage from now on, without what is there already."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep each test in the process, fixtures included, outside of the folders for those that may leave it."""
    global _guarded
    _guarded = not any(item.path.is_relative_to(folder) for folder in ALLOWED)
    try:
        return (yield)
    finally:
        _guarded = False


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that async tests run on."""
    return "asyncio"


@pytest.fixture(autouse=True)
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have gateways in this process rank by words unless a test says otherwise, whatever is installed."""
    monkeypatch.setattr("toolfold_adapters.search.meaning.installed_models", tuple)
