"""`Store`: what keeps sessions beyond one process (SPEC 25). Engines are adapters; this is what they have in common.

A store holds values, or their texts, and decides nothing. Each operation is atomic. Time is the store's own: it alone
says whether a lease or a record has expired. `state.py` has what is written in a record, `journal.py` when.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

from .._values import frozen

Created = int | Literal["exists", "full", "caller_full"]
"""The version of a new record, or why there is none; `caller_full` if its caller has as many as it may."""


UNCERTAIN = (
    "The store of this server's sessions did not answer when the change was saved, so it may or may not have been "
    "made; look before you repeat it."
)
"""Its message where it is unknown whether a change was saved."""


@frozen
class Record:
    """What a store holds for a session.

    Attributes:
        version: Changed by each swap. It is greater than 0, and than any that was given for this key before, also for a
            record that was deleted since, and for a state that the store has lost since.
        data: What was stored of the session, or its text.
        intent: The hooks of a transition that has begun and not ended, as text.
        held: Seconds for which the lease is held if it is not renewed; 0 if it is free.
    """

    version: int
    data: object
    intent: str | None = None
    held: float = 0.0

    @property
    def is_abandoned(self) -> bool:
        """Whether a process ended in the middle of a transition."""
        return self.intent is not None and not self.held


@frozen
class Lease:
    """The answer to a request for a lease: the record as it is now, and the token, unless another one holds the lease.

    A token is greater than any that was given for this key before, also for a record that was deleted since.
    """

    token: int | None
    record: Record


@frozen
class Place:
    """Where a record counts: the kind of sessions, whose it is, and how many of them there may be.

    SPEC STO-7.
    """

    kind: str
    caller: str | None = None
    total: int | None = None
    per_caller: int | None = None


class Store(Protocol):
    """Records of values under keys, each with a version and a lease.

    The value of a record is immutable. Where it can't be held as it is, its text `str(data)` is, which raises
    `QuotaExceeded` if it is too long.

    Every operation raises `StoreUnavailable` if the store does not answer, with a message for clients, and
    `ConfigError` if it can't be used as a store.

    SPEC STO-1, STO-2, PER-3.

    Attributes:
        lease: Seconds for which a lease is to be held unless it is renewed: for so long may a process that dies keep a
            session from others.
    """

    lease: float

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        """Create a record, which expires `lifetime` seconds after its last use, unless there is one or no room.

        Return its version.
        """
        ...

    async def read(self, key: str) -> Record | None:
        """Return a record, if there is one that has not expired. That is a use of it."""
        ...

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data, and return the new version; `None` if that was not done. It is a use of the record.

        It is done if the record has this version, and the token is that of a lease that is held now; or without a
        token, if nobody holds a lease and the record has no intent. Under a token, it also removes the intent and
        releases the lease.
        """
        ...

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record for some seconds, unless it is held; `None` if there is no such record.

        A record that has expired is found too: its hooks are still to be run. The intent is recorded at once if the
        record has this version and no other intent, so it is if that is what the answer says of the record.
        """
        ...

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent alone, and return whether that was done: if the lease is held under this token.

        Without an intent, it also releases the lease.
        """
        ...

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease, and return whether it is held. It is a use of a record that has not expired."""
        ...

    async def release(self, key: str, token: int) -> None:
        """Release a lease, if it is held under this token."""
        ...

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record, and return whether that was done: if its lease is held under this token."""
        ...

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return up to `count` keys of records that have expired, or whose intent no process holds any more."""
        ...

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the record of a caller that was used least recently, and is not leased."""
        ...

    async def expiry(self, kind: str, caller: str | None, *, own: bool) -> float | None:
        """Return the seconds until a record of a kind expires that is not used until then; `own`, of this caller's."""
        ...

    def changes(self) -> AsyncGenerator[str | None]:
        """Yield the key of each record that is changed or deleted from now on; `None` where any may have been."""
        ...

    async def aclose(self) -> None:
        """Close what the store has opened."""
        ...
