"""Replicas that are killed at every point of a transition, on real engines (SPEC STO-3, STO-6, HOOK-5).

The next one that meets the session rolls the transition back, or finds it committed: the resources that are open are
those of the active groups, and the session goes on. A process that dies in a hook leaves a store as it is between the
operations around the hook, so deaths in hooks are shown on one engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.adapters.mcp.support import PATIENCE
from tests.preloaded import forked
from tests.process.stores import victims
from tests.process.stores.clients import Client
from tests.process.stores.servers import DATABASES, flushed
from tests.process.stores.victims import LEASE, STEPS, World, replica, store_of
from toolfold import Store

pytestmark = pytest.mark.spec("STO-2", "STO-3", "STO-6", "HOOK-5")

POINTS = ("before operation", "after operation", "before effect", "after effect")
TOGETHER = 5
"""How many sessions wait at a time until the lease of a process that was killed has expired."""
LONG, SHORT = 600.0, 1.0
"""Seconds after their last use at which the sessions of handles end."""
CALLER = "address 127.0.0.1"
KINDS = ("handle", "legacy")
Kill = Callable[..., bool]
Engine = Callable[[World, int], str]


@pytest.fixture(scope="module")
def kill() -> Generator[Kill]:
    """Return what runs one victim, and returns whether it was killed; otherwise it must have come to its end."""
    path = ":".join(part for part in sys.path if part)
    command, env = forked(victims.__file__), {"PYTHONPATH": path}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(**job: object) -> bool:
            print(json.dumps(job), file=stdin, flush=True)
            ended = json.loads(stdout.readline())
            assert ended["killed"] or ended["status"] == 0
            return bool(ended["killed"])

        yield run
        stdin.close()


@pytest.fixture
def engines(request: pytest.FixtureRequest) -> Callable[[str], Engine]:
    """Return what gives, for an engine, the URL of an empty store for the n-th victim."""

    def engine(name: str) -> Engine:
        if name == "sqlite":
            return lambda world, _: f"sqlite:///{world.folder}/state.db"
        server: str = request.getfixturevalue("redis_url")
        return lambda _, number: f"{server.removesuffix('/0')}/{number % DATABASES}"

    return engine


class Case:
    """Victims of one scenario that are killed at one kind of points, one after the other at each."""

    def __init__(self, kill: Kill, engine: Engine, folder: Path, era: str, where: str) -> None:
        self._kill = kill
        self._engine = engine
        self._folder = folder
        self.era = era
        self.where = where

    async def world(self, number: int) -> tuple[World, str]:
        """Return a new world, and the URL of an empty store."""
        world = World(self._folder / str(number))
        world.folder.mkdir()
        url = self._engine(world, number)
        if url.startswith("redis"):
            await flushed(url)
        return world, url

    def killed(self, world: World, url: str, scenario: str, number: int, **job: Any) -> bool:
        """Run a victim, and return whether it was killed at the n-th point."""
        given = {"url": url, "folder": str(world.folder), "era": self.era, "lifetime": LONG, "where": self.where}
        return self._kill(**{**given, "scenario": scenario, "number": number, **job})

    @asynccontextmanager
    async def next(self, world: World, url: str) -> AsyncGenerator[Client]:
        """Yield the client of the session at the next replica, once the lease has expired."""
        async with store_of(url) as store, replica(url, world, LONG) as client:
            await released(store)
            yield world.client(client, self.era)


async def released(store: Store) -> None:
    """Wait until the lease of the only session has expired, since reads don't wait for it."""
    with anyio.fail_after(PATIENCE):
        while not any([await store.idlest(f"desk/{kind}", CALLER) for kind in KINDS]):  # noqa: ASYNC110
            await anyio.sleep(LEASE / 10)


def opposite(line: str) -> str:
    word, _, group = line.partition(" ")
    return f"{'close' if word == 'open' else 'open'} {group}"


async def whole(case: Case, world: World, url: str, scenario: str) -> None:
    """Check what the next replica finds, and that the session goes on there."""
    async with case.next(world, url) as client:
        tools = [tool["name"] for tool in (await client.request("tools/list", {}))["tools"]]
        active = {name.removesuffix(".probe") for name in tools if name.endswith(".probe")}
        changed = {"a", "a.b"} if scenario == "commits" else {"x"}
        assert active in ([changed] if "answered" in world.log else [{"x"}, changed])
        async with store_of(url) as store:
            with anyio.fail_after(PATIENCE):
                while world.opened != active or any(  # noqa: ASYNC110 - a sweep rolls back what a list does not wait for
                    [await store.due(f"desk/{kind}", 10) for kind in KINDS]
                ):
                    await anyio.sleep(LEASE / 10)
        undone = [line.removeprefix("undo: ") for line in world.log if line.startswith("undo")]
        begun = [line for line in world.log[1:] if not line.startswith("undo")]
        if case.where != "after operation":  # a hook is recorded, and then called
            assert all(opposite(line) in begun for line in undone)
        for groups in (["a", "a.b"], ["x"]):
            await client.call("switch", {"to": groups})
            assert world.opened == set(groups)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        *((name, where) for name in ("sqlite", "redis") for where in POINTS[:2]),
        *(("sqlite", one) for one in POINTS[2:]),
    ],
)
@pytest.mark.parametrize("scenario", STEPS)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_whoever_comes_next_finds_a_session_that_is_whole(
    kill: Kill, engines: Callable[[str], Engine], tmp_path: Path, era: str, scenario: str, name: str, where: str
) -> None:
    case, killed, number = Case(kill, engines(name), tmp_path, era, where), True, 0
    async with anyio.create_task_group() as tasks:
        while killed:
            number += 1
            world, url = await case.world(number)
            killed = await to_thread.run_sync(case.killed, world, url, scenario, number)
            tasks.start_soon(whole, case, world, url, scenario)
    assert number > 1


@pytest.mark.parametrize("where", ["before operation", "before effect"])
async def test_a_process_that_dies_while_it_rolls_back_leaves_that_to_the_next(
    kill: Kill, engines: Callable[[str], Engine], tmp_path: Path, where: str
) -> None:
    case, killed, number = Case(kill, engines("sqlite"), tmp_path, "legacy", where), True, 0
    async with anyio.create_task_group() as tasks:
        while killed:
            left = [await case.world(number + one) for one in range(1, TOGETHER + 1)]
            for world, url in left:
                assert await to_thread.run_sync(partial(case.killed, world, url, "commits", 2, where="after effect"))
            for world, url in left:
                number += 1
                async with store_of(url) as store:
                    await released(store)
                killed = await to_thread.run_sync(case.killed, world, url, "commits", number)
                tasks.start_soon(whole, case, world, url, "commits")
                if not killed:
                    break
    assert number > 1


@pytest.mark.spec("HOOK-9", "SES-3")
@pytest.mark.parametrize("where", ["before operation", "before effect"])
async def test_a_session_whose_process_dies_while_it_ends_can_be_ended_again(
    kill: Kill, engines: Callable[[str], Engine], tmp_path: Path, where: str
) -> None:
    case, killed, number = Case(kill, engines("redis"), tmp_path, "legacy", where), True, 0

    async def ended(world: World, url: str) -> None:
        async with replica(url, world, LONG) as client:
            assert await world.client(client, "legacy").end()
        assert world.opened == set()

    async with anyio.create_task_group() as tasks:
        while killed:
            number += 1
            world, url = await case.world(number)
            killed = await to_thread.run_sync(case.killed, world, url, "ends", number)
            tasks.start_soon(ended, world, url)
    assert number > 1


@pytest.mark.spec("HOOK-9", "SES-3", "STO-7")
@pytest.mark.parametrize("where", ["before operation", "before effect"])
async def test_a_session_whose_process_dies_while_it_expires_is_ended_by_the_next(
    kill: Kill, engines: Callable[[str], Engine], tmp_path: Path, where: str
) -> None:
    case, killed, number = Case(kill, engines("redis"), tmp_path, "modern", where), True, 0

    async def ended(world: World, url: str) -> None:
        with anyio.fail_after(PATIENCE):
            while world.opened:
                async with replica(url, world, SHORT):  # which sweeps when it starts; what it rolls back, it has used
                    await anyio.sleep(LEASE)

    async with anyio.create_task_group() as tasks:
        while killed:
            left = [await case.world(number + one) for one in range(1, TOGETHER + 1)]
            for world, url in left:
                assert not await to_thread.run_sync(partial(case.killed, world, url, "opens", 0, lifetime=SHORT))
            for world, url in left:
                number += 1
                async with store_of(url) as store:
                    while not await store.due("desk/handle", 1):  # noqa: ASYNC110
                        await anyio.sleep(LEASE / 10)
                job = partial(case.killed, world, url, "expires", number, lifetime=SHORT)
                killed = await to_thread.run_sync(job)
                tasks.start_soon(ended, world, url)
                if not killed:
                    break
    assert number > 1
