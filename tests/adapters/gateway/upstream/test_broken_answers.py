"""A broken answer of a server fails the request that it was to answer, and harms no other on the same connection."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from tests.blocked import all_blocked
from toolfold import ProtocolError
from toolfold_adapters.gateway.upstream import awaited
from toolfold_adapters.gateway.upstream.awaited import AnswerLost, Awaited
from toolfold_adapters.gateway.upstream.life import ConnectionLost
from toolfold_adapters.gateway.upstream.wire import Wire, connect
from toolfold_adapters.transport.broken import TEXT, Line, read
from toolfold_adapters.transport.lines import BROKEN, Lines, answered

FACTS = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}


@define
class Scripted:
    """A server over a pipe: a request of the method `bad` is answered by lines that `broken` returns for its id."""

    broken: Callable[[int], str] = lambda identity: ""
    send: Any = None
    receive: Any = None
    ids: dict[str, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.send, self.receive = anyio.create_memory_object_stream[bytes](100)

    async def say(self, text: str) -> None:
        await self.send.send(f"{text}\n".encode())

    async def answer(self, identity: int, result: Any) -> None:
        await self.say(json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}))

    async def take(self, line: bytes) -> None:
        message = json.loads(line)
        if (identity := message.get("id")) is None:
            return
        self.ids[message["method"]] = identity
        match message["method"]:
            case "initialize":
                await self.answer(identity, FACTS)
            case "good":
                await self.answer(identity, {"fine": True})
            case "bad":
                await self.say(self.broken(identity))

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Wire]:
        @asynccontextmanager
        async def transport() -> AsyncGenerator[tuple[Any, Any]]:
            lines = Lines(self.receive.receive, self.take, 10_000_000, answered)
            yield lines, lines

        async def answer(method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
            return {}

        with anyio.fail_after(60), self.send, self.receive:
            async with connect(transport(), "legacy", {}, answer, lambda method, params, cause: None) as wire:
                yield wire


NAMED: Mapping[str, Callable[[int], str]] = {
    "a raw line break": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"text": "a\nb"}}}}',
    "a raw line break before the id": lambda one: f'{{"result": {{"text": "a\nb"}}, "jsonrpc": "2.0", "id": {one}}}',
    "a trailing comma": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"a": 1,}}}}',
    "a number of 5,000 digits": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"a": {"9" * 5000}}}}}',
    "deep nesting": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"a": {"[" * 5000}{"]" * 5000}}}}}',
    "deep nesting before the id": lambda one: f'{{"result": {"[" * 5000}{"]" * 5000}, "id": {one}}}',
    "an end within": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"a": "cut',
    "a large one with a comma": lambda one: f'{{"id": {one}, "result": {{"a": "{"x" * 100_000}",}}, "jsonrpc": "2.0"}}',
    "a large one, id last": lambda one: f'{{"result": {{"a": "{"x" * 100_000}",}}, "jsonrpc": "2.0", "id": {one}}}',
    "single quotes": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{\'a\': 1}}}}',
    "an unknown escape": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"a": "\\x41"}}}}',
    "a prefix of a log": lambda one: f'log: {{"jsonrpc": "2.0", "id": {one}, "result": {{}}}}',
    "printed by Python": lambda one: str({"jsonrpc": "2.0", "id": one, "result": {}}),
    "no version": lambda one: f'{{"id": {one}, "result": {{}}}}',
    "another version": lambda one: f'{{"jsonrpc": "1.0", "id": {one}, "result": {{}}}}',
    "a result that is no object": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": [1]}}',
    "an error without a code": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "error": {{"message": "no"}}}}',
    "an error that is a text": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "error": "no"}}',
    "neither result nor error": lambda one: f'{{"jsonrpc": "2.0", "id": {one}}}',
    "an id that is a fraction": lambda one: f'{{"jsonrpc": "2.0", "id": {one}.0, "result": {{}}}}',
    "an id in a list": lambda one: f'{{"jsonrpc": "2.0", "id": [{one}], "result": {{}}}}',
    "a large one with an id in a list": lambda one: f'{{"id": [{one}], "result": {{"a": "{"x" * 100_000}"}}}}',
    "a request at once": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "method": "tools/call", "result": {{}}}}',
    "an error and a request": lambda one: f'{{"jsonrpc": "2.0", "method": "ping", "error": {{}}, "id": {one}}}',
    "a broken one, and a request": lambda one: (
        f'{{"jsonrpc": "2.0", "id": {one}, "method": "a", "result": {{"b": 1,}}}}'
    ),
    "a large one, and a request": lambda one: (
        f'{{"jsonrpc": "2.0", "id": {one}, "method": "a", "result": {{"a": "{"x" * 100_000}"}}}}'
    ),
    "UTF-16": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{}}}}'.encode("utf-16").decode("latin-1"),
    "UTF-16 without its mark": lambda one: "\0".join(f'{{"jsonrpc": "2.0", "id": {one}, "result": {{}}}}'),
    "the id of another inside": lambda one: f'{{"result": {{"id": {one - 1}, "a": [{{"id": 1}},]}}, "id": {one}}}',
}
NAMELESS: Mapping[str, str] = {
    "an id that is true": '{"jsonrpc": "2.0", "id": true, "result": {}}',
    "an id that is an object": '{"jsonrpc": "2.0", "id": {"a": 1}, "result": {}}',
    "an id of 5,000 digits": f'{{"jsonrpc": "2.0", "id": {"9" * 5000}, "result": {{}}}}',
    "an id of 6,000 digits": f'{{"jsonrpc": "2.0", "id": {"1" * 6000}, "result": {{"content": []}}}}',
    "an infinite id": '{"jsonrpc": "2.0", "id": 1e999, "result": {"content": []}}',
    "a notification at once": '{"jsonrpc": "2.0", "method": "notifications/message", "params": {}, "result": {}}',
    "an empty list as id": '{"jsonrpc": "2.0", "id": [], "result": {}}',
    "no id": '{"jsonrpc": "2.0", "result": {}}',
    "a result without anything": '{"result": {}}',
    "a line break and no id": '{"jsonrpc": "2.0", "result": {"text": "a\nb"}}',
}
OTHER_JSON: Mapping[str, Callable[[int], str]] = {
    "over several lines": lambda one: json.dumps({"jsonrpc": "2.0", "id": one, "result": {"a": [1, 2]}}, indent=2),
    "a message alone": lambda one: '{"message": "Internal server error"}',
    "a result as it is": lambda one: '{"content": [{"type": "text", "text": "done"}]}',
    "a list": lambda one: '[{"type": "text", "text": "done"}]',
    "a text": lambda one: '"done"',
    "another protocol": lambda one: f'{{"id": {one}, "status": "done"}}',
    "a second id": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{}}, "id": 77}}',
    "a second id that was answered": lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{}}, "id": 1}}',
    "an id of 30 digits": lambda one: f'{{"jsonrpc": "2.0", "id": {"7" * 30}, "result": {{}}}}',
    "an id that was never sent": lambda one: '{"jsonrpc": "2.0", "id": 77, "result": {}}',
    "a text that was never sent": lambda one: '{"jsonrpc": "2.0", "id": "77", "result": {}}',
    "a fraction that was never sent": lambda one: '{"jsonrpc": "2.0", "id": 77.0, "result": {}}',
    "a broken one that was never sent": lambda one: '{"jsonrpc": "2.0", "id": 77, "result": {"a": 1,}}',
    "an error to what was never sent": lambda one: '{"jsonrpc": "2.0", "id": 77, "error": {"code": 1, "message": ""}}',
    "the first id": lambda one: '{"jsonrpc": "2.0", "id": 1, "result": {}}',
    "an error that it could not read": lambda one: (
        '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}'
    ),
    "an end after the first key, and another waits": lambda one: '{"jsonrpc":',
    "an end after a bracket": lambda one: "{",
}
NOISE = (
    '{"level": "info", "message": "listening"}',
    '{"level": "info", "id": 2}',
    '{"id": "abc", "status": "started"}',
    '{"jsonrpc": "2.0", "id": 99, "result": {}}',
    '{"jsonrpc": "2.0", "id": "x", "result": {}}',
    '{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found"}}',
    '{"jsonrpc": "2.0", "method": 5}',
    "[1, 2]",
    "5",
    "null",
    '"text"',
    "true",
    "Listening on stdio",
    "{half of",
    '{"a": "cut',
    "b}",
)


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", NAMED)
async def test_a_broken_answer_fails_its_own_request_and_no_other(kind: str) -> None:
    server = Scripted(NAMED[kind])
    outcomes: list[Any] = []
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        tasks.start_soon(_outcome, wire, "other", outcomes)
        await all_blocked()
        with pytest.raises(ProtocolError, match="no message of the protocol; its operator"):
            await wire.request("bad", {})
        assert await wire.request("good", {}) == {"fine": True}
        assert (outcomes, wire.ended.is_set()) == ([], False)
        assert wire.unparsed > 0
        await server.answer(server.ids["other"], {"late": True})
    assert outcomes == [{"late": True}]


async def _outcome(wire: Wire, method: str, outcomes: list[Any]) -> None:
    try:
        outcomes.append(await wire.request(method, {}))
    except (ProtocolError, ConnectionLost) as error:
        outcomes.append(str(error))


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", NAMELESS)
@pytest.mark.parametrize("others", [0, 2])
async def test_a_broken_answer_that_names_no_request_fails_the_one_that_is_left(kind: str, others: int) -> None:
    server = Scripted(lambda one: NAMELESS[kind])
    outcomes: list[Any] = []
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        for number in range(others):
            tasks.start_soon(_outcome, wire, f"other {number}", outcomes)
        await all_blocked()
        tasks.start_soon(_outcome, wire, "bad", outcomes)
        await all_blocked()
        assert await wire.request("good", {}) == {"fine": True}
        for number in range(others):
            assert outcomes == [{"number": one} for one in range(number)]
            await server.answer(server.ids[f"other {number}"], {"number": number})
            await all_blocked()
        assert not wire.ended.is_set()
    assert outcomes == [*({"number": one} for one in range(others)), BROKEN]


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", NAMELESS)
async def test_a_broken_answer_beside_an_endless_call_ends_the_connection_and_says_why(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "LOST_SECONDS", 0.0)
    server = Scripted(lambda one: NAMELESS[kind])
    outcomes: list[Any] = []
    async with anyio.create_task_group() as tasks, server.connected() as wire:
        tasks.start_soon(_outcome, wire, "endless", outcomes)
        await all_blocked()
        tasks.start_soon(_outcome, wire, "bad", outcomes)
        await wire.ended.wait()
    assert outcomes == 2 * ["it gave a broken answer that does not say which request it is to"]


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", OTHER_JSON)
async def test_json_that_answers_nothing_ends_the_connection_of_a_call_that_is_not_answered(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "LOST_SECONDS", 0.0)
    server = Scripted(OTHER_JSON[kind])
    outcomes: list[Any] = []
    async with anyio.create_task_group() as tasks, server.connected() as wire:
        await server.say('{"level": "info"}')
        if kind.endswith("another waits"):
            tasks.start_soon(_outcome, wire, "other", outcomes)
        await all_blocked()
        tasks.start_soon(_outcome, wire, "bad", outcomes)
        await wire.ended.wait()
    assert {*outcomes} == {"it gave a broken answer that does not say which request it is to"}


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("first", ["while nothing waits", "before the answer"])
@pytest.mark.parametrize("kind", [kind for kind in OTHER_JSON if not kind.endswith("another waits")])
async def test_json_is_a_log_once_its_like_came_and_everything_was_answered(
    kind: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "LOST_SECONDS", 0.0)
    requests = Awaited()
    if first != "while nothing waits":
        requests.sent(_request(98))
    _came(requests, OTHER_JSON[kind](99))
    if first == "before the answer":
        _came(requests, '{"jsonrpc": "2.0", "id": 98, "result": {}}')
    requests.sent(_request(100))
    _came(requests, OTHER_JSON[kind](99))
    assert await _stays(requests)
    _came(requests, '{"never": "seen"}')
    assert not await _stays(requests)


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize(
    "lines",
    [
        ['{"jsonrpc": "2.0", "id": 1, "result": {}}'],
        ['{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found"}}'],
        ["Listening on stdio", "[INFO] working", "50 %", "50"],
        ['{"level": 30, "msg": "working"}', '{"ts": 1, "level": "info"}', '{"message": "on it", "levelname": "INFO"}'],
        ['{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}'],
        ['{"jsonrpc": "2.0", "method": "notifications/message", "params": [1]}', '{"jsonrpc": "2.0", "method": 5}'],
        ['{"jsonrpc": "2.0", "method": "ping", "id": [1]}'],
    ],
    ids=[
        "the answer to a cancelled request",
        "the answer to a notification",
        "lines of a log",
        "lines of a log in JSON",
        "a notification",
        "a broken one",
        "a request",
    ],
)
async def test_what_may_come_while_a_call_takes_long_ends_nothing(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "LOST_SECONDS", 0.0)
    requests = Awaited()
    requests.sent(_request(1))
    requests.sent(_cancelled(1))
    requests.sent(_request(2))
    for line in lines:
        _came(requests, line)
    assert await _stays(requests)


@pytest.mark.spec("GWY-3")
async def test_an_error_without_an_id_is_of_no_notification_that_came_before_what_was_answered_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(awaited, "LOST_SECONDS", 0.0)
    requests = Awaited()
    requests.sent(_cancelled(0))
    requests.sent(_request(1))
    _came(requests, '{"jsonrpc": "2.0", "id": 1, "result": {}}')
    requests.sent(_request(2))
    _came(requests, '{"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "Internal error"}}')
    assert not await _stays(requests)


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", [kind for kind in OTHER_JSON if not kind.endswith("another waits")])
async def test_json_is_no_log_because_the_call_that_it_may_have_answered_was_cancelled(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "LOST_SECONDS", 0.0)
    requests = Awaited()
    for identity in (98, 99):
        requests.sent(_request(identity))
        if identity == 98:
            _came(requests, OTHER_JSON[kind](98))
        requests.sent(_cancelled(identity))
        _came(requests, OTHER_JSON[kind](97))
    requests.sent(_request(100))
    assert await _stays(requests)
    _came(requests, OTHER_JSON[kind](96))
    assert not await _stays(requests)


def _message(identity: int, text: str = "") -> str:
    return f'{{"jsonrpc": "2.0", "id": {identity}, "result": {{"text": "{text}"}}}}'


PROGRESS = '{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": [1], "progress": 1}}'
ON_ONE_LINE: Mapping[str, tuple[Callable[[int, int], str], list[Any]]] = {
    "one after the other": (lambda a, b: _message(a) + _message(b), [{"text": ""}] * 2),
    "with a space": (lambda a, b: f"{_message(b)}  {_message(a)}", [{"text": ""}] * 2),
    "with a carriage return": (lambda a, b: f"{_message(a)}\r{_message(b)}", [{"text": ""}] * 2),
    "in a list": (lambda a, b: f"[{_message(a)}, {_message(b)}]", [{"text": ""}] * 2),
    "with a notification": (lambda a, b: f"[{PROGRESS}, {_message(a)}]\n[{_message(b)}]", [{"text": ""}] * 2),
    "the second one cut": (lambda a, b: f"{_message(a)}{_message(b)[:-4]}", [{"text": ""}, BROKEN]),
    "the second one broken": (lambda a, b: f'{_message(a)}{{"jsonrpc": "2.0", "id": {b}, }}', [{"text": ""}, BROKEN]),
    "then text": (lambda a, b: f"{_message(a)} and so on\n{_message(b)}", [{"text": ""}] * 2),
    "large": (lambda a, b: f"{_message(a, 'x' * 100_000)}{_message(b)}", [{"text": "x" * 100_000}, {"text": ""}]),
}


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", ON_ONE_LINE)
async def test_each_of_the_answers_on_one_line_is_that_of_its_request(kind: str) -> None:
    line, expected = ON_ONE_LINE[kind]
    server, outcomes = Scripted(), [list[Any](), list[Any]()]
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        for number, outcome in enumerate(outcomes):
            tasks.start_soon(_outcome, wire, f"call {number}", outcome)
            await all_blocked()
        await server.say(line(server.ids["call 0"], server.ids["call 1"]))
    assert [outcome[0] for outcome in outcomes] == expected


TEXTS = ["Error: no such board", "Traceback (most recent call last):", "[INFO] working", "50", "50 %", "<html></html>"]


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("others", [0, 1])
async def test_a_call_that_is_answered_in_plain_text_does_not_wait_for_ever(
    text: str, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "TEXT_SECONDS", 0.0)
    server, outcomes = Scripted(lambda one: text), list[Any]()
    async with anyio.create_task_group() as tasks, server.connected() as wire:
        for _ in range(others):
            tasks.start_soon(_outcome, wire, "other", outcomes)
        await all_blocked()
        tasks.start_soon(_outcome, wire, "bad", outcomes)
        await wire.ended.wait()
    said = "it answered with text that is no message of the protocol, or wrote a line of a log and then nothing"
    assert outcomes == (others + 1) * [f"{said} for 0 seconds"]


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("first", ["at the start", "before an answer"])
async def test_plain_text_is_a_log_once_it_came_and_everything_was_answered(
    text: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "TEXT_SECONDS", 0.0)
    requests = Awaited()
    if first == "before an answer":
        requests.sent(_request(1))
    _came(requests, text)
    if first == "before an answer":
        _came(requests, '{"jsonrpc": "2.0", "id": 1, "result": {}}')
    requests.sent(_request(2))
    _came(requests, "something else")
    assert await _stays(requests)


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize(
    "sign",
    ["and more text", '{"level": "info"}', '{"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}'],
)
async def test_a_server_that_works_on_a_call_and_says_so_has_time(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    began = anyio.current_time() + 1e6  # so that nothing is due by the clock of the event loop
    now = [began]
    monkeypatch.setattr(anyio, "current_time", lambda: now[0])
    requests = Awaited()
    requests.sent(_request(1))
    _came(requests, "working")
    for now[0] in (began + 200, began + 400, began + 600):
        _came(requests, sign)
    now[0] = began + 899
    assert await _stays(requests)
    now[0] = began + 900
    assert not await _stays(requests)


async def _stays(requests: Awaited) -> bool:
    """Return whether the connection of some requests stays, however late the answers are."""
    lost: list[AnswerLost] = []

    async def watch() -> None:
        lost.append(await requests.overdue())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await all_blocked()
        tasks.cancel_scope.cancel()
    return not lost


def _request(identity: int) -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=identity, method="tools/call"))


def _cancelled(identity: int) -> SessionMessage:
    params = {"requestId": identity}
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))


def _came(requests: Awaited, text: str) -> None:
    for line in text.splitlines():
        requests.came(answered(line.encode()))


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", NAMELESS)
async def test_a_broken_answer_beside_a_subscription_is_that_of_the_call(kind: str) -> None:
    server = Scripted(lambda one: NAMELESS[kind])
    outcomes: list[Any] = []
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        tasks.start_soon(_outcome, wire, "subscriptions/listen", outcomes)
        await all_blocked()
        with pytest.raises(ProtocolError, match="no message of the protocol"):
            await wire.request("bad", {})
        assert (outcomes, wire.ended.is_set()) == ([], False)
        await server.answer(server.ids["subscriptions/listen"], {"ended": True})
    assert outcomes == [{"ended": True}]


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("line", NOISE)
async def test_what_answers_nothing_is_counted_and_no_more(line: str) -> None:
    server = Scripted()
    outcomes: list[Any] = []
    async with server.connected() as wire, anyio.create_task_group() as tasks:
        tasks.start_soon(_outcome, wire, "other", outcomes)
        await all_blocked()
        await server.say(line)
        await server.say(line)
        assert await wire.request("good", {}) == {"fine": True}
        assert (outcomes, wire.unparsed, wire.ended.is_set()) == ([], 2, False)
        await server.answer(server.ids["other"], {"late": True})
    assert outcomes == [{"late": True}]


@pytest.mark.spec("GWY-3")
async def test_an_answer_that_comes_twice_or_as_a_text_counts_once() -> None:
    server = Scripted(lambda one: '{"jsonrpc": "2.0", "id": "%d", "result": {}}\n' % one * 2)  # noqa: UP031
    async with server.connected() as wire:
        assert await wire.request("bad", {}) == {}
        assert await wire.request("good", {}) == {"fine": True}
        assert wire.unparsed == 1


@pytest.mark.spec("GWY-3")
async def test_half_a_character_is_replaced() -> None:
    server = Scripted(lambda one: f'{{"jsonrpc": "2.0", "id": {one}, "result": {{"a": "\\ud83d"}}}}')
    async with server.connected() as wire:
        assert await wire.request("bad", {}) == {"a": "?"}


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"jsonrpc": "2.0", "id": 5, "method": "ping",}', Line(None, answer=False, cut=False)),
        ('{"jsonrpc": "2.0", "id": 5, "result": {"method": 1,}}', Line(5, answer=True, cut=False, form="{jsonrpc")),
        ('\ufeff{"id": "five", "result": ', Line("five", answer=True, cut=True, form="{id")),
        ("[INFO] it runs", Line(None, answer=False, cut=False, form=TEXT)),
        ("[1, 2]", Line(None, answer=False, cut=False, form="[")),
        ('rest", "a": 6}', Line(answers=None, answer=False, cut=False, form=TEXT)),
        ('{"level": "info"}', Line(answers=None, answer=False, cut=False)),
        ('rest"}, "id": 6}', Line(answers=6, answer=True, cut=False, form=TEXT)),
        ("", Line(answers=None, answer=False, cut=False)),
    ],
)
def test_what_can_be_found_out_of_a_line(text: str, line: Line) -> None:
    assert read(text) == line
