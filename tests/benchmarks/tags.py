"""Compares definition tags with handles and with sessions in the same conversations, and what a tag costs a call.

    python -m tests.benchmarks.tags            play the conversations, time calls, and print both tables
    python -m tests.benchmarks.tags --write    write them into docs/explanation/drafts.md, too

The conversations are those of `tests.benchmarks.prefixes`. Each host lists tools as seldom as it can: once, or again
when it is notified of a change, or told that its tag is stale.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio
from attrs import define, field
from mcp import Client
from mcp.client import IncomingMessage

from tests.prefixes.conversations import OverMcp
from toolfold import ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.extensions.tagged_client import TaggedClient
from toolfold_adapters.mcp.extensions.tags import KNOWN_TAGS, Choice, definition_tags
from toolfold_specs.prefixes import Prefix

from .comparison import ROOT
from .prefixes import CONVERSATIONS, Bill, conversation, played

PAGE = ROOT / "docs" / "explanation" / "drafts.md"
MARKED = re.compile(r"(<!-- table: (tags|cost) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
MODERN = "2026-07-28"
SIZES = (10, 100, 1000)
CALLS, ROUNDS = 200, 7


@define(eq=False)
class Tagged(OverMcp):
    """A host that knows tags: it lists again once its list is stale, and calls what is listed by name."""

    async def prefix(self) -> Prefix:
        """Return the list, as this host has it, and the messages."""
        client = cast(TaggedClient, self.client)
        tools = await client.everything()
        self.tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.values()]
        return Prefix(self.tools, [client.instructions or ""], self.messages)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Call a tool by name; the client carries the handle."""
        assert name in await cast(TaggedClient, self.client).everything()
        result = await self.client.call_tool(name, dict(arguments))
        texts = [getattr(block, "text", "") for block in result.content]
        self.messages += [{"call": [name, dict(arguments)]}, {"answer": texts}]


@define
class Delivery:
    """One way to deliver tools: who is the client, and what the server is built with."""

    host: type[OverMcp] = OverMcp
    client: Callable[..., Client] = Client
    era: str = MODERN
    relists: bool = False
    options: dict[str, Any] = field(factory=dict[str, Any])

    @asynccontextmanager
    async def opened(self, tools: ToolSet, asked: Counter[str]) -> AsyncGenerator[OverMcp]:
        """Open a conversation with a tool set; count the requests to its server."""
        notices: list[str] = []

        async def note(message: IncomingMessage) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                notices.append("changed")

        async def count(ctx: Any, call_next: Any) -> Any:
            asked[ctx.method] += ctx.request_id is not None
            return await call_next(ctx)

        server = build_server(tools, separator="__", handle_key="a key that is as long as it has to be", **self.options)
        server.middleware.insert(0, count)
        async with self.client(server, mode=self.era, message_handler=note) as client:
            yield self.host(client, notices, self.relists, modern=False)


def _tagging(**options: Any) -> Delivery:
    return Delivery(Tagged, TaggedClient, options={"extend": definition_tags("signal"), **options})


DELIVERIES: Mapping[str, Delivery] = {
    "handles, `call_tool`": Delivery(),
    "handles, tags": _tagging(),
    "handles, tags, answers with names": _tagging(answers="names"),
    "legacy session, notified": Delivery(era="legacy", relists=True),
    "legacy session, `call_tool`": Delivery(era="legacy"),
}


def compared(conversations: int) -> str:
    """Return the table of what each delivery took, in Markdown."""
    given = [conversation(seed) for seed in range(conversations)]
    lines = [
        "| delivery | calls | lists | prefixes broken | tokens sent | of these billed again |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, delivery in DELIVERIES.items():
        asked, bill = Counter[str](), Bill()
        for one in given:
            bill.add(anyio.run(played, one, partial(delivery.opened, asked=asked)))
        lines.append(
            f"| {name} | {asked['tools/call']:,} | {asked['tools/list']:,} | {bill.broken:,} of {bill.requests:,} | "
            f"{bill.sent:,} | {bill.again:,} ({bill.again / bill.sent:.0%}) |"
        )
    return "\n".join(lines) + "\n"


async def timed(size: int, choice: Choice | None, known: tuple[str, ...]) -> float:
    """Return the microseconds of a processor for a call, with so many tools and a client that knows some tags."""
    tools = ToolSet("big", run_in_thread=False)
    for number in range(size):
        schema = {"type": "object", "properties": {"thing": {"type": "string"}}}
        tools.register(f"tool{number}", lambda _: "done", description="word " * 30, input_schema=schema)
    answers = list[Any]()

    async def note(ctx: Any, call_next: Any) -> Any:
        answers[:] = [await call_next(ctx)]
        return answers[0]

    server = build_server(tools, extend=None if choice is None else definition_tags(choice))
    server.middleware.insert(0, note)
    async with Client(server, mode=MODERN) as client:
        tags = dict[str, str]()
        for method in known:
            await _ask(client, method)
            tags[method] = answers[0]["tag"]
        await client.list_tools()
        meta = cast(Any, {KNOWN_TAGS: tags} if tags else None)
        best = float("inf")
        for _ in range(ROUNDS):
            begun = time.process_time()
            for _ in range(CALLS):
                await client.call_tool("tool1", {"thing": "it"}, meta=meta)
            best = min(best, (time.process_time() - begun) / CALLS)
    return best * 1e6


async def _ask(client: Client, method: str) -> None:
    import mcp_types as types

    request: Any = types.ListToolsRequest(params=types.PaginatedRequestParams())
    if method != "tools/list":
        request = types.DiscoverRequest(params=types.RequestParams())
    await client.session.send_request(request, types.Result)


def cost() -> str:
    """Return the table of what a tag costs a call, in Markdown."""
    rows: Mapping[str, tuple[Choice | None, tuple[str, ...]]] = {
        "no tags": (None, ()),
        "`signal`, the tag of the list": ("signal", ("tools/list",)),
        "`reject`, the tag of the list": ("reject", ("tools/list",)),
        "`honour`, the tag of the list": ("honour", ("tools/list",)),
        "`signal`, that of the introduction, too": ("signal", ("tools/list", "server/discover")),
    }
    lines = [
        f"| microseconds of a processor for a call | {' | '.join(f'{size:,} tools' for size in SIZES)} |",
        f"|---|{'---:|' * len(SIZES)}",
    ]
    for name, (choice, known) in rows.items():
        times = [anyio.run(partial(timed, size, choice, known)) for size in SIZES]
        lines.append(f"| {name} | {' | '.join(f'{one:,.0f}' for one in times)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the tables, and write them if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tags", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS, help="how many to play")
    given = parser.parse_args()
    tables = {"tags": compared(given.conversations), "cost": cost()}
    print(*tables.values(), sep="\n")
    if given.write:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[4]}", text), "utf-8")


if __name__ == "__main__":
    main()
