"""Has a request of a session come between any two awaits of another one (SPEC SES-2, STO-9).

    python -m tests.simulation.meetings       # each pair of requests, in one process and in two
    python -m tests.simulation.meetings note  # those whose name has this word

Each meeting is a small world. The first request rests at one of its awaits, by number, until the second has been
answered, or can't go on without the first. So each order of two requests in which one is whole, or waits for the other,
is met, also those that hardly any seed draws. What is judged is what clients and listeners see, that whoever is
answered leaves no lease behind, and that a process knows what it has stored itself.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from contextvars import Context
from functools import partial
from itertools import count, product
from random import Random
from typing import Any

import anyio
from attrs import define, field, frozen

from tests.simulation.desk import PATHS, make_tools
from tests.simulation.disk import Connection, Disk, Weather
from tests.simulation.judging import PLAIN, A, Request, X, explained, numbered, opened
from tests.simulation.loop import Extent, Loop, Stuck
from tests.simulation.replicas import FINAL, Answer, answered, name_of
from toolfold import Session, StoredSessions, ToolSet
from toolfold_specs.linearize import Operation

REST = 1.0
"""Seconds that the first request rests at most; a lease is held for longer."""
REQUESTS = {
    "open plain": Request(0, "control", (PLAIN,)),
    "close plain": Request(0, "control", (), (PLAIN,)),
    "close a": Request(0, "control", (), (A,)),
    "open x for a": Request(0, "step", (X,)),
    "note": Request(0, "note", fact=("p", 1)),
    "look": Request(0, "look"),
    "list": Request(0, "list"),
}
"""The requests, by what they do; each comes with a number of its own."""
LEARN = "learn plain"
"""The process registers the group `plain`, which it did not know, and looks."""


@frozen
class Meeting:
    """Two requests of a session, which is begun with the groups `a` and `plain`.

    Attributes:
        first: What is asked first.
        second: What is asked in the middle of that.
        apart: Whether they are asked of two processes.
        empty: Whether the group `plain` has no tools.
    """

    first: str
    second: str
    apart: bool = False
    empty: bool = False

    def __str__(self) -> str:
        """Return its name."""
        where = "another process" if self.apart else "the same process"
        return f"{self.first}, and {self.second} in {where}{', without tools' if self.empty else ''}"


def meetings() -> Iterator[Meeting]:
    """Yield all of them."""
    for first, second, apart in product(REQUESTS, REQUESTS, (False, True)):
        yield Meeting(first, second, apart)
    yield Meeting("note", LEARN)
    yield Meeting("open plain", "close plain", apart=True, empty=True)


@define(eq=False)
class Process:
    """One of the processes that serve the session.

    Attributes:
        tools: Its tool set.
        stored: Its sessions.
    """

    tools: ToolSet
    stored: StoredSessions

    @property
    def session(self) -> Session:
        """The session, as the process knows it."""
        key = self.stored.key(name_of(0))
        return next(one for one in self.stored.known if one.id == key)


@define(eq=False)
class Room:
    """The small world of a meeting."""

    meeting: Meeting
    loop: Loop
    disk: Disk = field(init=False)
    processes: list[Process] = field(factory=list[Process])
    history: list[Operation] = field(factory=list[Operation])
    lines: list[str] = field(factory=list[str])
    notices: int = 0
    _clock: count[int] = field(factory=count)

    def __attrs_post_init__(self) -> None:
        self.disk = Disk(self.loop, Random(0), Weather(slow=0.001))

    async def live(self, awaits: int) -> tuple[bool, str]:
        """Have the second request come at that await of the first; return whether there is one, and what is wrong."""
        async with AsyncExitStack() as stack:
            for name in ("one", "another"):
                self.processes.append(await self._started(name, stack))
            one, another = self.processes
            await self._ask(another, Request(2, "step", (A, PLAIN)))
            await self._look(one)
            first, met = Extent("first", self.loop), anyio.Event()
            first.at = {awaits: partial(self._rest, first, met)}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._meet, first, met, another if self.meeting.apart else one)
                await first.start(self._ask(one, self._numbered(self.meeting.first, 4)))
                if first.awaits < awaits:
                    tasks.cancel_scope.cancel()
            return first.awaits >= awaits, "" if first.awaits < awaits else await self._judged()

    async def _started(self, name: str, stack: AsyncExitStack) -> Process:
        tools = make_tools(self._note, name, Random(0), 0.01)
        if self.meeting.empty:
            tools.unregister("plain.probe")
        if self.meeting.second == LEARN and not self.processes:
            await tools.unregister_group("plain")
        connection: Any = Connection(self.disk, Random(name), name)
        return Process(tools, await stack.enter_async_context(tools.stored_sessions(connection)))

    def _note(self, session: str, fence: int | None, line: str) -> None:
        self.lines.append(line)

    def _rest(self, first: Extent, met: anyio.Event) -> None:
        first.rest = self.loop.create_future()
        self.loop.call_later(REST, self._go_on, first, context=Context())
        met.set()

    def _go_on(self, first: Extent) -> None:
        assert first.rest is not None
        if not first.rest.done():
            first.rest.set_result(None)

    async def _meet(self, first: Extent, met: anyio.Event, process: Process) -> None:
        await met.wait()
        if self.meeting.second == LEARN:
            process.tools.register_group("plain", "without hooks")
            await self._look(process)
        else:
            await self._ask(process, self._numbered(self.meeting.second, 6))
        self._go_on(first)

    def _numbered(self, name: str, number: int) -> Request:
        request = REQUESTS[name]
        fact = None if request.fact is None else (request.fact[0], number)
        return Request(number, request.kind, request.activate, request.deactivate, fact)

    async def _ask(self, process: Process, request: Request) -> Answer:
        """Make a request of a process, and put it into the history."""
        called = next(self._clock)
        answer, shown = await answered(process.stored, 0, request, self._notified)
        ended = next(self._clock)
        self.history.append(Operation(request.number, called, ended, request, answer))
        if shown is not None:
            self.history.append(Operation(request.number, called, ended, Request(request.number, "shown"), shown))
        return answer, shown

    async def _look(self, process: Process) -> Any:
        return (await self._ask(process, Request(FINAL + len(self.history), "look")))[0]

    def _notified(self) -> None:
        self.notices += 1

    # -- judging ------------------------------------------------------------------------------------------------------

    async def _judged(self) -> str:
        """Return what is wrong after both requests, or nothing."""
        one, another = self.processes
        if self.disk.audit.is_held(one.stored.key(name_of(0))):
            return "nobody changes the session any more, and it is leased"
        now = one.session.snapshot
        known = numbered(now.active), frozenset(now.facts.items())
        read = await self._look(another)
        if not self.meeting.apart and known != read:
            return f"the process knows {known}, and has stored {read}"
        again = await self._look(one)
        left, wrong = opened(self.lines)
        active = {PATHS[group] for group in read[0] if group != PLAIN}
        if again != read or left != active or wrong:
            return f"one process reads {again}, another one {read}; {left} are open; {wrong}"
        if self.meeting.second != LEARN and not explained(self.history):
            return "no order of the requests explains the answers\n" + "\n".join(map(str, self.history))
        if self.meeting.second != LEARN and self.notices != (changed := sum(map(self._changes_lists, self.history))):
            return f"{self.notices} notices for {changed} transitions that changed lists"
        return "; ".join(self.disk.audit.wrong)

    def _changes_lists(self, one: Operation) -> bool:
        """Return whether a transition was answered to have changed groups that have tools."""
        without = {PLAIN} if self.meeting.empty else set[int]()
        if one.request.kind == "step":
            return any(groups - without for groups in one.answer)
        return (
            one.request.kind == "control"
            and one.answer
            and not without.issuperset((*one.request.activate, *one.request.deactivate))
        )


def met(meeting: Meeting) -> tuple[int, list[str]]:
    """Return at how many awaits the second request came, and what was wrong."""
    wrong = list[str]()
    for awaits in count(1):
        loop = Loop(Random(0), 0.0)
        room = Room(meeting, loop)
        try:
            reached, found = loop.run(partial(room.live, awaits))
        except (Stuck, Exception) as error:
            reached, found = True, repr(error)
        found = "; ".join(filter(None, (found, *loop.failures)))
        if not reached:
            return awaits - 1, wrong
        if found:
            wrong.append(f"{meeting}, at await {awaits}: {found}")
        if len(wrong) > 5:
            return awaits, wrong
    raise AssertionError


def main() -> int:
    """Have all requests meet; the status is 1 if anything is wrong."""
    totals = Counter[str]()
    for meeting in meetings():
        if all(word in str(meeting) for word in sys.argv[1:]):
            awaits, wrong = met(meeting)
            totals.update(meetings=1, awaits=awaits, wrong=len(wrong))
            print(*wrong[:1], sep="\n", end="\n" if wrong else "", flush=True)
    print(", ".join(f"{number:,} {name}" for name, number in totals.items()))
    return bool(totals["wrong"])


if __name__ == "__main__":
    sys.exit(main())
