"""Replicas that share a store and are killed: `python replicas.py` starts and ends them, a line of JSON for each.

`{"start": …}` has the arguments of `run`, and is answered by the process: a fork, so that nothing is imported twice.
`{"end": process, "signal": number}` is answered by its status.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import traceback
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import anyio
from attrs import frozen

from toolfold import Context, HookContext, StoreError, ToolError, ToolfoldError, ToolSet
from toolfold_adapters.mcp import Limit, Limits, serve
from toolfold_adapters.mcp.http.auth import Authentication, digest_of
from toolfold_adapters.stores import open_store
from toolfold_adapters.stores import redis as redis  # so that forks find it imported

CALLERS = tuple(f"caller{number}" for number in range(1000))
LIFETIME = 20.0
"""Seconds after its last use at which a handle's session ends."""
PATHS = ("a", "a.b", "bad", "plain", "x")
"""The groups in canonical order; `plain` has no hooks, and the one of `bad` fails."""
PAUSE = 0.02
"""Seconds that a hook may take."""


@frozen
class World:
    """What hooks have done outside of their processes: a file of lines for each session."""

    folder: Path

    def note(self, session: str, line: str) -> None:
        """Add a line, in one write."""
        file = os.open(self.path(session), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def path(self, session: str) -> Path:
        """Return the file of a session."""
        return self.folder / sha256(session.encode()).hexdigest()[:16]

    def lines(self, session: str) -> list[str]:
        """Return the lines of a session so far."""
        path = self.path(session)
        return path.read_text().splitlines() if path.exists() else []


def make_tools(world: World) -> ToolSet:
    """Return a tool set whose hooks take a while, so that processes are killed in the middle of them."""
    tools = ToolSet("desk", hook_timeout=30)
    random = Random()

    async def hook(verb: str, context: HookContext) -> None:
        line = f"{'undo ' if context.undoes else ''}{verb} {context.group}"
        world.note(context.session.id, f"{os.getpid()} begins")
        try:
            await anyio.sleep(random.random() * PAUSE)
            world.note(context.session.id, line)
            await anyio.sleep(random.random() * PAUSE)
        finally:
            world.note(context.session.id, f"{os.getpid()} ends")

    def fail() -> None:
        raise ToolError("it never opens")

    for path in ("x", "a", "a.b"):
        tools.register_group(path, path, on_activate=partial(hook, "open"), on_deactivate=partial(hook, "close"))
    tools.register_group("plain", "without hooks")
    tools.register_group("bad", "never opens", on_activate=fail)
    for path in PATHS:
        tools.register("probe", lambda: "here", description="Be here.", group=path, input_schema={"type": "object"})
    tools.register_exclusion("x", "a")

    @tools.tool()
    async def step(activate: list[str], deactivate: list[str], context: Context) -> str:
        """Change groups in one step, and answer what changed."""
        try:
            change = await context.session.transition(activate=activate, deactivate=deactivate)
        except StoreError:
            raise
        except ToolfoldError as error:
            return json.dumps({"error": type(error).__name__})
        return json.dumps({"activated": change.activated, "deactivated": change.deactivated})

    @tools.tool()
    def note(name: str, value: int, context: Context) -> str:
        """Set a fact."""
        context.session.set_fact(name, value)
        return json.dumps({})

    @tools.tool()
    def look(context: Context) -> str:
        """Answer with the state of the session."""
        snapshot = context.session.snapshot
        return json.dumps({"active": snapshot.active, "facts": dict(snapshot.facts), "session": context.session.id})

    return tools


class Careless:
    """A broken store: its swaps ignore versions, so that updates are lost."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def swap(self, key: str, version: int, *arguments: Any, **options: Any) -> bool:
        """Replace the data, whatever the version."""
        record = await self._store.read(key)
        return bool(await self._store.swap(key, record.version if record else version, *arguments, **options))


async def run(port: int, store: str, folder: str, lease: float, careless: bool, principals: bool) -> None:
    """Serve until killed; see `fleet.Options`."""
    opened: Any = open_store(store)
    opened.lease = lease
    used: Any = Careless(opened) if careless else opened
    await serve(
        make_tools(World(Path(folder))),
        transport="http",
        port=port,
        separator=".",
        store=used,
        delivery="principal" if principals else "auto",
        handle_lifetime=LIFETIME,
        limits=Limits(connections=Limit(10_000)),
        auth=Authentication.by_tokens({name: digest_of(name) for name in CALLERS}),
    )


def start(options: dict[str, Any]) -> int:
    """Start a replica, and return its process."""
    child = os.fork()
    if child:
        return child
    try:
        os.close(sys.stdin.fileno())
        logging.basicConfig(level=logging.WARNING, format="%(process)d %(levelname)s %(name)s: %(message)s")
        anyio.run(partial(run, **options))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def end(process: int, number: int) -> int:
    """Send a signal to a replica, and return how it ended."""
    os.kill(process, number)
    return os.waitpid(process, 0)[1]


def main() -> None:
    """Start and end replicas as asked; none outlives the standard input."""
    processes: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "start" in asked:
            processes.add(answer := start(asked["start"]))
        else:
            processes.remove(asked["end"])
            answer = end(asked["end"], asked["signal"])
        print(answer, flush=True)
    for process in processes:
        end(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
