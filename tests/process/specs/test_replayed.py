"""Traces of Quint are replayed on servers in processes of their own, over stdio and HTTP (SPEC TRC-1)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.specs.support import environment
from toolfold_specs.itf import read_trace

pytestmark = pytest.mark.spec("TRC-1")

TRACE = Path(__file__).parents[3] / "specs" / "quint" / "traces" / "single_0.itf.json"
"""Of requests of one group each: a server over MCP has no others."""
SERVER = """
from toolfold import ToolError, ToolSet


def refuse():
    raise ToolError("It stays open.")


tools = ToolSet("two")
tools.register_group("g0", "One.", on_deactivate={hook})
tools.register_group("g1", "Another.")
for path in ("g0", "g1"):
    tools.register("probe", lambda: "ok", description="Probe.", group=path)
"""
REACHED = {
    "stdio": ("--", sys.executable, "-m", "toolfold_cli", "serve", "--many-clients", "two.py:tools"),
    "http": ("--transport", "http", "two.py:tools"),
}


def replayed(folder: Path, transport: str, hook: str) -> subprocess.CompletedProcess[str]:
    (folder / "two.py").write_text(SERVER.format(hook=hook), encoding="utf-8")
    command = (sys.executable, "-m", "toolfold_cli", "conform", "--itf", str(TRACE), *REACHED[transport])
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("transport", REACHED)
def test_a_server_does_in_both_eras_what_the_trace_says(tmp_path: Path, transport: str) -> None:
    run = replayed(tmp_path, transport, hook="None")
    states = len(read_trace(TRACE))
    assert run.stdout == "".join(
        f"{transport}, {era}: as in the trace, {states} states.\n" for era in ("legacy", "modern")
    )
    assert run.returncode == 0


@pytest.mark.parametrize("transport", REACHED)
def test_a_server_that_refuses_what_the_trace_grants_departs_from_it(tmp_path: Path, transport: str) -> None:
    run = replayed(tmp_path, transport, hook="refuse")
    assert (
        f"{transport}, modern: it departs from the trace.\n\nState 9: deactivate(group='g0'): it is refused"
        in run.stdout
    )
    assert run.returncode == 1
