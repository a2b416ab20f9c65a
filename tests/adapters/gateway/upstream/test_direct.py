"""Requests over a pipe, which go past the SDK's dispatcher."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, field

from toolfold import ProtocolError
from toolfold_adapters.gateway.upstream.life import ConnectionLost
from toolfold_adapters.gateway.upstream.wire import Wire, connect
from toolfold_adapters.transport.lines import Lines, answered

pytestmark = pytest.mark.spec("GWY-1", "GWY-3")

SECONDS = 30
INTRODUCTION = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


class Played:
    """A server at the other end of a pipe, played by a test."""

    def __init__(self) -> None:
        self.notified: list[str] = []
        self.is_gone = False
        self._to_client = anyio.create_memory_object_stream[bytes](100)
        self._to_server = anyio.create_memory_object_stream[bytes](100)

    async def hear(self) -> Any:
        with anyio.fail_after(SECONDS):
            return json.loads(await self._to_server[1].receive())

    async def say(self, **message: Any) -> None:
        await self._to_client[0].send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def end(self) -> None:
        self._to_client[0].close()

    async def receive(self) -> bytes:
        try:
            return await self._to_client[1].receive()
        except anyio.EndOfStream:
            return b""

    async def write(self, line: bytes) -> None:
        if self.is_gone:
            raise anyio.BrokenResourceError
        await self._to_server[0].send(line)

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[tuple[Lines, Lines]]:
        yield (lines := Lines(self.receive, self.write, None, answered)), lines

    async def introduce(self) -> None:
        asked = await self.hear()
        assert asked["method"] == "initialize"
        await self.say(id=asked["id"], result=INTRODUCTION)
        assert (await self.hear())["method"] == "notifications/initialized"

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Wire]:
        """Yield the connection of a client."""

        async def refuse(*_: object) -> Mapping[str, Any]:
            raise AssertionError

        def note(method: str, *_: object) -> None:
            self.notified.append(method)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.introduce)
            async with connect(self.transport(), "legacy", {}, refuse, note) as wire:
                yield wire

    def over(self) -> None:
        for stream in (*self._to_client, *self._to_server):
            stream.close()


@pytest.fixture
def server() -> Iterator[Played]:
    played = Played()
    yield played
    played.over()


@define
class Asked:
    """What came of requests, by their tools."""

    outcomes: dict[str, Any] = field(factory=dict[str, Any])
    notified: dict[str, list[str]] = field(factory=dict[str, list[str]])

    async def call(self, wire: Wire, server: Played, name: str) -> None:
        try:
            self.outcomes[name] = await wire.request("tools/call", {"name": name})
        except (ProtocolError, ConnectionLost) as error:
            self.outcomes[name] = error
        self.notified[name] = [*server.notified]


async def test_answers_reach_those_who_asked_in_whatever_order_and_after_what_came_before_them(server: Played) -> None:
    asked = Asked()
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        for name in ("a", "b", "c"):
            tasks.start_soon(asked.call, wire, server, name)
        heard = [await server.hear() for _ in range(3)]
        ids = {one["params"]["name"]: one["id"] for one in heard}
        assert len({*ids.values()}) == 3
        error = {"code": -32050, "message": "no", "data": {"a": 1}}
        await server.say(id=ids["c"], result={"own": {"b": None}})
        await server.say(method="notifications/message", params={})
        await server.say(id=ids["a"], error=error)
        await server.say(id=str(ids["b"]), result={})
    assert asked.outcomes["c"] == {"own": {"b": None}}
    assert (asked.outcomes["b"], asked.notified["a"]) == ({}, ["notifications/message"])
    failure = asked.outcomes["a"]
    assert isinstance(failure, ProtocolError)
    assert (failure.code, failure.message, failure.data) == (-32050, "no", {"a": 1})


async def test_a_request_that_nobody_waits_for_any_more_is_cancelled_at_the_server(server: Played) -> None:
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        tasks.start_soon(wire.request, "tools/call", {"name": "a"})
        asked = await server.hear()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            heard = await server.hear()
            assert (heard["method"], heard["params"]["requestId"]) == ("notifications/cancelled", asked["id"])


async def test_what_waits_when_the_server_ends_is_lost_and_what_is_asked_then_as_well(server: Played) -> None:
    asked = Asked()
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        tasks.start_soon(asked.call, wire, server, "a")
        await server.hear()
        server.end()
        with anyio.fail_after(SECONDS):
            await wire.ended.wait()
            with pytest.raises(ConnectionLost):
                await wire.request("tools/call", {"name": "b"})
    assert isinstance(asked.outcomes["a"], ConnectionLost)


async def test_what_waits_when_the_connection_is_closed_here_is_lost(server: Played) -> None:
    asked = Asked()
    async with anyio.create_task_group() as tasks:
        async with server.connected() as wire:
            tasks.start_soon(asked.call, wire, server, "a")
            await server.hear()
        with anyio.fail_after(SECONDS):
            while not asked.outcomes:
                await anyio.lowlevel.checkpoint()
    assert isinstance(asked.outcomes["a"], ConnectionLost)


async def test_a_request_that_can_not_be_written_is_lost(server: Played) -> None:
    async with server.connected() as wire:
        server.is_gone = True
        with pytest.raises(ConnectionLost):
            await wire.request("tools/call", {"name": "a"})
        assert wire.ended.is_set()
