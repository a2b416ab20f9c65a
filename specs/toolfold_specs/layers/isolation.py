"""What one client does is nothing to another (SPEC ISO-1): a check of the layer "wire".

It compares a client with itself. On a connection of its own, it makes the same requests again and again: twice while
another client does nothing, and then while that one opens groups, calls and fails. Only requests that were answered
alike in the first two rounds are compared, so a server whose answers differ anyway is not blamed. Over stdio, where a
connection is a process, the two clients are two handles of one, in the modern era; what notifies them is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeAlias

from ..driver import LeftOut
from ..drivers.protocol import HANDLE_META
from ..drivers.replies import Reply, WireError
from ..report import Violation
from .over_mcp import Wire, on, seen

if TYPE_CHECKING:
    from ..drivers.connection import Connection

MOST_GROUPS = 3
"""How many groups the clients open at most."""
SHARED_ALREADY = ("SES-1", "DEL-1", "DEL-2", "DEL-3", "DEL-7", "DEL-11")
"""The clauses that say what else sessions and handles keep apart: where one is violated, this may be no news."""

AHEAD = (1, 5)
"""By how many requests the other client is ahead, which makes the same ones."""
LISTING, REFUSED = "tools/list", "tools/call of no_such_tool"

Request: TypeAlias = tuple[str, Callable[["Client"], Any]]
"""What a request is called, and what makes it."""
NOTHING: Request = ("", lambda _: None)


class Client:
    """A client on a connection, which carries the last handle that it was given."""

    def __init__(self, wire: Wire, connection: Connection) -> None:
        self.wire = wire
        self.connection = connection
        self.handle: str | None = None

    def step(self, verb: str, path: str) -> Any:
        """Open or close a group."""
        reply = self.wire.step(verb, path, self.handle, self.connection)
        self.handle = reply.handle or self.handle
        return self._plain(reply)

    def call(self, name: str) -> Any:
        """Call a tool without arguments."""
        meta = None if self.handle is None else {HANDLE_META: self.handle}
        return self._plain(self.wire.keep(self.wire.call(name, {}, meta, self.connection)))

    def list(self, cursor: str | None = None) -> Any:
        """Ask for the list as it is under the handle, or for a page that there is not."""
        meta = None if self.handle is None else {HANDLE_META: self.handle}
        try:
            return self.wire.keep(self.wire.page(cursor, meta, self.connection))
        except WireError as error:
            return str(error)

    @property
    def notices(self) -> dict[str, int]:
        """How many notifications have come."""
        connection = self.connection
        counts = {
            "of a changed list": connection.changes,
            "of other lists": connection.other_changes,
            "of groups": connection.group_changes,
            "log messages": connection.log_messages,
        }
        return {what: count for what, count in counts.items() if count}

    def _plain(self, reply: Reply) -> Any:
        """Return a reply without the handles in it, each of which may be another one."""
        text = json.dumps(seen(reply))
        for handle in filter(None, (reply.handle, self.handle)):
            text = text.replace(handle, "HANDLE")
        return json.loads(text)


def requests(wire: Wire) -> list[Request]:
    """Return what a client can ask for without doing harm: lists, transitions, calls, and what is refused."""
    paths = [path for path in wire.setup.paths if path not in wire.driver.starts_active][:MOST_GROUPS]
    tools = [wire.harmless[0], wire.tool] if wire.test_run.can("setups") and wire.harmless is not None else []
    calls = [_calling(name) for name in (*tools, "no_such_tool")]
    listing: Request = (LISTING, lambda client: client.list())
    cursor: Request = ("tools/list of a cursor that was made up", lambda client: client.list("made up"))
    found = [listing, *calls, cursor]
    for path in paths:
        found += [_stepping("activate", path), listing, _calling(tools[-1] if tools else "no_such_tool")]
    closed = [path for path in paths if path in {group.path for group in wire.setup.groups if group.deactivator}]
    return [*found, *(_stepping("deactivate", path) for path in closed[:1]), listing, *calls[-2:]]


def _calling(name: str) -> Request:
    return f"tools/call of {name}", lambda client: client.call(name)


def _stepping(verb: str, path: str) -> Request:
    return f"{verb} {path}", lambda client: client.step(verb, path)


def _answers(wire: Wire, asked: list[Request], of_other: list[Request]) -> list[Any]:
    """Return the answers to a new client, before each of which another makes the next of its requests, over and over.

    Where that can be done, the system is new as well: an earlier client is another one, too.
    """
    if wire.test_run.can("setups"):
        wire.test_run.driver.configure(wire.setup)
    with closing(wire.driver.another()) as connection:
        client = Client(wire, connection)
        other = Client(wire, connection if wire.driver.link.own_processes else wire.main)
        answers: list[Any] = []
        for (_, ask), (_, act) in zip(asked, cycle(of_other), strict=False):
            act(other)
            answers.append(ask(client))
        if wire.driver.link.own_processes and client.handle is None:
            raise LeftOut("each connection has a server of its own, and no handle sets two clients of one apart")
        return answers


@on()
def isolated(wire: Wire) -> None:
    """Judge that what one client does changes no answer to another, and notifies it of nothing (SPEC ISO-1)."""
    if wire.driver.apart:
        raise LeftOut("each connection has a server of its own")
    asked = requests(wire)
    alone, again = (_answers(wire, asked, [NOTHING]) for _ in range(2))
    alike = [place for place in range(len(asked)) if alone[place] == again[place]]
    found: dict[str, list[Any]] = {}
    for place in alike:
        found.setdefault(asked[place][0], []).append(alone[place])
    enough = _note_what_was_seen(wire, found)
    for ahead in AHEAD:
        among = _answers(wire, asked, [*asked[ahead:], *asked[:ahead]])
        if wrong := [place for place in alike if among[place] != alone[place]]:
            message = f"{asked[wrong[0]][0]} is answered otherwise while another client opens groups and calls"
            _report_leak(wire, message, alone[wrong[0]], among[wrong[0]])
            return
    if _is_undisturbed(wire, asked) and enough:
        wire.judge("ISO-1", True, "")


def _is_undisturbed(wire: Wire, asked: list[Request]) -> bool:
    """Return whether a client that has only listed is notified of nothing that another does; report if it is."""
    distinct = not wire.driver.link.own_processes
    wire.observed(distinct, "which client a notification is for", "ISO-1")
    if not distinct:
        return True
    with closing(wire.driver.another()) as connection:
        client, other = Client(wire, connection), Client(wire, wire.main)
        if wire.modern:
            connection.listen({"toolsListChanged": True}, wire.driver.grace)
        client.list()
        before = client.notices
        for _, act in asked:
            act(other)
        connection.wait_for_change(connection.changes, wire.driver.grace)
        client.list()  # what was sent before its answer has come now
        if client.notices != before:
            _report_leak(wire, "a client is notified while another opens groups and calls", before, client.notices)
            return False
        return True


def _note_what_was_seen(wire: Wire, answers: dict[str, list[Any]]) -> bool:
    """Note what a leak could have shown in: answers that were alike each time (SPEC CNF-9)."""
    texts = {name: {json.dumps(answer) for answer in found} for name, found in answers.items()}
    steps = [text for name, found in texts.items() if name.startswith("activate ") for text in found]
    lists = texts.get(LISTING, set())
    shown = {
        "a list of tools": any(
            (f'"{wire.tool}"' if wire.test_run.can("listing") else '"name"') in text for text in lists
        ),
        "an activation that says something": any('"text"' in text and '"isError": true' not in text for text in steps),
        "a refusal that says something": any(_says_something(answer) for answer in answers.get(REFUSED, ())),
    }
    for what, was_shown in shown.items():
        wire.observed(was_shown, what, "ISO-1")
    return all(shown.values())


def _says_something(answer: Any) -> bool:
    """Return whether a refusal has a text, as a result or as an error of the protocol."""
    error = str(answer.get("error", "")).rpartition(" (")[0]
    return bool(error) or any(block.get("text") for block in answer.get("content") or ())


def _report_leak(wire: Wire, message: str, alone: Any, among: Any) -> None:
    """Report that a client learns of another, unless that may follow from what is violated already (SPEC CNF-10)."""
    run = wire.test_run
    if roots := run.violated_clauses.intersection(SHARED_ALREADY):
        known: dict[str, Any] = {"setup": wire.setup, "expected": {"answer": alone}, "got": {"answer": among}}
        run.hide("ISO-1", min(roots), Violation("ISO-1", run.check, run.driver.name, message, **known))
    else:
        wire.judge("ISO-1", False, message, alone, among)
