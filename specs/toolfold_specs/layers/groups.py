"""The draft extension for groups, as a client meets it that declares it (SPEC DEL-5): a check of the layer "wire".

What it demands is a table of parts. Those of `CHANGING` change the system while the client is connected, which only a
server can show that was made for the kit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from ..driver import Group, LeftOut, Setup, Tool
from ..drivers.protocol import INVALID_PARAMS
from ..drivers.replies import WireError
from .over_mcp import Json, Wire, items, mapping, name_in, on, seen

if TYPE_CHECKING:
    from ..drivers.connection import Connection

GROUPS = "io.modelcontextprotocol/groups"
FILTER = "groupsListChanged"
FORM = re.compile(r"(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*")
MOST_PAGES = 50
SECONDS = 2.0
"""How long a notification is awaited."""

ORDERED = ("ab", "a-b", "b", "B", "a0", "_a")
BEYOND_ASCII = "Maße, ｶﾅ and 😀"


@frozen
class Declared:
    """A connection of a client that declares the extension."""

    wire: Wire
    connection: Connection

    def ask(self, method: str, **params: Json | str) -> Json:
        """Return the answer to a request of the extension, or the error's code."""
        self.wire.test_run.count()
        try:
            return self.connection.request(method, params)
        except WireError as error:
            return {"code": error.code}

    def top(self, page: Json | None = None) -> list[Json]:
        """Return the groups at root, from a page on or from the first."""
        page = self.ask("groups/list") if page is None else page
        found = items(page.get("groups"))
        for _ in range(MOST_PAGES):
            if page.get("nextCursor") is None:
                break
            page = self.ask("groups/list", cursor=page["nextCursor"])
            found += items(page.get("groups"))
        return [mapping(group) for group in found]

    def get(self, group: Json) -> Json:
        """Return the answer to groups/get for an entry."""
        return self.ask("groups/get", name=name_in(group))

    def inside(self, answer: Json, kind: str) -> list[Json]:
        """Return what an answer to groups/get has of a kind."""
        return [mapping(one) for one in items(mapping(answer.get("contents")).get(kind))]

    def change(self, *paths: str, page_size: int | None = None) -> None:
        """Replace the system by one of these groups, which are described by their names."""
        groups = [Group(path, path) for path in paths]
        tools = [Tool("tool", path) for path in paths]
        self.wire.driver.change(self.connection, Setup(groups, tools=tools, page_size=page_size))

    def judge(self, holds: bool, message: str, expected: object = None, got: object = None) -> bool:
        """Count what was observed as evidence, or report a violation."""
        return self.wire.judge("DEL-5", holds, message, expected, got)


def described(groups: list[Json]) -> list[object]:
    """Return how groups are described, which says what they are called in a setup."""
    return [group.get("description") for group in groups]


# -- what every server shows ------------------------------------------------------------------------------------------


def contents(declared: Declared) -> None:
    """What is in a group is in no list, and can be called."""
    wire, top = declared.wire, declared.top()
    answers = [declared.get(group) for group in top]
    grouped = [name_in(tool) for answer in answers for tool in declared.inside(answer, "tools")]
    declared.judge(bool(grouped), "groups/get has the tools of no group", got=answers)
    besides = sorted({*wire.names(on=declared.connection)} & {*grouped})
    declared.judge(not besides, "tools of groups are listed to those who declare the extension", got=besides)
    for tool in grouped[:1]:
        called = wire.call(tool, {}, on=declared.connection)
        code = called.refused.code if called.refused is not None else None
        declared.judge(code is None, f"{tool}, which groups/get has, can't be called", got=seen(called))


def unknown(declared: Declared) -> None:
    """An unknown group is an invalid parameter."""
    got = declared.ask("groups/get", name="no-such-group").get("code")
    declared.judge(got == INVALID_PARAMS, "an unknown group is answered otherwise", INVALID_PARAMS, got)


def nesting(declared: Declared) -> None:
    """A nested group is in its parents' contents alone, and every name has the form."""
    pending = declared.top()
    top, nested = {name_in(group) for group in pending}, set[str]()
    while pending:
        group = pending.pop()
        name, answer = name_in(group), declared.get(group)
        declared.judge(
            FORM.fullmatch(name) is not None, f"the name {name!r} is not one of [a-z0-9-]{{1,64}}", got=group
        )
        declared.judge("code" not in answer, f"{name}, which is listed, is unknown to groups/get", got=answer)
        within = [one for one in declared.inside(answer, "groups") if name_in(one) not in nested]
        nested |= {name_in(one) for one in within}
        pending += within
    declared.judge(not nested & top, "a nested group is at root too", got=sorted(nested & top))
    if declared.wire.test_run.can("setups"):
        found, there = len(nested | top), len(declared.wire.setup.groups)
        declared.judge(found == there, "groups are neither at root nor in the contents of another", there, found)


def activation(declared: Declared) -> None:
    """What is fetched is all that a provider's list of tools needs (the gate provider-activation)."""
    for group in declared.top():
        for tool in declared.inside(declared.get(group), "tools"):
            whole = isinstance(tool.get("name"), str) and mapping(tool.get("inputSchema")).get("type") == "object"
            declared.judge(whole, "a tool that groups/get has lacks what a provider's list needs", got=tool)


def stateless(declared: Declared) -> None:
    """A group is the same for whoever fetches it, and however often (the gate second-implementation)."""
    group = declared.top()[0]
    first = declared.inside(declared.get(group), "tools")
    with closing(declared.wire.driver.another(GROUPS)) as connection:
        other = Declared(declared.wire, connection)
        for asked in (declared, other, other):
            again = declared.inside(asked.get(group), "tools")
            declared.judge(again == first, "groups/get answers otherwise when it is asked again", first, again)


# -- what a server shows that was made for the kit --------------------------------------------------------------------


def order(declared: Declared) -> None:
    """Groups come in the order of code points, with texts beyond ASCII as they are (the gate unicode-order)."""
    groups = [Group(path, f"{path} {BEYOND_ASCII}") for path in ORDERED]
    declared.wire.driver.change(declared.connection, Setup(groups))
    found = declared.top()
    names = [name_in(group) for group in found]
    declared.judge(names == sorted(names), "groups are not in the order of code points", sorted(names), names)
    expected, got = sorted(group.description for group in groups), sorted(map(str, described(found)))
    declared.judge(got == expected, "descriptions are not those of the groups", expected, got)


def pages(declared: Declared) -> None:
    """What is there throughout is on one page, whatever comes and goes between them (the gate pagination-race)."""
    declared.change("b", "d", "f", page_size=1)
    first = declared.ask("groups/list")
    declared.judge(described(items_of(first)) == ["b"], "a page has other groups than the first", ["b"], first)
    declared.change("a", "b", "c", "d", "f", page_size=1)
    rest = described(declared.top(first))
    declared.judge(rest == ["b", "c", "d", "f"], "pages skip or repeat a group", ["b", "c", "d", "f"], rest)


def items_of(page: Json) -> list[Json]:
    """Return the groups on a page."""
    return [mapping(group) for group in items(page.get("groups"))]


def freshness(declared: Declared) -> None:
    """A list that holds for no time is asked for again, and is then the newest (the gate ttl-expiry)."""
    declared.change("a")
    listed = declared.ask("groups/list")
    hints = listed.get("ttlMs"), listed.get("cacheScope")
    fits = isinstance(hints[0], int) and hints[0] >= 0 and hints[1] in ("public", "private")
    if (
        declared.judge(fits, "groups/list does not say for how long and for whom it holds", got=listed)
        and hints[0] == 0
    ):
        declared.change("a", "b")
        now = described(declared.top())
        declared.judge(now == ["a", "b"], "groups/list is one of before, which held for no time", ["a", "b"], now)


def notification(declared: Declared) -> None:
    """A client is notified of changed groups if the server says so and it asks (the gate notification-delivery)."""
    settings = mapping(mapping(declared.wire.main.capabilities.get("extensions")).get(GROUPS))
    if settings.get("listChanged") is not True:
        return
    declared.change("a")
    acknowledged = declared.connection.listen({FILTER: True}, SECONDS)
    promised = (acknowledged or {}).get(FILTER) is True
    declared.judge(promised, "a subscription to changes of the groups is not acknowledged", got=acknowledged)
    before = declared.connection.group_changes
    declared.change("a", "b")
    declared.connection.wait_for_groups(before, SECONDS)
    came = declared.connection.group_changes - before
    declared.judge(came == 1, "notifications of one change of the groups", 1, came)


Part: TypeAlias = Callable[[Declared], None]

PARTS: tuple[Part, ...] = (contents, unknown, nesting, activation, stateless)
CHANGING: tuple[Part, ...] = (order, pages, freshness, notification)


@on()
def disclosed(wire: Wire) -> None:
    """Judge what a client gets that declares the draft extension for groups (SPEC DEL-5)."""
    if GROUPS not in mapping(wire.main.capabilities.get("extensions")):
        raise LeftOut(f"the server does not have the extension {GROUPS}")
    with closing(wire.driver.another(GROUPS)) as connection:
        declared = Declared(wire, connection)
        listed = declared.ask("groups/list")
        if not wire.observed("groups" in listed or "code" in listed, "`groups` in groups/list", "DEL-5"):
            return
        if declared.judge(bool(items_of(listed)), "groups/list names no group", got=listed):
            for part in (*PARTS, *(CHANGING if wire.test_run.can("setups") else ())):
                part(declared)
