"""Processes that die during a transition: `python victims.py` runs one for each line of JSON on standard input.

A line has the URL of a store, a folder for what the processes do to the world, an era, and where to die: before or
after the n-th operation of the store. Each victim is a fork, so that nothing is imported twice.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from attrs import define, evolve, frozen

from tests.adapters.mcp.asgi import endpoint_of
from tests.process.stores.clients import Client
from toolfold import Context, HookContext, ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_adapters.stores import open_store
from toolfold_adapters.stores import redis as redis  # so that forks find it imported

LEASE = 0.4
OPERATIONS = ("create", "read", "swap", "acquire", "intend", "release", "delete")


@frozen
class World:
    """What hooks change outside of their processes: a file for each resource that is open, and a log."""

    folder: Path

    def note(self, event: str) -> None:
        """Add a line to the log, in one write."""
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{event}\n".encode())
        os.close(log)

    @property
    def log(self) -> list[str]:
        """The lines so far."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def open(self, group: str) -> None:
        """Open a resource; it does not matter if it is open."""
        (self.folder / f"{group}.open").touch()

    def close(self, group: str) -> None:
        """Close a resource; it does not matter if it is closed."""
        (self.folder / f"{group}.open").unlink(missing_ok=True)

    @property
    def session(self) -> str | None:
        """The id or the handle of the session, once that is known."""
        path = self.folder / "session"
        return path.read_text() if path.exists() else None

    def remember(self, client: Client) -> None:
        """Write down what the session of a client is found by."""
        (self.folder / "session").write_text(str(client.session_id or client.handle))

    def client(self, client: Client, era: str) -> Client:
        """Return a client of the session."""
        if era == "legacy":
            return evolve(client, session_id=self.session)
        return evolve(client, handle=self.session)

    @property
    def opened(self) -> set[str]:
        """The resources that are open."""
        return {path.stem for path in self.folder.glob("*.open")}


@define
class Death:
    """Kills this process at one point: before or after the n-th operation of the store.

    The process does nothing in the background, so that the operations are those of the transition.
    """

    where: str
    number: int
    armed: bool = False
    count: int = 0

    def here(self, where: str) -> None:
        """Die, if this is the point."""
        if self.armed and where == self.where:
            self.count += 1
            if self.count == self.number:
                os.kill(os.getpid(), signal.SIGKILL)


async def nothing_due(kind: str, limit: int) -> list[str]:
    """Return no keys."""
    return []


async def no_changes() -> AsyncGenerator[None]:
    """Wait for ever."""
    await anyio.sleep_forever()
    yield


IN_BACKGROUND = {"due": nothing_due, "changes": no_changes}


class DyingStore:
    """A store around whose operations the process may die."""

    def __init__(self, store: Any, death: Death) -> None:
        self._store = store
        self._death = death

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)
        if name in IN_BACKGROUND:
            return IN_BACKGROUND[name]
        if name not in OPERATIONS:
            return operation

        async def dying(*arguments: Any, **options: Any) -> Any:
            self._death.here("before")
            result = await operation(*arguments, **options)
            self._death.here("after")
            return result

        return dying


def make_tools(world: World) -> ToolSet:
    """Return a tool set whose hooks open and close resources."""
    tools = ToolSet("desk")

    def hook(group: str, opens: bool, context: HookContext) -> None:
        world.note(f"{'undo: ' if context.undoes else ''}{'open' if opens else 'close'} {group}")
        (world.open if opens else world.close)(group)

    for path in ("x", "a", "a.b"):
        on, off = partial(hook, path, True), partial(hook, path, False)
        tools.register_group(path, path, run_in_thread=False, on_activate=on, on_deactivate=off)
        tools.register("probe", lambda: "here", description="Be here.", group=path, input_schema={"type": "object"})
    tools.register_exclusion("x", "a")

    @tools.tool()
    async def switch(to: list[str], context: Context) -> str:
        """Open groups in one transition."""
        await context.session.transition(activate=to)
        return "switched"

    return tools


def store_of(url: str, *, dies: bool = False) -> Any:
    """Return the store of a URL, with a short lease for a process that dies."""
    store: Any = open_store(url)
    store.lease = LEASE if dies else store.lease
    return store


@asynccontextmanager
async def replica(url: str, world: World, death: Death | None = None) -> AsyncGenerator[Client]:
    """Serve from a store, and yield a client that has no session yet."""
    store: Any = store_of(url, dies=death is not None)
    used: Any = store if death is None else DyingStore(store, death)
    server = build_server(make_tools(world), separator=".", store=used)
    async with store, endpoint_of(server) as endpoint, endpoint.connect() as http:
        yield Client(http, "anybody")


async def run(url: str, folder: str, era: str, where: str, number: int) -> None:
    """Open a session, and die in a transition of it; write down that it was answered, if it is."""
    world, death = World(Path(folder)), Death(where, number)
    async with replica(url, world, death) as client:
        client = await client.initialize() if era == "legacy" else client
        result = await client.call("x.activate", {})
        client = client if era == "legacy" else evolve(client, handle=result["_meta"]["dev.toolfold/handle"])
        world.remember(client)
        death.armed = True
        await client.call("switch", {"to": ["a", "a.b"]})
        world.note("answered")
        death.armed = False


def main() -> None:
    """Run one victim after the other, and report how each ended."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                anyio.run(partial(run, **json.loads(line)))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, "status": status}), flush=True)


if __name__ == "__main__":
    main()
