"""Groups, and what the rows of a group's region make of a request (SPEC ACT-1 to ACT-11).

A set of groups is an integer whose bits are their numbers. Each event reaches one region, whose row moves it and emits
events to others; that goes on until there are none left. What a request is, in which order its events are sent, and
what makes room under a limit, is said here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Literal

from attrs import field, frozen

from . import rows

Refusal = Literal["", "GroupNotFound", "ParentInactive", "ExclusionConflict", "QuotaExceeded"]
Events = Sequence[tuple[str, int]]
Order = tuple[int, ...]


def members(groups: int) -> list[int]:
    """Return the numbers in a set of groups, ascending."""
    found: list[int] = []
    while groups:
        last = groups & -groups
        found.append(last.bit_length() - 1)
        groups ^= last
    return found


def union(numbers: Iterable[int]) -> int:
    """Return the set of some numbers."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


class NotASystem(Exception):
    """Groups exclude one another that can't; the message says which."""


@frozen
class Cap:
    """The most that groups may weigh together; `base` is what there is without any."""

    most: int
    base: int
    weights: tuple[int, ...] = field(converter=tuple)

    def holds(self, groups: int) -> bool:
        """Return whether groups may be open together."""
        return self.base + self.of(groups) <= self.most

    def of(self, groups: int) -> int:
        """Return what groups weigh."""
        return sum(self.weights[number] for number in members(groups))


@frozen(eq=False)
class System:
    """Groups, what excludes what, their hooks and limits; `System.read` makes one of the line of a trace.

    Attributes:
        paths: The groups, in canonical order: an ancestor is before what is in it.
        ancestors, descendants, partners: Those of each group.
        hooks: The phases that each group has hooks for, and "no_rollback" if it opts out of compensation.
        pinned: The groups that are always open.
        evicts: Whether the groups that are open for longest make room.
        caps: The limits.
    """

    paths: tuple[str, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]
    partners: tuple[int, ...]
    hooks: Mapping[int, frozenset[str]]
    pinned: int = 0
    evicts: bool = False
    caps: tuple[Cap, ...] = ()
    _results: dict[Any, Any] = field(init=False, factory=dict[Any, Any], repr=False)
    _groups: dict[str, tuple[Order, int]] = field(init=False, factory=dict[str, "tuple[Order, int]"], repr=False)
    _legal: dict[int, bool] = field(init=False, factory=dict[int, bool], repr=False)

    @cached_property
    def related(self) -> Mapping[str, tuple[list[int], ...]]:
        """The groups that events go to from each group, by the relation in which they stand to it."""
        to = {"partners": self.partners, "descendants": self.descendants}
        return {relation: tuple(map(members, groups)) for relation, groups in to.items()}

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each group by its path."""
        return {path: number for number, path in enumerate(self.paths)}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> System:
        """Return the system in JSON; raises `KeyError`, `ValueError`, `TypeError` if it is none.

        `NotASystem` if no groups may be so (SPEC REG-3).
        """
        paths = tuple(map(str, data["groups"]))
        index = {path: number for number, path in enumerate(paths)}
        above = [union(index[path[:at]] for at, char in enumerate(path) if char == ".") for path in paths]
        below, partners = [0] * len(paths), [0] * len(paths)
        for number, ancestors in enumerate(above):
            for ancestor in members(ancestors):
                below[ancestor] |= 1 << number
        for excluded in data["exclusions"]:
            for number in excluded:
                partners[number] |= union(excluded) & ~(1 << number)
                if above[number] & union(excluded):
                    raise NotASystem(f"{paths[number]} and a group that contains it exclude one another")
        return cls(
            paths,
            tuple(above),
            tuple(below),
            tuple(partners),
            {int(number): frozenset(phases) for number, phases in data.get("hooks", {}).items()},
            union(data.get("pinned", ())),
            bool(data.get("evicts", False)),
            tuple(Cap(**data[name]) for name in ("count", "length") if name in data),
        )

    def groups(self, text: str) -> tuple[Order, int]:
        """Return the groups whose set is a hexadecimal number, in canonical order, and that set."""
        found = self._groups.get(text)
        if found is None:
            if len(self._groups) > MOST:
                self._groups.clear()
            number = int(text, 16)
            found = self._groups[text] = (tuple(members(number)), number)
        return found

    def is_legal(self, groups: int) -> bool:
        """Return whether groups may be open together (SPEC INV-1, INV-2)."""
        found = self._legal.get(groups)
        if found is None:
            if len(self._legal) > MOST:
                self._legal.clear()
            found = self._legal[groups] = self._is_legal(groups)
        return found

    def _is_legal(self, groups: int) -> bool:
        return all(not self.ancestors[one] & ~groups and not self.partners[one] & groups for one in members(groups))

    def named(self, groups: int) -> str:
        """Return groups in words."""
        return ", ".join(self.paths[number] for number in members(groups)) or "none"

    def masked(self, paths: Iterable[str]) -> int:
        """Return the groups of these paths; those that it does not have are left out."""
        return union(self.index[path] for path in paths if path in self.index)

    # -- requests -----------------------------------------------------------------------------------------------------

    def request(self, before: Order, opened: Sequence[int], closed: Sequence[int]) -> Result:
        """Return the result of a request in a state, whose groups are in the order in which they were opened."""
        key = (before, tuple(opened), tuple(closed))
        found = self._results.get(key)
        if found is None:
            if len(self._results) > MOST:
                self._results.clear()
            found = self._results[key] = self._requested(before, opened, closed)
        return found

    def _requested(self, before: Order, opened: Sequence[int], closed: Sequence[int]) -> Result:
        if min((*opened, *closed, 0)) < 0:
            return Result("GroupNotFound", before)
        active = union(before)
        result = self._planned(active, opened, closed)
        if result.refusal or not result.set_up or self._fit(result.active):
            return result.ordered(before)
        if not self.evicts:
            return Result("QuotaExceeded", before)
        left, evicted, spared = result.active, list[int](), union(opened) | self.pinned
        for number in before:
            gone = (self.descendants[number] | 1 << number) & left
            if left >> number & 1 and not gone & spared and self._exceeded(left).of(gone):
                left &= ~gone
                evicted.append(number)
                if self._fit(left):
                    return self._planned(active, opened, [*closed, *evicted]).ordered(before)
        return Result("QuotaExceeded", before)

    def _fit(self, groups: int) -> bool:
        return all(cap.holds(groups) for cap in self.caps)

    def _exceeded(self, groups: int) -> Cap:
        return next(cap for cap in self.caps if not cap.holds(groups))

    def _planned(self, active: int, opened: Sequence[int], closed: Sequence[int]) -> Result:
        run, wanted = Run(self, active), 0
        for number in sorted({*closed}):
            run.send("deactivate", number)
        for number in sorted({*opened}):
            run.send("activate", number)
            if run.refused:
                above = members(self.ancestors[number] & ~run.active)
                return Result("ParentInactive", (), named=(number, *above[:1]))
            wanted |= 1 << number
            if displaced := members(wanted & ~run.active):
                return Result("ExclusionConflict", (), named=(displaced[0], number))
        return run.result()

    def close(self, before: Order, kept: int = 0) -> Result:
        """Return the result of closing all groups but those that are kept (SPEC HOOK-9)."""
        active = union(before)
        run = Run(self, active)
        for number in reversed(members(active & ~kept)):
            run.send("deactivate", number)
        return run.result().ordered(before)

    def restore(self, stored: Iterable[int]) -> Result:
        """Return the result of restoring groups where none is open (SPEC PER-2)."""
        wanted = [*members(self.pinned), *stored]
        run = Run(self, 0)
        for number in sorted({*wanted}):
            run.send("restore", number)
        found = run.result()
        order = tuple(dict.fromkeys(number for number in wanted if found.active >> number & 1))
        return found.ordered(order)


MOST = 100_000
"""How many results are kept of one system."""


@frozen
class Result:
    """The result of a request: why it is refused, or the groups that are open then, and those set up and torn down.

    `named` are the groups that a refusal is about.
    """

    refusal: Refusal
    order: Order
    active: int = 0
    set_up: int = 0
    torn_down: int = 0
    named: tuple[int, ...] = ()

    def ordered(self, before: Order) -> Result:
        """Return it with the groups in the order in which they were opened."""
        if self.refusal:
            return Result(self.refusal, before, named=self.named)
        stay = [number for number in before if self.active >> number & 1]
        new = members(self.active & ~union(stay))
        return Result("", (*stay, *new), self.active, self.set_up, self.torn_down)


# -- a run of the rows ------------------------------------------------------------------------------------------------

Rows = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]


@cache
def by_state() -> Rows:
    """Return the rows by state and event."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows()["regions"]:
        found.setdefault((row["state"], row["event"]), []).append(row)
    return found


class Run:
    """A run of the rows over the regions of a system: events are sent, each to its end."""

    def __init__(self, system: System, active: int, among: Rows | None = None) -> None:
        self.active = active
        self.refused = False
        self._system = system
        self._rows = by_state() if among is None else among
        self._locked = dict[int, bool]()
        self._before = active
        self._effects = Counter[tuple[str, int]]()

    def send(self, event: str, number: int) -> None:
        """Let an event reach a region, and all that follow from it; raises `LookupError` if there is no row."""
        queue = deque([(event, number)])
        while queue:
            event, number = queue.popleft()
            row = self._row(event, number)
            bit = 1 << number
            self.active = self.active | bit if row["target"] == "active" else self.active & ~bit
            self._locked[number] = row["target"] == "locked"
            self.refused = self.refused or row["effect"] == "refuse"
            if row["effect"] != "nothing":
                self._effects[row["effect"], number] += 1
            for what, to in row["emits"]:
                for other in self._system.related[to][number]:
                    queue.append((what, other))

    def _row(self, event: str, number: int) -> Mapping[str, Any]:
        above, partners = self._system.ancestors[number], self._system.partners[number]
        if self.active >> number & 1:
            state = "active"
        elif number in self._locked:
            state = "locked" if self._locked[number] else "inactive"
        else:
            state = "locked" if above & ~self._before else "inactive"
        for row in self._rows.get((state, event), ()):
            guard = row["guard"]
            if (
                not guard
                or (guard == "all ancestors active" and not above & ~self.active)
                or (guard == "an ancestor inactive" and above & ~self.active)
                or (guard == "no partner active" and not partners & self.active)
                or (guard == "a partner active" and partners & self.active)
            ):
                return row
        raise LookupError(f"the rows have none for {event!r} in the state {state!r}")

    def result(self) -> Result:
        """Return the groups that are open now, and those set up and torn down on the whole."""
        up, down = (
            union(
                number
                for (effect, number), times in self._effects.items()
                if effect == one and self._more(one, number, times)
            )
            for one in ("set up", "tear down")
        )
        return Result("", (), self.active, up, down)

    def _more(self, effect: str, number: int, times: int) -> bool:
        opposite = "tear down" if effect == "set up" else "set up"
        return times > self._effects[opposite, number]
