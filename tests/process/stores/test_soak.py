"""A few seconds of what `python -m tests.process.stores.soak` does for as long as it is asked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.stores.soak import AT_LEAST, soak


@pytest.mark.spec("STO-1", "STO-2", "STO-3", "STO-4", "STO-6", "PER-3", "SES-1", "SES-2")
async def test_nothing_is_lost_while_replicas_and_redis_are_killed(tmp_path: Path) -> None:
    run = await soak(1, 5.0, tmp_path / "run", pace=0.6, principals=True)
    assert run.wrong == []
    assert min(run.counted[name] for name in AT_LEAST) > 0
