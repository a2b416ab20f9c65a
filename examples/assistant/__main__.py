"""Runs the scripted conversation and prints the table of savings: `python -m examples.assistant`."""

from __future__ import annotations

import anyio

from toolfold_adapters.inprocess import Conversation

from . import build
from .agent import SCRIPT, Message, ScriptedModel, turn
from .savings import Cost, table


def shown(cost: Cost) -> str:
    """Return the columns of one cost."""
    return f"{cost.before:>8,}{cost.after:>8,}{cost.saved:>7.0f}%"


async def main() -> None:
    """Print the conversation, turn by turn, and the table."""
    model, messages = ScriptedModel(), list[Message]()
    async with Conversation(build()) as conversation:
        for text in SCRIPT:
            print(f"> {text}\n{await turn(conversation, model, messages, text)}")
            loaded = ", ".join(conversation.loaded) or "none"
            print(f"  [groups loaded: {loaded}; tokens sent for tools: {conversation.tokens().sent:,}]\n")
    print(f"{'Tokens for tools in each turn':32}{'Document C estimates':>24}  {'Measured here':>24}")
    print(f"{'Scenario':32}{'  before   after   saved':>24}  {'  before   after   saved':>24}")
    for row in table(build()):
        print(f"{row.scenario:32}{shown(row.document)}  {shown(row.here)}")


if __name__ == "__main__":
    anyio.run(main)
