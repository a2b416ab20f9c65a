"""The steps of `toolfold demo`: a real MCP client drives the shop without a session, and every step is checked.

Everything that is reported was received from the server. The list never changes, so what the client reads only grows:
the list, and then each answer. Beside it stands what it would have read with all tools listed: those, and the answers
that are not about groups.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from toolfold import ToolSet
from toolfold.spi import extras_named
from toolfold_adapters.names import wire_name
from toolfold_adapters.tokens import approximate_tokens, cost

from .shop import tools as tools

if TYPE_CHECKING:
    from mcp import Client

CLIENT = "mcp.client.client"
"""The module of the SDK that has its client."""


@frozen(kw_only=True)
class DemoStep:
    """A step of the demo, as it happened.

    Attributes:
        title: What it shows.
        request: The client's request.
        answer: The text of the answer.
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
    """The client of the demo: its connection, the handle that it was given last, and what it has read so far."""

    connection: Client
    handle: str | None = None
    open_groups: tuple[str, ...] = ()
    read: int = 0
    flat: int = 0

    async def call(self, name: str, /, **arguments: Any) -> Response:
        """Call a tool with the handle, and keep the handle that its answer has."""
        given = arguments if self.handle is None else {**arguments, "handle": self.handle}
        result = await self.connection.call_tool(name, given)
        change = (result.meta or {}).get("dev.toolfold/change", {})
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        self.read += approximate_tokens(text)
        if name == "call_tool":
            self.flat += approximate_tokens(text)
        if change:
            self.handle, self.open_groups = change.get("handle", self.handle), tuple(change["active"])
        return Response(not result.is_error, text, change, result.structured_content)

    def step(self, title: str, request: str, answer: str, checks: dict[str, bool]) -> DemoStep:
        """Return the step that was just taken; `checks` has the expectations, and whether they were met."""
        return DemoStep(
            title=title,
            request=request,
            answer=answer,
            open_groups=self.open_groups,
            read=self.read,
            flat=self.flat,
            failures=tuple(check for check, met in checks.items() if not met),
        )


async def play(on_step: Callable[[DemoStep], Awaitable[None]], shop: ToolSet = tools) -> None:
    """Take the steps of the demo, and pass each one to `on_step` as it happens."""
    with extras_named():
        from mcp.client.client import Client  # without the rest of the SDK

        from toolfold_adapters.mcp import build_server

    async with _silent_log(), Client(build_server(shop), mode="auto") as connection:
        client = DemoClient(connection)
        await on_step(await _first_list(client, shop))
        for step in (_closed, _open, _use, _rule, _rollback, _exclusion, _same_list):
            await on_step(await step(client))


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


async def _listed(client: DemoClient) -> list[dict[str, Any]]:
    """Return the definitions that the server lists now."""
    tools = (await client.connection.list_tools(cache_mode="bypass")).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


async def _first_list(client: DemoClient, shop: ToolSet) -> DemoStep:
    own = [component for component in shop.catalog.tools.values() if component.control is None]
    listed = await _listed(client)
    client.read, client.flat = sum(map(approximate_tokens, listed)), cost(own, wire_name)
    names = [tool["name"] for tool in listed]
    return client.step(
        "The client lists the tools, once",
        "tools/list",
        f"{len(names)} tools instead of {len(own)}: {', '.join(names)}",
        {"only tools in no group, and those that open groups, are listed": not any("orders" in name for name in names)},
    )


async def _closed(client: DemoClient) -> DemoStep:
    found = await client.call("call_tool", name="orders__find", arguments={"state": "paid"})
    return client.step(
        "A tool of a closed group can't be called",
        'orders__find {"state": "paid"}',
        found.text,
        {"the call is refused": not found.succeeded},
    )


async def _open(client: DemoClient) -> DemoStep:
    opened = await client.call("open_group", group="orders")
    return client.step(
        "Opening the group opens the database, and the answer has a handle and the tools",
        'open_group {"group": "orders"}',
        _shortened(opened),
        {
            "the group opens": opened.change.get("active") == ["orders"],
            "the answer has the definitions": "orders__find" in opened.text and "orders__ship" in opened.text,
            "the answer has a handle": client.handle is not None,
        },
    )


async def _use(client: DemoClient) -> DemoStep:
    found = await client.call("call_tool", name="orders__find", arguments={"state": "paid"})
    return client.step(
        "With the handle, its tools return rows",
        'orders__find {"state": "paid"}',
        found.text,
        {"the order is found": found.succeeded and found.structured["result"][0]["id"] == 4711},
    )


async def _rule(client: DemoClient) -> DemoStep:
    opened = await client.call("open_group", group="orders.refunds")
    paid = await client.call("call_tool", name="orders__refunds__pay", arguments={"refund": 1})
    return client.step(
        "A group inside it opens the same way, but only managers may pay",
        'open_group {"group": "orders.refunds"}, then orders__refunds__pay {"refund": 1}',
        f"{_shortened(opened)}\n{paid.text}",
        {
            "the inner group opens": "orders.refunds" in opened.change.get("active", ()),
            "what the rule forbids is not offered": "orders__refunds__pay" not in opened.text,
            "what the rule forbids can't be called": not paid.succeeded,
        },
    )


async def _rollback(client: DemoClient) -> DemoStep:
    await client.call("open_group", group="stock")
    before = client.open_groups
    refused = await client.call("open_group", group="stock.count")
    found = await client.call("call_tool", name="orders__show", arguments={"order": 4711})
    return client.step(
        "A hook fails: what was done is undone, and nothing has changed",
        'open_group {"group": "stock"}, then {"group": "stock.count"}, then orders__show {"order": 4711}',
        f"{refused.text}\n{found.text}",
        {
            "the group does not open": not refused.succeeded,
            "the same groups are open": client.open_groups == before,
            "the database, which had been closed for it, is open again": found.succeeded,
        },
    )


async def _exclusion(client: DemoClient) -> DemoStep:
    await client.call("call_tool", name="charge_scanner", arguments={})
    opened = await client.call("open_group", group="stock.count")
    return client.step(
        "With the scanner charged it opens, and closes the groups that it excludes",
        'charge_scanner, then open_group {"group": "stock.count"}',
        _shortened(opened),
        {
            "the group opens": "stock.count" in client.open_groups,
            "the excluded group closes, with what is in it": client.open_groups == ("stock", "stock.count"),
        },
    )


async def _same_list(client: DemoClient) -> DemoStep:
    names = {tool["name"] for tool in await _listed(client)}
    entered = await client.call("call_tool", name="stock__count__enter", arguments={"sku": "TEA-9", "found": 78})
    return client.step(
        "The list has not changed: what a provider has cached stays cached",
        'stock__count__enter {"sku": "TEA-9", "found": 78}',
        entered.text,
        {
            "the tool answers": entered.succeeded,
            "the list is the first one": "open_group" in names and not any("stock" in name for name in names),
        },
    )


def _shortened(answer: Response) -> str:
    """Return what an answer to opening a group says, with the names of the tools in place of their definitions."""
    lines = [line for line in answer.text.splitlines() if not line.startswith(("  {", "Give it as"))]
    names = ", ".join(line.removeprefix("- ").split(":")[0] for line in lines if line.startswith("- "))
    said = [line.removesuffix(" Now available:") for line in lines if not line.startswith("- ")]
    return "\n".join([*said, *([f"Now available, with their schemas: {names}"] if names else [])])
