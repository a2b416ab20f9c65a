"""A server over a pipe that answers each method as a test says, behind a gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import define, field

from tests.adapters.gateway.inprocess import Clock
from toolfold import Session
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.names import GROUPS_EXTENSION
from toolfold_adapters.transport.lines import Lines

OBJECT = {"type": "object"}
Answer = Callable[[Any], dict[str, Any]]


@define
class Lister:
    """A server over a pipe that answers each method as it is given; `asked` has what it was asked.

    `listen` returns what it sends when it is asked to notify of changes, in the modern era, given the number of that
    request; nothing unless it is given.
    """

    answers: Mapping[str, Answer]
    modern: bool = False
    introduction: Mapping[str, Any] = field(factory=dict)
    asked: list[str] = field(factory=list)
    listen: Callable[[Any], Awaitable[dict[str, Any] | None]] | None = None

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message.get("params") or {}
        self.asked.append(method)
        able: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "extensions": {GROUPS_EXTENSION: {}}}
        said = {"capabilities": able, "serverInfo": {"name": "lister", "version": "1"}, **self.introduction}
        if method == "server/discover" and self.modern:
            return {"supportedVersions": ["2026-07-28"], **said}
        if method == "initialize":
            return {"protocolVersion": "2025-06-18", **said}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": "done"}]}
        empty: dict[str, Any] = {"tools": [], "resources": [], "resourceTemplates": [], "prompts": [], "groups": []}
        return self.answers[method](params) if method in self.answers else empty

    @asynccontextmanager
    async def transport(self, config: UpstreamConfig, called: str) -> AsyncGenerator[tuple[Any, Any]]:
        send, receive = anyio.create_memory_object_stream[bytes](1000)

        async def take(line: bytes) -> None:
            message = json.loads(line)
            if message["method"] == "subscriptions/listen":
                said = None if self.listen is None else await self.listen(message["id"])
                if said is not None:
                    await send.send(json.dumps({"jsonrpc": "2.0", **said}).encode() + b"\n")
            elif "id" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": self.answer(message)}
                await send.send(json.dumps(answer).encode() + b"\n")

        with send, receive:
            lines = Lines(receive.receive, take)
            yield lines, lines


@asynccontextmanager
async def opened(lister: Lister) -> AsyncGenerator[tuple[Gateway, Session]]:
    config = GatewayConfig().with_upstream(
        UpstreamConfig(command=("lister",), mode="auto" if lister.modern else "legacy")
    )
    gateway = open_gateway(config, runtime=Runtime(clock=Clock(), transport=lister.transport))
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session(active=[g.path for g in tools.catalog.groups]) as session:
            yield gateway, session


def tools_from(first: int, count: int, text: str = "") -> list[dict[str, Any]]:
    return [
        {"name": f"t{number}", "description": text, "inputSchema": OBJECT} for number in range(first, first + count)
    ]
