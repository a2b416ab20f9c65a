"""What a caller observes with another one and without: the relation that isolates them (SPEC ISO-1).

B takes every transition of a small system and looks around all the while: lists, calls, answers, errors, searches,
reasons, and what it is notified of. A does the same and more: calls that fail, facts, a session that ends. No answer is
compared with a right one, only with the answer that B gets without A. So this finds leaks that no other rule forbids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import cycle, islice
from typing import Any, Literal, Protocol, TypeAlias

from attrs import define, field, frozen

from toolfold_specs.reference import State, System, activate, deactivate

Verb = Literal["open", "close", "list", "groups", "call", "find", "explain", "prompt", "resource", "cursor", "leave"]

CALLS = ("echo", "refuse", "crash", "ready", "tell", "late", "nothing_like_it")
"""The tools of no group, and a name that none has."""
QUERIES = ("count the pears", "pears or apples", "echo")


@frozen
class Step:
    """One request of a caller: a verb, and what it is about."""

    verb: Verb
    about: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.about}".rstrip()


class Party(Protocol):
    """A caller, as a delivery has them."""

    async def do(self, step: Step) -> Any:
        """Return the answer to a request as data, and an error as such."""
        ...

    def notices(self) -> Any:
        """Return what the caller was notified of since the last time, as data."""
        ...


Enter: TypeAlias = Callable[[str], AbstractAsyncContextManager[Party]]
"""Has a caller of some name enter, for as long as a block runs."""


class Delivery(Protocol):
    """A way in which callers reach one server."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def verbs(self) -> frozenset[Verb]:
        """What a caller can do there."""
        ...

    def serve(self, system: System) -> AbstractAsyncContextManager[Enter]:
        """Serve a system while a block runs."""
        ...


@frozen
class Leak:
    """A request of B whose answer, or whose notices, are not those without A."""

    delivery: str
    system: System
    place: int
    step: Step
    alone: Any
    among: Any

    def __str__(self) -> str:
        where = f"{self.delivery}, {self.system}: request {self.place} of B, {self.step}"
        return f"{where}:\n  without A: {self.alone}\n  with A:    {self.among}"


def tour(system: System) -> Iterator[Step]:
    """Yield transitions that take every edge of the state graph of a system, refused ones included."""
    moves = [
        move
        for group, path in enumerate(system.paths())
        for move in ((Step("open", path), activate, group), (Step("close", path), deactivate, group))
    ]
    state: State = frozenset()
    left: dict[State, list[int]] = {}

    def after(state: State, number: int) -> State:
        _, move, group = moves[number]
        return move(system, state, group).state

    def nearest() -> list[int]:
        """Return the shortest way to an edge that was not taken, and that edge; nothing if all were."""
        seen, queue = {state}, deque([(state, list[int]())])
        while queue:
            at, way = queue.popleft()
            if edges := left.setdefault(at, [*range(len(moves))]):
                return [*way, edges[0]]
            for number in range(len(moves)):
                if (following := after(at, number)) not in seen:
                    seen.add(following)
                    queue.append((following, [*way, number]))
        return []

    while way := nearest():
        for number in way:
            if number in left[state]:
                left[state].remove(number)
            yield moves[number][0]
            state = after(state, number)


def looks(system: System, verbs: frozenset[Verb]) -> list[Step]:
    """Return the requests by which a caller looks around."""
    paths = system.paths()
    names = [*CALLS, *(f"{path}.tool" for path in paths)]
    every = [
        Step("list"),
        Step("groups"),
        *(Step("call", name) for name in names),
        *(Step("find", query) for query in QUERIES),
        Step("list"),
        *(Step("explain", name) for name in (*names, *paths)),
        *(Step("prompt", f"{path}.ask") for path in paths),
        *(Step("resource", f"desk://{path}") for path in paths),
        Step("cursor", "made up"),
    ]
    return [step for step in every if step.verb in verbs]


def acts(system: System, verbs: frozenset[Verb]) -> list[Step]:
    """Return all that A does: every transition with something else after it; in the end it leaves and comes again."""
    around = cycle([Step("find", "apples " * 9), *looks(system, verbs)])
    both = [step for transition in tour(system) for step in (transition, next(around))]
    return [*both, *looks(system, verbs), Step("leave")]


@define(eq=False)
class Other:
    """A, who does its script over and over."""

    enter: Enter
    script: Iterator[Step]
    stack: AsyncExitStack = field(factory=AsyncExitStack)
    party: Party | None = None

    async def act(self, steps: int) -> None:
        """Do some more."""
        for _ in range(steps):
            if self.party is None:
                self.party = await self.stack.enter_async_context(self.enter("a"))
            if (step := next(self.script)).verb == "leave":
                await self.leave()
            else:
                await self.party.do(step)

    async def leave(self) -> None:
        """End the session, if there is one."""
        await self.stack.aclose()
        self.stack, self.party = AsyncExitStack(), None


async def observed(delivery: Delivery, system: System, *, acting: bool, whole: bool) -> list[tuple[Step, Any]]:
    """Return the requests of B, each with what B observes.

    Args:
        delivery: How callers reach the server.
        system: What is served.
        acting: Whether A is there, and acts.
        whole: Whether A does all of its script in each state of B, who makes a request after each step; otherwise A
            goes on with it by a step or two before each request of B, who looks around once in each state.
    """
    found: list[tuple[Step, Any]] = []
    script = acts(system, delivery.verbs)
    around = cycle(looks(system, delivery.verbs))
    async with AsyncExitStack() as stack:
        enter = await stack.enter_async_context(delivery.serve(system))
        b = await stack.enter_async_context(enter("b"))
        other = Other(enter, cycle(script)) if acting else None

        async def request(step: Step, before: int) -> None:
            if other is not None:
                await other.act(before)
            found.append((step, {"answer": await b.do(step), "notices": b.notices()}))

        for transition in tour(system):
            await request(transition, 2)
            for step in looks(system, delivery.verbs):
                await request(step, 1)
            for step in islice(around, len(script) if whole else 0):
                await request(step, 1)
        if other is not None:
            await other.leave()
    return found


async def leak_of(delivery: Delivery, system: System, *, whole: bool = False) -> tuple[int, Leak | None]:
    """Return how many requests of B were compared, and the first that A interferes with, if there is one."""
    alone = await observed(delivery, system, acting=False, whole=whole)
    among = await observed(delivery, system, acting=True, whole=whole)
    for place, ((step, one), (_, other)) in enumerate(zip(alone, among, strict=True)):
        if one != other:
            return place + 1, Leak(delivery.name, system, place, step, one, other)
    return len(alone), None
