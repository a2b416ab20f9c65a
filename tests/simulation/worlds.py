"""Runs a plan in a world of its own, and says what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from itertools import count
from math import inf
from typing import Any, cast

import anyio
from attrs import define, evolve, field

from tests.process.stores.clients import Client, Refused, Unknown, Wrong
from tests.simulation.desk import PATHS
from tests.simulation.disk import Disk
from tests.simulation.gateways import GatewayWorld
from tests.simulation.judging import CHANGES, PLAIN, Request, Start, explained, opened
from tests.simulation.loop import Died, Extent, Loop, Stuck
from tests.simulation.outcome import Outcome
from tests.simulation.plan import Ask, Fault, GatewayPlan, Plan, StorePlan
from tests.simulation.replicas import LIFETIME, Answer, Replica, name_of
from tests.simulation.wire import Wire
from toolfold_adapters.observe.trace import Trace
from toolfold_specs.linearize import Operation

PATIENCE = 300.0
"""Seconds that a request may take."""
AGAIN = 0.5
"""Seconds until a request that was not answered is made again."""


def run(plan: Plan, traced: Callable[[str, Callable[[], float]], Trace] | None = None) -> Outcome:
    """Run a plan; with `traced`, which returns a trace for a process and its clock, replicas write what they do."""
    loop = Loop(plan.random("loop"), plan.unfair, plan.turns)
    world: StoreWorld | GatewayWorld
    if isinstance(plan, StorePlan):
        world = StoreWorld(plan, loop, traced)
    else:
        world = GatewayWorld(cast(GatewayPlan, plan), loop)
    outcome = world.outcome
    try:
        loop.run(world.live)
    except Stuck as error:
        outcome.wrong.append(f"it hangs: {error}")
    except BaseExceptionGroup as group:
        outcome.wrong.append(repr(group.exceptions[0]))
    outcome.wrong += loop.failures
    if isinstance(world, StoreWorld):
        outcome.wrong += world.disk.audit.wrong
    outcome.seconds = loop.time()
    outcome.awaits = world.awaits
    outcome.turned = loop.turned
    outcome.digest = (loop.time(), loop.rounds, *world.digest, *outcome.counted.items())
    return outcome


@define(eq=False)
class StoreWorld:
    """The replicas, their store, the clients, and what went wrong with them."""

    plan: StorePlan
    loop: Loop
    traced: Callable[[str, Callable[[], float]], Trace] | None = None
    disk: Disk = field(init=False)
    replicas: list[Replica] = field(init=False)
    lines: dict[str, list[str]] = field(factory=dict[str, list[str]])
    fences: dict[str, int] = field(factory=dict[str, int])
    clients: dict[int, Client] = field(factory=dict[int, Client])
    notified: Counter[int] = field(factory=Counter[int])
    outcome: Outcome = field(factory=Outcome)
    histories: dict[int, list[Operation]] = field(factory=dict[int, list[Operation]])
    wire: Wire | None = None
    losses: list[tuple[int, dict[str, str]]] = field(factory=list[tuple[int, dict[str, str]]])
    _clock: count[int] = field(factory=count)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        loses = any(fault.kind == "lose" for fault in plan.faults)
        self.disk = Disk(self.loop, plan.random("disk"), plan.weather, loses)
        self.outcome.log = self.disk.log
        self.replicas = [
            Replica(
                number,
                self.loop,
                self.disk,
                self.note,
                plan.random(f"replica {number}"),
                plan.pause,
                plan.sessions,
                self.notify,
                plan.era is not None,
                self.clients,
                tuple(PATHS[group] for group in plan.starts),
                plan.network is not None,
                traced=self.traced,
            )
            for number in range(plan.replicas)
        ]
        if plan.network is not None:
            self.wire = Wire(plan, self.loop, self.replicas, self.outcome)

    @property
    def digest(self) -> tuple[Any, ...]:
        """What is the same for two runs of a plan."""
        return (self.disk.writes, *self.lines.values())

    @property
    def awaits(self) -> int:
        """How often replicas waited."""
        return sum(replica.awaits for replica in self.replicas)

    def note(self, session: str, fence: int | None, line: str) -> None:
        """Note what a hook did, unless that is forbidden by now: a later lease has been seen."""
        self.fences[session] = max(self.fences.get(session, 0), fence or 0)
        if self.fences[session] > (fence or 0) and not line.endswith((" begins", " ends")):
            return
        self.lines.setdefault(session, []).append(line)
        self.disk.log.append(f"{self.loop.time():.3f} {session.rpartition('/')[2][:8]} {line}")

    def notify(self, session: int) -> None:
        """Note that a client was notified of a transition."""
        self.notified[session] += 1

    async def live(self) -> None:
        """Begin, go on until the clients have what they want, and end."""
        publishing = self.loop.create_task(self.disk.publish())
        try:
            await self._live()
        finally:
            publishing.cancel()
            if self.wire is not None:
                self.wire.close()

    async def _live(self) -> None:
        for replica in self.replicas:
            replica.start()
        async with anyio.create_task_group() as faults:
            for fault in self.plan.faults:
                faults.start_soon(self._suffer, fault)
            async with anyio.create_task_group() as clients:
                for session in range(self.plan.sessions):
                    clients.start_soon(self._use, session)
        self.disk.weather = evolve(self.disk.weather, lost=0.0)
        for replica in self.replicas:
            assert replica.process is not None
            replica.process.at.clear()
            if not replica.process.alive:
                replica.start()
        if self.wire is not None and not self.outcome.wrong:
            await self.wire.judge(self.lines, self._judge_notices)
        await self._expire()

    # -- faults -------------------------------------------------------------------------------------------------------

    async def _suffer(self, fault: Fault) -> None:
        await anyio.sleep(fault.when)
        self.outcome.counted[f"fault: {fault.kind}"] += 1
        replica = self.replicas[fault.replica % len(self.replicas)]
        process = replica.process
        assert process is not None
        match fault.kind:
            case "kill":
                if process.alive:
                    process.at[process.awaits + fault.awaits] = partial(self._kill, replica, fault.seconds)
            case "stop":
                if process.alive and not replica.stopping.is_set() and await replica.stop():
                    self.loop.call_later(fault.seconds, replica.start)
            case "away":
                self.disk.go_away(fault.seconds)
            case "lose":
                self.disk.lose(fault.writes, fault.seconds)
                self.losses.append((next(self._clock), self.disk.engine.texts()))
            case "catalog":
                await self._change_catalog(fault.seconds)
            case "network" if self.wire is not None:
                self.wire.network.worsen(fault.seconds)

    def _kill(self, replica: Replica, seconds: float) -> None:
        replica.kill()
        self.outcome.counted["killed"] += 1
        self.loop.call_later(seconds, replica.start, context=Context())  # not in that of what is killed

    async def _change_catalog(self, seconds: float) -> None:
        """Have every replica know another tool for a while."""

        async def extra() -> str:
            return "here"

        for there in (True, False):
            for replica in self.replicas:
                if replica.serves and replica.tools is not None:
                    known = "plain.extra" in replica.tools.catalog.tools
                    if there and not known:
                        replica.tools.register("extra", extra, group="plain", input_schema={"type": "object"})
                    elif known and not there:
                        replica.tools.unregister("plain.extra")
                    if self.wire is not None:
                        replica.tools.notify_list_changed("tool")
            await anyio.sleep(seconds)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def _use(self, session: int) -> None:
        """Have the clients of a session use it."""
        if self.plan.era is not None:
            await self._open(session, self.plan.era)
        asks = [ask for ask in self.plan.asks if ask.session == session]
        async with anyio.create_task_group() as tasks:
            for client in sorted({ask.client for ask in asks}):
                tasks.start_soon(self._use_as, [ask for ask in asks if ask.client == client])
        await self._judge(session)

    async def _open(self, session: int, era: str) -> None:
        """Open a session over MCP, however often that takes."""
        history = self.histories.setdefault(session, [])
        while True:
            replica = await self._serving(len(history))
            assert replica.process is not None
            try:
                if self.wire is not None:
                    await self.wire.open(session, era)
                else:
                    self.clients[session] = await replica.process.run(partial(replica.open, era == "legacy"))
                break
            except (Died, Refused, Unknown):
                await anyio.sleep(AGAIN)
        if era == "modern":
            first = Request(900, "control", (PLAIN,))
            history.append(Operation("first", next(self._clock), next(self._clock), first, True))
        self.outcome.counted[f"{era} sessions"] += 1

    async def _use_as(self, asks: Sequence[Ask]) -> None:
        for ask in asks:
            await anyio.sleep(ask.pause)
            if self.wire is not None and ask.intrudes:
                await self.wire.intrude(ask.session, ask.request)
            else:
                await self._ask(ask)

    async def _ask(self, ask: Ask) -> Any:
        """Make a request, and put it into the history; one that was refused is not part of it."""
        history, request = self.histories.setdefault(ask.session, []), ask.request
        self.outcome.counted[f"requests: {request.kind}"] += 1
        called, began = next(self._clock), self.loop.time()
        try:
            with anyio.fail_after(PATIENCE):
                answer, shown = await self._answer(ask)
        except Refused as error:
            self.disk.log.append(f"{self.loop.time():.3f} {request} is refused: {error}")
            self.outcome.counted["requests refused"] += 1
            return None
        except Unknown as error:
            self.disk.log.append(f"{self.loop.time():.3f} {request} is unknown: {error}")
            self.outcome.counted["requests without an answer"] += 1
            given_up = next(self._clock) if self.wire is None else inf  # what a network has lost may go on
            history.append(Operation(ask.client, called, None, request, given_up))
            return None
        except TimeoutError:
            self.outcome.wrong.append(f"{request} hangs")
            return None
        except Exception as error:
            self.outcome.wrong.append(f"{request}: {error!r}")
            return None
        ended = next(self._clock)
        history.append(Operation(ask.client, called, ended, request, answer))
        self.disk.log.append(f"{self.loop.time():.3f} {request} since {began:.3f} -> {answer}")
        if shown is not None:
            history.append(Operation(ask.client, called, ended, Request(request.number, "shown"), shown))
        if request.kind == "look":
            self.outcome.states.add(answer)
        return answer

    async def _answer(self, ask: Ask) -> Answer:
        """Ask a replica that serves."""
        replica = await self._serving(ask.replica)
        if self.wire is not None:
            again = partial(self._note_again, ask, next(self._clock))
            return await self._operation(ask, partial(self.wire.ask, ask.session, ask.request, again))
        assert replica.process is not None
        answer = partial(replica.answer, ask.session, ask.request)
        try:
            return await replica.process.run(partial(self._operation, ask, answer))
        except Died as error:
            raise Unknown(str(error)) from error

    def _note_again(self, ask: Ask, called: int) -> None:
        """Note that a request was made again by the network, which may take effect at any time, or not."""
        if ask.request.kind in CHANGES:
            self.histories[ask.session].append(Operation("again", called, None, ask.request, inf))

    async def _serving(self, number: int) -> Replica:
        """Return a replica that serves, once there is one."""
        while not any(replica.serves for replica in self.replicas):  # noqa: ASYNC110 - virtual time
            await anyio.sleep(AGAIN)
        serving = [replica for replica in self.replicas if replica.serves]
        return serving[number % len(serving)]

    async def _operation(self, ask: Ask, answer: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Answer a request, and cancel it if that is to be."""
        if not ask.cancelled:
            return await answer()
        operation, scope = Extent("operation", self.loop), anyio.CancelScope()

        async def scoped() -> Answer:
            with scope:
                return await answer()
            raise Unknown("cancelled")

        task = operation.start(scoped())
        cancel: Callable[[], object] = scope.cancel if ask.scope else task.cancel
        operation.at = dict.fromkeys(ask.cancelled, cancel)
        try:
            return await task
        except BaseException as error:
            if task.cancelled() or (scope.cancel_called and _has_no_answer(error)):
                self.outcome.counted["cancelled"] += 1
                raise Unknown("cancelled") from error
            raise

    # -- judging ------------------------------------------------------------------------------------------------------

    async def _again(self, session: int, request: Request) -> Any:
        """Make a request until it is answered; where that takes long, the store loses nothing any more."""
        for attempt in range(100):
            if attempt == 50:
                self.disk.weather = evolve(self.disk.weather, lost=0.0)
            number = len(self.histories.get(session, ()))
            answer = await self._ask(Ask(session, 9, number, 0.0, request))
            if answer is not None or self.outcome.wrong:
                return answer
            await anyio.sleep(AGAIN)
        raise Wrong(f"{request} is never answered")

    async def _judge(self, session: int) -> None:
        """Judge what the clients of a session saw, and whether its hooks leave nothing open."""
        if self.wire is not None:
            await self.wire.calm()
        elif self.plan.era == "legacy":  # a request goes on there whose client has gone
            await anyio.sleep(LIFETIME / 2)
        used = anyio.current_time()
        await self._again(session, Request(1000, "look"))
        if self.outcome.wrong:
            return
        history, key = self.histories[session], self._key(session)
        losses = [Start.of(at, texts.get(key)) for at, texts in self.losses]
        if not explained(history, losses, frozenset(self.plan.starts)):
            shown = "\n".join(f"  {operation}" for operation in history)
            self.outcome.wrong.append(f"no order of the requests of session {session} explains the answers\n{shown}")
            return
        self.outcome.counted["histories"] += 1
        if not self.outcome.wrong and not self.disk.lost and self.plan.era is None:
            another = await self._again(session, Request(1500, "another"))
            if self.disk.lost:  # meanwhile, so that there may have been room
                return
            if anyio.current_time() >= used + LIFETIME:  # it may have expired, and another one is in its place
                return
            if another not in ("Full", None):
                self.outcome.wrong.append(f"a caller with as many sessions as it may have is answered {another}")
        await self._settle(session)

    async def _settle(self, session: int) -> None:
        """Judge the hooks, with transitions that leave nothing open.

        Hooks that were interrupted are undone before the next hook runs, but not before a transition that has none. The
        first transition may have none; the others have some.
        """
        everything = tuple(range(len(PATHS)))
        for number, activate in enumerate(((), (0, 1), ())):
            await self._again(session, Request(1001 + number, "step", activate, () if activate else everything))
            found = await self._again(session, Request(1011 + number, "look"))
            if self.plan.era is None:
                self._judge_notices(session, self.notified[session])
            if self.outcome.wrong or self.disk.lost:
                return
            active, lines = {PATHS[group] for group in found[0]}, self.lines.get(self._key(session), [])
            left, wrong = opened(lines)
            if active != {PATHS[group] for group in activate} or (number and (wrong or left != active)):
                shown = "\n  ".join(lines)
                self.outcome.wrong.append(f"{active} are active, {left} are open; {wrong}\n  {shown}")

    def _key(self, session: int) -> str:
        """Return the key of a session; over MCP without a network, there is only one that runs hooks."""
        if self.wire is not None:
            return self.wire.keys[session]
        if self.plan.era is not None:
            return next(iter(self.lines), "")
        return next(replica.key for replica in self.replicas if replica.key is not None)(name_of(session))

    def _judge_notices(self, session: int, notices: int) -> None:
        """Judge whether the client was notified of each transition that changed its list, once (SPEC NTF-1).

        What was claimed of a store that did not answer may be notified of again.
        """
        steps = [one for one in self.histories[session] if one.request.kind in ("step", "control")]
        changed = sum(one.ret is not None and _changed(one.answer) for one in steps)
        unknown = sum(one.ret is None for one in steps)
        answers = not self.disk.away and not self.plan.weather.lost
        calm = not self.plan.faults and answers and not any(ask.cancelled for ask in self.plan.asks)
        most = changed + unknown if answers else inf
        if not (changed if calm else 0) <= notices <= most and not self.disk.lost:
            self.outcome.wrong.append(
                f"{notices} notices for {changed} transitions that changed lists and {unknown} unanswered"
            )

    async def _expire(self) -> None:
        """Let the sessions expire, and judge whether they are closed."""
        if self.outcome.wrong or not self.plan.expires or self.plan.era is not None or self.disk.lost:
            return
        for session in range(self.plan.sessions):
            await self._again(session, Request(2000, "step", (0, 1), ()))
        left, kept = dict[str, set[str]](), None
        for _ in range(30):
            await anyio.sleep(LIFETIME / 10)
            left = {session: groups for session, lines in self.lines.items() if (groups := opened(lines)[0])}
            kept = await self.disk.engine.expiry("desk/session", None, own=False)
            if not left and kept is None:
                self.outcome.counted["expired"] += 1
                return
        self.outcome.wrong.append(
            f"open after their sessions have expired: {left}, and the next one expires in {kept} s"
        )


def _has_no_answer(error: BaseException) -> bool:
    """Return whether the SDK looked for the answer to a modern request whose handler was cancelled a moment before."""
    return isinstance(error, ExceptionGroup) and error.split(IndexError)[1] is None


def _changed(answer: Any) -> bool:
    """Return whether a transition was answered to have changed groups."""
    return answer is True or (isinstance(answer, tuple) and any(answer))
