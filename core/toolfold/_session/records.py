"""The rules of a stored session's record: what each operation of a `Store` does and answers, as pure functions.

Rules:
- An operation is a function of what is held under a key, or of `None`, at a moment of the store's own time. It returns
  a `Decision`: the answer, and what is held from then on. It reads and writes nothing, so it can be decided again.
- A lease is held under its token until it ends by the store's time. Whoever holds it alone writes; without a token only
  a swap is done, while nobody holds the lease and no intent is left.
- A swap under a lease removes the intent and releases the lease; so does an intent that is taken back.
- A use puts off the end of a record. One that has expired is not found by `read`, but is by `acquire`, since its hooks
  are still to be run; it is in the way of a new one until it is deleted.
- Versions and tokens are numbers that were not given before.

Theory of operation: a store reads the entry of a key and its time, calls the operation, and writes the entry of the
decision, all as one atomic change. In memory nothing comes between; a database does it in a transaction; an engine that
compares and sets does it by the entry that it has seen, and decides again where that has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Generic, TypeVar

from .._values import frozen
from .store import Created, Lease, Place, Record

A = TypeVar("A")

WAITS = 0.1
"""The part of its lifetime within which a use of a record need not be written again."""


@frozen
class Entry:
    """What a store holds under a key.

    Attributes:
        version: Of the data.
        data: What was stored of the session, or its text.
        kind: The kind of sessions.
        caller: Whose session it is.
        lifetime: Seconds after its last use at which it expires.
        expires: When that is, by the store's time.
        intent: The hooks of a transition that has begun and not ended.
        token: That of the last lease; 0 if there was none.
        until: When that lease ends, by the store's time; 0 if it was released.
    """

    version: int
    data: object
    kind: str
    caller: str | None
    lifetime: float
    expires: float
    intent: str | None = None
    token: int = 0
    until: float = 0.0

    def record(self, now: float) -> Record:
        """Return what a caller of the store is told of it."""
        return Record(self.version, self.data, self.intent, max(0.0, self.until - now))

    def is_held(self, token: int, now: float) -> bool:
        """Return whether its lease is held under a token."""
        return self.token == token and self.until > now

    def is_due(self, now: float) -> bool:
        """Return whether nobody holds it, and it has expired or was left in the middle of a transition."""
        return self.until <= now and (self.expires <= now or self.intent is not None)

    def used(self, now: float) -> Entry:
        """Return it as it is after a use."""
        return self._with(self.version, self.data, now + self.lifetime, self.intent, self.token, self.until)

    def saved(self, version: int, data: object, now: float) -> Entry:
        """Return it as it is once its data is replaced: without an intent, and with its lease released."""
        return self._with(version, data, now + self.lifetime, None, self.token, 0.0)

    def leased(self, token: int, until: float, intent: str | None) -> Entry:
        """Return it as it is under a lease, or once that has ended."""
        return self._with(self.version, self.data, self.expires, intent, token, until)

    def _with(self, version: int, data: object, expires: float, intent: str | None, token: int, until: float) -> Entry:
        # every operation makes one, for which `evolve` takes three times as long
        return Entry(version, data, self.kind, self.caller, self.lifetime, expires, intent, token, until)


@frozen
class Moment:
    """When an operation is decided.

    Attributes:
        now: The store's time, in seconds.
        number: Greater than any version and any token that was given for this key before.
        total: How many records of the kind there are; only `create` asks.
        own: How many of them are the caller's.
    """

    now: float
    number: int
    total: int = 0
    own: int = 0


@frozen
class Decision(Generic[A]):
    """What comes of an operation.

    Attributes:
        answer: What the operation returns.
        entry: What is held from now on, if anything; the same object as before if nothing is to be written.
        is_news: Whether others are to be told, since the data has changed or is gone.
        is_use: Whether it is a use of the record.
        can_wait: Whether it is nothing else, and so soon after the last that a store may leave it out.
        before: It is right if it is written before this time of the store; by then a lease may have ended.
    """

    answer: A
    entry: Entry | None
    is_news: bool = False
    is_use: bool = False
    can_wait: bool = False
    before: float = inf


Operation = Callable[[Entry | None, Moment], Decision[A]]
"""One of the functions that are returned below."""


def following(last: int, now: float) -> int:
    """Return the number after the last one; it is greater also than those that were given and lost since.

    Args:
        last: The greatest number that is known.
        now: The time in seconds since a moment that never changes.
    """
    return max(last + 1, int(now * 1e6))


def create(data: object, place: Place, lifetime: float) -> Operation[Created]:
    """Return the operation that creates a record, unless there is one or no room."""

    def decide(entry: Entry | None, at: Moment) -> Decision[Created]:
        if entry is not None:
            return Decision("exists", entry)
        if place.per_caller is not None and place.caller is not None and at.own >= place.per_caller:
            return Decision("caller_full", None)
        if place.total is not None and at.total >= place.total:
            return Decision("full", None)
        made = Entry(at.number, data, place.kind, place.caller, lifetime, at.now + lifetime)
        return Decision(at.number, made, is_use=True)

    return decide


def read(entry: Entry | None, at: Moment) -> Decision[Record | None]:
    """Find a record that has not expired, and use it."""
    if entry is None or entry.expires <= at.now:
        return Decision(None, entry)
    is_recent = entry.expires >= at.now + (1 - WAITS) * entry.lifetime
    return Decision(entry.record(at.now), entry.used(at.now), is_use=True, can_wait=is_recent, before=entry.expires)


def swap(version: int, data: object, token: int | None) -> Operation[int | None]:
    """Return the operation that replaces the data of a version."""

    def decide(entry: Entry | None, at: Moment) -> Decision[int | None]:
        if entry is None or entry.version != version:
            return Decision(None, entry)
        is_free = entry.until <= at.now and entry.intent is None
        if not (is_free if token is None else entry.is_held(token, at.now)):
            return Decision(None, entry)
        after = entry.saved(at.number, data, at.now)
        return Decision(at.number, after, data != entry.data, is_use=True, before=inf if token is None else entry.until)

    return decide


def acquire(seconds: float, version: int, intent: str | None) -> Operation[Lease | None]:
    """Return the operation that takes the lease of a record, with an intent if the record is the known one."""

    def decide(entry: Entry | None, at: Moment) -> Decision[Lease | None]:
        if entry is None:
            return Decision(None, None)
        record = entry.record(at.now)
        if record.held:
            return Decision(Lease(None, record), entry)
        begun = intent if entry.version == version and entry.intent is None else entry.intent
        after = entry.leased(at.number, at.now + seconds, begun)
        return Decision(Lease(at.number, record), after)

    return decide


def intend(intent: str | None, token: int) -> Operation[bool]:
    """Return the operation that replaces the intent under a lease, which ends with an intent that is taken back."""
    return _leased(token, lambda entry: entry.leased(token, entry.until if intent is not None else 0.0, intent))


def renew(token: int, seconds: float) -> Operation[bool]:
    """Return the operation that puts off the end of a lease."""

    def decide(entry: Entry | None, at: Moment) -> Decision[bool]:
        if entry is None or not entry.is_held(token, at.now):
            return Decision(False, entry)
        is_use = entry.expires > at.now
        after = (entry.used(at.now) if is_use else entry).leased(token, at.now + seconds, entry.intent)
        return Decision(True, after, is_use=is_use, before=min(entry.until, entry.expires) if is_use else entry.until)

    return decide


def release(token: int) -> Operation[bool]:
    """Return the operation that ends a lease."""
    return _leased(token, lambda entry: entry.leased(token, 0.0, entry.intent))


def delete(token: int) -> Operation[bool]:
    """Return the operation that deletes a record under its lease."""
    return _leased(token, lambda _: None)


def _leased(token: int, change: Callable[[Entry], Entry | None]) -> Operation[bool]:
    """Return the operation that makes a change, and whether it did: if the lease is held under this token."""

    def decide(entry: Entry | None, at: Moment) -> Decision[bool]:
        if entry is None or not entry.is_held(token, at.now):
            return Decision(False, entry)
        after = change(entry)
        return Decision(True, after, is_news=after is None, before=entry.until)

    return decide
