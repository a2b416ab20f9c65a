"""FastMCP's code mode in front of a server of ours (SPEC COD-3)."""

from __future__ import annotations

import subprocess

import pytest

from tests.process.conftest import ROOT


@pytest.mark.spec("COD-3")
def test_a_program_in_fastmcps_code_mode_loses_what_an_exclusion_closes(fastmcp_python: str) -> None:
    command = [fastmcp_python, "-m", "examples.code_mode.with_fastmcp"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    execute, *calls = done.stdout.splitlines()
    assert execute.startswith("execute ")
    assert calls == [
        "orders__open {}",
        "orders__place {'item': 'tea', 'count': 2}",
        "cellar__open {}",
        "cellar__bottles {}",  # the last call is refused before it is shown
        "→ {'result': '2 of tea'}",
        "→ {'result': 312}",
        "→ Unknown tool: orders__place",
    ]
