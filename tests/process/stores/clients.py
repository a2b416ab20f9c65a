"""Clients of both eras whose requests go to replicas in turn, and what an answer says of its request."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import anyio
import httpx2
from attrs import evolve, field, frozen

from tests.adapters.mcp.callers import INITIALIZE
from tests.adapters.mcp.support import modern_body, modern_headers
from tests.simulation.desk import PATHS
from tests.simulation.judging import Request, numbered
from toolfold_adapters.names import STORE_AWAY_META

URL = "http://127.0.0.1:8000/mcp"
PATIENCE = 60.0
"""Seconds that a request may take, and that all replicas may be away."""
UNCERTAIN = "may or may not"
"""In the answer to a change of which the server does not know whether it was stored."""


class Unknown(Exception):
    """A request was not answered, so that nobody knows whether it took effect."""


class Refused(Exception):
    """A request was refused because of the store, and changed nothing."""


class Wrong(Exception):
    """An answer, a history or the hooks of a session are wrong."""


class InTurn(httpx2.AsyncHTTPTransport):
    """Sends each request to the next replica that accepts connections."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=50))
        self._ports = ports
        self._turn = count()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer of a replica."""
        with anyio.fail_after(PATIENCE):
            while True:
                port = self._ports[next(self._turn) % len(self._ports)]
                request.url = request.url.copy_with(port=port)
                request.headers["host"] = f"{request.url.host}:{port}"
                try:
                    return await super().handle_async_request(request)
                except httpx2.ConnectError:  # nothing was sent
                    await anyio.sleep(0.02)


@frozen
class Client:
    """A client of one session.

    Attributes:
        http: What its requests are sent with.
        caller: Whose they are.
        session_id: The id of its session in the legacy era; `None` in the modern one.
        handle: Its handle in the modern era, if it has one.
        ids: The ids of its requests, which those who share the session share.
    """

    http: httpx2.AsyncClient
    caller: str
    session_id: str | None = None
    handle: str | None = None
    ids: count[int] = field(factory=lambda: count(1))

    async def initialize(self) -> Client:
        """Return a client of a new legacy session; raises as `request` does."""
        response = await self._sent("POST", INITIALIZE, {})
        _result(response)
        return evolve(self, session_id=response.headers["mcp-session-id"])

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            Refused: The store was away, so nothing was changed.
            Unknown: There was no answer, or one that says that nobody knows.
            Wrong: The answer is an error.
        """
        if self.session_id is not None:
            body = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}
            return _result(await self._sent("POST", body, {}))
        meta = {"_meta": {"dev.toolfold/handle": self.handle}} if self.handle else {}
        headers = modern_headers(method, params.get("name"))
        return _result(await self._sent("POST", modern_body(method, {**params, **meta}), headers))

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a tool that succeeds; raises as `request` does."""
        result = await self.request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise refusal(result["content"][0]["text"])
        return result

    async def end(self) -> bool:
        """End its legacy session, and return whether it has ended; raises `Wrong`."""
        try:
            response = await self._sent("DELETE", None, {})
        except Unknown:
            return False
        if response.status_code not in (200, 204, 404, 503):
            raise Wrong(f"status {response.status_code} at its end: {response.text}")
        return response.status_code != 503

    async def _sent(self, method: str, body: Any, headers: dict[str, str]) -> httpx2.Response:
        own = {"authorization": f"Bearer {self.caller}", "accept": "application/json, text/event-stream"}
        if self.session_id is not None:
            own |= {"mcp-session-id": self.session_id, "mcp-protocol-version": "2025-11-25"}
        try:
            return await self.http.request(method, URL, json=body, headers={**own, **headers})
        except (httpx2.TransportError, TimeoutError) as error:
            raise Unknown(repr(error)) from error


async def answered(client: Client, request: Request) -> tuple[Any, frozenset[int] | None]:
    """Return the answer to a request, and the active groups that it shows beside that; raises as `Client.request`."""
    if request.kind == "list":
        result = await client.request("tools/list", {})
        if STORE_AWAY_META in result.get("_meta", {}):
            raise Refused("the list may be old")
        names = [tool["name"] for tool in result["tools"] if tool["name"].endswith(".probe")]
        return numbered(name.removesuffix(".probe") for name in names), None
    if request.kind == "control":
        verb, (group,) = ("activate", request.activate) if request.activate else ("deactivate", request.deactivate)
        result = await client.call(f"{PATHS[group]}.{verb}", {})
        change = result["_meta"]["dev.toolfold/change"]
        return change["changed"], numbered(change["active"])
    if request.fact is not None:
        await client.call("note", dict(zip(("name", "value"), request.fact, strict=True)))
        return (), None
    if request.kind == "look":
        found = await read(client, "look", {})
        return (numbered(found["active"]), frozenset(found["facts"].items())), None
    groups = {"activate": request.activate, "deactivate": request.deactivate}
    paths = {verb: [PATHS[one] for one in chosen] for verb, chosen in groups.items()}
    result = await read(client, "step", paths)
    if "error" in result:
        return result["error"], None
    return (numbered(result["activated"]), numbered(result["deactivated"])), None


async def read(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a tool answers as JSON; raises as `Client.request`."""
    result = await client.call(name, arguments)
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    return found


def _result(response: httpx2.Response) -> dict[str, Any]:
    """Return the result in a response; raises as `Client.request` does."""
    if response.status_code == 503:
        raise Refused(response.text)
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    if not events and response.text.startswith("{"):
        events = [response.text]
    if response.status_code != 200:
        raise Wrong(f"status {response.status_code}: {response.text}")
    last = json.loads(events[-1]) if events else {}
    if "error" in last:
        raise refusal(last["error"]["message"])
    if "result" not in last:
        raise Unknown("the stream ended before the answer")
    result: dict[str, Any] = last["result"]
    return result


def refusal(text: str) -> Exception:
    """Return what the text of a refusal says."""
    if UNCERTAIN in text:
        return Unknown(text)
    return Refused(text) if "try again" in text else Wrong(text)
