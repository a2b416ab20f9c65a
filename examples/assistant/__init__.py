"""An assistant with many tools that loads what it needs: document C as a use of the one core.

`python -m examples.assistant` holds a conversation with a scripted model and prints what grouping saves. The tools can
be served too: `toolfold serve examples.assistant:tools`.
"""

from __future__ import annotations

from toolfold import ToolSet

from .calendar import Calendar
from .mail import Mail
from .records import register_collections

NOW = "2026-03-02T08:30"
"""The assistant's time, so that every run is the same."""


def build() -> ToolSet:
    """Return the tools, with data of their own."""
    tools = ToolSet("assistant", control="load_tool_group", on_hidden="hint")
    remembered: list[str] = []

    @tools.tool()
    def get_current_time() -> str:
        """Tell the date and the time."""
        return NOW

    @tools.tool()
    def remember(text: str) -> str:
        """Remember something for later in the conversation."""
        remembered.append(text)
        return "Noted."

    @tools.tool()
    def recall(words: str = "") -> list[str]:
        """Tell what was remembered and contains some words."""
        return [text for text in remembered if words.lower() in text.lower()]

    tools.include(Mail())
    tools.include(Calendar())
    register_collections(tools)
    return tools


tools = build()
