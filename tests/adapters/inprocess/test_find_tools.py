"""`find_tools` in a conversation (SPEC FND-1, AGT-2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.inprocess.support import SHAPES, executed
from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.search import bm25


def office() -> ToolSet:
    tools = ToolSet("office", control="open_group", search=bm25)
    for group, verb in (("mail", "send"), ("files", "read")):
        tools.register_group(group, f"About {group}")
        tools.register(verb, lambda: "done", description=f"{verb} one", group=group)
    return tools


@pytest.mark.spec("FND-1", "AGT-2")
async def test_a_search_that_opens_and_a_use_in_one_turn_both_work() -> None:
    async with Conversation(office()) as conversation:
        calls = [("mail__send", {}), ("find_tools", {"query": "send mail", "open": True})]
        used, found = await conversation.execute(calls)
        assert used.text == "done"
        assert found.text.startswith("Opened: mail.")
        assert conversation.loaded == ("mail",)
        assert "mail__send" in [tool["name"] for tool in conversation.tools()]


@pytest.mark.spec("FND-1", "GRP-6")
@pytest.mark.parametrize("write", SHAPES.values(), ids=SHAPES)
async def test_what_a_search_opened_is_known_from_the_messages(write: Callable[[Any], list[Any]]) -> None:
    async with Conversation(office()) as conversation:
        turns: list[list[tuple[str, Any]]] = [
            [("find_tools", {"query": "read files"})],
            [("find_tools", {"query": "send mail", "open": True})],
            [("find_tools", {"query": "mail", "limit": 0, "open": True})],
        ]
        messages = write(await executed(conversation, *turns))
        assert Conversation.from_history(office(), messages).loaded == conversation.loaded == ("mail",)
