"""Tools that FastMCP answers with tasks, by its own implementation of the extension."""

# mypy: disable-error-code="untyped-decorator, misc"
# pyright: reportMissingImports=false

import asyncio
from datetime import timedelta
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

mcp = FastMCP("tasks")
mcp.add_extension(TasksExtension(url="memory://"))
POLLED = timedelta(milliseconds=100)


@mcp.tool(task=TaskConfig(mode="required", poll_interval=POLLED))
async def only(n: int) -> str:
    """Return what was done, later."""
    await asyncio.sleep(0.1)
    return f"did {n}"


@mcp.tool(task=TaskConfig(mode="optional", poll_interval=POLLED))
async def also(n: int) -> str:
    """Return what was done, later or at once."""
    return f"did {n}, too"


@mcp.tool(task=TaskConfig(mode="required", poll_interval=POLLED))
async def asks(ctx: Context) -> Any:
    """Return what the user says."""
    if ctx.input_responses is None:
        schema = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
        params = ElicitRequestFormParams(message="How many?", requested_schema=schema)
        return InputRequiredResult(input_requests={"many": ElicitRequest(params=params)})
    given: Any = ctx.input_responses["many"]
    return f"{given.action} {given.content['value']}"


@mcp.tool(task=TaskConfig(mode="required", poll_interval=POLLED))
async def never() -> str:
    """Return nothing for long."""
    await asyncio.sleep(3600)
    return ""


if __name__ == "__main__":
    mcp.run(show_banner=False)
