"""The page does not depend on the seed of hashing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.spec("DIA-1")
def test_the_same_input_gives_the_same_bytes_under_any_hash_seed() -> None:
    shown = "t.hostile(), t.scattered(1), t.scattered(2), t.wandered(t.scattered(5), 1, 9)[-1]"
    code = f"import tests.diagrams.pages as t, toolfold_diagrams as d; print(*map(d.page, ({shown})))"
    command = [sys.executable, "-c", code]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("0", "1", "77")]
    made = [subprocess.run(command, env=each, capture_output=True, check=True).stdout for each in environments]
    assert len(made[0]) > 50_000
    assert made[0] == made[1] == made[2]
