"""Toolkits, categories, hidden tools and the catalog tool: document D built on the core.

Serve it with `toolfold serve examples.toolkit:tools`; `python -m examples.toolkit` shows what it does.
"""

from __future__ import annotations

from toolfold import Context, Profile, ToolSet, Visibility

from . import words
from .notes import Notes
from .reports import Reports

UNLOCKED = Visibility.when(lambda view: bool(view.facts.get("unlocked")))


def build() -> ToolSet:
    """Return the tools, with their own notes."""
    tools = ToolSet("toolkit", control_visibility="relevant", run_in_thread=False)  # all of them are quick
    tools.include(words)
    tools.include(Notes())
    tools.register_group("reports", "Figures of the year")
    tools.include(Reports({40: 17, 41: 23}), group="reports", category="Admin")
    tools.register_catalog_tool(hidden=True)

    @tools.tool
    def unlock(phrase: str, context: Context) -> str:
        """Unlock the tools for power users by the pass phrase."""
        if phrase != "open sesame":
            return "That is not the phrase."
        context.set_fact("unlocked", True)
        return "Unlocked: there is more to call now."

    @tools.tool(category="Power", visibility=UNLOCKED)
    def reindex() -> str:
        """Build the index anew. Available only in a session that has been unlocked."""
        return "done"

    @tools.tool(hidden=~UNLOCKED)
    def statistics() -> str:
        """Count the tools. Always callable, but listed only in a session that has been unlocked."""
        return f"{len(tools.catalog.tools)} tools"

    tools.register_profile(Profile(name="reader", description="Only what reads", available="*", read_only=True))
    return tools


tools = build()
