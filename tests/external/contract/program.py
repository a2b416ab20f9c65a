"""The process of one adapter: each line is a list of a verb and its arguments, and gets a line with the answer."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import anyio
import rfc8785
from anyio import to_thread

from tests.adapters.mcp.contract import Adapter, adapter_of


async def main() -> None:
    """Answer until the input ends."""
    async with AsyncExitStack() as stack:
        adapter: Adapter | None = None
        while line := await to_thread.run_sync(sys.stdin.readline):
            verb, *given = json.loads(line)
            answer: Any = None
            if verb == "create":
                adapter = await stack.enter_async_context(adapter_of(*given))
            elif verb == "serialize":
                answer = rfc8785.dumps(given[0]).decode()
            else:
                answer = await getattr(adapter, verb)(*given)
            print(json.dumps({"answer": answer}), flush=True)


if __name__ == "__main__":
    anyio.run(main)
