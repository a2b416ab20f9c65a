"""The example that comes with the package, and the story that `toolfold demo` tells of it.

`library_desk` is the tool set of a small lending library: nested groups, two that exclude one another, and a vault that
does not open at the first try. `story` drives it through a real MCP client and server, and checks every step; nothing
that it reports is written down beforehand.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from toolfold import ToolError, ToolSet, WireNames
from toolfold.spi import extras_named

from .names import WIRE_SEPARATOR
from .tokens import approximate_tokens, cost

if TYPE_CHECKING:
    from mcp import Client

OPENED = (
    *("catalog__describe", "catalog__search", "catalog__similar"),
    *("catalog__deactivate", "catalog__loans__activate"),
)
TITLES = ("A Field Guide to Mosses", "The Clockmaker's Atlas", "Tides and Timetables")


def library_desk(journal: list[str] | None = None) -> ToolSet:
    """Return the tool set of a small library's desk; its hooks write what they do into `journal`."""
    log = [] if journal is None else journal
    tools = ToolSet("library-desk", control_visibility="relevant")
    _root(tools)
    _catalog(tools)
    _members(tools)
    _exclusive(tools, log)
    return tools


def _root(tools: ToolSet) -> None:
    @tools.tool()
    def opening_hours(day: str) -> str:
        """When the library is open on a day of the week."""
        return f"{day.capitalize()}: 9 to 18" if day.lower() != "sunday" else "Sunday: closed"

    @tools.tool()
    def find_shelf(subject: str) -> str:
        """Where the books on a subject stand, by floor and shelf."""
        return f"{subject.capitalize()}: floor {len(subject) % 3 + 1}, shelf {len(subject)}"


def _catalog(tools: ToolSet) -> None:
    tools.register_group("catalog", "Search and describe what the library has")

    @tools.tool(group="catalog", annotations={"readOnlyHint": True})
    def search(words: str, limit: int = 10) -> list[str]:
        """Find titles that contain all the given words, best matches first."""
        return [title for title in TITLES if all(word in title.lower() for word in words.lower().split())][:limit]

    @tools.tool(group="catalog", annotations={"readOnlyHint": True})
    def describe(title: str) -> dict[str, Any]:
        """Author, year, edition, number of copies and present whereabouts of a title."""
        return {"title": title, "copies": len(title) % 4 + 1, "lent": title == TITLES[0]}

    @tools.tool(group="catalog", annotations={"readOnlyHint": True})
    def similar(title: str, limit: int = 5) -> list[str]:
        """Titles that readers of a title also borrowed."""
        return [other for other in TITLES if other != title][:limit]

    tools.register_group("loans", "Lend books and take them back", parent="catalog")

    @tools.tool(group="catalog.loans")
    def lend(title: str, member: str, weeks: int = 4) -> str:
        """Lend a copy of a title to a member for a number of weeks."""
        return f"{title} is lent to {member} for {weeks} weeks."

    @tools.tool(group="catalog.loans")
    def take_back(title: str, member: str) -> str:
        """Take back a copy of a title from a member and settle what is overdue."""
        return f"{title} is back from {member}."

    @tools.tool(group="catalog.loans")
    def reserve(title: str, member: str, until: str | None = None) -> str:
        """Keep the next free copy of a title for a member, if wanted only until a date."""
        return f"{title} is reserved for {member}{' until ' + until if until else ''}."


def _members(tools: ToolSet) -> None:
    tools.register_group("members", "Look after the members of the library")

    @tools.tool(group="members", annotations={"readOnlyHint": True})
    def find_member(name: str) -> dict[str, Any]:
        """The number, the standing and the open loans of a member."""
        return {"name": name, "number": 1000 + len(name), "loans": 0}

    @tools.tool(group="members")
    def enrol(name: str, street: str, town: str, born: str, newsletter: bool = False) -> str:
        """Enrol a new member and issue a card."""
        return f"{name} of {town} is enrolled."

    @tools.tool(group="members", annotations={"destructiveHint": True})
    def end_membership(name: str, reason: str) -> str:
        """End a membership; open loans must have been settled before."""
        return f"{name} is no longer a member: {reason}."


def _exclusive(tools: ToolSet, log: list[str]) -> None:
    """Two jobs that one librarian can't do at once; each has hooks."""
    attempts: list[None] = []

    def unlock_vault() -> None:
        attempts.append(None)
        if len(attempts) == 1:
            log.append("vault: the lock jams")
            raise ToolError("The lock of the vault jams.")
        log.append("vault: unlocked")

    tools.register_group(
        "stocktake",
        "Count what stands on the shelves, which are closed to readers meanwhile",
        on_activate=lambda: log.append("shelves: closed"),
        on_deactivate=lambda: log.append("shelves: opened"),
    )
    tools.register_group(
        "vault",
        "Hand out rare books under supervision",
        on_activate=unlock_vault,
        on_deactivate=lambda: log.append("vault: locked"),
    )
    tools.register_exclusion("stocktake", "vault")

    @tools.tool(group="stocktake")
    def count(shelf: str, found: int) -> str:
        """Enter how many volumes were found on a shelf."""
        return f"Shelf {shelf}: {found} volumes."

    @tools.tool(group="stocktake")
    def report_missing(title: str, shelf: str) -> str:
        """Report a volume that is not where it should be."""
        return f"{title} is missing from shelf {shelf}."

    @tools.tool(group="vault")
    def hand_out(title: str, member: str, gloves: bool = True) -> str:
        """Hand out a rare book to a member at the supervised table."""
        return f"{title} is on the table for {member}{', with gloves' if gloves else ''}."


# -- the story --------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Told:
    """One step of the story, as it happened.

    Attributes:
        title: What the step is about.
        request: What the client asked for.
        answers: What came of it, in words.
        listed: How many tools the client is given after the step.
        before: About how many tokens the client's list was before the step.
        after: The same after the step.
        notices: How many times the step told the client that its list changed.
        failures: What did not happen as it should have; empty if all is well.
    """

    title: str
    request: str
    answers: tuple[str, ...]
    listed: int
    before: int
    after: int
    notices: int
    failures: tuple[str, ...] = ()


@frozen
class Desk:
    """The client's side of the story: the connection, and what has been seen on it so far."""

    client: Client
    journal: list[str]
    notices: list[str]
    tokens: list[int] = field(factory=lambda: [0])

    async def look(self) -> tuple[set[str], int]:
        """List anew, and return the names of the tools and about how many tokens they are."""
        tools = (await self.client.list_tools(cache_mode="bypass")).tools
        wire = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        return {tool.name for tool in tools}, sum(map(approximate_tokens, wire))

    async def tell(self, title: str, request: str, answers: list[str], checks: dict[str, bool], notices: int) -> Told:
        """Return the step that has just been made; `checks` says what should be so, and whether it is."""
        names, tokens = await self.look()
        before, seen = self.tokens[-1], len(self.notices)
        self.notices.clear()
        self.tokens.append(tokens)
        checks = {**checks, f"the client was told {notices} time(s) that its list changed, not {seen}": seen == notices}
        return Told(
            title=title,
            request=request,
            answers=tuple(answers),
            listed=len(names),
            before=before,
            after=tokens,
            notices=seen,
            failures=tuple(check for check, holds in checks.items() if not holds),
        )

    async def call(self, name: str, **arguments: Any) -> tuple[bool, str]:
        """Call a tool, and return whether it went well and the text of its answer or error."""
        from mcp import MCPError

        try:
            result = await self.client.call_tool(name, arguments)
        except MCPError as error:
            return False, f"error {error.code}: {error.message}"
        return not result.is_error, "\n".join(getattr(block, "text", "") for block in result.content)


async def story(tell: Callable[[Told], None]) -> None:
    """Tell the steps of the story as they happen, each checked against what it should come to."""
    with extras_named():
        from mcp import Client

        from .mcp import build_server

    journal: list[str] = []
    notices: list[str] = []

    async def on_message(message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            notices.append(message.method)

    tools = library_desk(journal)
    async with _unlogged(), Client(build_server(tools), mode="legacy", message_handler=on_message) as client:
        desk = Desk(client, journal, notices)
        tell(await _first_list(desk, tools))
        for step in (_hidden, _open, _use, _nested, _rollback, _exclusion, _close):
            tell(await step(desk))


@asynccontextmanager
async def _unlogged() -> AsyncGenerator[None]:
    """Keep the library's log quiet: the hook that fails is part of the story."""
    log = logging.getLogger("toolfold")
    log.addFilter(_nothing)
    try:
        yield
    finally:
        log.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


async def _first_list(desk: Desk, tools: ToolSet) -> Told:
    own = [spec for spec in tools.catalog.tools.values() if spec.control is None]
    names, _ = await desk.look()
    desk.tokens[-1] = everything = cost(own, WireNames(WIRE_SEPARATOR).to_wire)
    shown = sorted(names & {spec.name for spec in own})
    openers = {name for name in names if name.endswith("__activate")}
    more = sorted(names - openers - {*shown})
    return await desk.tell(
        "A client connects and lists",
        "tools/list",
        [
            f"{len(shown)} of {len(own)} tools ({', '.join(shown)}), {len(openers)} that open groups"
            + "".join(f", and {name}" for name in more),
            f"(all {len(own)} would be ~{everything:,} tokens)",
        ],
        {"only the tools in no group are listed": shown == ["find_shelf", "opening_hours"]},
        notices=0,
    )


async def _hidden(desk: Desk) -> Told:
    answered, text = await desk.call("catalog__search", words="atlas")
    return await desk.tell(
        "A tool of a closed group does not exist",
        "tools/call catalog__search",
        [text],
        {"the call is refused with -32602": not answered and text.startswith("error -32602")},
        notices=0,
    )


async def _open(desk: Desk) -> Told:
    before, _ = await desk.look()
    went_well, text = await desk.call("catalog__activate")
    new = (await desk.look())[0] - before
    return await desk.tell(
        "Opening a group",
        "tools/call catalog__activate",
        [text],
        {
            "the activator answers": went_well,
            "the tools of the group are listed, and what opens the next one": {*OPENED} == new,
        },
        notices=1,
    )


async def _use(desk: Desk) -> Told:
    went_well, text = await desk.call("catalog__search", words="atlas")
    return await desk.tell(
        "Its tools work now",
        'tools/call catalog__search {"words": "atlas"}',
        [text],
        {"the search finds the title": went_well and TITLES[1] in text},
        notices=0,
    )


async def _nested(desk: Desk) -> Told:
    opened, text = await desk.call("catalog__loans__activate")
    lent, answer = await desk.call("catalog__loans__lend", title=TITLES[1], member="Ada")
    return await desk.tell(
        "A group inside it opens the same way",
        "tools/call catalog__loans__activate, then catalog__loans__lend",
        [_first_line(text), answer],
        {"the inner group opens": opened, "its tool answers": lent and "Ada" in answer},
        notices=1,
    )


async def _rollback(desk: Desk) -> Told:
    opened, _ = await desk.call("stocktake__activate")
    before, _ = await desk.look()
    desk.journal.clear()
    went_well, text = await desk.call("vault__activate")
    after, _ = await desk.look()
    hooks = list(desk.journal)
    return await desk.tell(
        "A hook fails, and what was done is undone",
        "tools/call stocktake__activate, then vault__activate",
        [text, "hooks: " + ", ".join(hooks)],
        {
            "the first group opens": opened,
            "the second is refused": not went_well,
            "the hook that had run is undone": hooks == ["shelves: opened", "vault: the lock jams", "shelves: closed"],
            "the list is the one before": before == after and "stocktake__count" in after,
        },
        notices=1,
    )


async def _exclusion(desk: Desk) -> Told:
    desk.journal.clear()
    went_well, text = await desk.call("vault__activate")
    names, _ = await desk.look()
    hooks = list(desk.journal)
    return await desk.tell(
        "The second try works, and closes the group that it excludes",
        "tools/call vault__activate",
        [_first_line(text), "hooks: " + ", ".join(hooks)],
        {
            "the group opens": went_well and "vault__hand_out" in names,
            "the other one is closed": "stocktake__count" not in names,
            "both hooks ran once": hooks == ["shelves: opened", "vault: unlocked"],
        },
        notices=1,
    )


async def _close(desk: Desk) -> Told:
    desk.journal.clear()
    closed, text = await desk.call("catalog__deactivate")
    closed_too, _ = await desk.call("vault__deactivate")
    hooks = list(desk.journal)
    _, tokens = await desk.look()
    return await desk.tell(
        "Closing takes everything inside along",
        "tools/call catalog__deactivate, then vault__deactivate",
        [text, "hooks: " + ", ".join(hooks)],
        {
            "both close": closed and closed_too,
            "the list is the first one again": tokens == desk.tokens[1],
            "the hook ran": hooks == ["vault: locked"],
        },
        notices=2,
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0].removesuffix(" You can now call:")
