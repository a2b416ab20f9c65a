"""What a runtime that is killed at any moment costs the hosts whose relays it serves (Linux).

    python -m tests.process.runtime.kills --kills 200 --clients 10

Real clients of real relays read, write, open groups and list what is open, over three servers, one of which is shared.
The runtime is killed while it serves, while it starts, and while a relay connects, and now and then a server is. A
write adds its word to a file once it has begun, so one that is carried out twice is found there. Lost is an answer that
is wrong, does not come, or is an error other than those that say that the call may have run (for a read: one that was
called after the list had changed, since no tool is known to read then); an end of a relay; or a
list that is not that of the groups that were open. The status is 1 if there is any, or a write that was carried out
twice.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import anyio
from attrs import define, field
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import ToolListChangedNotification

from tests.process.serving import ENVIRONMENT
from toolfold_adapters.runtime.place import FOLDER, LOG
from toolfold_adapters.runtime.relay import LOST

PATIENCE = 60.0
"""Seconds after which an answer is lost."""
ERAS = "legacy", "auto"
GROUPS = "all", "own", "more"
"""The servers: the first is shared. The last is opened and closed again and again."""
RESULT_SECONDS = 0.2
"""How long a call takes at most."""
MAY_BE_DONE, AWAY = "may be done or not", (" has stopped: ", " did not start: ")
"""What an error says of a call that a server may have carried out, or that it was not asked for."""
UPSTREAM = str(Path(__file__).with_name("plain.py"))


@define
class Figures:
    """What happened."""

    kills: Counter[str] = field(factory=Counter[str])
    calls: int = 0
    errors: Counter[str] = field(factory=Counter[str])
    lost: list[str] = field(factory=list[str])
    twice: int = 0
    outages: list[float] = field(factory=list[float])
    log: str = ""


@define
class Machine:
    """A machine with a runtime of its own.

    Attributes:
        killed: When the runtime was killed last.
        visits: How many sessions of the visitor have begun.
    """

    place: Path
    environment: Mapping[str, str]
    random: Random
    figures: Figures
    words: count[int] = field(factory=count)
    killed: float = 0.0
    visits: int = 0
    is_over: bool = False
    lists: dict[frozenset[str], list[str]] = field(factory=dict[frozenset[str], list[str]])
    done: list[str] = field(factory=list[str])
    refused: list[str] = field(factory=list[str])

    @property
    def record(self) -> Path:
        return self.place / "record"

    def host(self) -> StdioServerParameters:
        """Return what a host starts for a session."""
        command = ["-m", "toolfold_cli", "connect", str(self.place / "gateway.toml")]
        return StdioServerParameters(
            command=sys.executable, args=command, env=dict(self.environment), cwd=str(self.place)
        )

    def processes(self, *, of_servers: bool = False) -> list[int]:
        """Return the runtimes that there are, some of which may be about to end; or their servers."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if not entry.name.isdigit():
                    continue
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if of_servers:
                    is_ours = UPSTREAM in command and str(self.record) in command
                else:
                    own = f"{FOLDER}={self.environment[FOLDER]}".encode()
                    serves = "--for-relay" in command and (entry / "comm").read_text().strip() != "toolfold-copy"
                    is_ours = serves and own in (entry / "environ").read_bytes().split(b"\0")
                if is_ours:
                    found.append(int(entry.name))
        return found

    def kill(self, processes: list[int]) -> None:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


class Unexpected(Exception):
    """A client was not answered, or wrongly."""


class Away(Unexpected):
    """A server has ended, and was not asked."""


@define
class Host:
    """A host with a session, which has some groups open."""

    name: str
    client: Client
    machine: Machine
    open: set[str] = field(factory=set[str])
    answered: float = field(factory=monotonic)
    is_listed: bool = False
    changes: int = 0

    async def observe(self, message: object) -> None:
        """Take note that the list has changed: until it is asked for again, no tool in it is known to read."""
        if isinstance(message, ToolListChangedNotification):
            self.is_listed = False
            self.changes += 1

    async def call(self, tool: str, /, **arguments: object) -> str | None:
        """Return the text of an answer, or `None` for an error that says that it may have run; raises `Unexpected`."""
        figures, began = self.machine.figures, monotonic()
        listed, changes = self.is_listed, self.changes
        figures.calls += 1
        try:
            with anyio.fail_after(PATIENCE):
                said = await self.client.call_tool(tool, arguments)
        except MCPError as error:
            reads = tool == "read_tool" or tool.endswith("__read")
            known = listed and changes == self.changes  # a change may have been on its way as the tool was called
            if str(error) != LOST or (reads and (tool == "read_tool" or known)):
                raise Unexpected(f"{tool}: {error}") from error
            figures.errors["the runtime ended, and the list had changed" if reads else "the runtime ended"] += 1
            return None
        except TimeoutError as error:
            raise Unexpected(f"{tool}: no answer in {PATIENCE:g} s") from error
        text = "".join(part.text for part in said.content if part.type == "text")
        if not said.is_error:
            self._note(began)
            return text
        if any(words in text for words in AWAY):
            raise Away(text)
        if MAY_BE_DONE not in text:
            raise Unexpected(f"{tool}: {text}")
        figures.errors["the server ended"] += 1
        return None

    async def read(self, group: str) -> None:
        word = str(next(self.machine.words))
        said = await self._use(group, "read", word)
        if said is not None and word not in said:
            raise Unexpected(f"{word} was read as {said}")

    async def write(self, group: str) -> None:
        word = str(next(self.machine.words))
        if await self._use(group, "record", word) is not None:
            self.machine.done.append(word)

    async def _use(self, group: str, tool: str, word: str) -> str | None:
        """Call a tool of a server: by its name where that is listed."""
        given: dict[str, object] = {"word": word, "seconds": self.machine.random.uniform(0, RESULT_SECONDS)}
        name, arguments = f"{group}__{tool}", given
        if self.is_modern:
            name, arguments = "read_tool" if tool == "read" else "call_tool", {"name": name, "arguments": given}
        try:
            return await self.call(name, **arguments)
        except Away:
            self.machine.figures.errors["the server had ended"] += 1
            self.machine.refused.append(word)
            return None

    async def toggle(self, group: str) -> None:
        """Open a group or close it, which may be repeated: it takes effect once."""
        tool = "close_group" if group in self.open else "open_group"
        while await self.call(tool, group=group) is None:
            pass
        self.open ^= {group}
        await self.look()

    async def look(self) -> None:
        """Compare what is listed with what is open; what a modern host is listed stays the same."""
        listed, shown = await self._listed(), set[str]() if self.is_modern else self.open
        found = {group for group in GROUPS if {f"{group}__read", f"{group}__record"} <= {*listed}}
        known = self.machine.lists.setdefault(frozenset(shown), listed)
        if found != shown or listed != known:
            raise Unexpected(f"{sorted(self.open)} are open, and listed: {listed}")
        if self.is_modern:
            for group in self.open:
                await self.read(group)

    @property
    def is_modern(self) -> bool:
        return self.client.protocol_version >= "2026"

    async def _listed(self) -> list[str]:
        self.machine.figures.calls += 1
        began = monotonic()
        try:
            with anyio.fail_after(PATIENCE):
                listed = [tool.name for tool in (await self.client.list_tools(cache_mode="bypass")).tools]
        except (MCPError, TimeoutError) as error:
            raise Unexpected(f"tools/list: {error!r}") from error
        self._note(began)
        self.is_listed = True
        return listed

    def _note(self, began: float) -> None:
        """Take note of an answer: the first to what was asked after a kill is the end of what that cost."""
        killed = self.machine.killed
        if self.answered < killed <= began:
            self.machine.figures.outages.append(monotonic() - killed)
        if began >= killed:
            self.answered = monotonic()


async def stay(machine: Machine, number: int) -> None:
    """Have a session until the end, which calls in one task and looks in another."""
    name = f"client {number}"
    try:
        observed: list[Host] = []

        async def observe(message: object) -> None:
            for host in observed:
                await host.observe(message)

        how: dict[str, Any] = {"mode": ERAS[number % 2], "message_handler": observe}
        async with Client(machine.host(), **how) as client, anyio.create_task_group() as tasks:
            host = Host(name, client, machine)
            observed.append(host)
            for group in GROUPS[:2]:
                await host.toggle(group)

            async def calling() -> None:
                while not machine.is_over:
                    await machine.random.choice([host.read, host.write])(machine.random.choice(GROUPS[:2]))
                await host.read(GROUPS[0])

            tasks.start_soon(calling)
            while not machine.is_over:
                await (host.look() if machine.random.random() < 0.5 else host.toggle(GROUPS[2]))
                await anyio.sleep(machine.random.uniform(0, 0.2))
            await host.look()
    except Exception as error:  # whatever ends a session is a loss
        _lose(machine, name, error)


async def visits(machine: Machine) -> None:
    """Have short sessions, one after the other, so that there is always a relay that connects."""
    while not machine.is_over:
        await visit(machine, machine.random.choice(ERAS))


async def visit(machine: Machine, era: str) -> None:
    """Have a session that opens a group, writes, and leaves."""
    machine.visits += 1
    name = f"visit {machine.visits}"
    try:
        async with Client(machine.host(), mode=era) as client:
            host = Host(name, client, machine)
            await host.toggle(GROUPS[0])
            await host.write(GROUPS[0])
            await host.look()
    except Exception as error:  # as above
        _lose(machine, name, error)


def _lose(machine: Machine, name: str, error: BaseException) -> None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    machine.figures.lost.append(f"{name}: {error if isinstance(error, Unexpected) else repr(error)}")


async def kill(machine: Machine, kills: int) -> None:
    """Kill the runtime so often, and a server now and then."""
    random, figures = machine.random, machine.figures
    while figures.kills.total() - figures.kills["a server"] < kills:
        moment = random.choice(["serving", "serving", "starting", "connecting"])
        await _come(machine, moment)
        if found := machine.processes():
            figures.kills[f"the runtime, {moment}"] += 1
            machine.killed = monotonic()
            machine.kill(found)
        if random.random() < 0.3:
            await _until(lambda: bool(machine.processes(of_servers=True)))
            await anyio.sleep(random.uniform(0, 1))
            if servers := machine.processes(of_servers=True):
                figures.kills["a server"] += 1
                machine.kill([random.choice(servers)])


async def _come(machine: Machine, moment: str) -> None:
    """Wait for the moment of a kill."""
    known, visited = machine.processes(), machine.visits
    if moment == "serving":
        await anyio.sleep(machine.random.uniform(0, 4))
        return
    if moment == "starting":
        machine.kill(known)
        await _until(lambda: bool({*machine.processes()} - {*known}))
    else:
        await _until(lambda: machine.visits > visited)
    await anyio.sleep(machine.random.uniform(0, 1))


async def _until(comes: Callable[[], bool]) -> None:
    while True:
        if comes():
            return
        await anyio.sleep(0.005)


async def _play(machine: Machine, kills: int, clients: int) -> None:
    for era in ERAS:  # from now on, a handshake is answered before a host doubts that the server is modern
        await visit(machine, era)
    async with anyio.create_task_group() as tasks:
        for number in range(clients):
            tasks.start_soon(stay, machine, number)
        tasks.start_soon(visits, machine)
        await kill(machine, kills)
        machine.is_over = True


def killed(kills: int, clients: int, seed: int) -> Figures:
    """Return what so many kills cost."""
    with TemporaryDirectory(prefix="toolfold-kills-") as name, TemporaryDirectory(prefix="r-") as runtime:
        place = Path(name)
        own = {one: str(place / one.lower()) for one in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
        machine = Machine(place, {**ENVIRONMENT, **own, FOLDER: runtime}, Random(seed), Figures())
        machine.record.touch()
        command = json.dumps([sys.executable, "-S", "-E", UPSTREAM, str(machine.record)])
        servers = "".join(f"[upstreams.{group}]\ncommand = {command}\n" for group in GROUPS)
        (place / "gateway.toml").write_text(servers.replace("\n[", "\nshared = true\n[", 1))
        try:
            anyio.run(_play, machine, kills, clients)
        finally:
            down = [sys.executable, "-m", "toolfold_cli", "down"]
            subprocess.run(down, env=machine.environment, capture_output=True, check=True, timeout=PATIENCE)
        machine.figures.log = Path(runtime, LOG).read_text(errors="replace")
        recorded = Counter(machine.record.read_text().split())
        machine.figures.twice = sum(times > 1 for times in recorded.values())
        machine.figures.lost += [
            f"{word} was answered, and not recorded" for word in machine.done if not recorded[word]
        ]
        machine.figures.lost += [f"{word} was refused, and recorded" for word in machine.refused if recorded[word]]
        return machine.figures


def main() -> int:
    """Print the figures, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.process.runtime.kills", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=200, help="how often the runtime is killed (default: 200)")
    parser.add_argument("--clients", type=int, default=10, help="how many hosts stay (default: 10)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", action="store_true", help="print what the runtimes logged, too")
    given = parser.parse_args()
    figures = killed(given.kills, given.clients, given.seed)
    print(f"processors: {os.cpu_count()}; clients: {given.clients}; seed: {given.seed}")
    print("kills: " + ", ".join(f"{number} × {what}" for what, number in sorted(figures.kills.items())))
    print(f"calls: {figures.calls:,}")
    print("errors: " + ", ".join(f"{number} × {what}" for what, number in sorted(figures.errors.items())))
    print(f"lost: {len(figures.lost)}")
    for text in figures.lost[:10]:
        print(f"  {text}")
    print(f"twice: {figures.twice}")
    if figures.outages:
        print(
            f"from a kill of the runtime to a client's next answer: {statistics.median(figures.outages):.2f} s "
            f"(median), {max(figures.outages):.2f} s (worst)"
        )
    if given.log:
        print(figures.log, file=sys.stderr)
    return bool(figures.lost or figures.twice)


if __name__ == "__main__":
    sys.exit(main())
