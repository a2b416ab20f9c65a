"""Which requests wait for an answer over a connection, so that none waits for ever for a broken one (SPEC GWY-3).

A broken answer whose request can't be found out is that of one of those that waited when it came: it is the last of
them that is left once all others were answered. So a broken answer harms its own request alone.
"""

from __future__ import annotations

from collections import deque
from typing import Any

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

from ...broken import BrokenLine
from ...lines import BROKEN, Item, MessageTooLarge


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
        self._suspects: set[RequestId] = set()
        self._lost = 0
        self._cut = False

    def sent(self, item: SessionMessage) -> None:
        """Take note of what was sent."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            identity = coerce_request_id(message.id)
            self._waiting.add(identity)
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
        self._waiting.discard(known or 0)
        self._suspects.discard(known or 0)
        self._fail()
        return waited

    def _lose(self) -> None:
        """Note that one of the requests that wait now has had its answer, and it is not known which."""
        self._cut = False
        if self._waiting:
            self._suspects |= self._waiting
            self._lost += 1
            self._fail()

    def _fail(self) -> None:
        """Fail what can only be what was lost."""
        if not self._lost or len(self._suspects) > self._lost:
            return
        error = ErrorData(code=INTERNAL_ERROR, message=BROKEN)
        self.failed += (SessionMessage(JSONRPCError(jsonrpc="2.0", id=one, error=error)) for one in self._suspects)
        self._waiting -= self._suspects
        self._suspects, self._lost = set(), 0


def _is_broken(message: JSONRPCResponse | JSONRPCError) -> bool:
    """Return whether a message stands in the place of a broken answer."""
    return isinstance(message, JSONRPCError) and message.error.message == BROKEN
