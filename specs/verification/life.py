"""The life of transitions of one stored session, on replicas that crash, explored (SPEC STO-2, STO-3, STO-6).

    python -m verification.life     # the protocol of the core, and weaker ones, with what each violates

The program is the table of `toolfold.machine.step`. Here is its environment: a record with a lease and an intent, the
outside world that hooks change, and fate. A replica does one effect at a time, and between any two of them others act,
a replica crashes, or a lease ends. All that can happen is walked, breadth first, so the way to a violation is a
shortest one.

What is `ALWAYS` so holds in every world, and from every world there is a way to an end. What is `SOMETIMES` so holds in
one, and each row of the table is used: a model that is stuck violates nothing. `WEAKER` protocols leave something out,
each with what it violates; one that is found to hold would show that the model does not see it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations_with_replacement
from time import perf_counter
from typing import Any, Final, Literal

from attrs import evolve, field, frozen

from toolfold.machine.step import EFFECTS, TABLE, Event, HookCall, Hooks, State, Step

Goal = Literal["open", "close", "toggle", "end", "recover"]
"""What a replica is asked for: `toggle` a group without hooks, `end` the session, undo what others have left."""
Active = frozenset[str]


def _hook() -> None:
    """Stand for a hook, whose effect is one on the outside world."""


WITH_HOOKS: Final = frozenset({"a", "a.x"})
WITHOUT: Final = frozenset({"b"})
_GROUPS: Final = tuple(Hooks(path, _hook, _hook) for path in ("a", "a.x"))
OPENING: Final = tuple(HookCall(group, "on_activate", _hook) for group in _GROUPS)
CLOSING: Final = tuple(HookCall(group, "on_deactivate", _hook) for group in reversed(_GROUPS))
ERROR: Final = RuntimeError("it failed")


# -- the world --------------------------------------------------------------------------------------------------------


@frozen(cache_hash=True)
class Replica:
    """A process, with what it knows of the session.

    Attributes:
        goal: What it is asked for, if it still is.
        step: The transition that it is at.
        active: The state that it knows.
        is_newest: Whether that is the one of the record.
        intent: The intent that it has recorded, or found with the lease.
        leased: Whether it knows of no end of its lease.
        hook: The hook that runs in it.
        again: Whether it takes the lease to delete the record.
    """

    goal: Goal | None = None
    step: Step | None = None
    active: Active = frozenset()
    is_newest: bool = False
    intent: tuple[HookCall, ...] | None = None
    leased: bool = False
    hook: HookCall | None = None
    again: bool = False


IDLE: Final = Replica()


@frozen(cache_hash=True)
class Fate:
    """How often something happens to the replicas that they don't do.

    Attributes:
        crashes: That one ends.
        pauses: That one goes on after its lease has ended, and does not know.
        outages: That the store does not answer whether a lease goes on, or a state was saved.
        catalogs: That the catalog has changed when a state is saved.
    """

    crashes: int = 0
    pauses: int = 0
    outages: int = 0
    catalogs: int = 0


@frozen(cache_hash=True)
class World:
    """All replicas, the record of the session, and the outside world.

    Attributes:
        active: The groups that are open in the record; `None` once it is deleted.
        outside: What hooks have opened.
        replicas: The processes, of which the last one sweeps; `None` for one that has crashed.
        fate: What may still happen.
        intent: The intent of the record.
        holder: The replica that holds the lease.
        begun: The hooks that have begun since there was nothing to undo.
        wrong: What went wrong on the way.
        last: The state and the event by which a step came here.
    """

    active: Active | None
    outside: Active
    replicas: tuple[Replica | None, ...]
    fate: Fate = Fate()
    intent: tuple[HookCall, ...] | None = None
    holder: int | None = None
    begun: frozenset[HookCall] = frozenset()
    wrong: frozenset[str] = frozenset()
    last: tuple[State, Event] | None = field(default=None, eq=False)

    @property
    def is_quiet(self) -> bool:
        """Whether nobody works on the session, and nothing is left of who did."""
        running = any(replica is not None and replica.hook is not None for replica in self.replicas)
        return self.holder is None and self.intent is None and not running

    @property
    def is_over(self) -> bool:
        """Whether all is done."""
        return self.is_quiet and all(replica in (None, IDLE) for replica in self.replicas)


def _running(world: World) -> int:
    return sum(replica is not None and replica.hook is not None for replica in world.replicas)


def _in_state(state: State) -> Callable[[World], bool]:
    return lambda world: any(
        one is not None and one.step is not None and one.step.state == state for one in world.replicas
    )


ALWAYS: Final[Mapping[str, Callable[[World], bool]]] = {
    "one replica at a time runs hooks": lambda world: _running(world) <= 1,
    "a commit is the requested transition in the state at that time": lambda world: "commit" not in world.wrong,
    "no intent is left with a commit": lambda world: "intent" not in world.wrong,
    "what hooks have opened is what is open": lambda world: (
        not world.is_quiet or world.outside == (world.active or frozenset()) - WITHOUT
    ),
    "only what began is undone": lambda world: "undone" not in world.wrong,
}
"""What holds in every world (SPEC STO-2, STO-3, HOOK-5)."""
ENDS: Final = "every way leads to an end"
SOMETIMES: Final[Mapping[str, Callable[[World], bool]]] = {
    "a transition is committed": _in_state("committed"),
    "a transition is aborted": _in_state("aborted"),
    "a transition is abandoned": _in_state("abandoned"),
    "what a process has left is undone": lambda world: (
        (sweeper := world.replicas[-1]) is not None and sweeper.hook is not None and sweeper.hook.undoes is not None
    ),
    "the session has ended": lambda world: world.active is None and world.is_over,
}
"""What holds in some world."""
NEVER_HERE: Final = frozenset({("rolling_back", "failed"), *((state, "lost") for state in ("new", "rolling_back"))})
"""Rows that no world needs: an outside world that can't be restored, and an end of the process, which is a crash."""


# -- what replicas do -------------------------------------------------------------------------------------------------


@frozen
class Protocol:
    """What replicas do, and what happens to them. A weaker protocol does something otherwise.

    Attributes:
        name: What it is.
        violated: What it violates.
        leases: Whether hooks run under a lease.
        fenced: Whether a save asks whether the lease is still held.
        compares: Whether a transition that was planned for an older record is planned again.
        intends: Whether intents are recorded.
        counted: Which hooks an intent has.
        in_one: Whether a save removes the intent, too.
        leaves: Whether a replica that has lost its lease leaves what it has begun to the next one.
        closes: Whether what others have opened is closed before the record is deleted.
        gives_up: Whether a hook of which the store does not say whether its lease goes on is left to the next one.
        pauses_anywhere: Whether replicas are paused within hooks, too, and not only between them.
        fate: What happens.
        goals: What replicas are asked for.
    """

    name: str = "the core"
    violated: tuple[str, ...] = ()
    leases: bool = True
    fenced: bool = True
    compares: bool = True
    intends: bool = True
    counted: Callable[[Step], tuple[HookCall, ...]] = lambda step: step.to_undo
    in_one: bool = True
    leaves: bool = True
    closes: bool = True
    gives_up: bool = True
    pauses_anywhere: bool = False
    fate: Fate = Fate(crashes=1)
    goals: tuple[Goal, ...] = ("open", "close")


Move = tuple[str, World]


def worlds(protocol: Protocol) -> Iterator[World]:
    """Yield the worlds to begin in: from either state, with each two goals."""
    for first, second in combinations_with_replacement(protocol.goals, 2):
        for active in (frozenset[str](), WITH_HOOKS):
            yield World(active, active, (Replica(first), Replica(second), IDLE), protocol.fate)


def moves(protocol: Protocol, world: World) -> Iterator[Move]:
    """Yield what may happen next, and the world after it."""
    *_, sweeper = range(len(world.replicas))
    for number, replica in enumerate(world.replicas):
        if replica is None or replica is IDLE:
            continue
        for what, after in _acts(protocol, world, number, replica):
            yield f"{number} {what}", after
        if world.fate.crashes and number != sweeper and replica.step is not None:
            less = evolve(world.fate, crashes=world.fate.crashes - 1)
            yield f"{number} crashes", _with(evolve(world, fate=less), number, None)
    if (holder := world.holder) is not None:
        if (replica := world.replicas[holder]) is None:
            yield "the lease ends", evolve(world, holder=None)
        elif world.fate.pauses and holder != sweeper and (protocol.pauses_anywhere or not _is_at_a_hook(replica)):
            less = evolve(world.fate, pauses=world.fate.pauses - 1)
            yield f"{holder} is paused until its lease has ended", evolve(world, holder=None, fate=less)
    if (
        world.intent is not None
        and world.holder is None
        and world.active is not None
        and world.replicas[sweeper] == IDLE
    ):
        yield "a sweep begins", _with(world, sweeper, Replica("recover", Step.hold(), world.active, is_newest=True))


_ONE: Final[dict[Replica | None, Replica | None]] = {}
"""Equal replicas are one object, which is compared and hashed once."""


def _is_at_a_hook(replica: Replica) -> bool:
    return replica.step is not None and EFFECTS.get(replica.step.state) == "hook"


def _with(world: World, number: int, replica: Replica | None) -> World:
    replica = _ONE.setdefault(replica, replica)
    return evolve(world, replicas=(*world.replicas[:number], replica, *world.replicas[number + 1 :]), last=None)


def _on(world: World, number: int, replica: Replica, event: Event, given: Any = None) -> World:
    step = replica.step
    assert step is not None
    return evolve(_with(world, number, evolve(replica, step=step.on(event, given))), last=(step.state, event))


def _acts(protocol: Protocol, world: World, number: int, replica: Replica) -> Iterator[Move]:
    if (step := replica.step) is None:
        if world.active is None:
            yield "finds no session", _with(world, number, IDLE)
            return
        begun = Step.begin(force=replica.goal == "end")
        yield "reads", _with(world, number, evolve(replica, step=begun, active=world.active, is_newest=True))
    elif (effect := EFFECTS.get(step.state)) is None:
        yield from _leave(protocol, world, number, replica, step)
    else:
        yield from _DOING[effect](protocol, world, number, replica, step)


def _result(replica: Replica) -> Active:
    """Return the state that a replica is to come to from the one that it knows."""
    return {
        "open": replica.active | WITH_HOOKS,
        "close": replica.active - WITH_HOOKS,
        "toggle": replica.active ^ WITHOUT,
        "end": frozenset[str](),
    }.get(replica.goal or "", replica.active)


def _plan(protocol: Protocol, world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    after = _result(replica)
    if after == replica.active or (replica.again and not protocol.closes):
        yield "has nothing to do", _on(world, number, replica, "unchanged")
        return
    hooks = OPENING if after > replica.active - WITHOUT else CLOSING
    has_hooks = after - WITHOUT != replica.active - WITHOUT
    yield f"plans to {replica.goal}", _on(world, number, replica, "planned", hooks if has_hooks else ())


def _lease(protocol: Protocol, world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    if replica.leased:
        yield "has the lease", _on(world, number, replica, "leased")
        return
    if (active := world.active) is None:
        yield "finds no session", _on(world, number, replica, "lost", ERROR)
        return
    if world.holder is not None:
        return
    found, was_newest = world.intent, replica.is_newest
    world = evolve(world, holder=number if protocol.leases else None)
    is_recorded = found is None and was_newest and bool(step.work.ahead) and protocol.intends
    if is_recorded:
        world = _recorded(world, protocol.counted(step), step)
    replica = evolve(replica, leased=True, intent=world.intent)
    if protocol.compares:
        replica = evolve(replica, active=active, is_newest=True)
    if found is not None and protocol.leases:
        yield "finds an intent", _on(world, number, replica, "left", found)
    elif was_newest or not protocol.compares:
        yield "takes the lease", _on(world, number, replica, "intended" if is_recorded else "leased")
    else:
        yield "finds a newer record", _on(world, number, replica, "news")


def _recorded(world: World, hooks: tuple[HookCall, ...], step: Step) -> World:
    """Record an intent, from which on the hook that is next counts as one that has begun."""
    return evolve(world, intent=hooks, begun=world.begun.union(step.work.ahead[:1]))


def _is_held(protocol: Protocol, world: World, number: int) -> bool:
    return not protocol.leases or world.holder == number


def _intend(protocol: Protocol, world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    if not protocol.intends:
        yield "records nothing", _on(world, number, replica, "intended")
    elif _is_held(protocol, world, number):
        hooks = protocol.counted(step)
        recorded = _recorded(world, hooks, step)
        yield f"records {_said(hooks)}", _on(recorded, number, evolve(replica, intent=hooks), "intended")
    else:
        yield "has lost its lease", _on(world, number, replica, "lost", ERROR)


def _run(protocol: Protocol, world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    call, is_undo, is_forced = step.hook, step.state == "rolling_back", step.work.force
    if replica.hook is None:
        is_wrong = is_undo and protocol.intends and step.work.done[-1].group not in {one.group for one in world.begun}
        wrong = world.wrong | {"undone"} if is_wrong else world.wrong
        yield f"begins {call}", _with(evolve(world, wrong=wrong), number, evolve(replica, hook=call))
        return
    ended, done = evolve(replica, hook=None), evolve(world, outside=_outside(world.outside, call))
    yield "ends its hook", _on(done, number, ended, "succeeded")
    if is_undo:
        return
    yield "is cancelled in its hook", _on(done, number, ended, "cancelled", ERROR)
    if not is_forced:  # a group may then be closed that its hook has not closed
        yield "fails in its hook", _on(world, number, ended, "failed", ERROR)
    if world.fate.outages:
        less = evolve(world.fate, outages=world.fate.outages - 1)
        for how, after in (("with", done), ("without", world)):
            event: Event = "lost" if protocol.gives_up else "failed"
            yield f"gives its hook up, {how} its effect", _on(evolve(after, fate=less), number, ended, event, ERROR)


def _outside(outside: Active, call: HookCall) -> Active:
    path = frozenset({call.group.path})
    return outside | path if call.phase == "on_activate" else outside - path


def _save(protocol: Protocol, world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    if world.fate.catalogs:
        changed = evolve(world, fate=evolve(world.fate, catalogs=world.fate.catalogs - 1))
        yield "would do otherwise in the catalog of now", _on(changed, number, replica, "changed")
        yield "is refused in the catalog of now", _on(changed, number, replica, "refused", ERROR)
    if replica.leased:
        can = _is_held(protocol, world, number) and replica.is_newest
        can = can or not protocol.fenced or not protocol.compares or not protocol.leases
    else:
        can = world.holder is None and world.intent is None and replica.is_newest
    if not can or world.active is None:
        event: Event = "lost" if replica.leased else "conflict"
        yield "can't save", _on(world, number, replica, event, ERROR)
        return
    after = _saved(protocol, world, number, replica)
    yield (
        "saves",
        _on(after, number, evolve(replica, active=after.active or WITHOUT, is_newest=True, leased=False), "saved"),
    )
    if world.fate.outages:
        unknown = evolve(after, fate=evolve(world.fate, outages=world.fate.outages - 1))
        yield "saves, and is not answered", _on(unknown, number, replica, "lost", ERROR)


def _saved(protocol: Protocol, world: World, number: int, replica: Replica) -> World:
    """Return the world with the result of a replica's plan in the record, which others don't know."""
    wrong = {"commit"} if world.active != replica.active else set[str]()
    others = (one if one is None else evolve(one, is_newest=False) for one in world.replicas)
    after = evolve(world, active=_result(replica), replicas=tuple(others))
    if protocol.in_one:
        after = evolve(after, intent=None, begun=frozenset(), holder=_freed(world, number))
    if after.intent is not None:
        wrong.add("intent")
    return evolve(after, wrong=world.wrong | wrong)


def _settle(protocol: Protocol, world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    if replica.intent is None or not protocol.intends:
        yield "has nothing to withdraw", _on(world, number, replica, "settled")
    elif _is_held(protocol, world, number):
        settled = evolve(world, intent=None, begun=frozenset(), holder=_freed(world, number))
        yield "settles", _on(settled, number, evolve(replica, intent=None, leased=False), "settled")
    else:
        yield "has lost its lease", _on(world, number, replica, "lost", ERROR)


def _freed(world: World, number: int) -> int | None:
    return None if world.holder == number else world.holder


_DOING: Final[Mapping[str, Callable[[Protocol, World, int, Replica, Step], Iterator[Move]]]] = {
    "plan": _plan,
    "lease": _lease,
    "intend": _intend,
    "hook": _run,
    "save": _save,
    "settle": _settle,
}


def _leave(protocol: Protocol, world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    """Yield what follows the end of a step: the lease is released; a session that ends is deleted under a lease."""
    if not protocol.leaves and step.state == "abandoned" and step.work.done:
        yield from _undo_own(world, number, replica, step)
    elif not protocol.in_one and step.state == "committed" and world.intent is not None and world.holder == number:
        yield "removes its intent", evolve(world, intent=None, begun=frozenset(), last=None)
    elif replica.goal != "end" or step.state not in ("committed", "unchanged"):
        yield f"is at an end: {step.state}", _with(evolve(world, holder=_freed(world, number)), number, IDLE)
    elif replica.again and step.state == "unchanged" and world.holder == number:
        deleted = evolve(world, active=None, intent=None, holder=None)
        yield "deletes the record", _with(deleted, number, IDLE)
    else:
        again = evolve(replica, step=Step.hold(force=True), again=True, leased=False, intent=None)
        yield "ends the session", _with(evolve(world, holder=_freed(world, number)), number, again)


def _undo_own(world: World, number: int, replica: Replica, step: Step) -> Iterator[Move]:
    undo = step.work.done[-1].compensation
    assert undo is not None
    if replica.hook is None:
        yield f"begins {undo}", _with(world, number, evolve(replica, hook=undo))
    else:
        less = evolve(step, work=evolve(step.work, done=step.work.done[:-1]))
        undone = evolve(world, outside=_outside(world.outside, undo))
        yield "ends its hook", _with(undone, number, evolve(replica, hook=None, step=less))


def _said(hooks: Iterable[HookCall]) -> str:
    return ", ".join(f"{call.phase} of {call.group.path}" for call in hooks) or "nothing"


# -- exploring --------------------------------------------------------------------------------------------------------


@frozen
class Found:
    """What was found in all worlds of a protocol.

    Attributes:
        worlds: How many there are.
        violated: What does not always hold, with a shortest way there.
        missing: What never holds, and the rows that are never used.
    """

    worlds: int
    violated: Mapping[str, tuple[str, ...]]
    missing: frozenset[object]


def explore(protocol: Protocol) -> Found:
    """Return what is found in all worlds of a protocol; of a weaker one, until what it violates is found."""
    begun = dict.fromkeys(worlds(protocol))
    came: dict[World, tuple[World, str] | None] = dict.fromkeys(begun)
    before: dict[World, list[World]] = {}
    violated: dict[str, tuple[str, ...]] = {}
    missing: set[object] = {*SOMETIMES, *TABLE}
    ahead = deque(begun)
    while ahead and not (protocol.violated and violated.keys() >= {*protocol.violated}):
        world = ahead.popleft()
        for name, holds in ALWAYS.items():
            if name not in violated and not holds(world):
                violated[name] = _way(world, came)
        missing -= {name for name in missing if isinstance(name, str) and SOMETIMES[name](world)}
        for what, after in moves(protocol, world):
            missing.discard(after.last)
            before.setdefault(after, []).append(world)
            if after not in came:
                came[after] = (world, what)
                ahead.append(after)
    leading = {*came} if ahead else _leading_to_an_end(came, before)
    if (stuck := next((world for world in came if world not in leading), None)) is not None:
        violated[ENDS] = _way(stuck, came)
    return Found(len(came), violated, frozenset(missing))


def _leading_to_an_end(came: Iterable[World], before: Mapping[World, list[World]]) -> set[World]:
    leading = {world for world in came if world.is_over}
    ahead = list(leading)
    while ahead:
        for world in before.get(ahead.pop(), ()):
            if world not in leading:
                leading.add(world)
                ahead.append(world)
    return leading


def _way(world: World, came: Mapping[World, tuple[World, str] | None]) -> tuple[str, ...]:
    way: list[str] = []
    while (step := came[world]) is not None:
        world, what = step
        way.append(what)
    return tuple(reversed(way))


def report(protocols: Iterable[Protocol]) -> tuple[str, bool]:
    """Return what is found of each protocol as text, and whether it is as expected."""
    lines, missing, is_right = list[str](), {*SOMETIMES, *TABLE} - NEVER_HERE, True
    for protocol in protocols:
        found = explore(protocol)
        is_expected = {*found.violated} == {*protocol.violated}
        lines.append(f"{protocol.name}: {found.worlds:,} worlds{'' if is_expected else ', NOT AS EXPECTED'}")
        for name in sorted({*protocol.violated, *found.violated}):
            lines.append(f"    {'violated' if name in found.violated else 'NOT VIOLATED'}: {name}")
            if not is_expected:
                lines += [f"        {what}" for what in found.violated.get(name, ())]
        missing, is_right = missing if protocol.violated else missing & found.missing, is_right and is_expected
    lines += [f"NEVER: {one}" for one in sorted(map(str, missing))]
    return "\n".join(lines), is_right and not missing


def main() -> int:
    """Explore all protocols and print what was found; the status is 1 if one is not as expected."""
    began = perf_counter()
    text, is_right = report((*CORE, *WEAKER))
    print(text, f"{perf_counter() - began:.0f} s", sep="\n")
    return 0 if is_right else 1


_EXCLUSIVE, _COMMIT, _INTENT, _BALANCED, _BEGUN = ALWAYS

CORE: Final = (
    Protocol("the core, with two crashes", fate=Fate(crashes=2)),
    Protocol("the core, and a pause of a replica between two hooks", fate=Fate(crashes=1, pauses=1)),
    Protocol("the core, and an outage of the store", fate=Fate(crashes=1, outages=1)),
    Protocol("the core, and a change of the catalog", fate=Fate(crashes=1, catalogs=1)),
    Protocol("the core, with transitions without hooks", goals=("open", "toggle")),
    Protocol("the core, with the end of the session", goals=("open", "end")),
    Protocol("the end of the session, and a pause between two hooks", fate=Fate(pauses=1), goals=("open", "end")),
)
"""The protocol of the core, in different fates."""
WEAKER: Final = (
    Protocol(
        "a pause within a hook",
        (_EXCLUSIVE, _BALANCED, _BEGUN),
        pauses_anywhere=True,
        fate=Fate(pauses=1),
    ),
    Protocol("without a lease", (_EXCLUSIVE, _COMMIT, _BALANCED, _BEGUN), leases=False, fate=Fate()),
    Protocol("a save does not ask for the lease", (_COMMIT, _BALANCED, _BEGUN), fenced=False, fate=Fate(pauses=1)),
    Protocol("plans from before the lease are used", (_COMMIT, _BALANCED), compares=False),
    Protocol("without an intent", (_BALANCED,), intends=False),
    Protocol("hooks are recorded when they have ended", (_BALANCED,), counted=lambda step: step.work.done),
    Protocol("all hooks are recorded first", (_BEGUN,), counted=lambda step: (*step.work.done, *step.work.ahead)),
    Protocol("the state is saved first, then the intent removed", (_INTENT, _BALANCED), in_one=False),
    Protocol(
        "who has lost a lease undoes what it has begun", (_EXCLUSIVE, _BALANCED), leaves=False, fate=Fate(pauses=1)
    ),
    Protocol("a record is deleted whatever others have opened", (_BALANCED,), closes=False, goals=("open", "end")),
    Protocol("a hook that is given up counts as one that failed", (_BALANCED,), gives_up=False, fate=Fate(outages=1)),
)
"""Protocols that leave something out, with what they violate."""


if __name__ == "__main__":
    sys.exit(main())
