"""The examples of the MCP SDK, which verify themselves, with groups in front of their servers (SPEC INT-1).

They are those of the SDK's source distribution, of the version that is installed, unpacked in the folder that
TESTS_SDK_SOURCE names. Each is run in both eras, in memory and over HTTP.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.external.support import ROOT, outcomes

MINUTES = 10 * 60
GROUPED = ROOT / "tests" / "external" / "grouped"


def run(source: Path, *command: str) -> str:
    """Run Python where the SDK's examples and Toolfold can be imported, and return what it prints."""
    path = [*(ROOT / folder for folder in ("core", "adapters", "diagrams")), GROUPED, source, source / "examples"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, *command], cwd=source, env=environment, capture_output=True, text=True, timeout=MINUTES
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.spec("INT-1")
def test_each_of_the_examples_of_the_sdk_passes_with_groups_in_front(sdk_source: Path) -> None:
    program = (
        "import toolfold_in_front_of_sdk\nfrom mcp.server import MCPServer\n"
        "from toolfold_adapters.mcp.existing.grouped import groups_of\nprint(groups_of(MCPServer('x')) is not None)\n"
    )
    assert run(sdk_source, "-c", program) == "True\n", "the plugin groups no servers"
    settings = ["-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:toolfold", "-o", "addopts=", "-o", "log_cli=false"]
    # As the SDK does, under asyncio. Its own conftest wants packages that its examples do not need.
    chosen = ["--confcutdir=tests/examples", "-k", "asyncio", "tests/examples/test_stories.py"]
    found = outcomes(run(sdk_source, "-m", "pytest", *settings, "-p", "toolfold_in_front_of_sdk", *chosen))
    assert found["passed"] > 140
    assert found.keys() == {"passed"}
