"""What servers at a URL refuse: the reason is read where one is opened or called, and forgotten sessions begin anew."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
import pytest
from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from tests.adapters.gateway.inprocess import Clock
from toolfold import Session
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, UpstreamConfig, UpstreamError, open_gateway
from toolfold_adapters.transport.bridge import ReconnectingClient
from toolfold_adapters.transport.lines import BROKEN, misread

TOKEN = "sk-live-0123456789"
JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html"}
Reply = tuple[int, Mapping[str, str], str]


def error(code: int, message: str, identity: Any = None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}})


@define
class Site:
    """A server at a URL: `refuse` says what a request is answered instead, and `begun` counts its sessions."""

    refuse: Callable[[str, str | None, Any], Reply | None] = lambda method, session, identity: None
    begun: int = 0
    asked: list[str] = field(factory=list)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405)
        asked = json.loads(request.content)
        method, session = asked["method"], request.headers.get("mcp-session-id")
        self.asked.append(method)
        identity = asked.get("id")
        if (refused := self.refuse(method, session, identity)) is not None:
            status, headers, body = refused
            return httpx2.Response(status, headers=headers, content=body.encode())
        if identity is None:
            return httpx2.Response(202)
        if method == "initialize":
            self.begun += 1
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            }
            headers = {"mcp-session-id": str(self.begun)}
        else:
            headers = {}
            tools = [{"name": "save", "inputSchema": {"type": "object"}}]
            result = {"tools": tools} if method == "tools/list" else {"content": [{"type": "text", "text": "saved"}]}
        return httpx2.Response(200, headers=headers, json={"jsonrpc": "2.0", "id": identity, "result": result})


@asynccontextmanager
async def opened(
    site: Site, monkeypatch: pytest.MonkeyPatch, clock: Clock | None = None
) -> AsyncGenerator[tuple[Gateway, Session]]:
    monkeypatch.setattr(httpx2, "AsyncClient", partial(httpx2.AsyncClient, transport=httpx2.MockTransport(site)))
    upstream = UpstreamConfig(
        url="http://site.test/mcp", mode="legacy", headers={"Authorization": f"Bearer {TOKEN}", "X-Plain": "yes"}
    )
    gateway = open_gateway(GatewayConfig().with_upstream(upstream), runtime=Runtime(clock=clock or Clock()))
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session(active=[g.path for g in tools.catalog.groups]) as session:
            yield gateway, session


REFUSALS: Mapping[str, tuple[Reply, tuple[str, ...]]] = {
    "the reason of a login": (
        (401, {"WWW-Authenticate": 'Bearer error="invalid_token", error_description="It expired at noon"'}, "{}"),
        ("401 Unauthorized", "It expired at noon", "log in again, or correct the token"),
    ),
    "a message": ((401, JSON, '{"message": "Bad credentials"}'), ("401 Unauthorized", "Bad credentials")),
    "an error as a word": ((403, JSON, '{"error": "no seat"}'), ("403 Forbidden", "no seat", "ask for access")),
    "an error as an object": ((403, JSON, '{"error": {"message": "no seat"}}'), ("403 Forbidden", "no seat")),
    "an error of the protocol": ((401, JSON, error(-32001, "No token")), ("401 Unauthorized", "No token", "log in")),
    "a page that there is not": ((404, HTML, "<html>no such page</html>"), ("404 Not Found", "path of its address")),
    "a page without a type": ((404, {}, "<!doctype html><p>gone"), ("404 Not Found",)),
    "no such method": ((405, {}, ""), ("405 Method Not Allowed", "may be no MCP server")),
    "not acceptable": ((406, JSON, '{"detail": "only JSON"}'), ("406 Not Acceptable", "only JSON")),
    "seconds to wait": (
        (429, {"Retry-After": "30"}, "slow down"),
        ("429 Too Many Requests", "slow down", "try again in 30 seconds"),
    ),
    "a time to wait for": (
        (503, {"Retry-After": "Mon, 01 Jan 2024 10:02:00 GMT", "Date": "Mon, 01 Jan 2024 10:00:00 GMT"}, ""),
        ("503 Service Unavailable", "try again in 120 seconds"),
    ),
    "a second to wait": ((429, {"Retry-After": "1"}, ""), ("try again in 1 second",)),
    "no time to wait": (
        (503, {"Retry-After": "Mon, 01 Jan 2024 09:00:00 GMT", "Date": "Mon, 01 Jan 2024 10:00:00 GMT"}, ""),
        ("503 Service Unavailable: try again",),
    ),
    "minutes to wait": ((429, {"Retry-After": "600"}, ""), ("try again in 10 minutes",)),
    "hours to wait": (
        (503, {"Retry-After": "Tue, 02 Jan 2024 07:30:00 GMT", "Date": "Mon, 01 Jan 2024 10:00:00 GMT"}, ""),
        ("try again in 22 hours",),
    ),
    "a day to wait": ((429, {"Retry-After": "86400"}, ""), ("try again in 24 hours",)),
    "years to wait": (
        (503, {"Retry-After": "Fri, 24 Nov 2034 10:00:43 GMT", "Date": "Mon, 01 Jan 2024 10:00:00 GMT"}, ""),
        ("503 Service Unavailable: try again later",),
    ),
    "more seconds than a day has": ((429, {"Retry-After": "86401"}, ""), ("429 Too Many Requests: try again later",)),
    "more seconds than are counted": ((429, {"Retry-After": "9" * 30}, ""), ("Too Many Requests: try again later",)),
    "a wait that is none": ((429, {"Retry-After": "soon"}, ""), ("429 Too Many Requests: try again later",)),
    "a fault": ((500, {"content-type": "text/plain"}, "out of memory\nat line 7"), ("500 Internal", "out of memory)")),
    "a fault that says a secret": (
        (500, {"content-type": "text/plain"}, "no login at postgres://app:hunter22@db with key=abcdefgh"),
        ("500 Internal", "(no login at postgres://…@db with key=abcdefgh)"),
    ),
    "a fault that says a token": (
        (500, JSON, '{"detail": "bad token=ghp_16C7e42F292c6912E7710c838347Ae178B4a"}'),
        ("500 Internal", "(bad token=…)"),
    ),
    "a proxy": ((502, HTML, "<html>Bad Gateway</html>"), ("502 Bad Gateway: what stands before it",)),
    "an unknown status": ((599, {}, ""), ("status 599: try again later",)),
    "nothing": ((200, JSON, ""), ("(status 200 OK)",)),
    "a page in place of an answer": ((200, HTML, "<html>Log in</html>"), ("answered with text/html",)),
    "nothing, of a length": ((200, {**JSON, "content-length": "0"}, ""), ("answered with nothing (status 200 OK)",)),
    "what is no JSON": ((200, JSON, "{oops"), ("its answer is no message of the protocol",)),
    "no answer": ((202, {}, ""), ("does not answer it (status 202 Accepted)",)),
    "another address": (
        (301, {"Location": f"https://other.test/mcp?key={TOKEN}"}, ""),
        ("it redirects to https://other.test/mcp; if that is its address, give it as its url",),
    ),
    "a token in the reason": ((401, JSON, json.dumps({"message": f"{TOKEN} expired"})), ("(… expired)",)),
    "a long reason": ((400, {"content-type": "text/plain"}, "x" * 5000), ("400 Bad Request", "xx…)")),
}
FOREIGN = ("<", "validation error", "Server returned", "Failed to parse", "pydantic", "httpx", TOKEN, "x" * 300)


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", REFUSALS)
async def test_a_server_that_refuses_to_be_opened_is_reported_with_status_reason_and_what_to_do(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply, parts = REFUSALS[kind]
    with pytest.raises(UpstreamError) as caught:
        async with opened(Site(lambda *_: reply), monkeypatch):
            pytest.fail("it should not have opened")
    assert [part for part in parts if part not in str(caught.value)] == []
    assert [part for part in FOREIGN if part in str(caught.value)] == []


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", [kind for kind in REFUSALS if "404" not in REFUSALS[kind][1][0]])
async def test_a_call_that_a_server_refuses_says_status_reason_and_what_to_do(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply, parts = REFUSALS[kind]
    site = Site(lambda method, *_: reply if method == "tools/call" else None)
    async with opened(site, monkeypatch) as (_, session):
        answer = await session.call("save")
        site.refuse = lambda *_: None
        assert (await session.call("save")).text == "saved"
    assert answer.is_error
    assert answer.text.startswith("The MCP server 'site' refused this: ")
    assert [part for part in parts if part not in answer.text] == []
    assert [part for part in FOREIGN if part in answer.text] == []
    assert site.begun == 2  # one asked what there is


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", [kind for kind in REFUSALS if REFUSALS[kind][0][0] >= 400])
async def test_a_refusal_over_the_older_transport_says_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (status, headers, body), parts = REFUSALS[kind]
    answer = httpx2.MockTransport(lambda _: httpx2.Response(status, headers=headers, content=body.encode()))
    monkeypatch.setattr(httpx2, "AsyncClient", partial(httpx2.AsyncClient, transport=answer))
    upstream = UpstreamConfig(url="http://site.test/sse", transport="sse", headers={"X-Key": TOKEN})
    with anyio.fail_after(60), pytest.raises(UpstreamError) as caught:
        async with open_gateway(GatewayConfig().with_upstream(upstream)):
            pytest.fail("it should not have opened")
    assert [part for part in parts if part not in str(caught.value)] == []
    assert [part for part in FOREIGN if part in str(caught.value)] == []


NO_ANSWERS: Mapping[str, Callable[[Any], str]] = {
    "a request at once": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "method": "tools/call", "result": {{}}}}',
    "a request": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "method": "ping"}}',
    "a notification": lambda one: '{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}',
    "an id of 6,000 digits": lambda one: f'{{"jsonrpc": "2.0", "id": {"1" * 6000}, "result": {{"content": []}}}}',
    "an infinite id": lambda one: '{"jsonrpc": "2.0", "id": 1e999, "result": {"content": []}}',
    "no id": lambda one: '{"jsonrpc": "2.0", "result": {"content": []}}',
    "a list": lambda one: f'[{{"jsonrpc": "2.0", "id": {one}, "result": {{}}}}]',
    "a trailing comma": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"a": 1,}}}}',
    "nothing": lambda one: " ",
}


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", NO_ANSWERS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_broken_answer_over_http_fails_its_call(
    kind: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(method: str, _: str | None, identity: Any) -> Reply | None:
        body = NO_ANSWERS[kind](identity)
        reply = (200, {"content-type": "text/event-stream"}, f"data: {body}\n\n") if streamed else (200, JSON, body)
        return reply if method == "tools/call" else None

    async with opened(Site(broken), monkeypatch) as (_, session):
        answer = await session.call("save")
    assert answer.is_error
    assert "no message of the protocol" in answer.text or (streamed and "stopped before it answered" in answer.text)


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("identity", ["99", '"x"'])
async def test_the_answer_over_http_to_a_request_is_its_own_whatever_id_it_has(
    identity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f'{{"jsonrpc": "2.0", "id": {identity}, "result": {{"content": [{{"type": "text", "text": "done"}}]}}}}'
    site = Site(lambda method, *_: (200, JSON, body) if method == "tools/call" else None)
    async with opened(site, monkeypatch) as (_, session):
        assert (await session.call("save")).text == "done"


@pytest.mark.spec("GWY-3")
def test_a_broken_answer_over_the_older_transport_fails_its_call() -> None:
    for body in ('{"jsonrpc": "2.0", "id": 5, "result": [1]}', '{"jsonrpc": "2.0", "id": 5, "result": {"a": 1,}}'):
        with pytest.raises(ValidationError) as caught:
            jsonrpc_message_adapter.validate_json(body, by_name=False)
        item = misread(caught.value)
        assert isinstance(item, SessionMessage)
        assert isinstance(item.message, JSONRPCError)
        assert (item.message.id, item.message.error.message) == (5, BROKEN)


# -- forgotten sessions ------------------------------------------------------------------------------------------------

FORGOTTEN: Mapping[str, tuple[int, Mapping[str, str], str | tuple[int, str]]] = {
    "404": (404, JSON, (-32001, "Session not found")),
    "404 of its own kind": (404, HTML, "<html></html>"),
    "400": (400, JSON, (-32000, "Bad Request: No valid session ID provided")),
    "400 in plain words": (400, {"content-type": "text/plain"}, "Invalid session"),
    "400 of a server that was restarted": (400, JSON, (-32000, "Bad Request: Server not initialized")),
    "503": (503, JSON, (-32000, "session is unknown on this instance")),
    "an error in a 200": (200, JSON, (-32000, "Session not found")),
    "an error in a 200 of another code": (200, JSON, (-32600, "Session expired")),
}


def forgets(kind: str, forgotten: Callable[[str | None], bool]) -> Callable[[str, str | None, Any], Reply | None]:
    status, headers, body = FORGOTTEN[kind]

    def refuse(method: str, session: str | None, identity: Any) -> Reply | None:
        if method != "tools/call" or not forgotten(session):
            return None
        if isinstance(body, str):
            return status, headers, body
        return status, headers, error(*body, identity if status == 200 else None)

    return refuse


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("seconds", [0, 100], ids=["at once", "later"])
@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_a_forgotten_session_is_begun_anew_and_the_call_is_answered(
    kind: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, clock, gone = Site(), Clock(), set[str | None]()
    site.refuse = forgets(kind, lambda session: session in gone)
    async with opened(site, monkeypatch, clock) as (_, session):
        for count in (2, 3, 4):
            assert (await session.call("save")).text == "saved"
            assert site.begun == count
            gone.add(str(site.begun))
            clock.now += seconds or 10 * (count == 3)
        gone.clear()
        assert (await session.call("save")).text == "saved"
        assert site.begun == 4


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_a_server_that_forgets_each_session_ends_calls_with_its_error_and_begins_few(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, clock = Site(forgets(kind, lambda _: True)), Clock()
    async with opened(site, monkeypatch, clock) as (_, session):
        answers = [(await session.call("save")) for _ in range(20)]
        assert site.begun == 3  # one asked what there is
        for _ in range(100):
            clock.now += 1
            answers.append(await session.call("save"))
    assert all(answer.is_error for answer in answers)
    assert "does not know the session that it has just begun" in answers[0].text
    status, _, body = FORGOTTEN[kind]
    assert status == 200 or f"(status {status} {HTTPStatus(status).phrase}" in answers[0].text
    assert all((body[1] in answer.text) for answer in answers if isinstance(body, tuple))
    assert "It is tried again in" in answers[1].text
    assert site.begun < 15


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize(
    ("code", "message"),
    [(-32602, "Session not found"), (-32000, "The table of sessions has no row 5"), (-32603, "unknown session")],
)
async def test_an_error_about_another_kind_of_session_is_passed_on(
    code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site()
    site.refuse = lambda method, _, identity: (
        (200, JSON, error(code, message, identity)) if method == "tools/call" else None
    )
    async with opened(site, monkeypatch) as (_, session):
        with pytest.raises(Exception, match=message):
            await session.call("save")
    assert site.begun == 2


@pytest.mark.spec("GWY-10")
@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_a_bridge_begins_a_forgotten_session_anew_once(kind: str) -> None:
    site, renewed = Site(), list[int]()
    site.refuse = forgets(kind, lambda session: session in forgotten)
    forgotten = {"1"}

    async def renew() -> None:
        renewed.append(site.begun)

    async with ReconnectingClient(renew, transport=httpx2.MockTransport(site)) as client:

        async def post(method: str, identity: int) -> Any:
            headers = {"mcp-session-id": "1"} if identity > 1 else {}
            message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": {}}
            return (await client.post("http://site.test/mcp", json=message, headers=headers)).content

        await post("initialize", 1)
        assert b"saved" in await post("tools/call", 2)
        assert b"saved" in await post("tools/call", 3)
        assert (renewed, site.begun) == ([2], 2)
        forgotten.add("2")
        forgotten.add("3")
        assert b"saved" not in await post("tools/call", 4)
        assert site.begun == 3
