"""The connections of an HTTP server: how many there may be, and how long a request may take to arrive.

uvicorn has no time-outs for requests, and its limit of connections is not per caller (SPEC SAF-4, SAF-5).
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
"""File descriptors that are reserved for anything but connections."""

_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_NO_ROOM = b"HTTP/1.1 %d %s\r\nretry-after: %d\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@frozen
class ConnectionBounds:
    """The limits of connections (SPEC SAF-4, SAF-5).

    Attributes:
        header_timeout: Seconds from the connection, or from the previous response, to the end of a request's head.
        body_timeout: Seconds from there to the end of its body.
        tally: Counts the connections.
        by_address: Whether they are also counted by address; not behind proxies, which connect for others.
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
        """Return a factory of the protocol of each connection, for `uvicorn.Config`."""
        return cast(type[asyncio.Protocol], partial(BoundedProtocol, self))


class BoundedProtocol(H11Protocol):
    """uvicorn's connection with limits: one too many is refused, and one whose client takes too long is closed.

    The head of a request must arrive in a bounded time, and so must its body. A response may take any time, since
    subscriptions are responses that last.
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
        """Accept the connection if there is room for one more, and wait for its first request."""
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
        """Parse the data, and restart the timer if another part is awaited now."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection's place and stop the timer."""
        if self._counted is not None:
            self._tally.give_back(*self._counted)
            super().connection_lost(exc)
            self._stop()

    def _watch(self) -> None:
        """Restart the timer if another part of a request, or another request, is awaited than before."""
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
    """Return a limit of connections that leaves the process file descriptors for everything else."""
    try:
        import resource  # not every system has it
    except ImportError:
        return limit
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return limit
    room = max(1, most - DESCRIPTORS_OF_OTHERS, most // 2)
    return evolve(limit, total=room if limit.total is None else min(limit.total, room))
