"""Random clients of both eras against replicas that are killed, and a Redis that is restarted (SPEC STO-2 to STO-6).

    python -m tests.process.stores.soak --minutes 10

Requests go to the replicas in turn, so no client stays with one. Each session is used by several clients at a time; the
kit's checker judges its history, and its hooks are judged by what they wrote. The seed is printed. The same seed draws
the same requests and pauses; what overlaps is up to the processes. The status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from random import Random, randrange
from typing import Any

import anyio
import httpx2
from anyio import to_thread
from attrs import define, evolve, field

from tests.process.stores.clients import Client, InTurn, Refused, Unknown, Wrong, answered, read
from tests.process.stores.fleet import SIZE, Fleet, Options
from tests.process.stores.replicas import CALLERS, LIFETIME, World
from tests.process.stores.servers import RedisServer
from tests.simulation.desk import PATHS
from tests.simulation.judging import PLAIN, A, Request, X, explained, opened
from tests.simulation.plan import drawn_request
from toolfold_specs.linearize import Operation

SESSIONS = 6
"""How many sessions are in use at a time."""
CLIENTS = 3
"""How many clients use each session."""
REQUESTS = 6
"""How many requests each of them makes."""
AGAIN = 0.05
"""Seconds until a request that was not answered is made again."""
AT_LEAST = ("histories", "replicas killed", "Redis killed")
"""What has to have happened before a run is over."""
LONG = 60.0
"""Seconds from which a run waits until the sessions that nobody has ended have expired, too."""


@define
class Run:
    """A run: what its sessions share.

    Attributes:
        seed: What is drawn.
        http: What requests are sent with.
        world: What hooks have done.
        deadline: When to begin no more sessions.
        options: Those of the replicas.
        outages: When Redis was away.
        counted: What has happened how often.
        wrong: What is wrong, as texts.
    """

    seed: int
    http: httpx2.AsyncClient
    world: World
    deadline: float
    options: Options
    outages: list[tuple[float, float]] = field(factory=list)
    counted: Counter[str] = field(factory=Counter)
    wrong: list[str] = field(factory=list)

    @property
    def over(self) -> bool:
        """Whether to begin nothing more."""
        return time.monotonic() > self.deadline and all(self.counted[name] for name in AT_LEAST)

    def redis_was_away(self, since: float) -> bool:
        """Return whether Redis was away at any time since then."""
        return any(since < until for _, until in self.outages)


# -- sessions ---------------------------------------------------------------------------------------------------------


@define
class Session:
    """One session, used by several clients, and its history."""

    run: Run
    number: int
    random: Random = field(init=False)
    client: Client = field(init=False)
    history: list[Operation] = field(factory=list)
    _clock: count[int] = field(factory=count)
    _requests: count[int] = field(factory=count)

    def __attrs_post_init__(self) -> None:
        self.random = Random(f"{self.run.seed} {self.number}")
        self.client = Client(self.run.http, CALLERS[self.number % len(CALLERS)])

    async def tried(self) -> None:
        """Use it, end it, and judge what was seen."""
        try:
            await self._open()
            async with anyio.create_task_group() as tasks:
                for name in range(CLIENTS):
                    tasks.start_soon(self._use, name, Random(self.random.random()))
            while await self._ask("last", Request(next(self._requests), "look")) is None:  # noqa: ASYNC110
                await anyio.sleep(AGAIN)
            if not explained(self.history):
                raise Wrong("no order of the requests explains the answers")
            self.run.counted["histories"] += 1
            await self._end()
        except* Exception as group:
            shown = "\n".join(f"  {operation}" for operation in self.history)
            self.run.wrong.append(f"session {self.number}: {group.exceptions[0]!r}\n{shown}")

    async def _open(self) -> None:
        """Open it, in one of the eras."""
        legacy = self.random.random() < 0.5
        group = self.random.choice((A, PLAIN, X))
        while True:
            try:
                if legacy:
                    self.client = await self.client.initialize()
                elif not self.run.options.principals:
                    result = await self.client.call(f"{PATHS[group]}.activate", {})
                    self.client = evolve(self.client, handle=result["_meta"]["dev.toolfold/handle"])
                    asked = Request(next(self._requests), "control", (group,))
                    self.history.append(Operation("first", next(self._clock), next(self._clock), asked, True))
                break
            except (Unknown, Refused):
                self.run.counted["sessions opened again"] += 1
        self.run.counted["legacy sessions" if legacy else "modern sessions"] += 1

    async def _use(self, name: int, random: Random) -> None:
        for _ in range(REQUESTS):
            if random.random() < 0.1:
                await self._intrude()
            await self._ask(name, drawn_request(random, next(self._requests)))

    async def _ask(self, name: int | str, request: Request) -> Any:
        """Make a request, and put it into the history; one that was refused is not part of it."""
        self.run.counted[f"requests: {request.kind}"] += 1
        called, began = next(self._clock), time.monotonic()
        try:
            answer, shown = await answered(self.client, request)
        except Refused:
            self.run.counted["requests refused"] += 1
            return None
        except Unknown:
            self.run.counted["requests without an answer"] += 1
            self.history.append(Operation(name, called, None, request, None))
            return None
        returned = next(self._clock)
        if request.kind == "list" and self.run.redis_was_away(began):
            self.run.counted["lists while Redis was away"] += 1  # of what a replica knows, which may be old
            return None
        self.history.append(Operation(name, called, returned, request, answer))
        if shown is not None:
            self.history.append(Operation(name, called, returned, Request(request.number, "shown"), shown))
        return answer

    async def _read_at_last(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return what a tool answers, called until it does."""
        while True:
            try:
                return await read(self.client, name, arguments)
            except (Unknown, Refused):
                await anyio.sleep(AGAIN)

    async def _intrude(self) -> None:
        """Use it as another caller, who must be refused."""
        if self.client.handle is None and self.client.session_id is None:  # nobody else can name it
            return
        try:
            answer = await evolve(self.client, caller="nobody").request("tools/list", {})
        except (Unknown, Refused, Wrong):
            self.run.counted["other callers refused"] += 1
        else:
            raise Wrong(f"another caller was answered {answer}")

    async def _end(self) -> None:
        """End it, with transitions whose hooks leave nothing open.

        Hooks that were interrupted are undone before the next hook runs, but not before a transition that has none. The
        first transition may have none; the others have some.
        """
        for number, activate in enumerate(([], ["a", "a.b"], [])):
            deactivate = [] if activate else PATHS
            await self._read_at_last("step", {"activate": activate, "deactivate": deactivate})
            found = await self._read_at_last("look", {})
            active, lines = set(found["active"]), self.run.world.lines(found["session"])
            left, wrong = opened(lines)
            if active != set(activate) or (number and (wrong or left != active)):
                raise Wrong(f"{active} are active, {left} are open; {wrong}\n  " + "\n  ".join(lines))
        if self.client.session_id is not None:
            while not await self.client.end():  # noqa: ASYNC110
                await anyio.sleep(AGAIN)


# -- what happens to replicas and Redis -------------------------------------------------------------------------------


async def killing(run: Run, fleet: Fleet, pace: float) -> None:
    """Kill replicas, or ask them to end, and start them again."""
    random = Random(f"{run.seed} replicas")
    while True:
        await anyio.sleep(random.uniform(0.3, 1.7) * pace)
        with anyio.CancelScope(shield=True):
            index = random.randrange(SIZE)
            if random.random() < 0.2:
                status = await fleet.end(index, signal.SIGTERM)
                run.counted["replicas ended"] += 1
                if status not in (0, signal.SIGTERM):
                    run.wrong.append(f"a replica that was asked to end did so with status {status}")
            else:
                await fleet.end(index)
                run.counted["replicas killed"] += 1
            await anyio.sleep(random.uniform(0, 0.5) * pace)
            await fleet.start(index)


async def restarting(run: Run, redis: RedisServer, pace: float) -> None:
    """Kill Redis, and start it again with what it has on its disk."""
    random = Random(f"{run.seed} redis")
    while True:
        await anyio.sleep(random.uniform(3, 10) * pace)
        with anyio.CancelScope(shield=True):
            run.outages.append((time.monotonic(), inf))
            redis.kill()
            run.counted["Redis killed"] += 1
            await anyio.sleep(random.uniform(0, 0.7))
            await to_thread.run_sync(redis.start)
            run.outages[-1] = (run.outages[-1][0], time.monotonic())


async def abandoned(run: Run, fleet: Fleet) -> None:
    """Let the sessions expire that nobody has ended, and judge whether a replica that starts then closes them."""
    for index in range(SIZE):
        await fleet.end(index)
    await anyio.sleep(LIFETIME)
    run.counted["sessions left open"] = len(left_open(run.world))
    await fleet.start(0)
    with anyio.move_on_after(LIFETIME):
        while left_open(run.world):  # noqa: ASYNC110 - other processes do it
            await anyio.sleep(AGAIN)
    run.wrong += [f"left open after its session expired: {left}" for left in left_open(run.world)]


def left_open(world: World) -> list[set[str]]:
    """Return the groups that the hooks of each session have left open."""
    sessions = [opened(path.read_text().splitlines())[0] for path in world.folder.iterdir()]
    return [left for left in sessions if left]


# -- a run ------------------------------------------------------------------------------------------------------------


async def soak(seed: int, seconds: float, folder: Path, pace: float = 1.5, *, principals: bool = False) -> Run:
    """Run it, and return what was counted and what is wrong.

    Args:
        seed: What is drawn.
        seconds: How long to begin sessions; longer, until everything has happened once.
        folder: Where Redis, hooks and replicas write.
        pace: A factor of the times between two kills.
        principals: Whether each caller has a session of its own in the modern era.
    """
    world = World(folder / "world")
    world.folder.mkdir(parents=True)
    with RedisServer(folder, "--appendfsync", "always") as redis:
        fleet = Fleet(Options(store=redis.url, folder=world.folder, principals=principals))
        async with fleet.running(folder / "log"), httpx2.AsyncClient(transport=InTurn(fleet.ports)) as http:
            run = Run(seed, http, world, time.monotonic() + seconds, fleet.options)
            numbers = count()

            async def use() -> None:
                while not run.over:
                    await Session(run, next(numbers)).tried()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(killing, run, fleet, pace)
                tasks.start_soon(restarting, run, redis, pace)
                async with anyio.create_task_group() as users:
                    for _ in range(SESSIONS):
                        users.start_soon(use)
                tasks.cancel_scope.cancel()
            if seconds >= LONG:
                await abandoned(run, fleet)
    lines = [line for path in world.folder.iterdir() for line in path.read_text().splitlines()]
    run.counted["hooks"] = sum(line.endswith("begins") for line in lines)
    run.counted["hooks undone"] = sum(line.startswith("undo") for line in lines)
    return run


def main() -> int:
    """Run it as the command line says, and print what came of it."""
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m tests.process.stores.soak", description=about)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=randrange(1_000_000))
    parser.add_argument("--pace", type=float, default=1.5, help="a factor of the times between two kills")
    parser.add_argument("--principals", action="store_true", help="modern callers have sessions of their own")
    parser.add_argument("--folder", type=Path, help="a new folder for what is written")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = options.folder or Path(tempfile.mkdtemp())
    run = anyio.run(
        partial(soak, options.seed, options.minutes * 60, folder, options.pace, principals=options.principals)
    )
    for name, number in sorted(run.counted.items()):
        print(f"{number:8,} {name}")
    for text in run.wrong:
        print(text)
    return bool(run.wrong)


if __name__ == "__main__":
    sys.exit(main())
