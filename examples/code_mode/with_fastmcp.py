"""FastMCP's code mode, in front of a server (`python -m examples.code_mode.with_fastmcp`).

It asks the server what there is before each call of a program, so a program uses what it has opened, and reaches
nothing that has closed meanwhile. FastMCP's middleware is shown each call.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
from fastmcp import Client, FastMCP  # pyright: ignore[reportMissingImports]
from fastmcp.experimental.transforms.code_mode import CodeMode  # pyright: ignore[reportMissingImports]
from fastmcp.server import create_proxy  # pyright: ignore[reportMissingImports]
from fastmcp.server.middleware import Middleware  # pyright: ignore[reportMissingImports]

from examples.code_mode import Approve, shop, show
from toolfold_adapters.mcp import serve

PROGRAM = """
answers = []
await call_tool('orders__open', {})
answers.append(await call_tool('orders__place', {'item': 'tea', 'count': 2}))
await call_tool('cellar__open', {})
answers.append(await call_tool('cellar__bottles', {}))
try:
    answers.append(await call_tool('orders__place', {'item': 'milk'}))
except Exception as error:
    answers.append(str(error))
return answers
"""


class Approval(Middleware):  # type: ignore[misc]  # typed where FastMCP is installed
    """Shows each call of a tool to whoever approves it."""

    def __init__(self, approve: Approve) -> None:
        self._approve = approve

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Show a call, and make it."""
        self._approve(context.message.name, context.message.arguments or {})
        return await call_next(context)


async def in_fastmcp(approve: Approve) -> list[Any]:
    """Return what the program says that opens a group which closes the one that it used."""
    returned = list[Any]()
    url, ready = anyio.create_memory_object_stream[str](1)

    async def run() -> None:
        await serve(shop(), transport="http", port=0, on_ready=url.send_nowait)

    async with url, ready, anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        async with Client(await ready.receive(), mode="legacy") as session:  # one for as long as the program runs
            server: FastMCP[Any] = create_proxy(session, name="shop", middleware=[Approval(approve)])
            server.add_transform(CodeMode())
            async with Client(server) as client:
                result = await client.call_tool("execute", {"code": PROGRAM})
                returned = json.loads(result.content[0].text)
        tasks.cancel_scope.cancel()
    return returned


if __name__ == "__main__":
    anyio.run(show, in_fastmcp)
