"""In which era servers are spoken to (SPEC GWY-18): each behaves in its own way when it is asked for the newest."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as t
import pytest
from attrs import define, field
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, jsonrpc_message_adapter
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from tests.adapters.gateway.inprocess import SECONDS, Clock, config_of
from toolfold_adapters.gateway import Gateway, Runtime, open_gateway
from toolfold_adapters.gateway.config.settings import UpstreamConfig
from toolfold_adapters.gateway.stored import PROBED_SECONDS, ProbeMemory
from toolfold_adapters.gateway.upstream import handshake
from toolfold_adapters.gateway.upstream.life import Backoff, UpstreamError
from toolfold_adapters.gateway.upstream.transports import ServerStderr
from toolfold_adapters.mcp import build_server

Message = dict[str, Any]
Way = Literal["answers", "refuses", "silent", "late", "ends", "hangs", "unfit", "strict", "mute", "both", "switches"]
"""What a server does that is asked for the newest era: it answers, with an error, never, after the older handshake, by
its end, not even to what comes then, with other versions alone, or it does and refuses the older one; or it says
nothing whatever it is asked. Or it takes its time and both, of which both count, or the older one alone."""
MODERN: frozenset[Way] = frozenset({"answers", "late", "strict", "both"})


@define(eq=False)
class Server:
    """A server with one tool, and what it was asked: a list of methods for each of its connections."""

    way: Way
    version: str = "1"
    asked: list[list[str]] = field(factory=list)

    @property
    def first(self) -> list[str]:
        """What each connection began with."""
        return [methods[0] for methods in self.asked]

    def transport(self, config: UpstreamConfig, name: str) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        return self._pipe()

    @asynccontextmanager
    async def _pipe(self) -> AsyncGenerator[tuple[Any, Any]]:
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](100)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](100)
        methods: list[str] = []
        self.asked.append(methods)
        late: list[Message] = []

        async def serve() -> None:
            async for item in from_client:
                message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                methods.append(message["method"])
                hangs = self.way == "mute" or (self.way == "hangs" and "server/discover" in methods)
                if "id" not in message or hangs:
                    continue
                answer = self._answer(message["method"])
                if self.way == "switches" and methods == ["server/discover"]:
                    answer = Server("answers")._answer("server/discover")
                if answer is None and self.way == "ends":
                    await to_client.aclose()
                    return
                for one in [{"id": message["id"], **answer}] if answer is not None else []:
                    late.append(one)
                if self.way in ("late", "both", "switches") and methods == ["server/discover"]:
                    continue
                while late:
                    sent = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **late.pop()})
                    await to_client.send(SessionMessage(sent))

        async with to_server, from_client, to_client, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield from_server, to_server
            tasks.cancel_scope.cancel()

    def _answer(self, method: str) -> Message | None:
        modern = self.way in MODERN
        info = {"name": "old", "version": self.version}
        error = {"code": METHOD_NOT_FOUND, "message": method}
        if method == "server/discover":
            meta = {"io.modelcontextprotocol/serverInfo": info}
            versions = [LATEST_MODERN_VERSION] if modern else ["2027-01-01"]
            found = {"supportedVersions": versions, "capabilities": {"tools": {}}, "_meta": meta}
            if modern or self.way == "unfit":
                return {"result": found}
            return {"error": error} if self.way in ("refuses", "switches") else None
        if method == "initialize":
            if self.way in ("strict", "late"):
                data = {"supported": [LATEST_MODERN_VERSION]}
                return {"error": {"code": UNSUPPORTED_PROTOCOL_VERSION, "message": "no", "data": data}}
            known = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {"tools": {}}, "serverInfo": info}
            return {"result": known}
        results: Mapping[str, Message] = {
            "tools/list": {
                "tools": [{"name": "where", "description": "Says where", "inputSchema": {"type": "object"}}]
            },
            "tools/call": {"content": [{"type": "text", "text": "here"}]},
            "ping": {},
        }
        return {"result": {"resultType": "complete", **results[method]}} if method in results else {"error": error}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(handshake, "GRACE_SECONDS", 0.01)


def gateway_of(server: Server, memory: ProbeMemory | None = None, **settings: Any) -> Gateway:
    runtime = Runtime(
        clock=Clock(), transport=server.transport, probes=memory or ProbeMemory(), backoff=Backoff(first=0.0, most=0.0)
    )
    return open_gateway(config_of("old", **settings), runtime=runtime)


async def call(gateway: Gateway, era: Literal["legacy", "auto"]) -> str:
    """Call the tool with a client of an era, and return what it answers."""
    with anyio.fail_after(SECONDS):
        async with gateway as tools:
            front = build_server(tools, active=[group.path for group in tools.catalog.groups], extend=gateway.extend)
            async with Client(front, mode=era) as client:
                (block,) = (await client.call_tool("where", {})).content
    assert isinstance(block, t.TextContent)
    return block.text


@pytest.mark.spec("GWY-18")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("way", ["answers", "strict", "late", "both"])
async def test_a_server_of_the_newest_era_is_spoken_to_in_it_for_a_client_of_any(
    era: Literal["legacy", "auto"], way: Way
) -> None:
    server = Server(way)
    gateway = gateway_of(server)
    assert await call(gateway, era) == "here"
    assert all(one.modern for one in gateway.upstreams.values())
    assert set(server.first) == {"server/discover"}


@pytest.mark.spec("GWY-18")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("way", ["refuses", "silent", "ends", "unfit", "switches"])
async def test_a_server_of_an_older_era_is_spoken_to_in_that(era: Literal["legacy", "auto"], way: Way) -> None:
    server = Server(way)
    gateway = gateway_of(server)
    assert await call(gateway, era) == "here"
    assert not any(one.modern for one in gateway.upstreams.values())
    assert all("initialize" in methods for methods in server.asked if methods != ["server/discover"])


@pytest.mark.spec("GWY-18")
async def test_a_refusal_costs_one_request_and_is_not_remembered(tmp_path: Path) -> None:
    server = Server("refuses")
    for _ in range(2):
        await call(gateway_of(server, ProbeMemory(tmp_path)), "legacy")
    begins = ["server/discover", "initialize", "notifications/initialized"]
    assert all(methods[:3] == begins for methods in server.asked)
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240


@pytest.mark.spec("GWY-18")
@pytest.mark.parametrize("way", ["silent", "ends"])
async def test_a_server_that_does_not_answer_is_not_asked_again_until_its_version_changes(
    way: Way, tmp_path: Path
) -> None:
    server = Server(way)
    await call(gateway_of(server, ProbeMemory(tmp_path)), "legacy")
    assert "server/discover" in server.first
    server.asked.clear()
    await call(gateway_of(server, ProbeMemory(tmp_path)), "legacy")
    assert set(server.first) == {"initialize"}  # another process knows, too
    server.way, server.version = "answers", "2"
    await call(gateway_of(server, ProbeMemory(tmp_path)), "legacy")  # learns of the other version
    server.asked.clear()
    await call(gateway_of(server, ProbeMemory(tmp_path)), "legacy")
    assert set(server.first) == {"server/discover"}


async def test_a_server_that_does_not_answer_is_asked_again_after_a_week(tmp_path: Path) -> None:
    now = 1_000_000.0
    server = Server("silent")
    await call(gateway_of(server, ProbeMemory(tmp_path, lambda: now)), "legacy")
    server.asked.clear()
    await call(gateway_of(server, ProbeMemory(tmp_path, lambda: now + PROBED_SECONDS - 1)), "legacy")
    assert set(server.first) == {"initialize"}
    server.asked.clear()
    await call(gateway_of(server, ProbeMemory(tmp_path, lambda: now + PROBED_SECONDS)), "legacy")
    assert "server/discover" in server.first


async def test_a_server_that_has_become_modern_is_spoken_to_in_the_newest_era_whatever_is_remembered(
    tmp_path: Path,
) -> None:
    server = Server("silent")
    await call(gateway_of(server, ProbeMemory(tmp_path)), "legacy")
    server.way, server.version = "strict", "2"
    for _ in range(2):
        server.asked.clear()
        gateway = gateway_of(server, ProbeMemory(tmp_path))
        assert await call(gateway, "legacy") == "here"
        assert all(one.modern for one in gateway.upstreams.values())
    assert set(server.first) == {"server/discover"}


@pytest.mark.spec("GWY-18")
async def test_a_server_that_hangs_costs_one_time_out(tmp_path: Path) -> None:
    server = Server("hangs")
    with pytest.raises(UpstreamError, match="did not answer within"):
        await call(gateway_of(server, ProbeMemory(tmp_path), start_timeout=0.2), "auto")
    for _ in range(2):
        server.asked.clear()
        assert await call(gateway_of(server, ProbeMemory(tmp_path)), "auto") == "here"
        assert set(server.first) == {"initialize"}


async def test_a_server_that_is_slow_whatever_it_is_asked_is_asked_for_the_newest_era_again(tmp_path: Path) -> None:
    server = Server("mute")
    for _ in range(3):
        with pytest.raises(UpstreamError, match="did not answer within"):
            await call(gateway_of(server, ProbeMemory(tmp_path), start_timeout=0.05), "auto")
    assert server.first == ["server/discover", "initialize", "server/discover"]


async def test_a_server_is_spoken_to_in_the_older_era_where_its_configuration_says_so() -> None:
    server = Server("answers")
    assert await call(gateway_of(server, mode="legacy"), "auto") == "here"
    assert set(server.first) == {"initialize"}


@pytest.mark.spec("GWY-18")
def test_a_complaint_about_the_first_request_is_passed_on_only_if_the_server_does_not_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    complaint = b"WARNING: Failed to validate request: 31 errors\n  Input should be 'ping'\n"
    for ending in ("started", "failed"):
        stderr = ServerStderr("old")
        with stderr.opened() as file:
            file.write(b"listening\n" + complaint)
        stderr._thread.join()  # type: ignore[union-attr]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
        assert capsys.readouterr().err == "old: listening\n"
        getattr(stderr, ending)()
        shown = capsys.readouterr().err
        assert ("31 errors" in shown) == (ending == "failed")
        assert ("'ping'" in stderr.reason) == (ending == "failed")
