"""What servers have beside the protocol: extensions, their methods and notifications (SPEC GWY-18)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from tests.adapters.gateway.inprocess import SECONDS, config_of, wired
from toolfold import ProtocolError
from toolfold_adapters.gateway import Runtime, open_gateway
from toolfold_adapters.gateway.config.settings import GroupConfig, ProfileConfig, RightsConfig
from toolfold_adapters.gateway.serving.extensions import RESOLUTION, RESOLVE
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-18")

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["2025-11-25", "2026-07-28"])
SAID = "notifications/weather/changed"
OBJECT = {"type": "object"}


@define(eq=False)
class Extended:
    """A server with extensions, which answers any method with its name and what it was asked."""

    name: str
    modern: bool
    extensions: dict[str, Any]
    asked: list[tuple[str, Any]] = field(factory=list)
    notified: anyio.Event = field(factory=anyio.Event)

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[tuple[Any, Any]]:
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](100)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](100)

        async def serve() -> None:
            async for item in from_client:
                message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                for one in self._take(message):
                    said = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **one})
                    await to_client.send(SessionMessage(said))

        async with to_server, from_client, to_client, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield from_server, to_server
            tasks.cancel_scope.cancel()

    def _take(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        method, params = message.get("method", ""), message.get("params") or {}
        if "id" not in message:
            if method.startswith("notifications/weather"):
                self.asked.append((method, params))
                self.notified.set()
            return []
        about = {"capabilities": {"tools": {}, **self.extensions}, "serverInfo": {"name": self.name, "version": "1"}}
        known: dict[str, Any] = {
            "tools/list": {"tools": [{"name": name, "inputSchema": OBJECT} for name in ("rain", "sun")]}
        }
        known["server/discover"] = {"supportedVersions": [LATEST_MODERN_VERSION], **about} if self.modern else None
        known["initialize"] = None if self.modern else {"protocolVersion": LATEST_HANDSHAKE_VERSION, **about}
        if method in known and known[method] is None:
            return [{"id": message["id"], "error": {"code": -32601, "message": method}}]
        result = known.get(method)
        if result is None:
            if method != "subscriptions/listen":
                self.asked.append((method, params))
            result = {"by": self.name, "name": params.get("name"), "example.org/more": [1, None]}
        said = [{"method": SAID, "params": {"wind": 3}}] if method == "weather/get" else []
        return [*said, {"id": message["id"], "result": {"resultType": "complete", **result} if self.modern else result}]


@asynccontextmanager
async def client_of(*servers: Extended, notified: list[Any] | None = None, **settings: Any) -> AsyncGenerator[Wire]:
    """A client of a gateway of these servers, of their era, which declares an extension of its own."""
    modern, by_name = servers[0].modern, {one.name: one for one in servers}
    config = config_of(*by_name, "plain", mode="auto" if modern else "legacy")
    config = config.model_copy(update=settings)
    by_name["plain"] = Extended("plain", modern, {})
    runtime = Runtime(clock=lambda: 0.0, transport=lambda upstream, name: by_name[name].transport())
    able = {"extensions": {"example.org/weather": {"v": 1}}}

    def note(method: str, params: Mapping[str, Any], cause: object) -> None:
        if notified is not None:
            notified.append((method, dict(params)))

    gateway = open_gateway(config, runtime=runtime)
    with anyio.fail_after(SECONDS):
        async with gateway as tools:
            active = [group.path for group in tools.catalog.groups]
            front = build_server(tools, active=active, handles="stored", extend=gateway.extend)
            async with wired(
                front, "auto" if modern else "legacy", able, on_notification=note, extensions=True
            ) as wire:
                yield wire


WEATHER = "example.org/weather"


def weather(name: str = "weather", *, modern: bool, place: str = "extensions", extension: str = WEATHER) -> Extended:
    return Extended(name, modern, {place: {extension: {"v": 1}}})


def declared(wire: Wire) -> dict[str, Any]:
    """Return the extensions that a gateway declares of its servers, by where."""
    able = wire.facts.capabilities
    places = {place: able.get(place, {}) for place in ("extensions", "experimental")}
    found = {place: {key: one for key, one in given.items() if "example" in key} for place, given in places.items()}
    return {place: named for place, named in found.items() if named}


@ERAS
@pytest.mark.parametrize("place", ["extensions", "experimental"])
async def test_what_one_server_declares_is_declared_and_its_methods_reach_it(modern: bool, place: str) -> None:
    server = weather(modern=modern, place=place)
    async with client_of(server) as client:
        assert declared(client) == {place: {"example.org/weather": {"v": 1}}}
        answer = await client.request("weather/at", {"city": "Basel", "_meta": {"example.org/x": 1}})
    assert {key: answer[key] for key in ("by", "example.org/more")} == {"by": "weather", "example.org/more": [1, None]}
    ((method, params),) = server.asked
    assert (method, params["city"], params["_meta"]["example.org/x"]) == ("weather/at", "Basel", 1)


@ERAS
async def test_its_notifications_reach_its_client_and_those_of_the_client_reach_it(modern: bool) -> None:
    server, notified = weather(modern=modern), list[Any]()
    async with client_of(server, notified=notified) as client:
        await client.request("weather/get", {})
        assert [(method, params["wind"]) for method, params in notified if method == SAID] == [(SAID, 3)]
        await client.notify("notifications/weather/watch", {"city": "Basel"})
        await server.notified.wait()
    assert server.asked[-1] == ("notifications/weather/watch", {"city": "Basel"})


@ERAS
async def test_of_several_servers_it_is_the_one_whose_extension_is_called_as_the_method_begins(modern: bool) -> None:
    one, other = weather(modern=modern), weather("tides", modern=modern, extension="example.org/tide")
    async with client_of(one, other) as client:
        for method, name in (("weather/at", "weather"), ("tides/at", "tides")):
            assert (await client.request(method, {}))["by"] == name
        with pytest.raises(ProtocolError) as refused:
            await client.request("moon/at", {})
    assert refused.value.code == -32601
    assert "moon/at" not in [method for method, _ in (*one.asked, *other.asked)]


@ERAS
async def test_what_two_servers_declare_is_not_declared_and_its_methods_are_refused(modern: bool) -> None:
    one, other = weather(modern=modern), weather("storms", modern=modern)
    async with client_of(one, other) as client:
        assert declared(client) == {}
        with pytest.raises(ProtocolError) as refused:
            await client.request("weather/at", {})
    assert refused.value.code == -32601
    assert "may be for several servers ('weather', 'storms'), and which one can't be told" in refused.value.message
    assert (one.asked, other.asked) == ([], [])


@ERAS
async def test_a_server_without_extensions_is_asked_for_nothing_beside_the_protocol(modern: bool) -> None:
    server = Extended("one", modern, {})
    async with client_of(server) as client:
        with pytest.raises(ProtocolError) as refused:
            await client.request("weather/at", {})
    assert refused.value.code == -32601
    assert server.asked == []


@ERAS
@pytest.mark.parametrize("way", ["by its name", "by call_tool"])
async def test_a_call_is_resolved_by_the_server_of_its_tool_with_the_names_of_either_side(
    modern: bool, way: str
) -> None:
    one, other = (weather(name, modern=modern, extension=RESOLUTION) for name in ("one", "other"))
    inside = {"name": "other__rain", "arguments": {"city": "Basel"}}
    given = inside if way == "by its name" else {"name": "call_tool", "arguments": inside}
    async with client_of(one, other) as client:
        answer = await client.request(RESOLVE, given)
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await client.request(RESOLVE, {"name": "other__snow", "arguments": {}})
    assert (answer["by"], answer["name"]) == ("other", given["name"])
    ((method, params),) = other.asked
    assert (method, params["name"], params["arguments"]) == (RESOLVE, "rain", {"city": "Basel"})
    assert one.asked == []


GROUPS = {"wet": GroupConfig(tools=("*rain",)), "cold": GroupConfig(tools=("*sun",))}
PARTS: Mapping[str, Mapping[str, Any]] = {
    "what reads": {"rights": {"*": RightsConfig(access="read")}},
    "what destroys nothing": {"rights": {"*": RightsConfig(access="write")}},
    "a profile of what reads": {
        "profiles": {"p": ProfileConfig(available=("*",), read_only=True)},
        "rights": {"*": RightsConfig(access="destructive", profile="p")},
    },
    "a group of it": {"groups": GROUPS, "rights": {"*": RightsConfig(access="destructive", groups=("wet",))}},
}


@pytest.mark.spec("GWY-19", "ISO-2")
@ERAS
@pytest.mark.parametrize("part", PARTS)
async def test_who_may_not_do_everything_asks_nothing_of_an_extension(modern: bool, part: str) -> None:
    server = weather(modern=modern)
    async with client_of(server, **PARTS[part]) as wire:
        with pytest.raises(ProtocolError, match=r"weather/at may do anything that .* can, which you may not"):
            await wire.request("weather/at", {"city": "Basel"})
        await wire.notify("notifications/weather/moved", {"to": "Basel"})
        await anyio.wait_all_tasks_blocked()
    assert server.asked == []


@pytest.mark.spec("GWY-19", "SAF-4")
@ERAS
async def test_what_is_asked_of_an_extension_counts_as_a_call_does(modern: bool) -> None:
    server = weather(modern=modern)
    rights = {"*": RightsConfig(access="destructive", calls_per_minute=2)}
    async with client_of(server, rights=rights) as wire:
        assert (await wire.request("weather/at", {"city": "Basel"}))["by"] == "weather"
        await wire.request(RESOLVE, {"name": "weather__rain", "arguments": {}})
        for method, params in (("weather/at", {}), (RESOLVE, {"name": "weather__rain", "arguments": {}})):
            with pytest.raises(ProtocolError, match="Your limit of 2 calls a minute is reached"):
                await wire.request(method, params)
    assert len(server.asked) == 2


@pytest.mark.spec("GWY-19")
@ERAS
async def test_what_is_asked_of_an_extension_is_a_line_of_the_audit_and_so_is_what_is_refused(
    modern: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "toolfold.audit")
    rows = RightsConfig(access="destructive"), RightsConfig(access="read")
    for row in rows:
        async with client_of(weather(modern=modern), rights={"*": row}) as wire:
            with suppress(ProtocolError):
                await wire.request("weather/at", {"city": "Basel"})
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "toolfold.audit"]
    assert [(one["server"], one["tool"], one["outcome"]) for one in lines] == [
        ("weather", "weather/at", "done"),
        ("weather", "weather/at", "refused"),
    ]
    assert "Basel" not in caplog.text
