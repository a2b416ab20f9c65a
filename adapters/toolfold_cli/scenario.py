"""The steps of `toolfold demo`: a real MCP client drives the library's desk, and the result of every step is checked.

Everything that is reported was received from the server.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from toolfold import ToolSet
from toolfold.spi import extras_named
from toolfold_adapters.names import wire_name
from toolfold_adapters.tokens import approximate_tokens, cost

from .library import TITLES, desk

if TYPE_CHECKING:
    from mcp import Client

OPENED = (
    *("catalog__describe", "catalog__search", "catalog__similar"),
    *("catalog__deactivate", "catalog__loans__activate"),
)


@frozen(kw_only=True)
class DemoStep:
    """A step of the demo, as it happened.

    Attributes:
        title: The subject of the step.
        request: The client's requests.
        answers: The texts of the responses and of other effects.
        listed: How many tools are listed after the step.
        before: The approximate tokens of the list before the step.
        after: The same after the step.
        notices: How many times the client was notified that its list changed.
        failures: The expectations that were not met; empty if the step succeeded.
    """

    title: str
    request: str
    answers: tuple[str, ...]
    listed: int
    before: int
    after: int
    notices: int
    failures: tuple[str, ...] = ()


@frozen
class DemoClient:
    """The client of the demo: the connection, and the observations so far."""

    connection: Client
    hook_log: list[str]
    notifications: list[str]
    tokens: list[int] = field(factory=lambda: [0])

    async def list_tools(self) -> tuple[set[str], int]:
        """Return the names of the tools that are listed now, and their approximate tokens."""
        tools = (await self.connection.list_tools(cache_mode="bypass")).tools
        wire = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        return {tool.name for tool in tools}, sum(map(approximate_tokens, wire))

    async def step(
        self, title: str, request: str, answers: list[str], checks: dict[str, bool], notices: int
    ) -> DemoStep:
        """Return the step that was just taken; `checks` has the expectations, and whether they were met."""
        names, tokens = await self.list_tools()
        before, notified = self.tokens[-1], len(self.notifications)
        self.notifications.clear()
        self.tokens.append(tokens)
        checks = {**checks, f"{notices} notification(s) that the list changed, not {notified}": notified == notices}
        return DemoStep(
            title=title,
            request=request,
            answers=tuple(answers),
            listed=len(names),
            before=before,
            after=tokens,
            notices=notified,
            failures=tuple(check for check, met in checks.items() if not met),
        )

    async def call(self, name: str, **arguments: Any) -> tuple[bool, str]:
        """Call a tool, and return whether it succeeded and the text of its result or error."""
        from mcp import MCPError

        try:
            result = await self.connection.call_tool(name, arguments)
        except MCPError as error:
            return False, f"error {error.code}: {error.message}"
        return not result.is_error, "\n".join(getattr(block, "text", "") for block in result.content)


async def play(on_step: Callable[[DemoStep], None]) -> None:
    """Take the steps of the demo, and pass each one to `on_step`."""
    with extras_named():
        from mcp import Client

        from toolfold_adapters.mcp import build_server

    hook_log: list[str] = []
    notifications: list[str] = []

    async def on_message(message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            notifications.append(message.method)

    tools = desk(hook_log)
    async with _silent_log(), Client(build_server(tools), mode="legacy", message_handler=on_message) as connection:
        client = DemoClient(connection, hook_log, notifications)
        on_step(await _first_list(client, tools))
        for step in (_hidden, _open, _use, _nested, _rollback, _exclusion, _close):
            on_step(await step(client))


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


async def _first_list(client: DemoClient, tools: ToolSet) -> DemoStep:
    own = [component for component in tools.catalog.tools.values() if component.control is None]
    names, _ = await client.list_tools()
    client.tokens[-1] = everything = cost(own, wire_name)
    shown = sorted(names & {component.name for component in own})
    openers = {name for name in names if name.endswith("__activate")}
    more = sorted(names - openers - {*shown})
    return await client.step(
        "A client connects and lists the tools",
        "tools/list",
        [
            f"{len(shown)} of {len(own)} tools ({', '.join(shown)}), {len(openers)} that open groups"
            + "".join(f", and {name}" for name in more),
            f"(all {len(own)} would be ~{everything:,} tokens)",
        ],
        {"only the tools in no group are listed": shown == ["find_shelf", "opening_hours"]},
        notices=0,
    )


async def _search(client: DemoClient, title: str, check: str, expected: Callable[[bool, str], bool]) -> DemoStep:
    """Return the step of a search, whose success and text are `expected`."""
    succeeded, text = await client.call("catalog__search", words="atlas")
    request = 'tools/call catalog__search {"words": "atlas"}'
    return await client.step(title, request, [text], {check: expected(succeeded, text)}, notices=0)


async def _hidden(client: DemoClient) -> DemoStep:
    return await _search(
        client,
        "A tool of a closed group does not exist",
        "the call is refused with -32602",
        lambda succeeded, text: not succeeded and text.startswith("error -32602"),
    )


async def _open(client: DemoClient) -> DemoStep:
    before, _ = await client.list_tools()
    succeeded, text = await client.call("catalog__activate")
    new = (await client.list_tools())[0] - before
    return await client.step(
        "Opening a group",
        "tools/call catalog__activate",
        [text],
        {
            "the activator answers": succeeded,
            "the tools of the group are listed, and what opens the next one": {*OPENED} == new,
        },
        notices=1,
    )


async def _use(client: DemoClient) -> DemoStep:
    return await _search(
        client,
        "Its tools work now",
        "the search finds the title",
        lambda succeeded, text: succeeded and TITLES[1] in text,
    )


async def _nested(client: DemoClient) -> DemoStep:
    opened, text = await client.call("catalog__loans__activate")
    lent, answer = await client.call("catalog__loans__lend", title=TITLES[1], member="Ada")
    return await client.step(
        "A group inside it opens the same way",
        "tools/call catalog__loans__activate, then catalog__loans__lend",
        [_first_line(text), answer],
        {"the inner group opens": opened, "its tool answers": lent and "Ada" in answer},
        notices=1,
    )


async def _rollback(client: DemoClient) -> DemoStep:
    opened, _ = await client.call("stocktake__activate")
    before, _ = await client.list_tools()
    client.hook_log.clear()
    succeeded, text = await client.call("vault__activate")
    after, _ = await client.list_tools()
    hooks = list(client.hook_log)
    return await client.step(
        "A hook fails, and what was done is undone",
        "tools/call stocktake__activate, then vault__activate",
        [text, "hooks: " + ", ".join(hooks)],
        {
            "the first group opens": opened,
            "the second is refused": not succeeded,
            "the hook that had run is undone": hooks == ["shelves: opened", "vault: the lock jams", "shelves: closed"],
            "the list is the same as before": before == after and "stocktake__count" in after,
        },
        notices=1,
    )


async def _exclusion(client: DemoClient) -> DemoStep:
    client.hook_log.clear()
    succeeded, text = await client.call("vault__activate")
    names, _ = await client.list_tools()
    hooks = list(client.hook_log)
    return await client.step(
        "The second attempt succeeds, and closes the group that it excludes",
        "tools/call vault__activate",
        [_first_line(text), "hooks: " + ", ".join(hooks)],
        {
            "the group opens": succeeded and "vault__hand_out" in names,
            "the other one is closed": "stocktake__count" not in names,
            "both hooks ran once": hooks == ["shelves: opened", "vault: unlocked"],
        },
        notices=1,
    )


async def _close(client: DemoClient) -> DemoStep:
    client.hook_log.clear()
    closed, text = await client.call("catalog__deactivate")
    closed_too, _ = await client.call("vault__deactivate")
    hooks = list(client.hook_log)
    _, tokens = await client.list_tools()
    return await client.step(
        "Closing a group closes the groups inside it",
        "tools/call catalog__deactivate, then vault__deactivate",
        [text, "hooks: " + ", ".join(hooks)],
        {
            "both close": closed and closed_too,
            "the list is the first one again": tokens == client.tokens[1],
            "the hook ran": hooks == ["vault: locked"],
        },
        notices=2,
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0].removesuffix(" Now available:")
