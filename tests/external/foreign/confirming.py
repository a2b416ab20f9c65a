"""How findings are confirmed: checks that apply to several servers, and the values that `confirm.py` is made of.

Each server's `confirm.py` says, clause by clause, what is found in it, and has a check of a few lines that shows the
same without the kit. A check fails where the server does what the clause wants.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from tests.external.foreign.client import Client

UNKNOWN = "no_such_tool"


@frozen
class Finding:
    """Where a server departs from a clause, and the check that shows it."""

    words: str
    check: Callable[[Client], None]


@frozen
class Dispute:
    """What the kit says of a server that is not so: a part of its evidence, and what is so."""

    evidence: str
    words: str


def shows(check: Callable[[Client], None], client: Client) -> bool:
    """Return whether a check ends well; to find no such member in an answer is to fail."""
    try:
        check(client)
    except (AssertionError, KeyError, StopIteration, ValueError):
        return False
    return True


def any_text_is_a_cursor(client: Client) -> None:
    """A cursor that no one gave out gets the list."""
    first = client.names()
    assert [tool["name"] for tool in client.ask("tools/list", cursor="made up")["result"]["tools"]] == first


def unknown_tool_is_a_result(client: Client) -> None:
    """A call of a tool that does not exist is a result, and no error of the protocol."""
    assert client.call(UNKNOWN)["result"]["isError"]


def silent_answer(activator: str, opened: str, **arguments: Any) -> Callable[[Client], None]:
    """An activation adds a tool to the list, and its answer does not name it."""

    def check(client: Client) -> None:
        assert opened not in client.names()
        answer = client.call(activator, **arguments)["result"]
        assert opened in client.names()
        assert opened not in json.dumps(answer)

    return check


def open_schema(activator: str) -> Callable[[Client], None]:
    """The schema of a control takes any argument."""

    def check(client: Client) -> None:
        assert definition(client, activator)["inputSchema"].get("additionalProperties", True) is not False

    return check


def no_annotations(activator: str) -> Callable[[Client], None]:
    """A control does not say that it is idempotent and does no harm."""

    def check(client: Client) -> None:
        assert "idempotentHint" not in definition(client, activator).get("annotations", {})

    return check


def notified_again(activator: str) -> Callable[[Client], None]:
    """Opening an open group causes a notice, though the list stays the same."""

    def check(client: Client) -> None:
        client.call(activator)
        client.changes(due=1)
        before = client.tools()
        client.call(activator)
        assert client.changes(due=1) >= 1
        assert client.tools() == before

    return check


def notified_more_than_once(activator: str) -> Callable[[Client], None]:
    """One activation causes more than one notice."""

    def check(client: Client) -> None:
        client.changes()
        client.call(activator)
        assert client.changes(due=2) > 1

    return check


def in_order_of(activators: Iterable[str], later: str, earlier: str) -> Callable[[Client], None]:
    """A tool whose name comes later is listed first."""

    def check(client: Client) -> None:
        for activator in activators:
            client.call(activator)
        names = client.names()
        assert later > earlier
        assert names.index(later) < names.index(earlier)

    return check


def list_changes(activator: str) -> Callable[[Client], None]:
    """The same request is answered otherwise after another one."""

    def check(client: Client) -> None:
        before = client.names()
        client.call(activator)
        assert client.names() != before

    return check


def no_handle(activator: str) -> Callable[[Client], None]:
    """An activation returns nothing that a later request could carry."""

    def check(client: Client) -> None:
        assert "handle" not in json.dumps(client.call(activator)["result"]).lower()

    return check


def definition(client: Client, name: str) -> dict[str, Any]:
    """Return the definition of a tool in the list."""
    return next(tool for tool in client.tools() if tool["name"] == name)
