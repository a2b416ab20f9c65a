"""Seven days of one user, with a client of the SDK and a clock that is driven: nothing is a reason to give up.

In the same process there are a gateway, its servers, and a client of either era. What outlives a process is in a folder
and in stores, as with `toolfold serve`; a restart is another gateway that is given these.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import date, timedelta
from math import inf
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import define, field
from mcp import Client
from mcp_types import CallToolResult

from tests.adapters.gateway.inprocess import SECONDS, Clock, House
from tests.adapters.gateway.upstreams.shop import Shop
from tests.adapters.mcp.test_handle_delivery import text_of
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, open_gateway
from toolfold_adapters.gateway.stored import Approvals, DefinitionCache
from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import HANDLE_META
from toolfold_adapters.observe.stored_usage import Writer, stored_usage
from toolfold_adapters.stores import MemoryStore
from toolfold_cli.saved import figures_of

MONDAY = date(2026, 11, 23)
HOUR = 3600.0
AGAIN = "Open the groups that you need again, without a handle."
CONTROL = {"open_group", "close_group", "find_tools", "call_tool"}


def configured(*names: str) -> GatewayConfig:
    """A configuration of servers that withholds what changes."""
    return GatewayConfig.model_validate(
        {"upstreams": {name: {"command": [name]} for name in names}, "on_change": "quarantine"}
    )


@define(eq=False)
class User:
    """Someone at a client, who has what a model would read of it."""

    client: Client
    gateway: Gateway
    handle: str | None
    modern: bool

    async def listed(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools(cache_mode="bypass")).tools}

    async def open(self, group: str) -> str:
        """Open a group, and return what a model reads of it; do what a refusal says about a handle of yesterday."""
        answer = await self.client.call_tool("open_group", {"group": group, **self._under()})
        if self.handle and answer.is_error and AGAIN in text_of(answer):
            self.handle = None
            answer = await self.client.call_tool("open_group", {"group": group})
        assert not answer.is_error, text_of(answer)
        self.handle = (answer.meta or {}).get(HANDLE_META, self.handle)
        return text_of(answer)

    async def call(self, name: str) -> CallToolResult:
        """Call a tool: by its name if the list has it, or else by `call_tool`."""
        if name in await self.listed():
            return await self.client.call_tool(name, {})
        return await self.client.call_tool("call_tool", {"name": name, "arguments": {}, **self._under()})

    async def works(self, *names: str) -> None:
        """Make sure that tools can be called, and that each answers."""
        for name in names:
            answer = await self.call(name)
            assert (answer.is_error, text_of(answer)) == (False, "[]"), (name, text_of(answer))

    def _under(self) -> dict[str, Any]:
        return {"handle": self.handle} if self.handle else {}


@define(eq=False)
class Machine:
    """A user's machine: what runs on it, what is stored, and its clock."""

    folder: Path
    era: str
    house: House = field(factory=House)
    clock: Clock = field(factory=Clock)
    today: date = MONDAY
    handle: str | None = None
    sessions: MemoryStore = field(init=False)
    usage: MemoryStore = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.sessions, self.usage = MemoryStore(self.clock, lease=inf), MemoryStore(self.clock)

    @property
    def approvals(self) -> Approvals:
        return Approvals(self.folder / "approved")

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @asynccontextmanager
    async def serving(self, config: GatewayConfig) -> AsyncGenerator[User]:
        """Serve a configuration as a process does that has just started, with what was stored before."""
        runtime = Runtime(
            clock=self.clock,
            cache=DefinitionCache(self.folder / "definitions"),
            transport=self.house.transport,
            approvals=self.approvals,
        )
        gateway = open_gateway(config, runtime=runtime)
        async with gateway as tools:
            server = build_server(tools, handles="stored", store=self.sessions, extend=gateway.extend)
            writer = Writer(tools, self.usage, lambda: self.today)
            async with Client(server, mode=self.era) as client:
                user = User(client, gateway, self.handle, self.era != "legacy")
                yield user
                self.handle = user.handle
            await writer.write()

    def next_day(self) -> None:
        self.today += timedelta(1)
        self.pass_time(24 * HOUR)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, while all other tasks go on."""
    while not holds():
        await anyio.lowlevel.checkpoint()


async def monday(machine: Machine) -> None:
    """The first use: what is listed is short, and each group opens."""
    async with machine.serving(configured("a", "b")) as user:
        assert await user.listed() >= CONTROL
        assert not any(name.startswith(("a__", "b__")) for name in await user.listed())
        assert "a__cart" in await user.open("a")
        await user.works("a__cart")


async def tuesday(machine: Machine) -> None:
    """A server is added in the middle of a conversation."""
    async with machine.serving(configured("a", "b")) as user:
        await user.open("a")
        await user.works("a__cart")
        await user.gateway.reconfigure(configured("a", "b", "c"))
        await until(lambda: "c__cart" in user.gateway.tools.catalog.tools)
        assert "c__cart" in await user.open("c")
        await user.works("a__cart", "c__cart")


async def wednesday(machine: Machine) -> None:
    """A server breaks and is mended; the others go on."""
    async with machine.serving(configured("a", "b", "c")) as user:
        await user.open("a")
        await user.open("b")
        await user.works("a__cart", "b__cart")
        machine.house.broken.add("b")
        await machine.house.kill("b")
        for _ in range(2):
            refused = await user.call("b__cart")
            assert refused.is_error
            assert "The MCP server 'b' " in text_of(refused)
            await user.works("a__cart")
        machine.house.broken.remove("b")
        machine.pass_time(60)
        await user.works("b__cart")


async def thursday(machine: Machine) -> None:
    """An upgrade in the middle of a conversation: a new process goes on with what is stored."""
    async with machine.serving(configured("a", "b", "c")) as user:
        await user.open("a")
        await user.works("a__cart")
    machine.house.gates = {name: anyio.Event() for name in "abc"}  # servers that have not answered yet
    async with machine.serving(configured("a", "b", "c")) as user:
        if not user.modern:
            await user.open("a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(user.works, "a__cart")
            await anyio.lowlevel.checkpoint()
            for gate in machine.house.gates.values():
                gate.set()
    machine.house.gates = {}


async def friday(machine: Machine) -> None:
    """A night's sleep of the machine: connections are gone, and what had a lifetime has ended."""
    async with machine.serving(configured("a", "b", "c")) as user:
        await user.open("a")
        await user.works("a__cart")
        for name in "abc":
            await machine.house.kill(name)
        machine.pass_time(8 * HOUR)
        if user.modern:
            refused = await user.call("a__cart")
            assert refused.is_error
            assert "has expired. Open the groups that you need again" in text_of(refused)
            await user.open("a")
        await user.works("a__cart")


async def saturday(machine: Machine) -> None:
    """A server changes its tools: what is new waits for approval, and all else goes on."""
    machine.house.make = lambda name: Shop(tools=("send",) if name == "b" else ())
    config = configured("a", "b", "c")
    async with machine.serving(config) as user:
        await user.open("b")
        await user.works("b__cart")
        assert "b__send" not in await user.listed()
        refused = await user.call("b__send")
        assert refused.is_error
        assert "has changed and is withheld until its operator has approved it: `toolfold approve`" in text_of(refused)
        registration = user.gateway.registration
        assert "withheld" in {line.name: line.withheld and "withheld" for line in user.gateway.status}.values()
        machine.approvals.approve(config.entry("b"), registration.definitions["b"])
        await user.gateway.reconfigure(config)
        await until(lambda: "b__send" in user.gateway.tools.catalog.tools)
        assert "b__send" in await user.open("b")
        await user.works("b__send")


async def sunday(machine: Machine) -> None:
    """A server is removed: nothing of it is left, and nothing has grown that nobody uses."""
    async with machine.serving(configured("a", "b", "c")) as user:
        await user.open("c")
        await user.works("c__cart")
        await user.gateway.reconfigure(configured("a", "b"))
        assert not any(name.startswith("c__") for name in await user.listed())
        gone = await user.call("c__cart")
        assert gone.is_error
        assert "Unknown tool: c__cart" in text_of(gone)
        await user.open("a")
        await user.works("a__cart")
        assert sum(len(upstream.links) for upstream in user.gateway.upstreams.values()) <= 4
        assert len(user.gateway.tools.sessions) <= 3


DAYS = (monday, tuesday, wednesday, thursday, friday, saturday, sunday)


@pytest.mark.spec("GWY-3", "GWY-4", "GWY-9", "GWY-11", "EXP-4")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_week_is_no_reason_to_give_up(era: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, era)
    with anyio.fail_after(SECONDS):
        for day in DAYS:
            await day(machine)
            machine.next_day()
        last = MONDAY + timedelta(6)
        figures = figures_of(await stored_usage(machine.usage, 7, last))
        assert figures["calls"] >= 18
        assert figures["tools"] == 4
        assert figures["tokens_not_sent"] > 0
        assert len(await machine.usage.due("usage", 100)) == 0
        for kind in ("handle", "shared", "legacy"):
            assert len(await machine.sessions.due(f"toolfold/{kind}", 100)) <= 10
