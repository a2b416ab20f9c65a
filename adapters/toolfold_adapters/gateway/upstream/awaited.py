"""Which requests wait for an answer over a connection, so that none waits for ever for a broken one (SPEC GWY-3).

A broken answer whose request can't be found out is that of one of those that waited when it came: it is the last of
them that is left once all others were answered. So a broken answer harms its own request alone, unless the others take
longer than the one may wait: then the connection ends.

Other JSON that answers nothing (an object without an id, an answer to what was not asked) may be a broken answer, or a
server that logs to the wrong stream. It was a log if all that waited when it came are answered, and lines of its form
are logs from then on, as are those that come while nothing waits. Else the connection ends, too. What is no JSON is
most likely a log: many servers write one while they work. So it is waited for much longer, from the last sign of life.
"""

from __future__ import annotations

import math
from collections import deque

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolfold import ToolfoldError

from ...transport.broken import TEXT, BrokenLine, Line
from ...transport.lines import BROKEN, Item, MessageTooLarge

LOST_SECONDS = 10.0
"""How long a request may wait whose answer was lost while others wait, so that it can't be told which it is."""
TEXT_SECONDS = 300.0
"""How long a request may wait that a line of text may have been the answer to, once the server says nothing more."""
STREAMED = "subscriptions/listen"
"""A request whose answer comes at its end, which may be never; so a lost answer is hardly its own."""
PROBE = "server/discover"
"""The request for the newest era: a server of an older one may never answer it."""
MOST_ABANDONED = 1_000
"""How many requests that nobody waits for any more are known by their ids."""
MOST_FORMS = 100
"""How many forms of lines are told apart."""
_CUT, _LOST, _UNASKED = "a part of an answer", "an answer without an id", "an answer to nothing that waits"
"""Beside the forms of lines, what else may have been the answer to a request."""


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
        self._waiting: set[RequestId] = set()
        self._streamed: set[RequestId] = set()
        self._probes: set[RequestId] = set()
        self._abandoned: deque[RequestId] = deque(maxlen=MOST_ABANDONED)
        self._notified = 0  # since when no later request was answered
        self._later: set[RequestId] = set()
        self._lost = 0
        self._doubts: dict[str, dict[RequestId, float]] = {}
        self._logs: set[str] = set()
        self._unclear = anyio.Event()

    async def overdue(self) -> AnswerLost:
        """Return once a request has waited for too long for an answer that was lost."""
        while True:
            self._unclear = anyio.Event()
            ends = {form: min(doubt.values()) + _patience(form) for form, doubt in self._doubts.items() if doubt}
            form = min(ends, key=ends.__getitem__, default="")
            if ends and ends[form] <= anyio.current_time():
                return AnswerLost(
                    f"it answered with text that is no message of the protocol, or wrote a line of a log and then "
                    f"nothing for {TEXT_SECONDS:g} seconds"
                    if form == TEXT
                    else "it gave a broken answer that does not say which request it is to"
                )
            with anyio.CancelScope(deadline=ends.get(form, math.inf)):
                await self._unclear.wait()

    def sent(self, item: SessionMessage) -> None:
        """Take note of what was sent."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            identity = coerce_request_id(message.id)
            self._waiting.add(identity)
            self._later.add(identity)
            if message.method == STREAMED:
                self._streamed.add(identity)
            elif message.method == PROBE:
                self._probes.add(identity)
        elif isinstance(message, JSONRPCNotification):
            self._notified += 1
            self._later.clear()
            if message.method == "notifications/cancelled":
                self._abandon(cancelled_request_id_from_params(message.params))

    def give_up_probe(self) -> None:
        """Take note that the answer to the request for the newest era is not waited for any more."""
        while self._probes:
            self._abandon(self._probes.pop())

    def came(self, item: Item) -> None:
        """Take note of what came."""
        if (doubt := self._doubts.get(TEXT)) is not None:  # it is at work
            self._doubts[TEXT] = dict.fromkeys(doubt, anyio.current_time())
        if isinstance(item, BrokenLine):
            self.untidy += 1
            self._misread(item.line)
        elif isinstance(item, Exception):
            self.untidy += not isinstance(item, MessageTooLarge)
        elif isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._answered(item.message)
        elif _CUT in self._doubts:
            self._lose()

    def _misread(self, line: Line) -> None:
        if line.cut and line.answer and len(self._waiting) > 1:
            self._doubt(_CUT)  # the rest may say whose it is
        elif line.answer or _CUT in self._doubts:
            self._lose()
        elif line.form:
            self._doubt(line.form)

    def _answered(self, message: JSONRPCResponse | JSONRPCError) -> None:
        identity = None if message.id is None else coerce_request_id(message.id)
        self.untidy += _is_broken(message)
        if identity in self._waiting:
            self._doubts.pop(_CUT, None)
            if identity in self._later:
                self._notified = 0
                self._later.clear()
            self._settle(identity)
        elif identity is not None and identity in self._abandoned:
            self._abandoned.remove(identity)
        elif identity is None and isinstance(message, JSONRPCError) and self._is_of_notification(message):
            self._notified -= 1
            self.untidy += 1
        else:
            self.untidy += not _is_broken(message)
            self._doubt(_UNASKED)
        if _CUT in self._doubts and isinstance(message, JSONRPCResponse):
            self._lose()

    def _is_of_notification(self, message: JSONRPCError) -> bool:
        """Return whether an error without an id may be the answer to a notification: some servers give one to each.

        They do so before they answer what was asked after it.
        """
        return self._notified > 0 and message.error.code != PARSE_ERROR

    def _abandon(self, identity: RequestId | None) -> None:
        """Note that nobody waits for a request any more, whose answer may be on its way."""
        if identity is not None and (known := coerce_request_id(identity)) in self._waiting:
            self._settle(known, answered=False)
            self._abandoned.append(known)

    def _settle(self, identity: RequestId, *, answered: bool = True) -> None:
        """Note that a request waits no more: what can't have been the answer to any that waited was a log."""
        self._waiting.discard(identity)
        self._streamed.discard(identity)
        for form, doubt in list(self._doubts.items()):
            if doubt.pop(identity, None) is not None and not doubt:
                del self._doubts[form]
                if answered:
                    self._log(form)
        self._fail()

    def _doubt(self, form: str) -> None:
        """Note that one of the requests that wait now may have had its answer, if this was no log."""
        at_stake = self._waiting - self._streamed
        if not at_stake and not self._abandoned:
            self._log(form)
        elif form not in self._logs and len(self._doubts) < MOST_FORMS:
            self._question(form, at_stake)

    def _log(self, form: str) -> None:
        if form not in (_CUT, _LOST) and len(self._logs) < MOST_FORMS:
            self._logs.add(form)

    def _lose(self) -> None:
        """Note that one of the requests that wait now has had its answer, and it is not known which."""
        self._doubts.pop(_CUT, None)
        if self._waiting:
            self._question(_LOST, self._waiting - self._streamed or self._waiting)
            self._lost += 1
            self._fail()

    def _question(self, form: str, requests: set[RequestId]) -> None:
        """Note that requests may have had their answer in what came just now, of a form."""
        doubt, now = self._doubts.setdefault(form, {}), anyio.current_time()
        for one in requests:
            doubt.setdefault(one, now)
        self._unclear.set()

    def _fail(self) -> None:
        """Fail what can only be what was lost."""
        suspects = self._doubts.get(_LOST, {})
        if len(suspects) > self._lost:
            return
        self._lost = 0
        self._doubts.pop(_LOST, None)
        error = ErrorData(code=INTERNAL_ERROR, message=BROKEN)
        for one in suspects:
            self.failed.append(SessionMessage(JSONRPCError(jsonrpc="2.0", id=one, error=error)))
            self._settle(one, answered=False)


def _patience(form: str) -> float:
    return TEXT_SECONDS if form == TEXT else LOST_SECONDS


def _is_broken(message: JSONRPCResponse | JSONRPCError) -> bool:
    """Return whether a message stands in the place of a broken answer."""
    return isinstance(message, JSONRPCError) and message.error.message == BROKEN
