"""The unit that `toolfold up --install` writes, as systemd itself judges it (SPEC GWY-14)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.serving import ENVIRONMENT

ANALYZE = shutil.which("systemd-analyze") or ""


@pytest.mark.spec("GWY-14")
@pytest.mark.skipif(not ANALYZE, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    own = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")}
    environment = {**ENVIRONMENT, **own, "TOOLFOLD_RUNTIME": str(tmp_path / "50% $of it")}
    command = [sys.executable, "-m", "toolfold_cli", "up", "--install"]
    subprocess.run(command, env=environment, check=True, timeout=180)
    unit = tmp_path / "systemd" / "user" / "toolfold.service"
    judged = subprocess.run(
        [ANALYZE, "--user", "verify", str(unit)],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (judged.returncode, judged.stderr) == (0, "")
