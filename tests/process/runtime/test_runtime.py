"""The runtime, and relays that a test plays over its socket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import define, evolve, field

from toolfold import ConfigError, ToolSet
from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.mcp import build_server
from toolfold_adapters.runtime.place import SOCKET, connected, listening
from toolfold_adapters.runtime.runtime import UNUSED_SECONDS, Hello, Runtime
from toolfold_adapters.stores import SQLiteStore

pytestmark = pytest.mark.anyio
SECONDS = 60
LIST_CHANGED = "notifications/tools/list_changed"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("r")


@asynccontextmanager
async def closed_at_the_end(store: SQLiteStore) -> AsyncGenerator[None]:
    """Have a store closed also where the runtime is ended as by a signal."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


@define
class Opened:
    """What a runtime has opened: gateways, as tool sets with one group."""

    folder: Path
    hellos: list[Hello] = field(factory=list[Hello])
    gone: list[str] = field(factory=list[str])

    @asynccontextmanager
    async def __call__(self, hello: Hello) -> AsyncGenerator[Any]:
        self.hellos.append(hello)
        if hello.target == "wrong":
            raise ConfigError("wrong names no server")
        tools = ToolSet("served", control="open_group")
        tools.register_group("docs", "Documents")
        tools.register("read", lambda: "text", description="Read.", group="docs")
        store = SQLiteStore(self.folder / f"{hello.shares}.db")
        async with closed_at_the_end(store):
            gone = self.gone

            class Served:
                def server(self, profile: str | None, groups: tuple[str, ...]) -> Any:
                    return build_server(tools, profile=profile, active=groups, store=store, handles="stored")

                def left(self, client: str) -> None:
                    gone.append(client)

                def upstreams(self) -> tuple[()]:
                    return ()

            yield Served()


@define(eq=False)
class RelayPlayed:
    """A relay, and what it has received that it did not ask for."""

    stream: SocketStream
    lines: BufferedByteReceiveStream = field(init=False)
    unasked: list[str] = field(factory=list[str])
    _asked: int = 0

    def __attrs_post_init__(self) -> None:
        self.lines = BufferedByteReceiveStream(self.stream)

    async def say(self, **message: Any) -> None:
        await self.stream.send(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Any:
        """Return what comes next, but that the runtime begins to serve: that is before all else."""
        with anyio.fail_after(SECONDS):
            line = await self.lines.receive_until(b"\n", 1_000_000)
        said = json.loads(line)
        return await self.hear() if said.keys() == {"serving"} else said

    async def ask(self, method: str, **params: Any) -> Any:
        self._asked += 1
        await self.say(jsonrpc="2.0", id=self._asked, method=method, params=params)
        while "id" not in (said := await self.hear()):
            self.unasked.append(said["method"])
        return said.get("result", said.get("error"))

    async def initialize(self) -> Any:
        said = await self.ask(
            "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "h", "version": "1"}
        )
        await self.say(jsonrpc="2.0", method="notifications/initialized")
        return said

    async def open(self, group: str) -> Any:
        return await self.ask("tools/call", name="open_group", arguments={"group": group})

    async def listed(self) -> list[str]:
        return [tool["name"] for tool in (await self.ask("tools/list"))["tools"]]


@define
class Running:
    runtime: Runtime
    folder: Path

    @asynccontextmanager
    async def relay(self, name: str = "a", **said: Any) -> AsyncGenerator[RelayPlayed]:
        async with await anyio.connect_unix(self.folder / SOCKET) as stream:
            relay = RelayPlayed(stream)
            hello = {"toolfold": "1.0", "relay": name, "target": "t", "folder": "/f", "environment": {"A": "1"}}
            await relay.say(**{**hello, **said})
            yield relay


@asynccontextmanager
async def running(folder: Path, opened: Opened, clock: Callable[[], float] = lambda: 0.0) -> AsyncGenerator[Running]:
    """Run a runtime, and have it ended as by a signal."""
    runtime = Runtime("1.0", opened, clock)
    listener, _ = listening(str(folder))
    with listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.serve, listener)
            yield Running(runtime, folder)
            tasks.cancel_scope.cancel()


OPEN = "docs__read"


@pytest.mark.spec("GWY-14")
async def test_relays_that_want_the_same_share_a_gateway_and_have_a_session_each(folder: Path) -> None:
    opened = Opened(folder)
    async with running(folder, opened) as served, served.relay("a") as a, served.relay("b") as b:
        for one in (a, b):
            await one.initialize()
        await a.open("docs")
        assert OPEN in await a.listed()
        assert OPEN not in await b.listed()
        assert (LIST_CHANGED in a.unasked, LIST_CHANGED in b.unasked) == (True, False)
        assert len(opened.hellos) == 1


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(
    ("other", "gateways"),
    [
        ({"target": "u"}, 2),
        ({"folder": "/g"}, 2),
        ({"environment": {"A": "2"}}, 2),
        ({"environment": {"A": "1", "TERM": "xterm", "SHLVL": "3"}}, 1),
        ({"agent": "reviewer"}, 1),
        ({"groups": "docs"}, 1),
        ({"usage": ""}, 2),
    ],
    ids=[
        "another-file",
        "another-folder",
        "another-environment",
        "another-terminal",
        "another-agent",
        "other-groups",
        "unrecorded",
    ],
)
async def test_what_relays_share_is_said_by_file_folder_and_environment(
    other: dict[str, Any], gateways: int, folder: Path
) -> None:
    opened = Opened(folder)
    async with running(folder, opened) as served, served.relay("a") as a, served.relay("b", **other) as b:
        for one in (a, b):
            await one.initialize()
        assert len(opened.hellos) == gateways
        assert (OPEN in await b.listed()) == ("groups" in other)


@pytest.mark.spec("GWY-15")
async def test_a_relay_finds_in_the_next_runtime_what_it_had_open(folder: Path) -> None:
    opened = Opened(folder)
    async with running(folder, opened) as served, served.relay("a") as relay:
        await relay.initialize()
        await relay.open("docs")
    assert opened.gone == []
    async with running(folder, opened) as served, served.relay("a") as relay, served.relay("b") as other:
        await relay.initialize()
        await other.initialize()
        assert OPEN in await relay.listed()
        assert OPEN not in await other.listed()
        await relay.ask("tools/call", name="close_group", arguments={"group": "docs"})
        assert LIST_CHANGED in relay.unasked


@pytest.mark.spec("GWY-15")
async def test_a_modern_relay_finds_it_too_without_a_handle(folder: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "h", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    opened = Opened(folder)

    async def read(relay: RelayPlayed) -> Any:
        return await relay.ask("tools/call", name="call_tool", arguments={"name": OPEN, "arguments": {}}, _meta=meta)

    async with running(folder, opened) as served, served.relay("a") as relay:
        said = await relay.ask("tools/call", name="open_group", arguments={"group": "docs"}, _meta=meta)
        assert not said["isError"]
    async with running(folder, opened) as served, served.relay("a") as relay:
        said = await relay.ask("tools/call", name="open_group", arguments={"group": "docs"}, _meta=meta)
        assert "was open already" in said["content"][0]["text"]
        assert (await read(relay))["content"][0]["text"] == "text"


@pytest.mark.spec("GWY-14")
async def test_the_session_of_a_relay_ends_when_its_host_leaves(folder: Path) -> None:
    opened = Opened(folder)
    async with running(folder, opened) as served:
        async with served.relay("a") as relay:
            await relay.initialize()
            await relay.open("docs")
        with anyio.fail_after(SECONDS):
            while not opened.gone:
                await anyio.lowlevel.checkpoint()
        assert opened.gone == ["a"]
        async with served.relay("a") as relay:
            await relay.initialize()
            assert OPEN not in await relay.listed()


@pytest.mark.spec("GWY-14")
async def test_a_configuration_that_is_wrong_is_said_to_the_relay_alone(folder: Path) -> None:
    async with running(folder, Opened(folder)) as served, served.relay("b", target="wrong") as wrong:
        with anyio.fail_after(SECONDS):
            assert await wrong.lines.receive_until(b"\n", 1000) == b'\t{"refused": "wrong names no server"}'
        async with served.relay("a") as relay:
            await relay.initialize()


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(
    "line",
    [b"\n", b"{}\n", b"GET / HTTP/1.1\r\n\r\n", b'{"relay": 1}\n', b"x" * 9_000_000, b"[" * 400_000 + b"\n"],
    ids=range(6),
)
async def test_whoever_does_not_say_who_it_is_is_not_served(line: bytes, folder: Path) -> None:
    async with running(folder, Opened(folder)) as served:
        async with await anyio.connect_unix(folder / SOCKET) as stream:
            with suppress(anyio.BrokenResourceError):
                await stream.send(line)
            with anyio.fail_after(SECONDS), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    assert (await stream.receive()).startswith(b"\t")
        async with served.relay("a") as relay:
            await relay.initialize()


@pytest.mark.spec("GWY-14")
async def test_over_loopback_a_relay_is_served_that_knows_the_secret_and_no_other(folder: Path) -> None:
    runtime = Runtime("1.0", Opened(folder), lambda: 0.0)
    listener, secret = listening(str(folder), by_port=True)
    hello = {"toolfold": "1.0", "relay": "a", "target": "t", "folder": "/f", "environment": {}}
    with listener, anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.serve, listener, secret)
            for said, is_served in ((secret, True), ("", False), ("x" * 32, False)):
                connection, known = connected(str(folder), by_port=True)
                connection.close()
                assert known == secret
                async with await anyio.connect_tcp(*listener.getsockname()) as stream:
                    relay = RelayPlayed(stream)
                    await relay.say(**hello, secret=said)
                    if is_served:
                        await relay.initialize()
                        assert OPEN not in await relay.listed()
                    else:
                        line = await relay.lines.receive_until(b"\n", 1000)
                        assert line == b'\t{"refused": "The secret is not that of this runtime."}'
                async with await anyio.connect_tcp(*listener.getsockname()) as stream:
                    await stream.send(json.dumps({"ask": "end", "secret": "wrong"}).encode() + b"\n")
                    assert b"refused" in await stream.receive()
            tasks.cancel_scope.cancel()


@pytest.mark.spec("GWY-14")
async def test_the_user_can_ask_who_is_served_and_end_it(folder: Path) -> None:
    async with running(folder, Opened(folder)) as served, served.relay("a", agent="reviewer") as relay:
        await relay.initialize()
        async with await anyio.connect_unix(folder / SOCKET) as stream:
            user = RelayPlayed(stream)
            await user.say(ask="status", secret="")
            said = await user.hear()
        assert [(one["target"], one["agent"]) for one in said["relays"]] == [("t", "reviewer")]
        assert "a" not in {one.get("relay") for one in said["relays"]}  # its name is a secret
        async with await anyio.connect_unix(folder / SOCKET) as stream:
            user = RelayPlayed(stream)
            await user.say(ask="end", secret="")
            await user.hear()
            with anyio.fail_after(SECONDS), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(
    ("version", "ends"), [("1.0", False), ("0.9", False), ("1.0.1", True), ("1.10", True), ("1" * 5000, True)]
)
async def test_a_relay_of_a_newer_version_ends_the_runtime_so_that_its_own_takes_the_place(
    version: str, ends: bool, folder: Path
) -> None:
    runtime, done = Runtime("1.0", Opened(folder), lambda: 0.0), anyio.Event()
    listener, _ = listening(str(folder))

    async def serve() -> None:
        await runtime.serve(listener)
        done.set()

    with listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            async with Running(runtime, folder).relay("a", toolfold=version) as relay:
                with anyio.fail_after(SECONDS):
                    if ends:
                        await done.wait()
                    else:
                        await relay.initialize()
            tasks.cancel_scope.cancel()


@pytest.mark.spec("GWY-14")
async def test_a_runtime_that_nobody_uses_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, done = 0.0, anyio.Event()
    monkeypatch.setattr("toolfold_adapters.runtime.runtime.TICK_SECONDS", 0.001)
    runtime = Runtime("1.0", Opened(folder), lambda: now)
    listener, _ = listening(str(folder))

    async def serve() -> None:
        await runtime.serve(listener)
        done.set()

    with listener, anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            async with Running(runtime, folder).relay("a") as relay:
                now = 2 * UNUSED_SECONDS
                await relay.initialize()
            while not done.is_set():
                now += UNUSED_SECONDS
                await anyio.sleep(0.001)


HELLO = Hello(
    version="1",
    relay="a",
    target="/f",
    profile=None,
    groups=(),
    agent=None,
    folder="/a",
    environment={"PATH": "/bin", "KEY": "1", "TERM": "x"},
)


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(
    ("config", "other", "same"),
    [
        ({}, {}, True),
        ({}, {"TERM": "y"}, True),
        ({}, {"KEY": "2"}, False),
        ({}, {"folder": "/b"}, False),
        ({"environment": "minimal"}, {"KEY": "2"}, True),
        ({"environment": ["KEY"]}, {"KEY": "2"}, False),
        ({"env": {"KEY": "3"}}, {"KEY": "2"}, True),
        ({"cwd": "/srv"}, {"folder": "/b"}, True),
        ({"cwd": "data"}, {"folder": "/b"}, False),
    ],
)
def test_relays_share_a_command_that_gets_the_same_folder_and_environment_from_them(
    config: dict[str, Any], other: dict[str, str], same: bool
) -> None:
    variables = {name: value for name, value in other.items() if name != "folder"}
    folder = other.get("folder", HELLO.folder)
    second = evolve(HELLO, folder=folder, environment={**HELLO.environment, **variables})
    upstream = UpstreamConfig(command=("server",), **config)
    assert (HELLO.place_of(upstream) == second.place_of(upstream)) is same
