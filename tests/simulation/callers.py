"""Callers who share a gateway's store of credentials, over every order of what they and fate do (SPEC GWY-19).

    python -m tests.simulation.callers     # all small systems, and the mutants, with what each violates

Two replicas, each with `Credentials` of its own over one store. An operation stops before each access to a record of a
credential, and any that has stopped may go on next: all orders are walked, each from the beginning. A replica that
crashes goes on no more and releases nothing; what it held ends as time passes, and the other one takes over.

In no order a call is made under another's credential, or after its own was revoked; nobody refreshes another's token,
nor one token twice while no process is lost; and what a server says about a call reaches the caller who made it alone.
`MUTANTS` leave something out, and each violates one of these.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations_with_replacement
from typing import Any, Literal
from unittest.mock import patch

from attrs import define, evolve, field, frozen

from toolfold_adapters.gateway.callers import credentials as module
from toolfold_adapters.gateway.callers.credentials import HELD_SECONDS, KIND, Credential, Credentials
from toolfold_adapters.gateway.callers.keys import VARIABLE, keys_of, new_key
from toolfold_adapters.stores import MemoryStore

Kind = Literal["login", "call", "refresh", "revoke", "crash", "time"]
URL = "https://board.example.org/mcp"
KEYS = keys_of({VARIABLE: new_key()}, None)
SETTLING = 10_000


@frozen
class Operation:
    """What a principal asks of a replica, or that the first replica crashes, or that time passes."""

    kind: Kind
    principal: str = ""
    replica: int = 0


# -- what is right, and what mutants do instead -----------------------------------------------------------------------


@define(eq=False)
class Replica:
    """A process of the gateway.

    `cached` has what calls have read; `last` is the key that was used last.
    """

    credentials: Credentials
    cached: dict[str, Credential] = field(factory=dict)
    last: str = ""


@frozen
class Rules:
    """How a gateway goes about credentials.

    Attributes:
        key: Under what those of a principal are stored.
        cache: Under what a replica caches them; `None` for not at all.
        refreshed: The key of what is refreshed for a principal.
        holds: Whether nobody else refreshes it meanwhile.
        to: Who reads what a server says about the call of the first of those whose calls are in flight.
    """

    key: Callable[[str], str] = lambda who: f"{who} board"
    cache: Callable[[str], str | None] = lambda who: None
    refreshed: Callable[[Replica, str], str] = lambda replica, key: key
    holds: bool = True
    to: Callable[[str, Sequence[str]], Sequence[str]] = lambda who, in_flight: [who]


RIGHT = Rules()
MUTANTS: dict[str, tuple[Rules, str]] = {
    "key by URL": (Rules(key=lambda who: URL), "acts as another"),
    "cache by server": (Rules(cache=lambda who: "board"), "acts as another"),
    "cache outlives a revocation": (Rules(cache=lambda who: who), "acts after its revocation"),
    "refresh of another's token": (Rules(refreshed=lambda replica, key: replica.last or key), "refreshes another's"),
    "refresh without a lease": (Rules(holds=False), "refreshes a token twice"),
    "log to all": (Rules(to=lambda who, in_flight: in_flight), "reads of another's call"),
}


# -- the world --------------------------------------------------------------------------------------------------------


@define(eq=False)
class World:
    """The store, its replicas, the server that gives tokens, and what was violated."""

    rules: Rules
    system: Sequence[Operation]
    now: float = 0.0
    owners: dict[str, str] = field(factory=dict)
    refreshed: set[str] = field(factory=set)
    revoked: set[str] = field(factory=set)
    in_flight: list[str] = field(factory=list)
    violations: list[str] = field(factory=list)
    calls: int = 0
    changes: int = 0
    store: MemoryStore = field(init=False)
    replicas: list[Replica] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.store = MemoryStore(lambda: self.now)
        self.replicas = [Replica(Credentials(self.store, lambda: KEYS)) for _ in range(2)]

    def pass_time(self) -> None:
        """Have all that is held be held no more."""
        self.now += HELD_SECONDS + 1
        self.changes += 1

    def token(self, who: str) -> str:
        token = f"token {len(self.owners)}"
        self.owners[token] = who
        return token

    def credential(self, who: str) -> Credential:
        token = self.token(who)
        return Credential(principal=who, server="board", url=URL, form="oauth", since=0.0, secret={"token": token})

    def perform(self, operation: Operation, replica: Replica) -> Coroutine[Any, Any, None]:
        act: Callable[[str, Replica], Coroutine[Any, Any, None]] = getattr(self, operation.kind)
        return act(operation.principal, replica)

    async def login(self, who: str, replica: Replica) -> None:
        await replica.credentials.write(self.rules.key(who), self.credential(who))

    async def call(self, who: str, replica: Replica) -> None:
        over = who in self.revoked and Operation("login", who) not in [evolve(one, replica=0) for one in self.system]
        cache, key = self.rules.cache(who), self.rules.key(who)
        self.in_flight.append(who)
        found = replica.cached.get(cache) if cache is not None else None
        found = found or await replica.credentials.read(key)
        replica.last = key
        if found is not None:
            if cache is not None:
                replica.cached[cache] = found
            self.calls += 1
            if self.owners[found.secret["token"]] != who:
                self.violations.append("acts as another")
            if over:
                self.violations.append("acts after its revocation")
            if any(reader != who for reader in self.rules.to(who, self.in_flight)):
                self.violations.append("reads of another's call")
        self.in_flight.remove(who)

    async def refresh(self, who: str, replica: Replica) -> None:
        key = self.rules.refreshed(replica, self.rules.key(who))
        if not self.rules.holds:
            found = await replica.credentials.read(key)
            if found is not None:
                await replica.credentials.write(key, self.renewed(who, found))
            return
        async with replica.credentials.held(key) as held:
            if held.credential is not None:
                await held.write(self.renewed(who, held.credential))

    def renewed(self, who: str, credential: Credential) -> Credential:
        token = credential.secret["token"]
        if self.owners[token] != who:
            self.violations.append("refreshes another's")
        lost = any(one.kind in ("crash", "time") for one in self.system)
        if token in self.refreshed and not lost:
            self.violations.append("refreshes a token twice")
        self.refreshed.add(token)
        return evolve(credential, secret={"token": self.token(self.owners[token])})

    async def revoke(self, who: str, replica: Replica) -> None:
        await replica.credentials.remove(self.rules.key(who))
        self.revoked.add(who)


# -- every order ------------------------------------------------------------------------------------------------------


@define(eq=False)
class Run:
    """An operation under way.

    `gate` is what it waits for before an access. `tried` is how many changes there had been when it last found that it
    has to wait for another one: until there is one more it would find the same.
    """

    operation: Operation
    task: asyncio.Task[None] | None = None
    gate: asyncio.Future[None] | None = None
    dead: bool = False
    tried: int = -1

    @property
    def is_settled(self) -> bool:
        return self.gate is not None or self.task is None or self.task.done()


class Stepped:
    """A store that an operation accesses once it is its turn."""

    def __init__(self, world: World, runs: Sequence[Run]) -> None:
        self._world, self._store, self._runs = world, world.store, runs

    def __getattr__(self, name: str) -> Any:
        access = getattr(self._store, name)

        async def stepped(key: str, *rest: Any) -> Any:
            run = next((one for one in self._runs if one.task is asyncio.current_task()), None)
            if run is None or not key.startswith(f"{KIND}/"):
                return await access(key, *rest)
            run.gate = asyncio.get_running_loop().create_future()
            await run.gate
            found = await access(key, *rest)
            refused = (name == "swap" and found is None) or (name == "delete" and not found)
            if refused or (name == "acquire" and found is not None and found.token is None):
                run.tried = self._world.changes
            elif name != "read":
                self._world.changes += 1
            return found

        return stepped


async def played(rules: Rules, system: Sequence[Operation], choices: Sequence[int]) -> tuple[World, list[int]]:
    """Play one order, and return the world with the number of choices that there were at each move."""
    world, widths = World(rules, system), list[int]()
    for who in sorted({one.principal for one in system} - {""}):
        await world.login(who, world.replicas[0])
    runs = [Run(one) for one in system]
    for replica in world.replicas:
        stepped: Any = Stepped(world, runs)
        replica.credentials = Credentials(stepped, lambda: KEYS)
    pending = list(runs)
    try:
        while True:
            live = [one for one in runs if not one.dead and (one in pending or one.gate is not None)]
            ready = [one for one in live if one.tried < world.changes]
            if not live:
                return world, widths
            if not ready:  # all wait for what a lost process holds
                world.pass_time()
                ready = live
            chosen = ready[choices[len(widths)] if len(widths) < len(choices) else 0]
            widths.append(len(ready))
            if chosen in pending:
                pending.remove(chosen)
                begin(world, chosen, runs)
            else:
                assert chosen.gate is not None
                gate, chosen.gate = chosen.gate, None
                gate.set_result(None)
            await settled(runs)
    finally:
        for one in runs:
            if one.task is not None:
                one.task.cancel()
        await asyncio.gather(*(one.task for one in runs if one.task is not None), return_exceptions=True)


def begin(world: World, run: Run, runs: Sequence[Run]) -> None:
    match run.operation.kind:
        case "time":
            world.pass_time()
        case "crash":
            for one in runs:
                one.dead = one.dead or one.operation.replica == 0
        case _:
            replica = world.replicas[run.operation.replica]
            run.task = asyncio.get_running_loop().create_task(world.perform(run.operation, replica))


async def settled(runs: Sequence[Run]) -> None:
    """Wait until each operation waits for its turn or has ended."""
    for _ in range(SETTLING):
        if all(one.is_settled for one in runs):
            break
        await asyncio.sleep(0)
    for one in runs:
        if one.task is not None and one.task.done() and not one.task.cancelled() and one.task.exception() is not None:
            raise AssertionError(f"{one.operation} failed") from one.task.exception()


async def orders(rules: Rules, system: Sequence[Operation]) -> Sequence[World]:
    """Return the worlds of every order of a system; with mutants, up to the first that violates something."""
    choices: list[int] = []
    worlds: list[World] = []
    with patch.object(module, "LOOK_SECONDS", 0):
        while True:
            world, widths = await played(rules, system, choices)
            worlds.append(world)
            if world.violations:
                return worlds
            taken = [*choices, *[0] * (len(widths) - len(choices))]
            while taken and taken[-1] + 1 >= widths[len(taken) - 1]:
                taken.pop()
            if not taken:
                return worlds
            choices = [*taken[:-1], taken[-1] + 1]


def systems() -> Iterator[Sequence[Operation]]:
    """All pairs of operations of two principals on two replicas, and threes in which a process is lost or a third acts.

    The first operation is on the first replica and of the first principal, since others differ by names alone.
    """
    kinds: tuple[Kind, ...] = ("login", "call", "refresh", "revoke")
    own = [Operation(kind, who, replica) for kind in kinds for who in ("alice", "bob") for replica in (0, 1)]
    for pair in combinations_with_replacement(own, 2):
        if pair[0].principal == "alice" and 0 in (pair[0].replica, pair[1].replica):
            yield pair
            yield (*pair, Operation("call", "carol", 1))
            yield (*pair, Operation("call", "alice", 1))
            yield (*pair, Operation("crash"))
            yield (*pair, Operation("time"))
    yield from (
        (Operation("refresh", "alice"), Operation("revoke", "alice", 1), Operation("time"), Operation("call", "alice")),
        (Operation("refresh", "alice"), Operation("refresh", "alice", 1), Operation("crash"), Operation("call", "bob")),
    )


async def explored(rules: Rules, among: Iterable[Sequence[Operation]]) -> tuple[int, int, str]:
    """Return how many orders and calls there were in some systems, and the first violation."""
    count, calls = 0, 0
    for system in among:
        worlds = await orders(rules, system)
        count += len(worlds)
        calls += sum(world.calls for world in worlds)
        if worlds[-1].violations:
            return count, calls, f"{worlds[-1].violations[0]}: {', '.join(map(_said, system))}"
    return count, calls, ""


def _said(one: Operation) -> str:
    return f"{one.kind} {one.principal}@{one.replica}" if one.principal else one.kind


def _of_one(system: Sequence[Operation]) -> tuple[int, int, str]:
    return asyncio.run(explored(RIGHT, [system]))


def all_systems() -> bool:
    """Walk every order of all systems, side by side in processes; return whether nothing is violated."""
    among, orders, calls, wrong, began = [*systems()], 0, 0, list[str](), time.monotonic()
    with ProcessPoolExecutor() as pool:
        for done, (count, made, violation) in enumerate(pool.map(_of_one, among), 1):
            orders, calls = orders + count, calls + made
            wrong += [violation] if violation else []
            if done % 20 == 0 or done == len(among):
                print(f"{done} of {len(among)} systems: {orders:,} orders, {calls:,} calls", flush=True)
    for violation in wrong:
        print(f"violated: {violation}")
    print(f"as it is: {len(wrong)} violations, in {time.monotonic() - began:,.0f} s", flush=True)
    return not wrong


def main() -> int:
    wrong = int(not all_systems())
    for name, (rules, expected) in MUTANTS.items():
        count, calls, violation = asyncio.run(explored(rules, systems()))
        wrong += not violation.startswith(expected)
        print(f"{name}: {count:,} orders, {calls:,} calls; {violation or 'nothing is violated'}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main() != 0)
