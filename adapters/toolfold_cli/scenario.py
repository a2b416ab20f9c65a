"""The steps of `toolfold demo`: a real MCP client drives the shop without a session, and every step is checked.

Everything that is reported was received from the server. The list never changes, so what the client reads only grows:
the list, and then each answer. Beside it stands what it would have read with all tools listed: those, and the answers
that are not about groups.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, field, frozen

from toolfold import ToolSet
from toolfold.spi import extras_named
from toolfold_adapters.names import wire_name
from toolfold_adapters.tokens import approximate_tokens, cost

from .shop import tools as tools

if TYPE_CHECKING:
    from mcp import Client

CLIENT = "mcp.client.client"
"""The module of the SDK that has its client."""


@frozen
class DemoLine:
    """What happens, as it happens: a step begins, the client sends a request, or it receives an answer."""

    kind: Literal["step", "request", "answer"]
    text: str


@frozen(kw_only=True)
class DemoStep:
    """A step of the demo, as it happened.

    Attributes:
        title: What it shows.
        request: The client's requests, one a line.
        answer: The texts of the answers.
        open_groups: The groups that are open after it.
        read: The approximate tokens that the client has read until now.
        flat: Those that it would have read until now if all tools were listed.
        failures: The expectations that were not met; empty if the step succeeded.
    """

    title: str
    request: str
    answer: str
    open_groups: tuple[str, ...]
    read: int
    flat: int
    failures: tuple[str, ...] = ()


OnLine = Callable[[DemoLine], Awaitable[None]]


@frozen
class Response:
    """What a call was answered with.

    Attributes:
        succeeded: Whether it is not an error.
        text: What the model reads.
        change: What a call that opened or closed groups changed; empty for others.
        structured: The structured content.
    """

    succeeded: bool
    text: str
    change: dict[str, Any]
    structured: Any


@define
class DemoClient:
    """The client of the demo: its connection, the handle that it was given last, what it has read, and the first list.

    What happens is passed to `on_line`, and kept in `lines` until the step ends.
    """

    connection: Client
    on_line: OnLine
    handle: str | None = None
    open_groups: tuple[str, ...] = ()
    read: int = 0
    flat: int = 0
    first: Sequence[dict[str, Any]] = ()
    lines: list[DemoLine] = field(factory=list[DemoLine])

    async def begin(self, title: str) -> None:
        """Begin a step."""
        self.lines = []
        await self.say("step", title)

    async def say(self, kind: Literal["step", "request", "answer"], text: str) -> None:
        """Pass on that something happens."""
        self.lines.append(DemoLine(kind, text))
        await self.on_line(self.lines[-1])

    async def listed(self) -> list[dict[str, Any]]:
        """Return the definitions that the server lists now."""
        await self.say("request", "tools/list")
        tools = (await self.connection.list_tools(cache_mode="bypass")).tools
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]

    async def call(self, name: str, /, **arguments: Any) -> Response:
        """Call a tool with the handle, by `call_tool` unless it opens groups, and keep the handle of the answer."""
        await self.say("request", f"{name} {json.dumps(arguments)}" if arguments else name)
        opens = name == "open_group"
        given = arguments if opens else {"name": name, "arguments": arguments}
        if self.handle is not None:
            given = {**given, "handle": self.handle}
        result = await self.connection.call_tool(name if opens else "call_tool", given)
        change = (result.meta or {}).get("dev.toolfold/change", {})
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        self.read += approximate_tokens(text)
        if not opens:
            self.flat += approximate_tokens(text)
        if change:
            self.handle, self.open_groups = change.get("handle", self.handle), tuple(change["active"])
        await self.say("answer", _shortened(text))
        return Response(not result.is_error, text, change, result.structured_content)

    def step(self, checks: dict[str, bool]) -> DemoStep:
        """Return the step that ends here; `checks` has the expectations, and whether they were met."""
        title, requests, answers = ([line.text for line in self.lines if line.kind == kind] for kind in _KINDS)
        return DemoStep(
            title="\n".join(title),
            request="\n".join(requests),
            answer="\n".join(answers),
            open_groups=self.open_groups,
            read=self.read,
            flat=self.flat,
            failures=tuple(check for check, met in checks.items() if not met),
        )


_KINDS = ("step", "request", "answer")


async def play(
    on_step: Callable[[DemoStep], Awaitable[None]], shop: ToolSet = tools, on_line: OnLine | None = None
) -> None:
    """Take the steps of the demo; pass each line to `on_line` as it happens, and each step to `on_step` as it ends."""
    with extras_named():
        from mcp.client.client import Client  # without the rest of the SDK

        from toolfold_adapters.mcp import build_server

    async with _silent_log(), Client(build_server(shop), mode="auto") as connection:
        client = DemoClient(connection, on_line or _unseen)
        await on_step(await _first_list(client, shop))
        for step in (_closed, _open, _use, _rule, _rollback, _exclusion, _same_list):
            await on_step(await step(client))


async def _unseen(line: DemoLine) -> None:
    """Show nothing."""


@asynccontextmanager
async def _silent_log() -> AsyncGenerator[None]:
    """Suppress the library's log: the hook that fails is part of the demo."""
    logger = logging.getLogger("toolfold")
    logger.addFilter(_reject)
    try:
        yield
    finally:
        logger.removeFilter(_reject)


def _reject(record: logging.LogRecord) -> bool:
    return False


async def _first_list(client: DemoClient, shop: ToolSet) -> DemoStep:
    await client.begin("The client lists the tools, once")
    own = [component for component in shop.catalog.tools.values() if component.control is None]
    client.first = await client.listed()
    client.read, client.flat = sum(map(approximate_tokens, client.first)), cost(own, wire_name)
    names = [tool["name"] for tool in client.first]
    await client.say("answer", f"{len(names)} tools instead of {len(own)}: {', '.join(names)}")
    return client.step(
        {"only tools in no group, and those that open groups, are listed": not any("orders" in name for name in names)}
    )


async def _closed(client: DemoClient) -> DemoStep:
    await client.begin("A tool of a closed group can't be called")
    found = await client.call("orders__find", state="paid")
    return client.step({"the call is refused": not found.succeeded})


async def _open(client: DemoClient) -> DemoStep:
    await client.begin("Opening the group opens the database, and the answer has a handle and the tools")
    opened = await client.call("open_group", group="orders")
    return client.step(
        {
            "the group opens": opened.change.get("active") == ["orders"],
            "the answer has the definitions": "orders__find" in opened.text and "orders__ship" in opened.text,
            "the answer has a handle": client.handle is not None,
        }
    )


async def _use(client: DemoClient) -> DemoStep:
    await client.begin("With the handle, its tools return rows")
    found = await client.call("orders__find", state="paid")
    return client.step({"the order is found": found.succeeded and found.structured["result"][0]["id"] == 4711})


async def _rule(client: DemoClient) -> DemoStep:
    await client.begin("A group inside it opens the same way, but only managers may pay")
    opened = await client.call("open_group", group="orders.refunds")
    paid = await client.call("orders__refunds__pay", refund=1)
    return client.step(
        {
            "the inner group opens": "orders.refunds" in opened.change.get("active", ()),
            "what the rule forbids is not offered": "orders__refunds__pay" not in opened.text,
            "what the rule forbids can't be called": not paid.succeeded,
        }
    )


async def _rollback(client: DemoClient) -> DemoStep:
    await client.begin("A hook fails: what was done is undone, and nothing has changed")
    await client.call("open_group", group="stock")
    before = client.open_groups
    refused = await client.call("open_group", group="stock.count")
    found = await client.call("orders__show", order=4711)
    return client.step(
        {
            "the group does not open": not refused.succeeded,
            "the same groups are open": client.open_groups == before,
            "the database, which had been closed for it, is open again": found.succeeded,
        }
    )


async def _exclusion(client: DemoClient) -> DemoStep:
    await client.begin("With the scanner charged it opens, and closes the groups that it excludes")
    await client.call("charge_scanner")
    await client.call("open_group", group="stock.count")
    return client.step(
        {
            "the group opens": "stock.count" in client.open_groups,
            "the excluded group closes, with what is in it": client.open_groups == ("stock", "stock.count"),
        }
    )


async def _same_list(client: DemoClient) -> DemoStep:
    await client.begin("The list has not changed: what a provider has cached stays cached")
    listed = await client.listed()
    await client.say("answer", f"{'the same' if listed == client.first else 'not the same:'} {len(listed)} tools")
    entered = await client.call("stock__count__enter", sku="TEA-9", found=78)
    return client.step(
        {
            "the tool answers": entered.succeeded,
            "the list is the first one": listed == client.first,
        }
    )


def _shortened(text: str) -> str:
    """Return what an answer says, with the names of tools in place of their definitions."""
    lines = [line for line in text.splitlines() if not line.startswith(("  {", "Give it as"))]
    names = ", ".join(line.removeprefix("- ").split(":")[0] for line in lines if line.startswith("- "))
    said = [line.removesuffix(" Now available:") for line in lines if not line.startswith("- ")]
    return "\n".join([*said, *([f"Now available, with their schemas: {names}"] if names else [])])
