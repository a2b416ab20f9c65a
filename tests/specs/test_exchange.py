"""What is recorded of the messages to and from a server, and what of it shows a finding."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from toolfold_specs.exchange import Exchange, Message, Transcript
from toolfold_specs.render.script import script

pytestmark = pytest.mark.spec("CNF-11")

HANDSHAKE: list[tuple[bool, dict[str, Any]]] = [
    (True, {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}),
    (False, {"id": 1, "result": {"protocolVersion": "2025-06-18"}}),
    (True, {"method": "notifications/initialized"}),
]
OPEN = {"id": 2, "method": "tools/call", "params": {"name": "open", "arguments": {}}}
OPENED = {"id": 2, "result": {"_meta": {"dev.toolfold/handle": "secret-1"}}}
LIST = {"id": 3, "method": "tools/list", "params": {"_meta": {"dev.toolfold/handle": "secret-1"}}}
LISTED = {"id": 3, "result": {"tools": []}}
CHANGED = {"method": "notifications/tools/list_changed"}
ASKS = {"id": 2, "method": "roots/list"}


def connected(transcript: Transcript, *, opened: bool = True) -> tuple[int, Any]:
    """Return the number of a client that has shaken hands, and what records its messages."""
    client, note = transcript.connect()

    def say(is_sent: bool, content: dict[str, Any]) -> None:
        note(is_sent, types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **content}))

    for one in HANDSHAKE if opened else ():
        say(*one)
    transcript.opened(client)
    return client, say


def methods(exchange: Exchange) -> list[tuple[int, str]]:
    """Return client and method of each request and notification, and "answer" for the rest."""
    return [(one.client, one.content.get("method", "answer")) for one in exchange.messages]


def test_what_opened_a_connection_is_shown_whenever_it_is_used() -> None:
    transcript = Transcript()
    first, say = connected(transcript)
    say(True, OPEN)
    second, say_there = connected(transcript)
    transcript.begin([first, second])
    say_there(True, LIST)
    say_there(False, LISTED)
    shaking = [(0, "initialize"), (0, "answer"), (0, "notifications/initialized")]
    assert methods(transcript.exchange("url")) == [*shaking, (0, "tools/list"), (0, "answer")]
    transcript.begin([first])
    say_there(True, LIST)
    assert methods(transcript.exchange("url")) == [(0, "tools/list")]


def test_of_a_history_the_calls_and_the_last_request_matter() -> None:
    transcript = Transcript()
    _, say = connected(transcript)
    for is_sent, content in [
        (True, {**LIST, "id": 9}),
        (False, {**LISTED, "id": 9}),
        (True, OPEN),
        (False, ASKS),
        (False, CHANGED),
        (False, OPENED),
        (True, LIST),
        (False, LISTED),
    ]:
        say(is_sent, content)
    whole = transcript.exchange("url")
    assert whole.evidence == {(0, 1), (0, 2), (0, 3)}
    assert [name for _, name in methods(whole.essential())][3:] == [
        *("tools/call", "roots/list", "notifications/tools/list_changed", "answer"),
        *("tools/list", "answer"),
    ]


def test_of_a_check_the_requests_matter_that_it_keeps_and_the_last() -> None:
    transcript = Transcript()
    _, say = connected(transcript)
    for number in (4, 5, 6):
        say(True, {**LIST, "id": number})
        say(False, {**LISTED, "id": number})
        if number == 4:
            transcript.keep()
    assert transcript.exchange("url").evidence == {(0, 1), (0, 4), (0, 6)}


@pytest.mark.parametrize(
    ("messages", "overlap"),
    [
        ([(True, OPEN), (False, OPENED), (True, LIST), (False, LISTED)], False),
        ([(True, OPEN), (True, LIST), (False, LISTED), (False, OPENED)], True),
        ([(True, OPEN), (False, CHANGED)], False),
    ],
)
def test_requests_that_overlap_are_reported_and_not_one_that_stays_unanswered(
    messages: list[tuple[bool, Any]], overlap: bool
) -> None:
    assert Exchange("url", [Message(0, *one) for one in messages]).overlaps() is overlap


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/mcp", ("node", "it's.mjs")])
def test_a_script_is_a_program_that_finds_handles_in_answers(address: Any) -> None:
    said = [(True, OPEN), (False, OPENED), (True, LIST), (False, LISTED)]
    program = script(Exchange(address, [Message(0, *one) for one in said]))
    compile(program, "script", "exec")
    assert "secret-1" not in program
    assert """text.replace("HANDLE-1", answers.get((0, 2))['result']['_meta']['dev.toolfold/handle'])""" in program
    outside = [line for line in program.splitlines() if line and not line.startswith("    (")]
    assert len(outside) < 40
