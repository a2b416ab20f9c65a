"""A FastMCP server whose tools are tagged into groups that a session switches on and off, as FastMCP's manual shows.

Everything tagged starts disabled, and a pair of tools for each group enables and disables its tag for the session. It
knows nothing of Toolfold, and keeps the ways of FastMCP as they are. Run it over stdio, or with `http PORT`.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

import sys

from fastmcp import Context, FastMCP  # pyright: ignore[reportAttributeAccessIssue]

mcp = FastMCP("tagged-groups")


@mcp.tool
def status() -> str:
    """Say that the server is up."""
    return "up"


@mcp.tool(tags={"finance"})
def analyse(symbol: str) -> str:
    """Analyse the market for a symbol."""
    return f"{symbol}: steady"


@mcp.tool(tags={"finance"})
def convert(amount: float, rate: float) -> float:
    """Convert an amount at a rate."""
    return amount * rate


@mcp.tool(tags={"files"})
def read_note(name: str) -> str:
    """Read a note."""
    return f"the note {name}"


@mcp.tool(tags={"files.edit"})
def write_note(name: str, text: str) -> str:
    """Write a note."""
    return f"wrote {len(text)} characters to {name}"


@mcp.tool(tags={"sandbox"})
def rehearse(order: str) -> str:
    """Rehearse an order."""
    return f"rehearsed {order}"


@mcp.tool(tags={"live"})
def execute(order: str) -> str:
    """Execute an order."""
    return f"executed {order}"


mcp.disable(tags={"finance", "files", "files.edit", "sandbox", "live"})


@mcp.tool
async def activate_finance(ctx: Context) -> str:
    """Enable the finance tools for this session."""
    await ctx.enable_components(tags={"finance"})
    return "Finance tools enabled."


@mcp.tool
async def deactivate_finance(ctx: Context) -> str:
    """Disable the finance tools for this session."""
    await ctx.disable_components(tags={"finance"})
    return "Finance tools disabled."


@mcp.tool
async def activate_files(ctx: Context) -> str:
    """Enable the file tools for this session."""
    await ctx.enable_components(tags={"files"})
    return "File tools enabled."


@mcp.tool
async def deactivate_files(ctx: Context) -> str:
    """Disable the file tools for this session, and editing with them."""
    await ctx.disable_components(tags={"files", "files.edit"})
    return "File tools disabled."


@mcp.tool(tags={"files"})
async def activate_files_edit(ctx: Context) -> str:
    """Enable editing files for this session."""
    await ctx.enable_components(tags={"files.edit"})
    return "Editing enabled."


@mcp.tool(tags={"files"})
async def deactivate_files_edit(ctx: Context) -> str:
    """Disable editing files for this session."""
    await ctx.disable_components(tags={"files.edit"})
    return "Editing disabled."


@mcp.tool
async def activate_sandbox(ctx: Context) -> str:
    """Enable the sandbox for this session, in place of the live tools."""
    await ctx.disable_components(tags={"live"})
    await ctx.enable_components(tags={"sandbox"})
    return "Sandbox tools enabled."


@mcp.tool
async def deactivate_sandbox(ctx: Context) -> str:
    """Disable the sandbox for this session."""
    await ctx.disable_components(tags={"sandbox"})
    return "Sandbox tools disabled."


@mcp.tool
async def activate_live(ctx: Context) -> str:
    """Enable the live tools for this session, in place of the sandbox."""
    await ctx.disable_components(tags={"sandbox"})
    await ctx.enable_components(tags={"live"})
    return "Live tools enabled."


@mcp.tool
async def deactivate_live(ctx: Context) -> str:
    """Disable the live tools for this session."""
    await ctx.disable_components(tags={"live"})
    return "Live tools disabled."


@mcp.tool
async def reset(ctx: Context) -> str:
    """Return this session to what it began with."""
    await ctx.reset_visibility()
    return "Reset."


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
    else:
        mcp.run(show_banner=False)
