"""Which requests wait for an answer over a connection, so that none waits for ever for a broken one (SPEC GWY-3).

A broken answer whose request can't be found out is that of one of those that waited when it came: it is the last of
them that is left once all others were answered. So a broken answer harms its own request alone, unless the others take
longer than the one may wait: then the connection ends.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolfold import ToolfoldError

from ...transport.broken import BrokenLine
from ...transport.lines import BROKEN, Item, MessageTooLarge

LOST_SECONDS = 10.0
"""How long a request may wait whose answer was lost while others wait, so that it can't be told which it is."""
STREAMED = "subscriptions/listen"
"""A request whose answer comes at its end, which may be never; so a lost answer is hardly its own."""


class AnswerLost(ToolfoldError):
    """The answer to a request was broken, and it can't be told which request that is, so that the connection ended."""


class Awaited:
    """The requests that wait for an answer, by what passes over a connection.

    `failed` has the errors in place of answers that were lost, and `untidy` counts what came that is no message, or
    answers no request.
    """

    def __init__(self) -> None:
        self.failed: deque[Item] = deque()
        self.untidy = 0
        self._newest = 0
        self._waiting: set[RequestId] = set()
        self._streamed: set[RequestId] = set()
        self._suspects: set[RequestId] = set()
        self._lost = 0
        self._cut = False
        self._cleared, self._unclear = anyio.Event(), anyio.Event()

    async def overdue(self) -> AnswerLost:
        """Return once a request has waited for too long for an answer that was lost."""
        while True:
            await self._unclear.wait()
            with anyio.move_on_after(LOST_SECONDS) as waiting:
                await self._cleared.wait()
            if waiting.cancelled_caught:
                return AnswerLost("it gave a broken answer that does not say to which of several requests")

    def sent(self, item: SessionMessage) -> None:
        """Take note of what was sent."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            identity = coerce_request_id(message.id)
            self._waiting.add(identity)
            if message.method == STREAMED:
                self._streamed.add(identity)
            self._newest = max(self._newest, identity) if isinstance(identity, int) else self._newest
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle(cancelled_request_id_from_params(message.params))

    def came(self, item: Item) -> None:
        """Take note of what came."""
        if isinstance(item, BrokenLine):
            self.untidy += 1
            if item.line.cut and item.line.answer and len(self._waiting) > 1:
                self._cut = True  # the rest may say whose it is
            elif item.line.answer or self._cut:
                self._lose()
            return
        if isinstance(item, Exception):
            self.untidy += not isinstance(item, MessageTooLarge)
            return
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            identity = item.message.id
            self.untidy += _is_broken(item.message) or not self._was_sent(identity)
            self._cut = False if identity is not None and self._settle(identity) else self._cut
        if self._cut and not isinstance(item.message, JSONRPCError):
            self._lose()

    def _was_sent(self, identity: Any) -> bool:
        known = coerce_request_id(identity) if identity is not None else 0
        return isinstance(known, int) and 0 < known <= self._newest

    def _settle(self, identity: RequestId | None) -> bool:
        """Note that a request waits no more, and return whether it did."""
        known = coerce_request_id(identity) if identity is not None else None
        waited = known in self._waiting
        for requests in (self._waiting, self._suspects, self._streamed):
            requests.discard(known or 0)
        self._fail()
        return waited

    def _lose(self) -> None:
        """Note that one of the requests that wait now has had its answer, and it is not known which."""
        self._cut = False
        if self._waiting:
            self._suspects |= self._waiting - self._streamed or self._waiting
            self._lost += 1
            self._unclear.set()
            self._fail()

    def _fail(self) -> None:
        """Fail what can only be what was lost."""
        if not self._lost or len(self._suspects) > self._lost:
            return
        error = ErrorData(code=INTERNAL_ERROR, message=BROKEN)
        self.failed += (SessionMessage(JSONRPCError(jsonrpc="2.0", id=one, error=error)) for one in self._suspects)
        self._waiting -= self._suspects
        self._suspects, self._lost = set(), 0
        self._cleared.set()
        self._cleared, self._unclear = anyio.Event(), anyio.Event()


def _is_broken(message: JSONRPCResponse | JSONRPCError) -> bool:
    """Return whether a message stands in the place of a broken answer."""
    return isinstance(message, JSONRPCError) and message.error.message == BROKEN
