"""Replicas that are killed around every operation of a transition, on real engines (SPEC STO-3, STO-6, HOOK-5).

The next one that meets the session rolls the transition back, or finds it committed: the resources that are open are
those of the active groups, and the session goes on. What else a process may die in, `tests.simulation.cancelling` kills
it in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from tests.adapters.mcp.support import PATIENCE
from tests.preloaded import forked
from tests.process.stores import victims
from tests.process.stores.servers import DATABASES, flushed
from tests.process.stores.victims import LEASE, World, replica, store_of
from toolfold import Store

pytestmark = pytest.mark.spec("STO-2", "STO-3", "STO-6", "HOOK-5")

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


async def released(store: Store) -> None:
    """Wait until the lease of the only session has expired, since reads don't wait for it."""
    with anyio.fail_after(PATIENCE):
        while not any([await store.idlest(f"desk/{kind}", CALLER) for kind in KINDS]):  # noqa: ASYNC110
            await anyio.sleep(LEASE / 10)


def opposite(line: str) -> str:
    word, _, group = line.partition(" ")
    return f"{'close' if word == 'open' else 'open'} {group}"


async def whole(world: World, url: str, era: str, where: str) -> None:
    """Check what the next replica finds once the lease has expired, and that the session goes on there."""
    async with store_of(url) as store, replica(url, world) as anybody:
        await released(store)
        client = world.client(anybody, era)
        tools = [tool["name"] for tool in (await client.request("tools/list", {}))["tools"]]
        active = {name.removesuffix(".probe") for name in tools if name.endswith(".probe")}
        assert active in ([{"a", "a.b"}] if "answered" in world.log else [{"x"}, {"a", "a.b"}])
        with anyio.fail_after(PATIENCE):
            while world.opened != active or any(  # noqa: ASYNC110 - a sweep rolls back what a list does not wait for
                [await store.due(f"desk/{kind}", 10) for kind in KINDS]
            ):
                await anyio.sleep(LEASE / 10)
        undone = [line.removeprefix("undo: ") for line in world.log if line.startswith("undo")]
        begun = [line for line in world.log[1:] if not line.startswith("undo")]
        if where == "before":  # after a hook is recorded, it is still to be called
            assert all(opposite(line) in begun for line in undone)
        for groups in (["a", "a.b"], ["x"]):
            await client.call("switch", {"to": groups})
            assert world.opened == set(groups)


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(("name", "era"), [("sqlite", "legacy"), ("redis", "modern")])
async def test_whoever_comes_next_finds_a_session_that_is_whole(
    kill: Kill, engines: Callable[[str], Engine], tmp_path: Path, name: str, era: str, where: str
) -> None:
    engine, killed, number = engines(name), True, 0
    async with anyio.create_task_group() as tasks:
        while killed:
            number += 1
            world = World(tmp_path / str(number))
            world.folder.mkdir()
            url = engine(world, number)
            if name == "redis":
                await flushed(url)
            job = partial(kill, url=url, folder=str(world.folder), era=era, where=where, number=number)
            killed = await to_thread.run_sync(job)
            tasks.start_soon(whole, world, url, era, where)
    assert number > 1
