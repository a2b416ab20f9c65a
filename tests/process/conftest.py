"""What the tests here share: a way to run a module in a process of its own, and to wait for it no longer than that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
"""Seconds after which a process that hangs fails its test."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def free_tcp_port() -> int:
    """Return a port that a server can be started at, and started again."""
    return free_port()


@pytest.fixture(scope="session")
def run_module() -> Run:
    """Return a function that runs a module of the tests with arguments, and returns how that ended."""

    def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)

    return run
