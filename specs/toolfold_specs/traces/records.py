"""What the operations of a store say of a record: its versions, its lease and its intent (SPEC STO-2, STO-3, PER-3)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from attrs import define, field

from .intervals import INTERRUPTED, SKEW, UNKNOWN, Intervals
from .reading import NotAllowed

NONE, SOME = "null", "others than before"
"""Instead of hooks to undo: that there are none, and that there are some, but it is not known which."""


@define
class Record:
    """What is known of a record.

    Attributes:
        version: Its version; `None` if that is not known, 0 once it is deleted.
        last: The greatest number that was given for it.
        token: The token of its lease; 0 if nobody holds it, `None` if that is not known.
        until: When its lease ends at the earliest, by the clock of who has it.
        intent: The hooks to undo, as a text; `NONE` if there are none, `None` if it is not known.
        found: The version that was read, and whose maker has no line yet.
        is_ordered: Whether operations come in the order in which they ended, so that refusals can be judged.
        ended: When the last operation of each process ended.
        cut: The processes whose trace has no end.
        excused: Those of them that something was believed for.
        times: When versions were made, and leases given.
    """

    version: int | None = None
    last: int = 0
    token: int | None = None
    until: float = 0.0
    intent: str | None = None
    found: int | None = None
    is_ordered: bool = True
    cut: Set[str] = frozenset()
    ended: dict[str, float] = field(factory=dict[str, float])
    excused: set[str] = field(factory=set[str])
    times: Intervals = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.times = Intervals(self.cut, self.is_ordered)

    def take(self, data: Mapping[str, Any], rest: Set[str] = frozenset()) -> None:
        """Take an operation into account; raises `NotAllowed`.

        Of two that overlap it is unknown which was first, so the later line is believed. What a process did last before
        it was killed may have no line, which excuses one that does not fit; `rest` are those whose changes are to come.
        """
        self.times.take(data)
        by, began = str(data.get("by")), data["at"] - data.get("took", 0.0)
        is_later = began >= self.ended.get(by, began)
        if data["op"] not in ("read", "renew"):  # which other requests make meanwhile, and which change no number
            self.ended[by] = max(self.ended.get(by, 0.0), data["at"])
        if data.get("gave") in (UNKNOWN, INTERRUPTED) or not is_later:
            self._forget(data)
            return
        try:
            self._judge(data)
        except NotAllowed:
            if not (excuses := self.cut - self.excused - rest - {by}):
                raise
            self.excused.add(min(excuses))
            self.version = self.token = self.intent = None
            self._judge(data)

    def _judge(self, data: Mapping[str, Any]) -> None:
        match data["op"]:
            case "create":
                self._create(data["gave"])
            case "read":
                self._read(data["gave"])
            case "swap":
                self._swap(data)
            case "acquire":
                self._acquire(data)
            case "intend":
                self._intend(data)
            case "renew" | "release" | "delete":
                self._leased(data)
            case other:
                raise NotAllowed(f"a store has no operation {other!r}")

    def _forget(self, data: Mapping[str, Any]) -> None:
        """Nothing is known of what an operation without an answer has changed."""
        operation = data["op"]
        if operation == "read":
            return
        self.token = None
        if operation in ("create", "swap", "delete"):
            self.version = self.intent = None
        elif operation == "intend" and data["intent"] is not None and self.intent not in (None, NONE):
            self.intent = SOME
        elif operation == "intend" or (operation == "acquire" and data["intent"] is not None and self.intent == NONE):
            self.intent = None

    def _number(self, number: int) -> None:
        if number <= self.last:
            raise NotAllowed(f"the number {number} is given, and {self.last} was given before")
        self.last = number

    def _create(self, gave: object) -> None:
        if isinstance(gave, bool) or not isinstance(gave, int):
            if gave == "exists" and self.version == 0 and self.last and self.is_ordered:
                raise NotAllowed("the record is said to exist, and was deleted")
            return
        if self._was_found(gave):
            return
        if self.version:
            raise NotAllowed(f"a record is created, and there is one of version {self.version}")
        self._number(gave)
        self.version, self.token, self.intent = gave, 0, NONE

    def _read(self, version: int) -> None:
        if not self.is_ordered and version <= self.last:  # it may have been read before that
            return
        if self.version is not None and version != self.version and version <= self.last:
            raise NotAllowed(f"version {version} is read, and the record has version {self.version}")
        self._found(version)

    def _found(self, version: int) -> None:
        """A version is found that may be one that another process wrote, who has no trace here."""
        if version != self.version:
            self.version, self.last, self.found = version, max(self.last, version), version
            self.token = self.intent = None

    def _was_found(self, number: int) -> bool:
        """Return whether a version that is made now was read before its maker was answered."""
        was_found, self.found = number == self.found, None
        return was_found

    def _swap(self, data: Mapping[str, Any]) -> None:
        version, token, gave = data["version"], data["token"], data["gave"]
        if gave is None:
            free = self.token == 0 and self.intent == NONE
            if self.is_ordered and version == self.version and (free if token is None else self._holds(token, data)):
                raise NotAllowed(
                    f"version {version} is not replaced, and it is the record's, and nothing is in the way"
                )
            return
        if self._was_found(gave):
            return
        if self.version is not None and version != self.version:
            raise NotAllowed(f"version {version} is replaced, and the record has version {self.version}")
        if token is None:
            if self.intent not in (None, NONE):
                raise NotAllowed("a record is replaced without its lease, and has hooks to be undone")
        elif self.token is not None and token != self.token:
            raise NotAllowed(f"a record is replaced under the token {token}, and its lease has {self.token or 'none'}")
        self._number(gave)
        self.version, self.token, self.intent = gave, 0, NONE

    def _acquire(self, data: Mapping[str, Any]) -> None:
        gave = data["gave"]
        if gave is None:
            if self.version and self.is_ordered:
                raise NotAllowed(f"there is said to be no record, and it has version {self.version}")
            return
        token, version, intent, *_ = gave
        if token is None and not self.is_ordered:
            return
        if self.version is not None and version != self.version and version <= self.last:
            raise NotAllowed(f"a lease is given of version {version}, and the record has version {self.version}")
        self._found(version)
        is_known = self.intent is not None and not (self.intent == SOME and intent)
        if is_known and (intent or NONE) != self.intent:
            raise NotAllowed(f"the hooks to undo are said to be {intent or 'none'}, and {self.intent} were recorded")
        if token is None:
            if self.token == 0:
                raise NotAllowed("the lease is said to be held, and nobody holds it")
            return
        self._number(token)
        self.token = token
        self._extend(data)
        is_recorded = intent is None and data["intent"] is not None and data["version"] == version
        self.intent = data["intent"] if is_recorded else intent or NONE

    def _extend(self, data: Mapping[str, Any]) -> None:
        self.until = data["at"] - data.get("took", 0.0) + data["seconds"]

    def _intend(self, data: Mapping[str, Any]) -> None:
        if self._leased(data):
            self.intent = data["intent"] or NONE
            if data["intent"] is None:
                self.token = 0

    def _leased(self, data: Mapping[str, Any]) -> bool:
        """Take an operation under a lease into account, and return whether it was done."""
        token, operation = data["token"], data["op"]
        if operation == "release":  # which says nothing of whether it was done
            if token == self.token:
                self.token = 0
            return True
        if data["gave"] is not True:
            if self.is_ordered and operation != "renew" and self._holds(token, data):
                raise NotAllowed(f"{operation} under the token {token} is refused, and that is the lease's")
            return False
        if self.token is not None and token != self.token:
            raise NotAllowed(f"{operation} under the token {token} is done, and the lease has {self.token or 'none'}")
        if operation == "renew":
            self._extend(data)
        elif operation == "delete":
            self.version, self.token, self.intent = 0, 0, NONE
        return True

    def _holds(self, token: int, data: Mapping[str, Any]) -> bool:
        return token == self.token and self._is_held(data)

    def _is_held(self, data: Mapping[str, Any]) -> bool:
        """Whether a lease is surely held when an operation ends, by a clock that may differ from the store's."""
        at: float = data["at"]
        return at < self.until - SKEW
