"""An assistant with many tools that loads what it needs: document C as a use of the one core.

`python -m examples.assistant` holds a conversation with a scripted model and prints what grouping saves. The tools can
be served too: `toolfold serve examples.assistant:tools`.
"""

from __future__ import annotations

import json

from toolfold import Context, ToolError, ToolSet

from .calendar import Calendar
from .mail import Mail
from .records import register_collections

NOW = "2026-03-02T08:30"
"""The assistant's time, so that every run is the same."""

ROOM = 2000
"""How many characters of JSON a conversation may remember: they travel with its handle."""


def remembered(context: Context) -> tuple[str, ...]:
    """Return what was remembered in the conversation so far; it is a fact of its session (SPEC SES-5)."""
    texts: tuple[str, ...] = context.facts.get("remembered", ())
    return texts


def build() -> ToolSet:
    """Return the tools, with data of their own."""
    tools = ToolSet("assistant", control="load_tool_group", on_hidden="hint")

    @tools.tool()
    def get_current_time() -> str:
        """Tell the date and the time."""
        return NOW

    @tools.tool()
    def remember(text: str, context: Context) -> str:
        """Remember something for later in the conversation."""
        kept = (*remembered(context), text)
        if len(json.dumps(kept)) > ROOM:
            raise ToolError("There is no room for that; remember something shorter.")
        context.set_fact("remembered", kept)
        return "Noted."

    @tools.tool()
    def recall(context: Context, words: str = "") -> list[str]:
        """Tell what was remembered and contains some words."""
        return [text for text in remembered(context) if words.lower() in text.lower()]

    tools.include(Mail())
    tools.include(Calendar())
    register_collections(tools)
    return tools


tools = build()
