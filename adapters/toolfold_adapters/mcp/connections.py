"""The connections of a server over HTTP: how many there may be, and how long a request may take to come.

uvicorn has no time-outs for what a client sends, and a limit of connections in all only (SPEC SAF-4, SAF-5).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import h11
from attrs import evolve, frozen
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr

from toolfold import ConfigError
from toolfold.spi import Caller, Full, Limit, Tally

from .callers import address

HEADER_TIMEOUT = 10.0
BODY_TIMEOUT = 60.0
DESCRIPTORS_OF_OTHERS = 128
"""How many of the files that a process may open are not for connections."""

_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_NO_ROOM = b"HTTP/1.1 %d %s\r\nretry-after: %d\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@frozen
class ConnectionBounds:
    """What connections may take (SPEC SAF-4, SAF-5).

    Attributes:
        header_timeout: Seconds from the connection, or from the response before, to the end of a request's head.
        body_timeout: Seconds from there to the end of its body.
        tally: Counts them.
        by_address: Whether they are counted by address, too; not where proxies make them for others.
    """

    header_timeout: float
    body_timeout: float
    tally: Tally
    by_address: bool = True

    def __attrs_post_init__(self) -> None:
        for name in ("header_timeout", "body_timeout"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0 seconds, not {getattr(self, name)}.")

    def protocol(self) -> type[asyncio.Protocol]:
        """Return what makes the protocol of each connection, for `uvicorn.Config`."""
        return cast(type[asyncio.Protocol], partial(BoundedProtocol, self))


class BoundedProtocol(H11Protocol):
    """uvicorn's connection, within bounds: one too many is refused, and one whose client takes too long is closed.

    The head of a request must come in a bounded time, and then its body. What a response takes has no limit here:
    subscriptions last.
    """

    def __init__(self, bounds: ConnectionBounds, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._tally = bounds.tally
        self._by_address = bounds.by_address
        self._timeouts: dict[Any, float] = {h11.IDLE: bounds.header_timeout, h11.SEND_BODY: bounds.body_timeout}
        self._counted: tuple[Caller] | None = None
        self._awaited: tuple[Any, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, if there is room for one more connection."""
        peer = get_remote_addr(transport) if self._by_address else None
        caller = None if peer is None else address(peer[0])
        try:
            self._tally.take(caller)
        except Full as full:
            status = (429, b"Too Many Requests") if full.own else (503, b"Service Unavailable")
            transport.write(_NO_ROOM % (*status, full.retry_after))
            transport.abort()
        else:
            self._counted = (caller,)
            super().connection_made(transport)
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Take in what came, and see what is awaited now."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        if self._counted is not None:
            self._tally.give_back(*self._counted)
            super().connection_lost(exc)
            self._stop()

    def _watch(self) -> None:
        """Begin a new time if something else is awaited than before: another part, or another request's."""
        awaited = (self.conn.their_state, self.cycle)
        if awaited == self._awaited:
            return
        self._stop()
        self._awaited = awaited
        seconds = self._timeouts.get(self.conn.their_state)
        if seconds is not None and not self.transport.is_closing():
            self._timer = self.loop.call_later(seconds, self._expire)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        begun = self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]
        if begun or self.conn.our_state is h11.SEND_RESPONSE:
            self.transport.write(_TIMED_OUT)
        self.transport.abort()


def within_descriptors(limit: Limit) -> Limit:
    """Return the limit of connections as far as the system allows this process as many; some files are others'."""
    try:
        import resource  # not every system has it
    except ImportError:
        return limit
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return limit
    room = max(1, most - DESCRIPTORS_OF_OTHERS, most // 2)
    return evolve(limit, total=room if limit.total is None else min(limit.total, room))
