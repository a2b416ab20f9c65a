"""What a chain of 31 calls costs, one request after the other against one request for all of them (SPEC COD-2).

Time is that between a client and a server of one process, over HTTP: what the wire and the server add. A model's turns
come on top, and each of them reads all that came before it again.
"""

from __future__ import annotations

import json
from time import perf_counter, process_time
from typing import Any

import anyio
from mcp import Client

from tests.adapters.mcp.support import over_http
from toolfold import ToolSet
from toolfold_adapters.tokens import approximate_tokens

from .harness import Row

CHAIN = 31
PROMPT = 2_000
"""About how many tokens a model reads with each turn besides the calls and their answers: instructions and tools."""


def measure(*, quick: bool) -> list[Row]:
    """Return elapsed time, processor time and tokens of both ways."""
    return anyio.run(_measure, 3 if quick else 15)


async def _measure(runs: int) -> list[Row]:
    tools = ToolSet("chain", control="open_group")
    tools.register_group("steps", "Steps of a chain")

    @tools.tool(group="steps")
    def step(number: int) -> dict[str, int]:
        """Return the next number."""
        return {"next": number + 1}

    times: dict[str, list[tuple[float, float]]] = {"chain": [], "request": []}
    read: dict[str, int] = {}
    async with over_http(tools, active=["steps"], call_tools=True) as url, Client(url) as client:
        for number in range(runs):
            for way in ("chain", "request") if number % 2 else ("request", "chain"):
                began = perf_counter(), process_time()
                read[way] = await (_chain(client) if way == "chain" else _request(client))
                times[way].append((perf_counter() - began[0], process_time() - began[1]))
    rows: list[Row] = []
    for place, what in enumerate(("elapsed", "processor time")):
        chain, request = (sorted(one[place] for one in times[way])[runs // 2] for way in ("chain", "request"))
        name = f"{CHAIN} calls in one request against {CHAIN} requests, {what}"
        note = f"{request * 1e3:.1f} and {chain * 1e3:.1f} ms"
        rows.append(Row(what=name, value=request / chain, unit="×", note=note))
    note = f"{read['request']:,} and {read['chain']:,}; {PROMPT:,} of instructions and tools in each turn"
    name = f"tokens that a model reads for {CHAIN} calls, in one turn against {CHAIN}"
    return [*rows, Row(what=name, value=read["request"] / read["chain"], unit="×", note=note)]


async def _chain(client: Client) -> int:
    """Make the calls one after the other, and return the tokens that a model reads which has a turn for each."""
    history, read = PROMPT, 0
    for number in range(CHAIN):
        result = await client.call_tool("call_tool", {"name": "steps.step", "arguments": {"number": number}})
        history += _tokens({"name": "steps.step", "arguments": {"number": number}}) + _answer(result)
        read += history
    return read


async def _request(client: Client) -> int:
    calls = [{"name": "steps.step", "arguments": {"number": number}} for number in range(CHAIN)]
    result = await client.call_tool("call_tools", {"calls": calls})
    assert not result.is_error
    return PROMPT + _tokens(calls) + _answer(result)


def _answer(result: Any) -> int:
    return sum(_tokens(block.text) for block in result.content)


def _tokens(value: Any) -> int:
    return approximate_tokens(value if isinstance(value, str) else json.dumps(value))
