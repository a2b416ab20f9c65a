"""A laptop that slept: time has passed, nothing was waited for, and connections are dead without having ended."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.adapters.gateway.inprocess import SECONDS
from tests.adapters.gateway.test_week import HOUR, Machine, configured, until
from tests.adapters.mcp.test_handle_delivery import text_of

ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
MINUTE = 60.0


@pytest.mark.spec("GWY-4")
@ERAS
async def test_the_first_call_after_a_night_is_answered_over_a_new_connection(era: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, era)
    with anyio.fail_after(SECONDS):
        async with machine.serving(configured("a", "b")) as user:
            await user.open("a")
            await user.works("a__cart")
            before = machine.house.count("a")
            machine.house.hang("a")
            machine.pass_time(8 * HOUR)
            if user.modern:  # its handle had a lifetime, and that has passed
                assert "has expired. Open the groups that you need again" in text_of(await user.call("a__cart"))
                await user.open("a")
            await user.works("a__cart")
            assert machine.house.count("a") == before + 1
            await machine.house.kill("a")


@pytest.mark.spec("GWY-3")
@ERAS
async def test_a_call_over_a_dead_connection_fails_when_it_is_reset_and_the_next_one_works(
    era: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, era)
    with anyio.fail_after(SECONDS):
        async with machine.serving(configured("a", "b")) as user:
            await user.open("a")
            await user.works("a__cart")
            machine.house.hang("a")
            machine.pass_time(MINUTE)  # less than what an unused connection is kept for
            answers: list[str] = []

            async def call() -> None:
                answers.append(text_of(await user.call("a__cart")))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda: any(link.in_use for link in user.gateway.upstreams["a"].links))
                await machine.house.kill("a")
            assert "The MCP server 'a' stopped before it answered" in answers[0]
            assert "What it was asked to do may be done or not" in answers[0]
            machine.pass_time(MINUTE)
            await user.works("a__cart")
