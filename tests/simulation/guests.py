"""Clients of both eras over HTTP, whose answers come in parts, who are asked, and who follow their lists."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import httpx2
from attrs import define, field

from tests.adapters.mcp.support import modern_body, modern_headers
from tests.process.stores.clients import URL, Unknown
from tests.simulation.network import Network, Way
from toolfold_adapters.names import STORE_AWAY_META

AGAIN = 0.5
"""Seconds until a stream that has ended is opened again."""
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}}
LEGACY = "2025-11-25"
CLIENT = {"name": "guest", "version": "1"}
CAPABLE = {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
HANDLE = "dev.toolfold/handle"
CHANGED = "notifications/tools/list_changed"
LOGGED = {"io.modelcontextprotocol/logLevel": "debug"}


class Failed(Exception):
    """A request was answered by an error."""


@define(eq=False)
class Guest:
    """A client.

    Attributes:
        network: How it reaches the server.
        era: Its era.
        caller: Whose it is.
        received: All that it was sent, as it was sent.
        known: What it was listed last; `None` if it never was.
        handle: Its handle in the modern era.
        session: The id of its session in the legacy era.
    """

    network: Network
    app: Callable[[], Any]
    era: str
    caller: str
    received: list[str] = field(factory=list[str])
    known: frozenset[str] | None = None
    handle: str | None = None
    session: str | None = None
    notices: int = 0
    follows: bool = True
    relists: int = 0
    stands: anyio.Event = field(factory=anyio.Event)
    ids: int = 0
    _last: int = 0
    _news: anyio.Event = field(factory=anyio.Event)

    @property
    def legacy(self) -> bool:
        """Whether it is of the era with sessions."""
        return self.era == "legacy"

    async def initialize(self) -> None:
        """Begin a legacy session; raises as `request` does."""
        params = {"protocolVersion": LEGACY, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        await self.request("initialize", params)
        await self._posted({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request; what is asked meanwhile is answered.

        Raises:
            Failed: It was answered by an error.
            Unknown: It was not answered.
        """
        given = dict(params)
        while True:
            body, headers = self._body(method, given)
            self._last = self.ids if method == "tools/call" else self._last
            answer = await self._posted(body, headers)
            if "error" in answer:
                raise Failed(answer["error"]["message"])
            result: dict[str, Any] = answer["result"]
            if result.get("resultType") != "input_required":
                return result
            asked = result["inputRequests"]
            given |= {"inputResponses": {key: self._reply(one) for key, one in asked.items()}}
            given |= {"requestState": state} if (state := result.get("requestState")) is not None else {}

    async def call(self, name: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
        """Return the result of a call of a tool, under the handle if there is one; raises as `request` does."""
        return await self.request("tools/call", {"name": name, "arguments": arguments, "_meta": meta})

    async def list(self) -> frozenset[str]:
        """Return the names of the tools that it is listed, and take note of them; raises as `request` does."""
        result = await self.request("tools/list", {})
        if STORE_AWAY_META in result.get("_meta", {}):
            raise Failed("the list may be old")
        self.known = frozenset(tool["name"] for tool in result["tools"])
        return self.known

    async def cancel(self) -> None:
        """Cancel the last request that was given up; in the modern era its connection has ended, which says so."""
        if self.legacy:
            body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": self._last}}
            with suppress(Unknown):
                await self._posted(body, {})

    async def end(self) -> None:
        """End the session of the legacy era."""
        async with self._http() as http:
            await http.delete(URL, headers=self._headers({}))

    # -- what comes unasked -------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """List again after each notification, for ever."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while True:
                try:
                    await self.list()
                    self.relists += 1
                    break
                except (Unknown, Failed):
                    await anyio.sleep(AGAIN)

    def look(self) -> None:
        """Have it list again, since it opened a group under its handle, which is notified nowhere."""
        self._news.set()

    async def stand(self) -> None:
        """Have a stream for notifications open, for ever; what changed while there was none is not known."""
        while True:
            with suppress(Unknown, Failed):
                await self._stand()
            await anyio.sleep(AGAIN)

    async def _stand(self) -> None:
        if self.legacy:
            headers, body = self._headers({}), None
        else:
            body, headers = self._body("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            headers = self._headers(headers)
        try:
            async with (
                self._http() as http,
                http.stream("POST" if body else "GET", URL, json=body, headers=headers) as answer,
            ):
                if answer.status_code != 200:
                    raise Failed(f"{answer.status_code} {(await answer.aread()).decode()}")
                self.stands.set()
                self.look()
                async for message in self._messages(answer):
                    await self._take(message)
        except httpx2.TransportError as error:
            raise Unknown(repr(error)) from error

    # -- messages -----------------------------------------------------------------------------------------------------

    def _http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=Way(self.network, self.app()), timeout=None)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {"authorization": f"Bearer {self.caller}", "accept": "application/json, text/event-stream"}
        if self.session is not None:
            own |= {"mcp-session-id": self.session, "mcp-protocol-version": LEGACY}
        return {**own, **more}

    def _body(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        self.ids += 1
        if self.legacy:
            return {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}, {}
        under = {HANDLE: self.handle} if self.handle is not None else {}
        meta = {**CAPABLE, **LOGGED, **under, **params.get("_meta", {})}
        body = modern_body(method, {**params, "_meta": meta})
        return {**body, "id": self.ids}, modern_headers(method, params.get("name"))

    async def _posted(self, body: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer to a message, or what says that there is none to expect; raises `Unknown`."""
        try:
            async with (
                self._http() as http,
                http.stream("POST", URL, json=body, headers=self._headers(headers)) as answer,
            ):
                self.session = answer.headers.get("mcp-session-id", self.session)
                async for message in self._messages(answer):
                    if "method" not in message:
                        return message
                    await self._take(message)
                if answer.status_code >= 400:
                    return {"error": {"message": f"status {answer.status_code}"}}
        except httpx2.TransportError as error:
            raise Unknown(repr(error)) from error
        if "id" in body and "method" in body:
            raise Unknown("the stream ended before the answer")
        return {}

    async def _messages(self, answer: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
        async for line in answer.aiter_lines():
            text = line.removeprefix("data: ")
            if text.startswith("{"):
                self.received.append(text)
                yield json.loads(text)

    async def _take(self, message: dict[str, Any]) -> None:
        """Take a notification, or answer what is asked."""
        if "id" in message:
            body = {"jsonrpc": "2.0", "id": message["id"], "result": self._reply(message)}
            await self._posted(body, {})
        elif message["method"] == CHANGED:
            self.notices += 1
            if self.follows:
                self._news.set()

    def _reply(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question: whose it is, and what was asked."""
        return {"action": "accept", "content": {"said": f"{self.caller}: {asked['params']['message']}"}}
