"""Whether the programs that these tests are about are installed."""

from __future__ import annotations

import os

import pytest

from tests.external.support import missing


@pytest.fixture(scope="session")
def node_packages() -> None:
    """Skip a test if there is no Node, or a package is missing; with TOOLFOLD_EXTERNAL=required, fail it."""
    if lacking := missing():
        if os.environ.get("TOOLFOLD_EXTERNAL") == "required":
            pytest.fail(lacking)
        pytest.skip(lacking)
