"""Holds the scripted conversation and prints the table of savings: `python -m examples.assistant`."""

from __future__ import annotations

import anyio

from toolfold_adapters.inprocess import Conversation

from . import build
from .agent import SCRIPT, Message, ScriptedModel, turn
from .savings import table


async def main() -> None:
    """Print the conversation, turn by turn, and the table."""
    model, messages = ScriptedModel(), list[Message]()
    async with Conversation(build()) as conversation:
        for text in SCRIPT:
            print(f"> {text}\n{await turn(conversation, model, messages, text)}")
            loaded = ", ".join(conversation.loaded) or "none"
            print(f"  [groups loaded: {loaded}; tokens sent for tools: {conversation.tokens().sent:,}]\n")
    print(f"{'Scenario':28}{'Before':>10}{'After':>10}   Saved")
    for row in table(build()):
        print(f"{row.scenario:28}{row.before:>10,}{row.after:>10,}   {row.saved}")


if __name__ == "__main__":
    anyio.run(main)
