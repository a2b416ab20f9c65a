"""What a gateway's connection knows of the tags of its server, message by message (SPEC NXT-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from toolfold_adapters.mcp.extensions import upstream_tags
from toolfold_adapters.mcp.extensions.tags import KNOWN_TAGS, STALE, STALE_TAGS
from toolfold_adapters.mcp.extensions.upstream_tags import UpstreamTags, with_tags

pytestmark = pytest.mark.spec("NXT-1")

TOOLS = "tools/list"
CHANGED = "notifications/tools/list_changed"
SAY = {"name": "say", "description": "Say it."}
cause: ContextVar[str] = ContextVar("cause", default="none")


@define(eq=False)
class Link:
    """One connection: what was sent to the server, and what was put between its messages."""

    tags: UpstreamTags = field(init=False)
    sent: list[Any] = field(factory=list[Any])
    causes: list[str] = field(factory=list[str])
    put: list[Any] = field(factory=list[Any])

    async def send(self, item: SessionMessage) -> None:
        self.causes.append(cause.get())
        self.sent.append(item.message)

    async def take(self, item: Any) -> None:
        self.put.append(item.message)

    def ask(self, number: int, method: str, *, modern: bool = True, **params: Any) -> Any:
        """Return the tags that a request carries on its way."""
        meta: dict[str, Any] = {PROTOCOL_VERSION_META_KEY: "2026-07-28"} if modern else {}
        message = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params={**params, "_meta": meta})
        changed: Any = self.tags.sent(SessionMessage(message)).message
        return changed.params["_meta"].get(KNOWN_TAGS)

    def answer(self, number: int, **result: Any) -> list[Any]:
        """Return what is passed on of an answer."""
        came = self.tags.came(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result=result)))
        return [item.message for item in came if isinstance(item, SessionMessage)]

    def reject(self, number: int, stale: Any = None) -> list[Any]:
        """Return what is passed on of a rejection."""
        error = ErrorData(code=-32987, message="List again.", data={"staleTags": stale or [TOOLS]})
        came = self.tags.came(SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error)))
        return [item.message for item in came if isinstance(item, SessionMessage)]

    def list(self, number: int, tag: str | None, *tools: Any) -> None:
        """Have the list of tools read."""
        self.ask(number, TOOLS)
        self.answer(number, tools=[*(tools or (SAY,))], **({} if tag is None else {"tag": tag}))


@asynccontextmanager
async def linked() -> AsyncGenerator[Link]:
    link = Link()
    async with anyio.create_task_group() as tasks:
        link.tags = UpstreamTags(link.send, link.take, tasks)
        yield link
        tasks.cancel_scope.cancel()


def methods(items: list[Any]) -> list[str]:
    return [one.method if isinstance(one, JSONRPCNotification) else "answer" for one in items]


async def test_tags_go_to_modern_servers_while_their_lists_have_them() -> None:
    async with linked() as link:
        link.list(1, "one")
        assert link.ask(2, "tools/call", name="say") == {TOOLS: "one"}
        assert link.ask(3, "tools/call", name="say", modern=False) is None
        assert link.ask(4, "prompts/get", name="x") is None
        link.list(5, None)
        assert link.ask(6, "tools/call", name="say") is None


async def test_a_stale_list_is_said_to_have_changed_once_until_it_is_read_again() -> None:
    async with linked() as link:
        link.list(1, "one")
        for number in (2, 3, 4):
            link.ask(number, "tools/call", name="say")
        stale = {"content": [], "_meta": {STALE_TAGS: [TOOLS], "other": 1}}
        notice, answer = link.answer(2, **stale)
        assert (notice.method, answer.result["_meta"]) == (CHANGED, {"other": 1})
        assert methods(link.answer(3, **stale)) == ["answer"]
        link.list(5, "two")
        link.ask(6, "tools/call", name="say")
        link.list(7, "three")
        for before in (4, 6):
            assert methods(link.answer(before, **stale)) == ["answer"]
        link.ask(8, "tools/call", name="say")
        assert methods(link.answer(8, **stale)) == [CHANGED, "answer"]


async def test_pages_of_different_lists_are_an_error_and_have_it_read_again() -> None:
    async with linked() as link:
        link.list(1, "one")
        for other in ("three", None):
            link.ask(2, TOOLS)
            link.answer(2, tools=[SAY], tag="two", nextCursor="x")
            link.ask(3, TOOLS, cursor="x")
            error, notice = link.answer(3, tools=[], **({} if other is None else {"tag": other}))
            assert isinstance(error, JSONRPCError)
            assert notice.method == CHANGED
            assert link.ask(4, "tools/call", name="say") is None


@pytest.mark.parametrize("stale", [[TOOLS], {TOOLS: "one"}], ids=["as drafted", "as an object"])
async def test_a_rejected_call_is_sent_again_as_it_was_and_once(stale: Any) -> None:
    async with linked() as link:
        link.list(1, "one")
        cause.set("a call")
        link.ask(2, "tools/call", name="say")
        cause.set("another")
        assert methods(link.reject(2, stale)) == [CHANGED]
        await anyio.wait_all_tasks_blocked()
        assert link.sent == []
        link.list(3, "two", SAY, {"name": "novel"})
        await anyio.wait_all_tasks_blocked()
        (again,) = link.sent
        assert (again.id, again.params["_meta"][KNOWN_TAGS], link.causes) == (2, {TOOLS: "two"}, ["a call"])
        *notices, error = link.reject(2, stale)
        assert methods(notices) == [CHANGED]
        assert (error.error.code, error.error.data) == (STALE, None)


@pytest.mark.parametrize("now", [{"name": "say", "description": "Other."}, {"name": "novel"}], ids=["other", "gone"])
async def test_a_rejected_call_of_what_is_defined_otherwise_fails(now: Any) -> None:
    async with linked() as link:
        link.list(1, "one")
        link.ask(2, "tools/call", name="say")
        link.reject(2)
        link.list(3, "two", now)
        await anyio.wait_all_tasks_blocked()
        assert (link.sent, [one.id for one in link.put]) == ([], [2])


async def test_a_rejected_call_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_tags, "RELIST_SECONDS", 0)
    async with linked() as link:
        link.list(1, "one")
        link.ask(2, "tools/call", name="say")
        link.reject(2)
        with anyio.fail_after(10):
            while not link.put:
                await anyio.lowlevel.checkpoint()
        assert (link.sent, [one.error.code for one in link.put]) == ([], [STALE])


async def test_a_rejected_call_that_is_cancelled_is_not_sent_again() -> None:
    async with linked() as link:
        link.list(1, "one")
        link.ask(2, "tools/call", name="say")
        link.reject(2)
        params = {"requestId": 2}
        link.tags.sent(
            SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))
        )
        link.list(3, "two")
        await anyio.wait_all_tasks_blocked()
        assert (link.sent, link.put) == ([], [])


async def test_the_error_that_ends_a_connection_passes() -> None:
    class Broken:
        def __aiter__(self) -> Broken:
            return self

        async def __anext__(self) -> Any:
            raise ConnectionResetError

    @asynccontextmanager
    async def transport() -> AsyncGenerator[tuple[Any, Any]]:
        yield Broken(), Link()

    async with with_tags(transport)() as (read, _):
        with pytest.raises(ConnectionResetError):
            await read.receive()
