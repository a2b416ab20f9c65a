"""What the benchmarks do that are run by the name of a module."""

import subprocess
import sys

import pytest

from tests.cli.support import environment


@pytest.mark.parametrize("module", ["crowding", "harness", "search.layouts"])
def test_a_part_of_the_benchmarks_that_is_no_program_says_what_to_run(module: str) -> None:
    command = [sys.executable, "-m", f"tests.benchmarks.{module}"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "is no program. Run `python -m tests.benchmarks --section NAME`" in ran.stderr
