"""Upstreams in the same process: each connection gets a server of its own, as each would get a process of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

import anyio
from attrs import define, evolve, field
from mcp import MCPError
from mcp.server import Server
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import METHOD_NOT_FOUND

from tests.adapters.gateway.upstreams.shop import Shop
from toolfold import Session
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.stored import DefinitionCache
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import OnNotification, OnRequest, Wire, connect
from toolfold_adapters.mcp import build_server

SECONDS = 60


@define
class Clock:
    """Time that stands still until it is moved."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@define(eq=False)
class House:
    """Where upstreams run: `make` starts one by its name, and `started` has all that were.

    `gates` holds the start of an upstream up until its event is set, and `broken` are those that do not start.
    """

    make: Callable[[str], Any] = lambda name: Shop()
    started: list[tuple[str, Any]] = field(factory=list)
    gates: dict[str, anyio.Event] = field(factory=dict)
    broken: set[str] = field(factory=set)
    ends: dict[str, list[Any]] = field(factory=dict)
    dead: dict[str, list[Any]] = field(factory=dict)

    def count(self, name: str) -> int:
        return sum(one == name for one, _ in self.started)

    def of(self, name: str) -> list[Any]:
        return [server for one, server in self.started if one == name]

    def hang(self, name: str) -> None:
        """Have all servers of a name answer no more, while what is written to them is not refused."""
        for streams, scope in self.ends.get(name, []):
            with suppress(anyio.ClosedResourceError):  # it has ended
                self.dead.setdefault(name, []).extend(stream.clone() for stream in streams)
            scope.cancel()

    async def kill(self, name: str) -> None:
        """End all servers of a name, as processes would that crash."""
        for (_, write), scope in self.ends.pop(name, []):
            await write.aclose()
            scope.cancel()
        for stream in self.dead.pop(name, []):
            await stream.aclose()

    @asynccontextmanager
    async def transport(self, config: UpstreamConfig, called: str) -> AsyncGenerator[tuple[Any, Any]]:
        (name,) = config.command or ("",)
        if name in self.gates:
            await self.gates[name].wait()
        if name in self.broken:
            raise FileNotFoundError(name)
        shop = self.make(name)
        self.started.append((name, shop))
        server: Server[Any] = shop.server
        async with (
            create_client_server_memory_streams() as ((read, write), streams),
            anyio.create_task_group() as tasks,
        ):

            async def serve() -> None:
                with anyio.CancelScope() as scope:
                    self.ends.setdefault(name, []).append((streams, scope))
                    await server.run(*streams, server.create_initialization_options())

            tasks.start_soon(serve)
            yield read, write
            tasks.cancel_scope.cancel()


def config_of(*names: str, **settings: Any) -> GatewayConfig:
    """A configuration of these servers; a single one has no name there, so that its tools keep theirs."""
    if len(names) == 1:
        return GatewayConfig().with_upstream(UpstreamConfig.model_validate({"command": names, **settings}))
    return GatewayConfig.model_validate({"upstreams": {name: {"command": [name], **settings} for name in names}})


def gateway_of(
    house: House,
    config: GatewayConfig,
    *,
    cache: DefinitionCache | None = None,
    clock: Callable[[], float] | None = None,
    wait: bool = True,
) -> Gateway:
    runtime = Runtime(clock=clock or Clock(), cache=cache or DefinitionCache(), transport=house.transport)
    return open_gateway(config, runtime=runtime, wait=wait)


@asynccontextmanager
async def opened(house: House, config: GatewayConfig, **options: Any) -> AsyncGenerator[tuple[Gateway, Session]]:
    """An open gateway, and a session in which all its groups are open; the block has to end in time."""
    gateway = gateway_of(house, config, **options)
    with anyio.fail_after(SECONDS):
        async with gateway as tools, tools.open_session(active=[g.path for g in tools.catalog.groups]) as session:
            yield gateway, session


@asynccontextmanager
async def served(house: House, config: GatewayConfig, **options: Any) -> AsyncGenerator[tuple[Gateway, Server[Any]]]:
    """An open gateway, and a server in front of it that lists everything."""
    gateway = gateway_of(house, config, **options)
    with anyio.fail_after(SECONDS):
        async with gateway as tools:
            active = [group.path for group in tools.catalog.groups]
            yield gateway, build_server(tools, active=active, handles="stored", extend=gateway.extend)


async def refuse(method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
    """Answer nothing that a server asks."""
    raise MCPError(METHOD_NOT_FOUND, method)


@asynccontextmanager
async def wired(
    server: Server[Any],
    mode: ConnectMode,
    capabilities: Mapping[str, Any] = MappingProxyType({}),
    on_request: OnRequest = refuse,
    on_notification: OnNotification = lambda method, params, cause: None,
    *,
    extensions: bool = False,
) -> AsyncGenerator[Wire]:
    """A client of a server that gets messages as they are, and uses no extension unless it is to."""

    @asynccontextmanager
    async def transport() -> AsyncGenerator[tuple[Any, Any]]:
        async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, *theirs, server.create_initialization_options())
            yield ours
            tasks.cancel_scope.cancel()

    async with connect(transport(), mode, capabilities, on_request, on_notification) as wire:
        yield wire if extensions else without_extensions(wire)


def without_extensions(wire: Wire) -> Wire:
    """Return a client that uses no extension."""
    able = {name: one for name, one in wire.facts.capabilities.items() if name != "extensions"}
    wire.facts = evolve(wire.facts, capabilities=able)
    return wire
