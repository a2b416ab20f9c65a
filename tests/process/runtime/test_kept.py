"""What is in the folder of a runtime stays small (SPEC GWY-14)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.serving import ENVIRONMENT
from toolfold_adapters.runtime.kept import LOG_BYTES, OLD_SECONDS, remove_old
from toolfold_adapters.runtime.place import ANSWERS, LOG, STATE

pytestmark = pytest.mark.spec("GWY-14")

WRITES = """
import sys
from toolfold_adapters.runtime.kept import reopen_log
sys.stderr.write("before")
reopen_log(sys.argv[1])
sys.stderr.write("after")
"""


def test_a_log_that_is_long_becomes_the_one_before_while_the_runtime_writes(tmp_path: Path) -> None:
    log = tmp_path / LOG
    for length, then in ((10, (None, "after")), (LOG_BYTES + 1, ("x", "after"))):
        log.write_text("x" * length)
        subprocess.run([sys.executable, "-c", WRITES, str(tmp_path)], env=ENVIRONMENT, check=True, timeout=180)
        older = log.with_suffix(".log.1")
        assert (older.read_text()[:1] if older.exists() else None, log.read_text().lstrip("x")) == then


def test_sessions_and_answers_are_removed_that_nobody_has_used_for_a_month(tmp_path: Path) -> None:
    for folder in (STATE, ANSWERS):
        (tmp_path / folder).mkdir()
        for name, age in (("old", OLD_SECONDS + 1), ("new", OLD_SECONDS - 1)):
            path = tmp_path / folder / name
            path.touch()
            os.utime(path, (1e9 - age, 1e9 - age))
    remove_old(str(tmp_path), 1e9)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["new", "new"]
