"""What the tests of tools that a provider loads late share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.adapters.inprocess.providers import BETA, PROVIDERS, functions_of
from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation, Native

ID = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
LOADERS: dict[Native, str] = {
    "anthropic": "open_group",
    "openai": "tool_search",
    BETA: "open_group",
    "kimi": "open_group",
}

both = pytest.mark.parametrize("native", PROVIDERS)


def shop(**options: Any) -> ToolSet:
    tools = ToolSet("shop", **{"control": "open_group", **options})
    tools.register_group("stock", "What there is")
    tools.register_group("orders", "What was ordered", parent="stock")
    tools.register_group("staff", "Who works here")
    tools.register("look", lambda given: f"{given['id']} left", group="stock", input_schema=ID, description="Look")
    tools.register("cancel", lambda given: "gone", group="stock.orders", input_schema=ID, description="Cancel one")
    tools.register("hire", lambda: "hired", group="staff", description="Hire somebody")
    tools.register("secret", lambda: "", group="stock", hidden=True)
    tools.register("help", lambda: "None.", description="Help")
    return tools


def opened(native: Native, group: str) -> tuple[str, dict[str, Any]]:
    return LOADERS[native], {"group": group}


def declared(conversation: Conversation) -> list[str]:
    """Return the names of the deferred tools."""
    tools = conversation.tools()
    functions = functions_of(tools) if any(tool.get("type") == "tool_search" for tool in tools) else tools
    return [tool["name"] for tool in functions if tool.get("defer_loading")]


def announced(messages: Iterable[Any]) -> list[str]:
    """Return the tools that the answers in messages announce."""
    names: list[str] = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        if "tools" in message:
            names += [one["name"] for one in functions_of(message["tools"])]
        for block in message.get("content", ()) if message.get("role") == "user" else ():
            if isinstance(block, dict):
                names += [part["tool_name"] for part in block["content"] if part["type"] == "tool_reference"]
    return names
