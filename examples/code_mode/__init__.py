"""Programs that call tools, in sandboxes of others.

A program opens a group, uses it, and opens another that excludes the first; its next call of the first is refused.
Whoever approves calls is shown the real tool of each, whatever the program calls it.

with_monty.py        Monty, given stubs and functions   with_pydantic_ai.py   pydantic-ai's code mode, given a toolset
with_fastmcp.py      FastMCP's code mode, in front of a server
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolfold import ToolSet

Approve = Callable[[str, Mapping[str, Any]], None]
"""Is shown each call before it is made: its tool, and its arguments."""


def shop() -> ToolSet:
    """Return tools that take orders, and others that count what is in store; never both."""
    tools = ToolSet("shop")
    tools.register_group("orders", "Take orders")
    tools.register_group("cellar", "Count what is in store")
    tools.register_exclusion("orders", "cellar")

    @tools.tool(group="orders")
    def place(item: str, count: int = 1) -> str:
        """Order an item."""
        return f"{count} of {item}"

    @tools.tool(group="cellar")
    def bottles() -> int:
        """Count the bottles."""
        return 312

    return tools


async def show(run: Callable[[Approve], Awaitable[list[Any]]]) -> None:
    """Print what was called in a sandbox, and what the program returned."""
    returned = await run(lambda tool, arguments: print(f"{tool} {dict(arguments)}"))
    print(*[f"→ {one}" for one in returned], sep="\n")
