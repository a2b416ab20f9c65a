"""How the list of a server is read."""

from __future__ import annotations

import pytest

from tests.adapters.gateway.support import opened, raw


@pytest.mark.spec("GWY-1")
async def test_all_pages_of_the_list_are_taken() -> None:
    async with opened(raw("pages")) as (gateway, session):
        assert [tool.name for tool in session.list_tools().tools] == ["answer", "one", "two"]
        assert gateway.report.server == "raw 1.0"
        assert gateway.report.instructions == "Be kind."


async def test_a_list_whose_pages_never_end_is_cut() -> None:
    async with opened(raw("loop")) as (_, session):
        assert [tool.name for tool in session.list_tools().tools] == ["answer", "one"]


async def test_a_server_without_tools_is_an_empty_tool_set() -> None:
    async with opened(raw("toolless")) as (_, session):
        assert session.list_tools().tools == ()
