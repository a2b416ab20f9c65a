"""Groups that are opened and closed by parallel calls: each answer is of the state after its own transition."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

from tests.adapters.mcp.support import change_of, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from tests.adapters.mcp.test_ways_of_calling import process_of_one_client
from toolfold import HookContext, ToolSet, events
from toolfold_adapters.mcp import build_server
from toolfold_adapters.stores import SQLiteStore

pytestmark = pytest.mark.spec("CTL-4", "ACT-9")

PATHS = ("a", "b", "c")


async def take_turns(context: HookContext) -> None:
    """Let every other request go on."""
    for _ in range(3):
        await anyio.lowlevel.checkpoint()


def exclusive() -> ToolSet:
    tools = ToolSet("exclusive", control="open_group", search=lambda documents: lambda query: [f"{query}.use"])
    for path in PATHS:
        tools.register_group(path, on_activate=take_turns, on_deactivate=take_turns)
        tools.register("use", lambda: "used", group=path, description="Use it")
    tools.register_exclusion(*PATHS)
    return tools


def is_of(answer: CallToolResult, before: list[str], now: list[str]) -> bool:
    """Return whether an answer describes a transition between two states, and says all that it closed."""
    change, text = change_of(answer), text_of(answer)
    closed = [path for path in before if path not in now]
    return (
        change["active"] == now
        and change["tools"] == [f"{path}__use" for path in now if path not in before]
        and [f"- {name}" in text for name in change["tools"]] == [True] * len(change["tools"])
        and all(f": {path}." in text or f"Group {path} is closed." in text for path in closed)
        and ("Closed to make room" in text) == bool(closed and now)
    )


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in a store"])
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_each_answer_is_of_its_own_transition_in_the_order_in_which_they_were_made(
    era: str, stored: bool, tmp_path: Path
) -> None:
    tools, states, answers = exclusive(), list[list[str]]([[]]), list[CallToolResult]()

    def note(event: events.Event) -> None:
        if isinstance(event, events.Committed):
            gone = event.change.deactivated
            states.append([*(path for path in states[-1] if path not in gone), *event.change.activated])

    with process_of_one_client():
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(SQLiteStore(tmp_path / "s.db")) if stored else None
            client, _ = await stack.enter_async_context(client_of(build_server(tools, store=store), era))
            tools.observe(note)

            async def call(name: str, **arguments: Any) -> None:
                answers.append(await client.call_tool(name, arguments))

            async with anyio.create_task_group() as tasks:
                for path in ("a", "b", "c", "a"):
                    tasks.start_soon(partial(call, "open_group", group=path))
                tasks.start_soon(partial(call, "find_tools", query="b", open=True, limit=1))
                tasks.start_soon(partial(call, "close_group", group="b"))
            made = [*pairwise(states)]
    for answer in answers:
        if change_of(answer)["changed"]:
            made.remove(next(one for one in made if is_of(answer, *one)))
        else:
            assert change_of(answer)["active"] in states
    assert made == [], "each transition has one answer"
