"""A server over HTTP that the kit starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from toolfold_specs.driver import TargetFailed
from toolfold_specs.served import Served

pytestmark = pytest.mark.spec("CNF-1")

SERVER = """
import os, signal, sys
print("a warning", file=sys.stderr)
print(f"toolfold: 3 tools; serving http://127.0.0.1:{os.getpid()}/mcp", file=sys.stderr, flush=True)
signal.pause()
"""


def script(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def process_of(url: str) -> int:
    """The id of the process behind an address, which these servers give as their port."""
    return int(url.removesuffix("/mcp").rpartition(":")[2])


def is_running(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_a_server_is_started_once_its_address_is_asked_for_and_ended_with_the_block() -> None:
    with Served(script(SERVER)) as served:
        url = served.url()
        assert url.startswith("http://127.0.0.1:")
        assert served.url() == url
        assert is_running(process_of(url))
    assert not is_running(process_of(url))
    served.close()


@pytest.mark.spec("CNF-8")
def test_a_server_that_has_ended_is_started_again() -> None:
    with Served(script(SERVER)) as served:
        first = process_of(served.url())
        os.kill(first, 9)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        assert process_of(served.url()) != first


@pytest.mark.spec("CNF-8")
def test_a_server_that_ends_before_it_serves_has_failed_with_its_output() -> None:
    with Served(script("import sys; sys.exit('the till is locked')")) as served:
        with pytest.raises(TargetFailed, match="It ended before it served: the till is locked"):
            served.url()
        with pytest.raises(TargetFailed):
            served.url()


@pytest.mark.spec("CNF-8")
def test_a_server_that_never_prints_its_address_has_failed_and_is_ended() -> None:
    with (
        Served(script("import signal; signal.pause()"), patience=0.05) as served,
        pytest.raises(TargetFailed, match=r"did not print its URL within 0\.05 seconds"),
    ):
        served.url()


def test_a_server_that_ignores_the_first_signal_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolfold_specs.served.END", 0.05)
    stubborn = SERVER.replace("signal.pause()", "signal.pause(); signal.pause()").replace(
        "print(", "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(", 1
    )
    with Served(script(stubborn)) as served:
        process = process_of(served.url())
    assert not is_running(process)
