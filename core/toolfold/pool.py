"""Which sessions are open, which was used least recently, and which have been idle for too long (SPEC SES-3, SES-4).

It has no clock of its own: whoever wants sessions to time out brings one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from .errors import ConfigError, QuotaExceeded

if TYPE_CHECKING:
    from .session import Session


class SessionPool:
    """The open sessions of a tool set, the least recently used first where that matters.

    Args:
        limit: The greatest number of sessions; `None` for no bound.
        end_idlest: Whether the idlest session makes room for a new one; otherwise the new one is refused.
        idle_timeout: Seconds without a request after which a session is idle; `None` for never.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        limit: int | None,
        end_idlest: bool,
        idle_timeout: float | None,
        clock: Callable[[], float] | None,
    ) -> None:
        if idle_timeout is not None and clock is None:
            raise ConfigError("idle_timeout needs a clock that tells the time in seconds, such as time.monotonic.")
        self.idle_timeout = idle_timeout
        self._limit = limit
        self._end_idlest = end_idlest
        self._clock = clock or (lambda: 0.0)
        self._used: OrderedDict[Session, float] = OrderedDict()
        self._lasting: set[Session] = set()

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The open sessions."""
        return tuple(self._used)

    def add(self, session: Session, *, lasting: bool = False) -> None:
        """Take a session in; a `lasting` one is neither counted nor ever idle."""
        self._used[session] = self._clock()
        if lasting:
            self._lasting.add(session)

    def discard(self, session: Session) -> None:
        """Drop a session."""
        self._used.pop(session, None)
        self._lasting.discard(session)

    def touch(self, session: Session) -> None:
        """Take note that a session was used now."""
        if session in self._used and (self._end_idlest or self.idle_timeout is not None):
            self._used[session] = self._clock()
            self._used.move_to_end(session)

    def in_the_way(self) -> Session | None:
        """Return the session that has to end before another can be added, or `None` if there is room.

        Raises:
            QuotaExceeded: There is no room, and none is made.
        """
        if self._limit is None or len(self._used) - len(self._lasting) < self._limit:
            return None
        if not self._end_idlest:
            raise QuotaExceeded("open sessions", self._limit, "close one before you open another")
        return next(session for session in self._used if session not in self._lasting)

    def idle(self) -> tuple[Session, ...]:
        """Return the sessions that have had no request for `idle_timeout`, the idlest first."""
        return tuple(session for session in self._used if self.is_idle(session))

    def is_idle(self, session: Session) -> bool:
        """Return whether an open session has had no request for `idle_timeout`."""
        if self.idle_timeout is None or session not in self._used or session in self._lasting:
            return False
        return self._clock() - self._used[session] >= self.idle_timeout
