"""Requests over a pipe that go past the SDK's dispatcher, to which each costs several turns of the loop (SPEC GWY-1).

The dispatcher makes a stream, a time limit and a span for each request, and hands its answer from task to task. Over
a pipe there is neither a stream for each answer nor a header: who reads there gives the answer to who waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from attrs import define, field
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, RequestId
from opentelemetry import trace
from opentelemetry.propagate import inject

from ...transport.lines import Item

Answer = JSONRPCResponse | JSONRPCError


@define
class _Waiting:
    """Who waits for an answer."""

    came: anyio.Event = field(factory=anyio.Event)
    answer: Answer | None = None


class Direct:
    """The requests over one connection that wait for an answer.

    Args:
        send: Writes a message.
    """

    def __init__(self, send: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: dict[RequestId, _Waiting] = {}
        self._closed = False

    async def request(self, number: int, method: str, params: dict[str, Any]) -> Answer | None:
        """Return the answer to a request with an id of its own, or `None` if no answer can come any more."""
        if self._closed:
            return None
        meta: dict[str, Any] = {**(params.get("_meta") or {})}
        inject(meta)
        given = {**params, "_meta": meta} if meta else {key: one for key, one in params.items() if key != "_meta"}
        more: dict[str, Any] = {"params": given} if given else {}
        self._waiting[number] = waiting = _Waiting()
        try:
            await self._send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method, **more)))
            await waiting.came.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None
        finally:
            self._waiting.pop(number, None)
        return waiting.answer

    def takes(self, item: Item) -> bool:
        """Return whether something that came answers such a request, which then has it."""
        if not isinstance(item, SessionMessage) or not isinstance(item.message, JSONRPCResponse | JSONRPCError):
            return False
        identity = item.message.id
        waiting = None if identity is None else self._waiting.pop(coerce_request_id(identity), None)
        if waiting is None:
            return False
        waiting.answer = item.message
        waiting.came.set()
        return True

    def close(self) -> None:
        """Take note that no answer comes any more."""
        self._closed = True
        for waiting in self._waiting.values():
            waiting.came.set()


def spans_are_made() -> bool:
    """Return whether spans of requests are recorded, which the dispatcher makes."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
