"""The kit where the MCP SDK is not installed: for drivers in process or over stdio it is not needed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.process.specs.support import environment

PIPED = Path(__file__).parents[1] / "specs" / "targets" / "piped.py"
BLOCKED = """
import sys

for name in ("mcp", "mcp_types", "itsdangerous", "starlette", "uvicorn", "z3"):
    sys.modules[name] = None  # importing it fails as if it were not installed
from toolfold_cli import main

main()
"""
SECONDS = 900  # so long that it ends only what hangs


def conform(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED, "conform", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=SECONDS)


@pytest.mark.spec("CNF-1")
def test_a_driver_in_process_is_checked_by_every_layer() -> None:
    done = conform("--profile", "all,style", "verification.library.driver:CoreDriver")
    assert "It conforms" in done.stdout, done.stderr
    assert done.returncode == 0


@pytest.mark.spec("CNF-1")
def test_a_driver_over_stdio_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    done = conform("--smoke", "--driver", "--", sys.executable, str(PIPED))
    assert "It conforms" in done.stdout, done.stderr
    assert done.returncode == 0


def test_checks_are_listed() -> None:
    done = conform("--list-checks")
    assert (done.returncode, done.stderr) == (0, "")
    assert "groups are disclosed to those who ask" in done.stdout


def test_the_extra_of_the_kit_installs_no_sdk() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {re.split("[<>=]", one)[0] for one in project["optional-dependencies"]["conformance"]}
    assert brought == {"click", "hypothesis", "rich"}
