"""What operations of a store say by when they began and ended, whoever made them (SPEC STO-1, STO-2, PER-3).

An operation is done at one moment between its beginning and its end. So of two whose times do not overlap it is known
which was first, also where another process has made one of them: nothing here is excused by a process that was killed,
nor by operations without an answer, but for those that they may have been the end of.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import inf
from typing import Any, cast

from attrs import define, field

from .reading import NotAllowed, digest_of

SKEW = 0.05
"""Seconds by which the clocks of two processes may differ, and those of one and of the store."""
UNKNOWN, INTERRUPTED = "unknown", "interrupted"
"""What an operation gave that was not answered, and one whose caller was cancelled meanwhile."""
KEPT = 16
"""How many versions, and how many leases, of a record are kept."""


@define
class Lease:
    """A lease that was given.

    Attributes:
        token: Its token.
        by: Who has it.
        version: That of the record when it was given.
        ended: When it was surely given: the end of the operation that took it.
        until: When it ends at the earliest, unless it is given back.
        back: When an operation began that may have given it back.
        gone: When one ended that has.
        is_of_step: Whether it was taken for a step, and not to look for what was left.
        is_open: Whether its holder has not tried to give it back.
        latest: When it ends at the latest, unless it is renewed.
        used: When the last operation that was done under it began.
        last: When the last operation ended that its holder made of this record.
        doubts: What others did while it was held, unless an operation that gave it back has a line that is yet to come:
            when that ended, and why it is not allowed.
    """

    token: int
    by: str
    version: int
    ended: float
    until: float
    back: float = inf
    gone: float = inf
    is_of_step: bool = True
    is_open: bool = True
    latest: float = inf
    used: float = 0.0
    last: float = 0.0
    doubts: list[tuple[float, str]] = field(factory=list[tuple[float, str]])

    def refuse(self, why: str, began: float, ended: float) -> None:
        """Raise `NotAllowed` for an operation of another if it was surely held during the whole of that."""
        if began > self.ended + SKEW and ended < min(self.until, self.back) - SKEW:
            why += f", and {self.by} holds the lease for {self.until - ended:.1f} s more, under the token {self.token}"
            if self.back < inf:
                raise NotAllowed(why)
            self.doubts.append((ended, why))

    def let_go(self, began: float) -> None:
        """Note that an operation may have given it back; raises `NotAllowed` for what others did before."""
        self.back = min(self.back, began)
        self.judge(began)

    def judge(self, before: float = inf) -> None:
        """Raise `NotAllowed` for what others did while it was held."""
        doubts, self.doubts = self.doubts, []
        for ended, why in doubts:
            if ended < before - SKEW:
                raise NotAllowed(why)

    def judge_end(self) -> None:
        """Raise `NotAllowed` for what was done under it after its end; a renewal may have a later line."""
        if self.used > self.latest + SKEW:
            raise NotAllowed(f"an operation is done under the token {self.token}, whose lease had ended before")


@define
class Intervals:
    """When the versions of a record were made, and its leases were given.

    Attributes:
        cut: The processes whose trace has no end.
        is_ordered: Whether operations come in the order in which they ended.
        made: Versions, in order, with when the operations that made them ended.
        replaced: The versions that were replaced.
        data: The digests of what versions have.
        known: The greatest version that an operation was the latest to begin with, and when that was.
        leases: Leases, in order.
        spans: From when until when a lease may have been held.
        claims: When a lease was said to be held by another, and for how long the caller would have had it.
    """

    cut: Set[str] = frozenset()
    is_ordered: bool = True
    made: dict[int, float] = field(factory=dict[int, float])
    replaced: dict[int, int] = field(factory=dict[int, int])
    data: dict[int, str] = field(factory=dict[int, str])
    known: dict[int, float] = field(factory=dict[int, float])
    leases: dict[int, Lease] = field(factory=dict[int, Lease])
    spans: list[tuple[float, float]] = field(factory=list[tuple[float, float]])
    claims: list[tuple[float, float]] = field(factory=list[tuple[float, float]])

    def take(self, data: Mapping[str, Any]) -> None:
        """Take an operation into account; raises `NotAllowed`."""
        by, ended = str(data.get("by")), float(data["at"])
        began, gave = ended - data.get("took", 0.0), cast("object", data["gave"])
        for lease in self.leases.values():
            if lease.by == by:
                lease.last = max(lease.last, ended)
        match data["op"]:
            case "create" if isinstance(gave, int) and not isinstance(gave, bool):
                self._make(gave, data, ended)
            case "read" if isinstance(gave, int):
                self._know(gave, digest_of(data.get("data")), began)
            case "swap" if data["token"] is None and (held := self._held(by)):
                raise NotAllowed(f"a record is to be replaced without a lease, and {by} holds it, under {held}")
            case "swap" if isinstance(gave, int):
                self._know(data["version"], "", began)
                if (other := self.replaced.setdefault(data["version"], gave)) != gave:
                    raise NotAllowed(f"version {data['version']} is replaced, and {other} has replaced it")
                self._change("is replaced", data, began, ended)
                self._make(gave, data, ended)
            case "acquire" if isinstance(gave, list):
                token, version, _, *found = cast("tuple[Any, ...]", gave)
                self._know(version, digest_of(found[0] if found else None), began)
                if token is None:
                    self.claims.append((began, data["seconds"]))
                else:
                    lease = Lease(token, by, version, ended, began + data["seconds"], last=ended)
                    lease.latest = ended + data["seconds"]
                    lease.is_of_step = lease.is_open = bool(data["version"])
                    self._give(lease, began)
            case "acquire" if gave is not None:
                self.spans.append((began, ended + data["seconds"]))
            case "intend" | "renew" | "delete" if gave is True:
                self._change(f"has an operation {data['op']} done", data, began, ended)
            case "swap" | "intend" | "renew" | "delete" if gave is None or gave is False:
                self._refuse(data, ended)
            case _:
                pass
        if (
            data["op"] == "renew"
            and gave is not False
            and (own := self.leases.get(cast("int", data["token"]))) is not None
        ):
            own.latest = max(own.latest, ended + data["seconds"])
        self._let_go(data, began)
        if len(self.leases) > KEPT:
            lease = self.leases.pop(next(iter(self.leases)))
            lease.judge_end()
            self.spans.append((lease.ended, lease.until))
        for kept in (self.made, self.replaced, self.data, self.known):
            if len(kept) > KEPT:
                del kept[next(iter(kept))]
        if len(self.claims) > KEPT * KEPT and self.is_ordered:
            self._judge_claims()
            del self.claims[:], self.spans[:-KEPT]

    # -- versions -----------------------------------------------------------------------------------------------------

    def _make(self, version: int, data: Mapping[str, Any], ended: float) -> None:
        for known, began in self.known.items():
            if known < version and began > ended + SKEW:
                raise NotAllowed(f"version {version} is made, and {known} was found {began - ended:.3f} s afterwards")
        self.made[version] = ended
        self._compare(version, digest_of(data.get("data")))

    def _know(self, version: int, data: str, began: float) -> None:
        """Note that a version was the record's during an operation."""
        for newer, ended in self.made.items():
            if newer > version and ended < began - SKEW:
                raise NotAllowed(f"version {version} is found, and {newer} was made {began - ended:.3f} s before")
        self.known[version] = max(began, self.known.get(version, 0.0))
        self._compare(version, data)

    def _compare(self, version: int, data: str) -> None:
        if data and self.data.setdefault(version, data) != data:
            raise NotAllowed(f"version {version} is found with other data than it had")

    # -- leases -------------------------------------------------------------------------------------------------------

    def _give(self, lease: Lease, began: float) -> None:
        for other in self.leases.values():
            if other.by == lease.by and other.is_open and lease.ended > other.ended and lease.is_of_step:
                raise NotAllowed(f"a lease is taken, and the one under the token {other.token} was not given back")
            if other.token == lease.token:
                raise NotAllowed(f"the number {lease.token} is given, and was given before")
            other.refuse("the lease is given", began, lease.ended)
            if other.token < lease.token and other.used > lease.ended + SKEW:
                raise NotAllowed(f"the lease is given, and an operation is done later under its token {other.token}")
        self.leases[lease.token] = lease

    def _held(self, by: str) -> int | None:
        """Return the token of the lease that a process has for a step, and has not tried to give back."""
        return next(
            (one.token for one in self.leases.values() if one.by == by and one.is_open and one.is_of_step), None
        )

    def _may_be_held(self, at: float, seconds: float) -> bool:
        """Return whether a lease may be held at a time, as far as lines say: a renewal may have none."""
        now = ((one.ended, one.until) for one in self.leases.values())
        return any(since - seconds <= at <= until + seconds + SKEW for since, until in (*self.spans, *now))

    def _judge_claims(self) -> None:
        """Raise `NotAllowed` for leases that nobody can have; a process without an end may have one without a line."""
        windows, end = 0, 0.0
        for at, seconds in sorted(self.claims):
            if at > end and not self._may_be_held(at, seconds):
                windows, end = windows + 1, at + 2 * seconds
                if windows > len(self.cut):
                    raise NotAllowed(f"the lease is said to be held at {at:.3f}, and all that were given have ended")

    def _change(self, what: str, data: Mapping[str, Any], began: float, ended: float) -> None:
        """Compare an operation that was done with who held the lease then."""
        token = data["token"]
        for lease in self.leases.values():
            if lease.token != token:
                lease.refuse(f"a record {what}", began, ended)
            if token is not None and lease.token > token and lease.ended < began - SKEW:
                raise NotAllowed(f"a record {what} under the token {token}, and {lease.token} was given before")
        if token is not None and (own := self.leases.get(token)) is not None:
            if own.gone < began:
                raise NotAllowed(f"a record {what} under the token {token}, and that was given back before")
            own.used = max(own.used, began)
            if data["op"] == "renew":
                own.until = max(own.until, began + data["seconds"])

    def _refuse(self, data: Mapping[str, Any], ended: float) -> None:
        """Compare an operation that was refused with the lease that it was made under, which only its holder ends."""
        lease = self.leases.get(data["token"])
        if lease is not None and data.get("version", lease.version) != lease.version:
            raise NotAllowed(f"version {data['version']} is to be replaced under a lease of version {lease.version}")
        if lease is None or lease.back < inf or ended >= lease.until - SKEW:
            return
        why = f"{data['op']} under the token {lease.token} is refused, and the lease is held for "
        why += f"{lease.until - ended:.1f} s more"
        if data["op"] != "renew":
            raise NotAllowed(why)
        lease.doubts.append((ended, why))  # a step that ends meanwhile may give it back

    def _let_go(self, data: Mapping[str, Any], began: float) -> None:
        token = data.get("token")
        if token is None or (lease := self.leases.get(token)) is None:
            return
        if data["gave"] == INTERRUPTED and data["op"] != "renew" and lease.is_of_step:
            raise NotAllowed(f"{data['op']} is interrupted, so that it is unknown whether it was done")
        is_back = data["op"] in ("release", "swap", "delete") or (data["op"] == "intend" and data["intent"] is None)
        if is_back or (data["op"] == "intend" and data["gave"] is False):
            lease.is_open = False
        if not is_back or data["gave"] is False or (data["gave"] is None and data["op"] == "swap"):
            return
        lease.let_go(began)
        if data["gave"] not in (UNKNOWN, INTERRUPTED):
            lease.gone = min(lease.gone, data["at"])

    def finish(self) -> None:
        """Take the end of the trace into account; raises `NotAllowed`."""
        self._judge_claims()
        for lease in self.leases.values():
            if lease.by not in self.cut:
                lease.judge()
                lease.judge_end()
                if lease.is_open:
                    raise NotAllowed(f"{lease.by} has not given back the lease under the token {lease.token}")
