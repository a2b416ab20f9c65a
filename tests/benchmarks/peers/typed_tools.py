"""Print the seconds of processor time that registering typed tools takes: `peers.typed_tools FRAMEWORK NUMBER`.

It imports nothing but the framework, so that any interpreter runs it that has that.
"""
# pyright: reportMissingImports=false

import gc
import sys
from collections.abc import Callable
from time import process_time
from typing import Annotated, Any

from pydantic import BaseModel, Field

TOOLS_PER_GROUP = 10
FUNCTION = '''
async def {name}(
    path: Annotated[str, Field(description="Where to look for {name}.")],
    order: {order},
    limit: Annotated[int, Field(ge=1, le=100)] = {limit},
    tags: list[str] | None = None,
    {last}: bool = False,
) -> {result}:
    """Work on the things of {name}.

    Args:
        path: Where.
        order: What to work on.
        limit: How many to return at most.
        {last}: Whether to go on.
    """
    return {value}
'''


class Order(BaseModel):
    """What was ordered."""

    id: int
    lines: list[str] = []


class Found(BaseModel):
    """What was found."""

    orders: list[Order]


def functions(number: int) -> list[Callable[..., Any]]:
    """Return functions that differ in names, texts, defaults and types, as those of many authors do."""
    space: dict[str, Any] = {"Annotated": Annotated, "Field": Field, "Order": Order, "Found": Found}
    names = [f"tool_{index}" for index in range(number)]
    kinds = ("Order", "str", "dict[str, int]", "list[Order]")
    results = (("Found", "Found(orders=[])"), ("str", "'done'"), ("list[int]", "[1]"))
    for index, name in enumerate(names):
        result, value = results[index % len(results)]
        options = {"order": kinds[index % len(kinds)], "limit": index % 50 + 1, "last": f"go_{index}"}
        exec(FUNCTION.format(name=name, result=result, value=value, **options), space)
    return [space[name] for name in names]


def toolfold(made: list[Callable[..., Any]]) -> object:
    """Register functions in groups, which one control tool opens."""
    from toolfold import ToolSet

    tools = ToolSet("typed", control="open_group")
    for index, function in enumerate(made):
        if index % TOOLS_PER_GROUP == 0:
            tools.register_group(f"g{index // TOOLS_PER_GROUP}", "A group")
        tools.tool(function, group=f"g{index // TOOLS_PER_GROUP}")
    _ = tools.catalog
    return tools


def sdk(made: list[Callable[..., Any]]) -> object:
    """Register functions with the MCP SDK."""
    from mcp.server import MCPServer

    server = MCPServer("typed")
    for function in made:
        server.tool()(function)
    return server


def fastmcp(made: list[Callable[..., Any]]) -> object:
    """Register functions with FastMCP."""
    from fastmcp import FastMCP

    server: Any = FastMCP("typed")
    for function in made:
        server.tool(function)
    return server


def pydantic_ai(made: list[Callable[..., Any]]) -> object:
    """Make toolsets of pydantic-ai."""
    from pydantic_ai import FunctionToolset

    return [FunctionToolset(made[first : first + TOOLS_PER_GROUP]) for first in range(0, len(made), TOOLS_PER_GROUP)]


def agentscope(made: list[Callable[..., Any]]) -> object:
    """Make a toolkit of AgentScope with tool groups."""
    from agentscope.tool import FunctionTool, ToolGroup, Toolkit  # type: ignore[import-not-found]

    return Toolkit(
        tool_groups=[
            ToolGroup(
                name=f"g{first // TOOLS_PER_GROUP}",
                description="A group",
                tools=[FunctionTool(function) for function in made[first : first + TOOLS_PER_GROUP]],
            )
            for first in range(0, len(made), TOOLS_PER_GROUP)
        ]
    )


REGISTER: dict[str, Callable[[list[Callable[..., Any]]], object]] = {
    "toolfold": toolfold,
    "sdk": sdk,
    "fastmcp": fastmcp,
    "pydantic-ai": pydantic_ai,
    "agentscope": agentscope,
}


def main(framework: str, number: int) -> None:
    """Print how long a framework takes."""
    register = REGISTER[framework]
    made = functions(number)
    register(made[:TOOLS_PER_GROUP])  # what is imported when it is first needed is no part of it
    gc.collect()
    start = process_time()
    register(made)
    print(process_time() - start)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
