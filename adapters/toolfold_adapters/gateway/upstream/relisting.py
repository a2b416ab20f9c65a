"""When the lists of a server are read again that says that they changed: rarer, the oftener it says so (SPEC SAF-1).

Some servers change their lists a few times in a row, as they start; that is followed at once. One that goes on pays for
it itself: reading its lists again takes a small part of the time, however long each takes. Times are given, in
seconds of any clock.
"""

from __future__ import annotations

from attrs import define

from .life import Backoff

BACKOFF = Backoff()

AT_ONCE = 5
"""How many times in a row its lists are read at once."""
QUIET_SECONDS = 10.0
"""How long after they could be read again nothing may be said, for the row to end."""
SHARE = 9
"""How many times as long as reading took the next waits at least."""


@define
class Relisting:
    """When the lists of one connection may be read again.

    Attributes:
        due: From when on.
        row: How many times they were read in a row.
    """

    due: float = 0.0
    row: int = 0

    def may_begin(self, now: float) -> bool:
        """Return whether they may be read now."""
        return self.row < AT_ONCE or now >= self.due

    def begin(self, now: float) -> None:
        """Take note that they are read again."""
        self.row = 1 if self.row and now >= self.due + QUIET_SECONDS else self.row + 1

    def end(self, began: float, now: float) -> None:
        """Take note that they were read, and how long that took."""
        self.due = now + max(BACKOFF.delay(max(self.row - AT_ONCE + 1, 0)), SHARE * (now - began))
