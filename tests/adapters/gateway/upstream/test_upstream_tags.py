"""Definition tags between a gateway and its servers: it sends those that it knows, and no client's (SPEC NXT-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from attrs import define, field
from mcp import Client
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from tests.adapters.gateway.inprocess import SECONDS, Clock, House, config_of
from toolfold import ToolSet
from toolfold_adapters.gateway import Gateway, Runtime, open_gateway
from toolfold_adapters.gateway.config.settings import GroupConfig
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.extensions.tagged_client import TaggedClient
from toolfold_adapters.mcp.extensions.tags import KNOWN_TAGS, STALE, STALE_TAGS, Choice, definition_tags
from toolfold_adapters.mcp.extensions.upstream_tags import with_tags

pytestmark = pytest.mark.spec("NXT-1")

MODERN = "2026-07-28"


@define(eq=False)
class Tagging:
    """A server with tags that notifies of nothing; what it was called with, and how often its lists were read."""

    choice: Choice = "signal"
    tools: ToolSet = field(factory=lambda: ToolSet("notes", run_in_thread=False))
    known: list[Any] = field(factory=list[Any])
    ran: list[str] = field(factory=list[str])
    listed: int = 0
    server: Server[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        @self.tools.tool()
        def note(text: str) -> str:
            """Note something."""
            self.ran.append(text)
            return f"noted {text}"

        self.server = build_server(self.tools, extend=definition_tags(self.choice))
        self.server.middleware.insert(0, self._see)

    async def _see(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "subscriptions/listen":
            raise MCPError(code=METHOD_NOT_FOUND, message="no")
        if ctx.method == "tools/call":
            self.known.append((ctx.meta or {}).get(KNOWN_TAGS))
        self.listed += ctx.method == "tools/list"
        return await call_next(ctx)


@asynccontextmanager
async def in_front_of(made: Tagging, choice: Choice = "signal") -> AsyncGenerator[tuple[Gateway, Server[Any]]]:
    """A gateway that knows tags on both sides, in front of one server."""
    runtime = Runtime(clock=Clock(), transport=with_tags(House(lambda name: made).transport))
    with anyio.fail_after(SECONDS):
        async with (gateway := open_gateway(config_of("notes"), runtime=runtime)) as tools:
            active = [group.path for group in tools.catalog.groups]
            extend = definition_tags(choice, gateway.extend)
            yield gateway, build_server(tools, active=active, handles="stored", extend=extend)


async def until(holds: Any) -> None:
    while not holds():
        await anyio.lowlevel.checkpoint()


async def settle(made: Tagging, client: Client) -> None:
    """Call until the gateway has read the lists over the connection of the client."""
    while not (made.known and made.known[-1]):
        await client.call_tool("note", {"text": "a"})
    made.known.clear()
    made.ran.clear()


def renamed(made: Tagging) -> None:
    """Have the tool take something else from now on."""
    made.tools.unregister("note")

    @made.tools.tool(name="note")
    def noted(words: str) -> str:
        """Note words."""
        made.ran.append(words)
        return words


async def test_each_side_has_its_own_tags() -> None:
    made = Tagging()
    async with in_front_of(made) as (_, server), TaggedClient(server, mode=MODERN) as client:
        await client.everything()
        await settle(made, client)
        result = await client.call_tool("note", {"text": "a"})
        assert STALE_TAGS not in (result.meta or {})
        (sent,) = made.known
        assert [*sent] == ["tools/list"]
        plain = await client.session.call_tool(
            "note", {"text": "b"}, meta=cast("Any", {KNOWN_TAGS: {"tools/list": "x"}})
        )
        assert cast("Any", plain).meta[STALE_TAGS] == ["tools/list"]
        assert made.known == [sent, sent]


async def test_what_a_server_says_is_stale_is_read_again_and_is_no_news_of_the_gateways_own() -> None:
    made = Tagging()
    async with in_front_of(made) as (gateway, server), TaggedClient(server, mode=MODERN) as client:
        await client.everything()
        await settle(made, client)
        before = made.listed
        made.tools.tool(name="novel", description="A new one")(lambda: "x")
        for text in ("b", "c"):
            assert STALE_TAGS not in ((await client.call_tool("note", {"text": text})).meta or {})
        await until(lambda: "novel" in gateway.tools.catalog.tools)
        assert made.listed == before + 1
        await client.call_tool("note", {"text": "d"})
        assert made.known[-1] != made.known[0] == made.known[1]
        assert "novel" in await client.everything()


async def test_a_gateway_honours_the_list_that_its_client_knows() -> None:
    made = Tagging()
    runtime = Runtime(clock=Clock(), transport=with_tags(House(lambda name: made).transport))
    config = config_of("notes").model_copy(update={"groups": {"book": GroupConfig(tools=("note",))}})
    with anyio.fail_after(SECONDS):
        async with (gateway := open_gateway(config, runtime=runtime)) as tools:
            server = build_server(tools, handles="stored", extend=definition_tags("honour", gateway.extend))
            async with TaggedClient(server, mode=MODERN) as client:
                await client.everything()
                await client.call_tool("open_group", {"group": "book"})
                assert "note" in await client.everything()
                client.handle = None
                result = await client.call_tool("note", {"text": "a"})
                assert (result.is_error, made.ran) == (False, ["a"])


async def test_a_call_that_was_rejected_is_made_once_if_its_tool_is_as_before() -> None:
    made = Tagging("reject")
    async with in_front_of(made) as (gateway, server), Client(server, mode=MODERN) as client:
        await settle(made, client)
        await client.call_tool("note", {"text": "a"})
        made.tools.tool(name="novel", description="A new one")(lambda: "x")
        result = await client.call_tool("note", {"text": "b"})
        assert not result.is_error
        assert made.ran == ["a", "b"]
        assert made.known[0] == made.known[1] != made.known[2] != None  # noqa: E711
        await until(lambda: "novel" in gateway.tools.catalog.tools)
        renamed(made)
        with pytest.raises(MCPError) as refused:
            await client.call_tool("note", {"text": "c"})
        assert (refused.value.error.code, refused.value.error.data) == (STALE, None)
        assert made.ran == ["a", "b"]
        await until(lambda: "words" in str(gateway.tools.catalog.tools["note"].input_schema))
        assert not (await client.call_tool("note", {"words": "d"})).is_error
