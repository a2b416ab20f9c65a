"""Each limit and era in one scenario: a caller that has its share is refused, and others have theirs (SPEC SAF-4).

Streams and connections need sockets: `tests/process/adapters/mcp/test_limits.py` has them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import frozen
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import callers_of
from tests.adapters.mcp.callers import ERAS, Patience
from tests.adapters.mcp.support import PATIENCE, build_server, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold_adapters.mcp import Limit, Limits

Place = AbstractAsyncContextManager[str]
"""Yields the refusal of a place that a caller takes while this lasts, or nothing if it has one."""


@frozen
class House:
    """A server that several callers use at the same time."""

    tools: Patience
    target: Callable[[str], Any]

    @asynccontextmanager
    async def call(self, caller: str, era: str, name: str = "wait") -> AsyncGenerator[str]:
        async with Client(self.target(caller), mode=era) as client, anyio.create_task_group() as tasks:
            answer = await client.call_tool("ping", {})
            if answer.is_error:
                with pytest.raises(MCPError, match=text_of(answer).partition(":")[0]) as unlisted:
                    await names_of(client)
                assert unlisted.value.data == {"retryAfter": 1}
            else:
                tasks.start_soon(client.call_tool, name, {})
                await self.tools.begun.reaches(len(self.tools.begun) + 1)
            yield text_of(answer) if answer.is_error else ""

    def transition(self, caller: str, era: str) -> Place:
        return self.call(caller, era, "slow.activate")

    @asynccontextmanager
    async def session(self, caller: str, era: str) -> AsyncGenerator[str]:
        client = Client(self.target(caller), mode=era)
        try:
            await client.__aenter__()
        except BaseExceptionGroup as group:
            (error,) = [one for one in leaves(group) if isinstance(one, MCPError)]
            yield error.message
            return
        try:
            yield ""
        finally:
            await client.__aexit__(None, None, None)

    @asynccontextmanager
    async def handle(self, caller: str, era: str) -> AsyncGenerator[str]:
        async with Client(self.target(caller), mode=era) as client:
            answer = await client.call_tool("quick.activate", {})
            yield text_of(answer) if answer.is_error else ""


def leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    return [
        leaf for one in group.exceptions for leaf in (leaves(one) if isinstance(one, BaseExceptionGroup) else [one])
    ]


def who(caller: str) -> str:
    return f'principal ["client", "issuer", "{caller}"]'


ROWS = [
    *(("calls", "requests in progress", House.call, era) for era in ERAS),
    *(("calls", "requests in progress", House.transition, era) for era in ERAS),
    ("sessions", "sessions", House.session, "legacy"),
    ("handles", "stored sessions", House.handle, MODERN),
]


@pytest.mark.spec("SAF-4", "SAF-7", "SES-4", "STO-7", "DEL-3")
@pytest.mark.parametrize(("limited", "what", "take", "era"), ROWS, ids=[f"{row[2].__name__}, {row[3]}" for row in ROWS])
async def test_a_caller_that_has_its_share_is_refused_and_the_others_have_theirs(
    limited: str, what: str, take: Callable[..., Place], era: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = Patience()
    server = build_server(tools, limits=Limits(**{limited: Limit(3, 2)}))
    own = f"The limit of 2 {what} of one caller is reached: end one of them, or try again in "
    whole = f"The limit of 3 {what} in all is reached: try again in "
    with anyio.fail_after(PATIENCE):
        async with callers_of(server) as target, AsyncExitStack() as places:
            house = House(tools, target)

            async def refusal(caller: str) -> str:
                return await places.enter_async_context(take(house, caller, era))

            assert [await refusal("ada") for _ in range(2)] == ["", ""]
            assert (await refusal("ada")).startswith(own)
            assert not await refusal("bob")
            assert (await refusal("eve")).startswith(whole)
            logged = [text.partition(" try again in")[0] for text in caplog.messages if text.startswith("refused")]
            refused = [
                f"refused {who(name)}: {text}".partition(" try again in")[0]
                for name, text in (("ada", own), ("eve", whole))
            ]
            assert logged == [
                one for one in refused for _ in range(2 if limited == "calls" else 1)
            ]  # a call, and a list
            tools.proceed.set()
            await places.aclose()
            if limited != "handles":  # which nobody gives back
                assert "" in [await refusal("ada") for _ in range(5)]
