"""Play a recorded conversation with one framework: `peers.prefixes FRAMEWORK`; prints what its model reads each time.

Standard input has the conversation as JSON, see `tests.benchmarks.prefixes`. It imports nothing but the framework, so
that any interpreter runs it that has that.
"""
# mypy: disable-error-code="untyped-decorator, no-any-return"
# pyright: reportMissingImports=false

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


async def fastmcp(given: Json) -> list[Any]:
    """Return what a client of FastMCP's own reads, whose session the server's visibility follows."""
    from fastmcp import Client, Context, FastMCP
    from fastmcp.tools import Tool  # type: ignore[import-not-found, unused-ignore]

    mcp: Any = FastMCP("shop", instructions=given["instructions"])
    answers = iter([step["answer"] for step in given["steps"] if step["do"] == "call"])

    @mcp.tool
    async def open_group(group: str, ctx: Context) -> str:
        """Open a group of tools."""
        await ctx.enable_components(tags={group})
        return f"{group} is open"

    @mcp.tool
    async def close_group(group: str, ctx: Context) -> str:
        """Close a group of tools."""
        await ctx.disable_components(tags={group})
        return f"{group} is closed"

    async def answer(thing: str) -> str:
        return next(answers)

    for group, tools in given["groups"].items():
        for name, description in tools.items():
            mcp.add_tool(Tool.from_function(answer, name=name, description=description, tags={group}))
        mcp.disable(tags={group})
    changed = [True]

    async def note(message: Any) -> None:
        root = getattr(message, "root", message)
        changed[0] = changed[0] or getattr(root, "method", "") == "notifications/tools/list_changed"

    found, messages, tools = list[Any](), list[Any](), list[Any]()
    async with Client(mcp, mode="legacy", message_handler=note) as client:
        for step in [*given["steps"], None]:
            if changed[0]:
                changed[0] = False
                listed = await client.list_tools()
                tools = [[tool.name, tool.description, tool.input_schema] for tool in listed]
            found.append([tools, [given["instructions"]], [*messages]])
            if step is not None:
                name, arguments = _written(step)
                result = await client.call_tool(name, arguments)
                messages += [[name, arguments], [block.text for block in result.content]]
                await asyncio.sleep(0)
    return found


async def pydantic_ai(given: Json) -> list[Any]:
    """Return what a model of pydantic-ai reads, whose toolset is filtered by the groups that are open."""
    from pydantic_ai import Agent, RunContext, UsageLimits
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    steps, found = iter([*given["steps"], None]), list[Any]()
    answers = iter([step["answer"] for step in given["steps"] if step["do"] == "call"])
    group_of = {name: group for group, tools in given["groups"].items() for name in tools}
    toolset: Any = FunctionToolset()

    def answer(thing: str) -> str:
        return next(answers)

    for tools in given["groups"].values():
        for name, description in tools.items():
            toolset.add_function(answer, name=name, description=description)

    def shown(ctx: Any, tool: Any) -> bool:
        return group_of[tool.name] in ctx.deps

    def model(messages: Any, info: Any) -> Any:
        tools = [[one.name, one.description, one.parameters_json_schema] for one in info.function_tools]
        written = [[[type(part).__name__, _content(part)] for part in message.parts] for message in messages]
        found.append([tools, [info.instructions or ""], written])
        step = next(steps)
        if step is None:
            return ModelResponse(parts=[TextPart("done")])
        name, arguments = _written(step)
        return ModelResponse(parts=[ToolCallPart(name, arguments)])

    agent: Any = Agent(
        FunctionModel(model), deps_type=set, instructions=given["instructions"], toolsets=[toolset.filtered(shown)]
    )

    def open_group(ctx: RunContext[Any], group: str) -> str:
        """Open a group of tools."""
        ctx.deps.add(group)
        return f"{group} is open"

    def close_group(ctx: RunContext[Any], group: str) -> str:
        """Close a group of tools."""
        ctx.deps.discard(group)
        return f"{group} is closed"

    agent.tool(open_group)
    agent.tool(close_group)
    await agent.run("begin", deps=set(), usage_limits=UsageLimits(request_limit=None))
    return found


def _written(step: Json) -> tuple[str, Json]:
    if step["do"] == "call":
        return step["tool"], {"thing": "it"}
    return f"{step['do']}_group", {"group": step["group"]}


def _content(part: Any) -> Any:
    return str(getattr(part, "content", None) or getattr(part, "args", ""))


FRAMEWORKS: Mapping[str, Any] = {"fastmcp": fastmcp, "pydantic-ai": pydantic_ai}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(FRAMEWORKS[sys.argv[1]](json.load(sys.stdin)))))
