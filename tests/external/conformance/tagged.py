"""The tools that the scenarios for definition tags need, for `toolfold serve`: a group opens, and tools change."""

from __future__ import annotations

from itertools import count

from toolfold import Context, ToolSet, Visibility


def make_tools() -> ToolSet:
    """Return the tools; they take several pages."""
    tools = ToolSet("tagged", page_size=2)
    calls = count(1)
    tools.register_group("later", "Leads to the second list")
    later = Visibility.group("later")

    @tools.tool(name="test_definition_tags_change")
    async def change(context: Context) -> str:
        """Lead to the second list."""
        await context.activate("later")
        return "changed"

    @tools.tool(name="test_definition_tags_count")
    def counted() -> str:
        """Say how often this was called."""
        return str(next(calls))

    @tools.tool(name="test_definition_tags_removed", visibility=~later)
    def removed() -> str:
        """Be in the first list."""
        return "removed"

    @tools.tool(name="test_definition_tags_added", visibility=later)
    def added() -> str:
        """Be in the second list."""
        return "added"

    tools.register_prompt("greet", lambda: "Greet me.")
    return tools
