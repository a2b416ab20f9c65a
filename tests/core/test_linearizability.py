"""Random concurrent histories of one session, checked against the reference (SPEC SES-2).

Hooks let other tasks run a random number of times, drawn from a seed; some always fail. A history is linearizable if
its requests can have taken effect one at a time, each between its call and its return. The judge is shown to catch an
engine that does not serialize requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.core.support import FAMILIES, WAIT, Hooks, Unserialized, World, tool_set, world
from toolfold import ExclusionConflict, HookContext, HookFailed, ParentInactive, Session
from toolfold_specs import reference as model
from toolfold_specs.linearize import Operation, linearizable
from toolfold_specs.reference import State as Active
from toolfold_specs.reference import System

Request = tuple[str, tuple[int, ...], tuple[int, ...]]
Ask = Callable[[Request], Awaitable[Any]]
NOTHING: Active = frozenset()
SYSTEMS = FAMILIES["pairs-4"]


def applied(system: System, failing: frozenset[int]) -> Callable[[Active, Request], tuple[Active, Any]]:
    """What the reference makes of a request, where groups whose hook fails can't be entered."""

    def apply(active: Active, request: Request) -> tuple[Active, Any]:
        kind, activate, deactivate = request
        if kind == "read":
            return active, active
        answer = model.step(system, active, activate, deactivate)
        if answer.kind == "refused":
            return active, answer.error
        if failed := system.canonical(failing & (answer.state - active)):
            return active, ("HookFailed", failed[0])
        return answer.state, (answer.state - active, active - answer.state)

    return apply


def asking(session: Session, here: World) -> Ask:
    """Ask a session."""

    async def ask(request: Request) -> Any:
        kind, activate, deactivate = request
        if kind == "read":
            return frozenset(here.paths.index(path) for path in session.active)
        try:
            change = await session.transition(here.named(activate), here.named(deactivate))
        except (ParentInactive, ExclusionConflict) as error:
            return type(error).__name__
        except HookFailed as error:
            return "HookFailed", here.paths.index(error.group)
        entered, left = change.activated, change.deactivated
        return frozenset(map(here.paths.index, entered)), frozenset(map(here.paths.index, left))

    return ask


def asking_unserialized(here: World, random: Random) -> Ask:
    """Ask an engine that does not serialize requests."""
    engine = Unserialized(here, here.at(NOTHING), lambda: checkpoints(random))

    async def ask(request: Request) -> Any:
        kind, activate, deactivate = request
        if kind == "read":
            return engine.active()
        try:
            planned = await engine.transition(here.request(activate, deactivate))
        except (ParentInactive, ExclusionConflict) as error:
            return type(error).__name__
        return here.active(planned.activated), here.active(planned.deactivated)

    return ask


async def checkpoints(random: Random) -> None:
    for _ in range(random.randrange(4)):
        await checkpoint()


def waiting(random: Random) -> Callable[[str], Hooks]:
    """Hooks that let others run."""

    async def run(context: HookContext) -> None:
        await checkpoints(random)

    return lambda path: {"on_activate": run, "on_deactivate": run}


def drawn(random: Random, system: System) -> Request:
    groups = list(system.groups)
    kind = random.choice(["read", "activate", "activate", "deactivate", "step"])
    match kind:
        case "activate":
            return kind, (random.choice(groups),), ()
        case "deactivate":
            return kind, (), (random.choice(groups),)
        case "step":
            return kind, tuple(random.sample(groups, 2)), tuple(random.sample(groups, 1))
    return kind, (), ()


async def recorded(random: Random, system: System, ask: Ask, clients: int, requests: int) -> list[Operation]:
    """Let some clients make requests concurrently, each one after another; return the history."""
    history: list[Operation] = []
    clock = iter(range(1_000_000))

    async def run(name: int) -> None:
        for _ in range(requests):
            request, call = drawn(random, system), next(clock)
            answer = await ask(request)
            history.append(Operation(name, call, next(clock), request, answer))
            await checkpoints(random)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            for name in range(clients):
                group.start_soon(run, name)
    return history


@pytest.mark.spec("SES-2", "HOOK-4", "INV-1", "INV-2")
@pytest.mark.parametrize("seed", range(80))
async def test_concurrent_requests_are_linearizable(seed: int) -> None:
    random = Random(seed)
    system = random.choice(SYSTEMS)
    here = world(system)
    failing = frozenset(random.sample(list(system.groups), random.randrange(2)))

    async def enter(context: HookContext) -> None:
        await checkpoints(random)
        if here.paths.index(context.group) in failing and context.undoes is None:
            raise RuntimeError

    async def leave(context: HookContext) -> None:
        await checkpoints(random)

    hooks: Hooks = {"on_activate": enter, "on_deactivate": leave}
    async with tool_set(system, lambda path: hooks).open_session() as session:
        history = await recorded(random, system, asking(session, here), *random.choice([(2, 8), (3, 8), (6, 6)]))
        final = await asking(session, here)(("read", (), ()))
    assert model.legal(system, final)
    last = Operation("end", 1_000_000, 1_000_001, ("read", (), ()), final)
    assert linearizable(NOTHING, applied(system, failing), [*history, last])


@pytest.mark.spec("SES-2", "SES-1")
@pytest.mark.parametrize("seed", range(5))
async def test_concurrent_requests_of_several_sessions_are_linearizable_in_each(seed: int) -> None:
    random = Random(seed)
    system = random.choice(SYSTEMS)
    here = world(system)
    tools = tool_set(system, waiting(random))
    async with tools.open_session() as one, tools.open_session() as other:
        tasks = [
            asyncio.ensure_future(recorded(random, system, asking(session, here), 3, 6)) for session in (one, other)
        ]
        for history in await asyncio.gather(*tasks):
            assert linearizable(NOTHING, applied(system, frozenset()), history)


@pytest.mark.spec("SES-2")
async def test_the_histories_overlap_and_contain_every_kind_of_answer() -> None:
    met: Counter[str] = Counter()
    for seed in range(10):
        random = Random(seed)
        system = random.choice(SYSTEMS)
        async with tool_set(system, waiting(random)).open_session() as session:
            history = await recorded(random, system, asking(session, world(system)), 3, 8)
        for operation in history:
            met[operation.answer if isinstance(operation.answer, str) else operation.request[0]] += 1
            met["overlap"] += any(
                other.call < operation.call < (other.ret or 0) for other in history if other is not operation
            )
    assert set(met) == {"read", "activate", "deactivate", "step", "ParentInactive", "ExclusionConflict", "overlap"}


@pytest.mark.spec("SES-2")
async def test_the_check_catches_an_engine_that_does_not_serialize_requests_though_its_states_are_legal() -> None:
    caught = 0
    for seed in range(40):
        random = Random(seed)
        system = random.choice(SYSTEMS)
        here = world(system)
        ask = asking_unserialized(here, random)
        history = await recorded(random, system, ask, 3, 8)
        assert model.legal(system, await ask(("read", (), ())))
        caught += not linearizable(NOTHING, applied(system, frozenset()), history)
    assert caught >= 5
