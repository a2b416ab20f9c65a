"""The exported statechart does not depend on the seed of hashing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.core.charts import (
    desk,
    exported,
    odd,
)


@pytest.mark.spec("DIA-1")
def test_the_seed_of_hashing_makes_no_difference_to_the_bytes() -> None:
    code = "from tests.core.charts import desk, exported, odd; print(exported(desk()), exported(odd()))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8"},
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{exported(desk())} {exported(odd())}\n".encode()}
