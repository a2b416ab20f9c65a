"""The scenarios of every delivery over stdio and HTTP, in both eras (SPEC 18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.adapters.mcp.matrix import Direct, client_for, ways
from tests.adapters.mcp.test_matrix import (
    test_a_group_closes_those_that_it_excludes,
    test_a_group_that_is_closed_leaves_the_list_with_what_is_in_it,
    test_what_is_open_is_listed_and_called,
)

__all__ = [
    "test_a_group_closes_those_that_it_excludes",
    "test_a_group_that_is_closed_leaves_the_list_with_what_is_in_it",
    "test_what_is_open_is_listed_and_called",
]


@pytest.fixture(params=ways("stdio", "http"), ids=", ".join)
async def client(request: pytest.FixtureRequest) -> AsyncGenerator[Direct]:
    """Yield a client of each delivery."""
    async with client_for(*request.param) as made:
        yield made
