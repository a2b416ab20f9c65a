"""Worlds whose replicas write traces, which the specification has to allow (SPEC TRC-1).

    python -m tests.simulation.traced --seeds 200             # write, and verify
    python -m tests.simulation.traced --seeds 20 --into DIR   # keep the files of each world
    python -m tests.simulation.traced --mutants               # mutants of the source, found from traces alone

Each process of a replica has a file of its own; those of a world are merged by version. Besides, sessions of random
catalogs walk at random, in memory and in a store, with hooks that fail, callers that are cancelled, limits that evict,
and groups that come to exclude one another meanwhile; and processes that are stalled use a record of a store.

The mutants are all of `mutants.toml` that are of sessions and stores, and those of `source_mutants.toml` and of the
machine, but for those that are about what a trace does not say.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from attrs import define

from tests.simulation.disk import LEASE, Database
from tests.simulation.mutants import ROOT, DidNotRun, Mutant, mutants
from tests.simulation.plan import Plan, StorePlan, drawn
from tests.simulation.worlds import run
from toolfold import Place, Record, Session, Store, ToolError, ToolfoldError, ToolSet
from toolfold_adapters.observe.trace import Trace
from toolfold_adapters.stores import MemoryStore
from toolfold_specs.traces import NotATrace, Outcome, verify
from verification.source_mutants import source_mutants

T = TypeVar("T")


@contextmanager
def traces_in(folder: Path) -> Iterator[Callable[[str, Callable[[], float]], Trace]]:
    """Yield a function that returns a trace in a folder, by the name of its process.

    All are closed at the end, but for those of processes that were killed. If the body raises, none is closed.
    """
    made: list[Trace] = []

    def traced(process: str, clock: Callable[[], float]) -> Trace:
        made.append(Trace(folder / f"{process}.jsonl", now=clock, by=f"{process:_<6.6}"))
        return made[-1]

    try:
        yield traced
        for trace in made:
            trace.close()
    finally:
        for trace in made:
            trace.abandon()


class _Wrong(Exception):
    """Something is wrong with a world, so that its processes have ended where they were."""


def written(plan: Plan, folder: Path) -> list[Path]:
    """Run a world, and return the files that its replicas have written, whatever is wrong with it."""
    with suppress(_Wrong), traces_in(folder) as traced:
        if run(plan, traced).wrong:
            raise _Wrong
    return sorted(folder.glob("*.jsonl"))


def plans(count: int) -> Iterator[StorePlan]:
    """Yield plans of replicas and a store that loses nothing: what it gives back is what a trace says of it."""
    number = 0
    while count:
        plan, number = drawn(number), number + 1
        if isinstance(plan, StorePlan) and not any(fault.kind == "lose" for fault in plan.faults):
            count -= 1
            yield plan


def found(plan: Plan, folder: Path) -> Outcome | None:
    """Return what is found in the traces of a world; `None` if it wrote none."""
    folder.mkdir(parents=True, exist_ok=True)
    files = written(plan, folder)
    return verify(files) if files else None


# -- walks ------------------------------------------------------------------------------------------------------------

PATIENCE = 1.0
"""How many seconds a walk may take; it needs some milliseconds, unless a lease is in its way that is not given back."""

PATHS = ("a", "a.b", "a.b.c", "a.d", "e", "e.f", "g")
EXCLUSIONS = (("a", "e"), ("a.b", "a.d"), ("e.f", "g"), ("a.d", "g"))
NO_EXCLUSION = ("a", "a.b.c")
"""One contains the other, so no tool set may have it."""


def _catalog(random: Random) -> ToolSet:
    """Return a tool set with random groups, hooks and limits."""
    limits: dict[str, Any] = {}
    if random.random() < 0.4:
        limits = {"max_active": random.randrange(2, 5), "evict": random.choice([None, "oldest"])}
    tools = ToolSet("walk", **limits)

    def hook() -> None:
        if random.random() < 0.15:
            raise ToolError("on purpose")

    async def slow() -> None:
        for _ in range(random.randrange(4)):
            await checkpoint()
        hook()

    for path in PATHS:
        parent, _, name = path.rpartition(".")
        phases = [phase for phase in ("on_activate", "on_deactivate", "on_rollback") if random.random() < 0.5]
        hooks: dict[str, Any] = dict.fromkeys(phases, random.choice((hook, slow)))
        if "on_rollback" not in hooks and random.random() < 0.2:
            hooks["on_rollback"] = False
        tools.register_group(name, path, parent=parent or None, **hooks)
        if random.random() < 0.5:
            tools.register("use", lambda: "used", description="Use it.", group=path)
    for excluded in random.sample(EXCLUSIONS, random.randrange(len(EXCLUSIONS))):
        tools.register_exclusion(*excluded)
    with suppress(ToolfoldError):
        tools.register_exclusion(*NO_EXCLUSION)
    return tools


async def _walk(random: Random, folder: Path) -> None:
    with traces_in(folder) as traced, anyio.move_on_after(PATIENCE):
        await _use(random, traced("walk", time.time))


async def _use(random: Random, trace: Trace) -> None:
    tools = _catalog(random)
    trace.listen(tools)
    dumped: dict[str, Any] | None = None
    for _ in range(4):
        opening = tools.open_session() if dumped is None else tools.restore_session(dumped)
        with suppress(ToolfoldError, ExceptionGroup):
            async with opening as session:
                for _ in range(12):
                    await _step(random, tools, session)
                dumped = session.dump()


class _Late(MemoryStore):
    """A store that answers late, and that some operations reach when the lease under which they are made has ended.

    At times `other` has undone the hooks of that lease before.
    """

    def __init__(self, random: Random) -> None:
        super().__init__(self.time)
        self._random = random
        self._late = 0.0
        self.other: Store | None = None

    def time(self) -> float:
        """Return the time in seconds."""
        return time.time() + self._late

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        if token is not None and self._random.random() < 0.1:
            self._late += 2 * self.lease
            if self.other is not None and self._random.random() < 0.5:
                lease = await self.other.acquire(key, self.lease)
                if lease is not None and lease.token is not None:
                    await self.other.intend(key, None, lease.token)
        return await self._answer(await super().swap(key, version, data, token))

    async def read(self, key: str) -> Record | None:
        return await self._answer(await super().read(key))

    async def _answer(self, answer: T) -> T:
        for _ in range(self._random.randrange(4)):
            await checkpoint()
        return answer


async def _walk_in_store(random: Random, folder: Path) -> None:
    with traces_in(folder) as traced, anyio.move_on_after(PATIENCE):
        store = _Late(random)
        store.other = traced("other", store.time).around(store)
        await _use_store(random, traced("stored", store.time), store)


async def _use_store(random: Random, trace: Trace, store: Store) -> None:
    tools = _catalog(random)
    trace.listen(tools)
    async with tools.stored_sessions(trace.around(store)) as stored:
        await stored.ensure(stored.draft(json.dumps(["walk", None]), notifies=True))
        for _ in range(4):
            with suppress(ToolfoldError):
                async with stored.open("walk") as session:
                    for _ in range(8):
                        await _step(random, tools, session)
                        if random.random() < 0.2:
                            session.set_fact("number", random.random())
                            await session.flush()
                        if random.random() < 0.3:
                            await session.claim()
        with suppress(ToolfoldError, ExceptionGroup):
            await stored.end("walk")


async def _step(random: Random, tools: ToolSet, session: Session) -> None:
    """Make a request, in the middle of which it may be cancelled, another made, or another exclusion registered."""
    opened, closed = ([path for path in PATHS if random.random() < often] for often in (0.25, 0.15))
    meanwhile, turns = random.choice(("nothing", "request", "request", "cancel", "exclude")), random.randrange(6)

    async def make() -> None:
        with suppress(ToolfoldError):
            await session.transition(activate=opened, deactivate=closed, force=random.random() < 0.3)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        for _ in range(turns):
            await checkpoint()
        if meanwhile == "cancel":
            tasks.cancel_scope.cancel()
        elif meanwhile == "request":
            with suppress(ToolfoldError):
                async with session.request():
                    pass
        elif meanwhile == "exclude":
            with suppress(ToolfoldError):
                tools.register_exclusion(random.choice(opened or PATHS), random.choice(session.active or PATHS))


def walk(seed: int, folder: Path) -> None:
    """Write the trace of sessions that walk at random."""
    logging.disable()
    try:
        anyio.run(_walk, Random(seed), folder)
        anyio.run(_walk_in_store, Random(seed), folder)
    finally:
        logging.disable(logging.NOTSET)


# -- a store ----------------------------------------------------------------------------------------------------------

INTENTS = (None, '[["on_activate","a"]]', '[["on_activate","a"],["on_activate","b"]]')


@define
class _Store:
    """A record that processes use in turn, each of them also while another one, which is stalled, has its lease."""

    random: Random
    stores: Sequence[Store]
    now: float = 1000.0

    def time(self) -> float:
        """Return the time in seconds."""
        return self.now

    async def use(self, among: Sequence[Store]) -> None:
        """Have one of some processes use it."""
        random, store = self.random, self.random.choice(among)
        self.now += random.choice((0.0, random.random()))
        record = await store.read("walk")
        if record is None:
            await store.create("walk", f"data {random.random()}", Place("walk"), 1000.0)
        elif random.random() < 0.3:
            await store.swap("walk", record.version, f"data {random.random()}")
        else:
            lease = await store.acquire("walk", LEASE, record.version, random.choice(INTENTS))
            if lease is not None and lease.token is not None:
                await self._hold(store, lease.token, lease.record.version, [one for one in among if one is not store])

    async def _hold(self, store: Store, token: int, version: int, others: Sequence[Store]) -> None:
        random = self.random
        for _ in range(random.randrange(3)):
            self.now += random.choice((0.0, 0.1, 1.5, 3.0))
            match random.choice(("intend", "renew", "others")):
                case "intend":
                    if not await store.intend("walk", INTENTS[-1], token):
                        return
                case "renew":
                    await store.renew("walk", token, LEASE)
                case _ if others:
                    await self.use(others)
                case _:
                    pass
        self.now += random.choice((0.0, 0.1, 3.0))
        match random.choice(("swap", "swap", "withdraw", "release", "delete")):
            case "swap":
                await store.swap("walk", version, f"data {random.random()}", token)
            case "withdraw":
                await store.intend("walk", None, token)
            case "release":
                await store.release("walk", token)
            case _:
                await store.delete("walk", token)


async def _operate(random: Random, folder: Path) -> None:
    with traces_in(folder) as traced:
        world = _Store(random, ())
        engine: Store = random.choice((lambda: MemoryStore(world.time, LEASE), lambda: Database(world)))()
        world.stores = [traced(name, world.time).around(engine) for name in ("one", "two", "three")]
        for _ in range(40):
            await world.use(world.stores)


def operate(seed: int, folder: Path) -> None:
    """Write the traces of processes that use a record of a store at random."""
    anyio.run(_operate, Random(seed), folder)


# -- mutants ----------------------------------------------------------------------------------------------------------

OF_TRACES = ("core/toolfold/machine", "core/toolfold/_session", "adapters/toolfold_adapters/stores")
WALKS, WORLDS = 60, 100
"""How many walks and worlds may be needed to find a mutant."""
NOT_TOLD: dict[str, tuple[str, ...]] = {
    "facts are arguments of tools: a trace has only the digest of all that a record says": (
        "facts that were set during a save are lost",
        "facts are written again for ever",
        "facts that are still to be stored are lost when a newer state is read",
        "a fact whose save was not answered is stored again over another's",
        "facts that are to be stored do not show",
        "a state in a store has no facts",
        "a fact that was given up stays visible",
        "facts that are set are not stored",
        "facts that are set while the state is stored are overwritten",
        "facts that are false are not restored",
        "a restored session has no facts",
    ),
    "lists and notices go to clients: a trace has what is pending, and not who is notified": (
        "notices that are claimed stay pending",
        "notices are claimed by two processes",
        "what may have been claimed is not notified of",
        "a write of facts loses pending notices",
        "lists are said to have changed before the hooks run",
        "a notice is sent where no list has changed",
        "a session that has ended still lists",
    ),
    "answers and errors go to callers: a trace has the kind of an error, and which groups it is about": (
        "a save without an answer is said to have changed nothing",
        "a cancellation that arrives during an operation of the store is forgotten",
        "a cancellation is raised by a later transition",
        "only groups that do not exist are said to be discarded",
    ),
    "a trace does not say what limits there are, nor when records expire": (
        "nothing is swept",
        "sessions that have expired are not ended",
        "limits are those of all callers",
        "a caller may have any number of sessions",
        "sessions of all callers are one",
        "records expire while they are used",
        "records never expire",
        "records that have expired are not due",
        "one caller's limit is spent by another",
        "one caller's limit in SQLite is spent by another",
    ),
    "a trace has steps when they end, and not what waits for what": (
        "hooks of two sessions wait for one another",
        "a hook waits for its own session",
        "changes overtake those that wait",
    ),
    "calls have no lines": ("groups that are used while hooks run stay as old as before",),
    "a store that loses writes is not allowed in a trace, with a mutant or without": (
        "a state is visible that the store has lost",
        "versions are used again after a loss",
    ),
}
"""Why mutants are left out that change nothing that a trace says, and which these are."""


NOT_FOUND = {
    "a state that is being written is taken for news": (
        "only a group that is registered while facts are stored shows it, to its own process"
    ),
    "a record is created outside of a transition": "only a cancellation in the middle of that shows it, to its caller",
    "a transition of a dead process is not undone by who comes next, nor does anything wait for it": (
        "the next step undoes it, and what is only read meanwhile has no line"
    ),
}
"""Those that change what a trace says at most where rare things meet, and that no walk and no world has shown."""


def mutants_of_traces() -> list[Mutant]:
    """Return the mutants of the machine, of sessions and of stores."""
    found = [mutant for mutant in mutants() if mutant.file.startswith(OF_TRACES)]
    for one in source_mutants():
        if one.package == "core":
            file = one.applied(ROOT)[0].relative_to(ROOT).as_posix()
            if file.startswith(OF_TRACES):
                found.append(Mutant(one.does, file, one.text, one.replacement))
    return found


def until_found() -> str:
    """Return the first line that is not allowed, of walks and then of worlds; empty if all are."""
    with TemporaryDirectory() as temporary:
        for seed, write in product(range(WALKS), (operate, walk)):
            folder = Path(temporary, f"{write.__name__} {seed}")
            folder.mkdir()
            with suppress(Exception):  # what a mutant breaks, too, shows in what was written
                write(seed, folder)
            if (problem := verify(sorted(folder.glob("*.jsonl"))).problem) is not None:
                return f"{folder.name}, line {problem.line.number}: {problem.why}"
        for plan in plans(WORLDS):
            outcome = found(plan, Path(temporary, str(plan.seed)))
            if outcome is not None and outcome.problem is not None:
                return f"seed {plan.seed}, line {outcome.problem.line.number}: {outcome.problem.why}"
    return ""


def _judge_mutants(words: Sequence[str], jobs: int) -> int:
    chosen = [one for one in mutants_of_traces() if not words or any(word in one.does for word in words)]
    if not words:
        left_out = {does for group in NOT_TOLD.values() for does in group}
        print(f"{len(left_out)} of {len(chosen)} are left out:", flush=True)
        for why, group in NOT_TOLD.items():
            print(f"{len(group):4}  {why}", flush=True)
        chosen = [one for one in chosen if one.does not in left_out]
    missed = set[str]()

    def tried(mutant: Mutant) -> tuple[str, str]:
        try:
            why = mutant.found("tests.simulation.traced", "--until-found")
        except DidNotRun as error:
            return "ERROR", str(error)
        return "found" if why else "NOT FOUND", why or NOT_FOUND.get(mutant.does, "")

    with ThreadPoolExecutor(jobs) as pool:
        for mutant, (verdict, why) in zip(chosen, pool.map(tried, chosen), strict=True):
            print(f"{verdict:10}{mutant.does}: {why[:110]}", flush=True)
            if verdict != "found":
                missed.add(mutant.does)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} are found from traces alone.")
    return int(not missed <= NOT_FOUND.keys())


def main(arguments: Iterable[str] | None = None) -> int:
    """Run worlds and verify their traces; the status is 1 if one is not allowed."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.traced", description=about)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--into", type=Path, help="where to keep the files")
    parser.add_argument("--until-found", action="store_true", help="end with the first line that is not allowed")
    parser.add_argument("--mutants", nargs="*", metavar="WORD", help="judge mutants, or those with a word")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants side by side")
    given = parser.parse_args(None if arguments is None else [*arguments])
    if given.mutants is not None:
        return _judge_mutants(given.mutants, given.jobs)
    if given.until_found:
        print(why := until_found())
        return int(bool(why))
    lines = steps = 0
    for plan in plans(given.seeds):
        with TemporaryDirectory() as temporary:
            folder = (given.into or Path(temporary)) / str(plan.seed)
            try:
                outcome = found(plan, folder)
            except NotATrace as error:
                print(f"seed {plan.seed}: {error}")
                return 1
        if outcome is None:
            continue
        lines, steps = lines + outcome.lines, steps + outcome.steps
        if outcome.problem is not None:
            line = outcome.problem.line
            print(f"seed {plan.seed}: {line.file.name}, line {line.number}: {outcome.problem.why}")
            return 1
    print(f"{given.seeds} worlds, {lines:,} lines, {steps:,} steps: all are allowed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
