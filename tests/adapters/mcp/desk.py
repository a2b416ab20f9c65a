"""The tool set that the tests of the MCP delivery serve, and a server of it over stdio: `python desk.py [LOG]`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import anyio

from toolfold import Context, ToolError, ToolSet
from toolfold_adapters.mcp import serve


def make_desk(events: list[str] | None = None, log: Path | None = None, **settings: object) -> ToolSet:
    """Return a desk with a database below which one can write, two modes that exclude one another, and a shy group."""
    received: list[str] = [] if events is None else events

    def note(event: str) -> None:
        received.append(event)
        if log is not None:
            with log.open("a") as file:
                file.write(f"{event}\n")

    tools = ToolSet("desk", **settings)  # type: ignore[arg-type]
    tools.register_group(
        "database",
        "Database operations",
        on_activate=lambda: note("database on"),
        on_deactivate=lambda: note("database off"),
        run_in_thread=False,  # tests wait for what is noted
    )
    tools.register_group("write", "Changing rows", parent="database")
    tools.register_group("mode_a", "The first mode")
    tools.register_group("mode_b", "The second mode")
    tools.register_exclusion("mode_a", "mode_b")

    def refuse() -> None:
        raise ToolError("the key is missing")

    tools.register_group("vault", "Locked", on_activate=refuse)

    @tools.tool()
    def ping() -> str:
        """Answer at once."""
        return "pong"

    @tools.tool(group="database")
    async def query(sql: str, context: Context) -> dict[str, str]:
        """Run a query."""
        await context.report_progress(1, 2, "half")
        return {"ran": sql}

    @tools.tool(group="database.write")
    def insert(row: dict[str, int]) -> int:
        """Insert a row."""
        return len(row)

    @tools.tool(group="mode_a")
    def only_a() -> str:
        """Work in mode a."""
        return "a"

    @tools.tool(group="mode_b")
    def only_b() -> str:
        """Work in mode b."""
        return "b"

    @tools.tool()
    async def open_database(context: Context) -> str:
        """Open the database through the context."""
        await context.activate("database")
        return "opened"

    return tools


if __name__ == "__main__":
    anyio.run(partial(serve, make_desk(log=Path(sys.argv[1]) if len(sys.argv) > 1 else None), separator="."))
