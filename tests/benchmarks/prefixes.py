"""Compares what deliveries bill again in the same conversations: prefixes that break, and the tokens behind them.

    python -m tests.benchmarks.prefixes            play the conversations, and print the table
    python -m tests.benchmarks.prefixes --write    write it into docs/explanation/prefixes.md, too, with the rules

The conversations are made up, from seeds: what is needed next is mostly what was needed before, groups are opened when
something in them is needed for the first time, and now and then one is closed. Each delivery plays the same steps with
the same answers, and what its model reads before each step is compared with what it read before the last one.
`TESTS_FASTMCP` names the interpreter of an environment that has `fastmcp`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import anyio
from attrs import define

from tests.prefixes.conversations import HOSTS
from toolfold import ToolSet
from toolfold_specs.prefixes import CALL_TOOL, IN_PROCESS, LEGACY, MODERN, NATIVE, TABLE, Prefix, billed_again

from .comparison import ROOT
from .peers.servers import Program, interpreter

PAGE = ROOT / "docs" / "explanation" / "prefixes.md"
GROUPS, TOOLS, STEPS, CONVERSATIONS = 12, 6, 60, 10
INSTRUCTIONS = "You work for a shop. " * 20
WORDS = ("order", "invoice", "parcel", "customer", "refund", "stock", "price", "report", "label", "return", "supplier")
OWN = {
    LEGACY: "legacy lists, notified",
    MODERN: "modern, with handles",
    CALL_TOOL: "legacy, by `call_tool`",
    NATIVE: "native loading (Anthropic)",
    IN_PROCESS: "in process, as groups open",
}
PEERS = {"fastmcp": ("FastMCP", "visibility of a session"), "pydantic-ai": ("pydantic-ai", "filtered toolset")}
MARKED = re.compile(r"(<!-- table: (rules|measured) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

Conversation = dict[str, Any]


def conversation(seed: int, steps: int = STEPS) -> Conversation:
    """Return a conversation: groups of tools with descriptions, instructions, and steps with the answers of calls."""
    random = Random(seed)

    def text(words: int) -> str:
        return " ".join(random.choices(WORDS, k=words))

    names = [f"group{number}" for number in range(GROUPS)]
    groups = {group: {f"{group}_tool{number}": text(30) for number in range(TOOLS)} for group in names}
    weights = [1 / (1 + number) for number in range(GROUPS)]
    done, opened = list[Any](), list[str]()
    while len(done) < steps:
        (group,) = random.choices(names, weights)
        if opened and random.random() < 0.05:
            done.append({"do": "close", "group": opened.pop(random.randrange(len(opened)))})
        if group not in opened:
            opened.append(group)
            done.append({"do": "open", "group": group})
        tool = random.choice([*groups[group]])
        done.append({"do": "call", "group": group, "tool": tool, "answer": text(random.randint(20, 300))})
    return {"instructions": INSTRUCTIONS, "groups": groups, "steps": done}


@define
class Bill:
    """What a delivery cost: requests to the model, prefixes that broke, tokens that were read, and read again."""

    requests: int = 0
    broken: int = 0
    again: int = 0
    sent: int = 0

    def add(self, prefixes: list[Prefix]) -> None:
        """Add a conversation, as its model read it before each step and in the end."""
        self.requests += len(prefixes)
        self.sent += sum(prefix.tokens for prefix in prefixes)
        for before, after in pairwise(prefixes):
            again = billed_again(before, after)
            self.broken += again > 0
            self.again += again


async def played(given: Conversation, opened: Callable[[ToolSet], AbstractAsyncContextManager[Any]]) -> list[Prefix]:
    """Return what the model reads before each step of a conversation and in the end, in a host that is opened."""
    tools = ToolSet("shop", control="open_group", run_in_thread=False)
    answers = iter([step["answer"] for step in given["steps"] if step["do"] == "call"])
    schema = {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]}
    for group, members in given["groups"].items():
        tools.register_group(group, f"The tools of {group}")
        for name, description in members.items():
            shown: Any = {"description": description, "input_schema": schema}
            tools.register(name, lambda arguments: next(answers), group=group, flat=True, **shown)
    found = list[Prefix]()
    async with opened(tools) as host:
        for step in given["steps"]:
            found.append(_read(await host.prefix(), given))
            if step["do"] == "call":
                await host.call(step["tool"], {"thing": "it"})
            else:
                await host.call(f"{step['do']}_group", {"group": step["group"]})
        found.append(_read(await host.prefix(), given))
    assert next(answers, None) is None, "a call has failed"
    return found


async def bill_of(delivery: str, *given: Conversation) -> Bill:
    """Return what some conversations cost in one of the library's own deliveries."""
    bill = Bill()
    for one in given:
        bill.add(await played(one, HOSTS[delivery]))
    return bill


def _read(prefix: Prefix, given: Conversation) -> Prefix:
    """Return what a provider gets: of a definition its name, description and schema; with the user's instructions."""
    members = ("name", "description", "inputSchema", "input_schema", "defer_loading")
    tools = [json.loads(tool) for tool in prefix.tools]
    reduced = [{name: tool[name] for name in members if name in tool} for tool in tools]
    return Prefix(reduced, [given["instructions"], *prefix.instructions], prefix.messages)


def played_by(framework: str, given: Conversation) -> list[Prefix]:
    """Return what the model reads with another framework, played by the interpreter that has it."""
    program = Program("prefixes", framework)
    done = subprocess.run(
        program.command(), input=json.dumps(given), stdout=subprocess.PIPE, check=True, text=True, **program.options
    )
    return [Prefix(*parts) for parts in json.loads(done.stdout)]


def bills(conversations: int) -> Iterator[tuple[str, str, Bill]]:
    """Yield who delivers, how, and what that cost."""
    given = [conversation(seed) for seed in range(conversations)]
    for delivery, name in OWN.items():
        yield "Toolfold", name, anyio.run(partial(bill_of, delivery, *given))
    for framework, (product, name) in PEERS.items():
        if interpreter(framework) is None:
            continue
        bill = Bill()
        for one in given:
            bill.add(played_by(framework, one))
        yield f"{product} {_version(framework)}", name, bill


def _version(framework: str) -> str:
    package = {"pydantic-ai": "pydantic-ai-slim"}.get(framework, framework)
    code = f"from importlib.metadata import version; print(version({package!r}))"
    command = [str(interpreter(framework)), "-c", code]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def measured(conversations: int) -> str:
    """Return the table of what was measured, in Markdown."""
    lines = [
        "| with | delivery | prefixes broken | tokens billed again | of tokens sent |",
        "|---|---|---:|---:|---:|",
    ]
    for product, name, bill in bills(conversations):
        share = f"{bill.again / bill.sent:.0%}"
        lines.append(
            f"| {product} | {name} | {bill.broken:,} of {bill.requests:,} | {bill.again:,} ({share}) | {bill.sent:,} |"
        )
    return "\n".join(lines) + "\n"


def rules() -> str:
    """Return the table of what a transition may change, in Markdown."""
    lines = ["| delivery | tools | instructions | messages | because |", "|---|---|---|---|---|"]
    for row in TABLE.values():
        may = " | ".join(part.value for part in (row.tools, row.instructions, row.messages))
        lines.append(f"| {row.delivery} | {may} | {row.why} |")
    return "\n".join(lines) + "\n"


def written(page: Path, tables: dict[str, str]) -> str:
    """Return a page with its tables replaced."""
    return MARKED.sub(
        lambda found: f"{found[1]}\n{tables.get(found[2], found[3].strip())}\n{found[4]}", page.read_text("utf-8")
    )


def main() -> None:
    """Print the table, and write it if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.prefixes", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS, help="how many to play")
    given = parser.parse_args()
    table = measured(given.conversations)
    print(table)
    if given.write:
        PAGE.write_text(written(PAGE, {"rules": rules(), "measured": table}), "utf-8")


if __name__ == "__main__":
    main()
