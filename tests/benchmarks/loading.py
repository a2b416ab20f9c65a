"""Loading a group, as document C's loader does it, with the definitions that the model is given next."""

import gc
import statistics
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

import anyio

from examples.assistant import build
from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation

from .harness import Row

LIMIT = 1e-3
"""Document C asks for 10 ms."""
LOADER = "load_tool_group"
GROUP = "google_gmail"


def measure(*, quick: bool) -> list[Row]:
    """Return the time until a group's tools are listed, in a session and in a conversation."""
    return anyio.run(_measure, 50 if quick else 400)


async def _measure(samples: int) -> list[Row]:
    tools = build()
    groups = [group.path for group in tools.groups()]
    ways = {"in a session, with its list": _in_session, "in a conversation, with its definitions": _in_conversation}
    return [
        Row(
            what=f"loading a group {way}",
            value=await _median(partial(load, tools, GROUP), samples),
            unit="µs",
            target=LIMIT,
            note=f"{len(groups)} groups, {len(tools.catalog.tools)} tools; the first load in a state that is new",
        )
        for way, load in ways.items()
    ]


async def _in_session(tools: ToolSet, group: str) -> float:
    async with tools.open_session() as session:
        start = perf_counter()
        result = await session.call(LOADER, {"group_name": group})
        page = session.list_tools()
        taken = perf_counter() - start
        assert not result.is_error
        assert any(spec.group == group for spec in page.tools)
    return taken


async def _in_conversation(tools: ToolSet, group: str) -> float:
    async with Conversation(tools) as conversation:
        start = perf_counter()
        (result,) = await conversation.execute([(LOADER, {"group_name": group})])
        definitions = conversation.tools("anthropic")
        taken = perf_counter() - start
        assert not result.is_error
        assert len(definitions) > len(tools.group_tools(group)) > 0
    return taken


async def _median(load: Callable[[], Awaitable[float]], samples: int) -> float:
    """Return the median seconds; between two samples no session is in the state, so it is computed again."""
    times = []
    for _ in range(samples):
        gc.collect(0)
        times.append(await load())
    return statistics.median(times)
