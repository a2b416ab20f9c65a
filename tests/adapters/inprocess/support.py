"""What the tests of conversations share: document C's assistant in small, and calls of it."""

from __future__ import annotations

from typing import Any

from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation

NOTHING = {"type": "object"}
FILES = ("pdf_extract_text", "pdf_info")


def phone(**options: Any) -> ToolSet:
    """Document C's assistant in small: core tools, and groups that `load_tool_group` opens."""
    tools = ToolSet("phone", control="load_tool_group", **options)
    tools.register("get_current_time", lambda: "noon", description="Tell the time", input_schema=NOTHING)
    tools.register_group("pdf", "Work with PDF files", title="PDF Tools")
    tools.register_group("gmail", "Work with mail")
    tools.register_group("labels", "Work with labels", parent="gmail")
    for name in ("pdf_info", "pdf_extract_text"):
        tools.register(name, lambda: "3 pages", group="pdf", flat=True, input_schema=NOTHING, description=f"Do {name}")
    tools.register("search", lambda: "2 mails", group="gmail", input_schema=NOTHING, description="Search")
    tools.register("add", lambda: "added", group="gmail.labels", input_schema=NOTHING, description="Add a label")
    return tools


def names(conversation: Conversation) -> list[str]:
    return [definition["name"] for definition in conversation.tools()]


def load(*groups: str) -> list[tuple[str, Any]]:
    return [("load_tool_group", {"group_name": group}) for group in groups]


CORE = ["get_current_time", "load_tool_group"]
