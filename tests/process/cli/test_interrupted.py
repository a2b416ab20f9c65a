"""`toolfold conform` reports on a target that hangs, and when it is interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import started

pytestmark = pytest.mark.spec("CNF-3", "CNF-8")

DRIVERS = """
import os, signal, threading

from verification.library.driver import CoreDriver

class Hanging(CoreDriver):
    # Hangs in its third operation.
    count = 0

    def perform(self, operation):
        self.count += 1
        if self.count == 3:
            self.hang()
        return super().perform(operation)

class Deadlocked(Hanging):
    def hang(self):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

class Deaf(Hanging):
    def hang(self):
        while True:
            try:
                threading.Event().wait()
            except BaseException:
                pass

class Interrupted(Hanging):
    def hang(self):
        os.kill(os.getpid(), signal.SIGINT)

class Terminated(Hanging):
    def hang(self):
        os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("Deadlocked", 2, "the limit of 4 seconds was reached"),
        ("Deaf", 2, "the limit of 4 seconds was reached"),
        ("Interrupted", 130, "it was ended by SIGINT"),
        ("Terminated", 143, "it was ended by SIGTERM"),
    ],
)
def test_a_run_that_is_ended_says_why_and_leaves_its_reports(shop: Path, name: str, status: int, reason: str) -> None:
    (shop / "drivers.py").write_text(DRIVERS, encoding="utf-8")
    limit = "4" if status == 2 else "600"
    arguments = ("--layers", "exhaustive,vectors", "--timeout", limit, "-o", "reports", f"drivers:{name}")
    with started("conform", *arguments, cwd=shop) as process:
        said, complaint = process.communicate()
    assert process.returncode == status, complaint
    assert complaint.endswith(f"toolfold: The run was ended early: {reason}.\n")
    assert f"INTERRUPTED  in process\n  the run was ended: {reason}" in said
    first = json.loads((shop / "reports" / "report.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (first["type"], first["exit_status"]) == ("report", 2)
