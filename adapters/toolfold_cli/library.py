"""The example tool set of `toolfold demo`: the desk of a small lending library.

It has nested groups, two that exclude each other, and a vault that does not open at the first attempt.
"""

from __future__ import annotations

from typing import Any

from toolfold import ToolError, ToolSet

TITLES = ("A Field Guide to Mosses", "The Clockmaker's Atlas", "Tides and Timetables")


def desk(hook_log: list[str] | None = None) -> ToolSet:
    """Return the tool set of a small library's desk; its hooks append to `hook_log`."""
    tools = ToolSet("library-desk", control_visibility="relevant")
    _add_root_tools(tools)
    _add_catalog(tools)
    _add_members(tools)
    _add_exclusive_groups(tools, [] if hook_log is None else hook_log)
    return tools


def _add_root_tools(tools: ToolSet) -> None:
    @tools.tool()
    def opening_hours(day: str) -> str:
        """When the library is open on a day of the week."""
        return f"{day.capitalize()}: 9 to 18" if day.lower() != "sunday" else "Sunday: closed"

    @tools.tool()
    def find_shelf(subject: str) -> str:
        """Where to find the books on a subject, by floor and shelf."""
        return f"{subject.capitalize()}: floor {len(subject) % 3 + 1}, shelf {len(subject)}"


def _add_catalog(tools: ToolSet) -> None:
    tools.register_group("catalog", "Search and describe the library's books")

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
        """Take back a copy of a title from a member and settle overdue charges."""
        return f"{title} is back from {member}."

    @tools.tool(group="catalog.loans")
    def reserve(title: str, member: str, until: str | None = None) -> str:
        """Reserve the next free copy of a title for a member, optionally until a date."""
        return f"{title} is reserved for {member}{' until ' + until if until else ''}."


def _add_members(tools: ToolSet) -> None:
    tools.register_group("members", "Look after the members of the library")

    @tools.tool(group="members", annotations={"readOnlyHint": True})
    def find_member(name: str) -> dict[str, Any]:
        """The number, the status and the open loans of a member."""
        return {"name": name, "number": 1000 + len(name), "loans": 0}

    @tools.tool(group="members")
    def enrol(name: str, street: str, town: str, born: str, newsletter: bool = False) -> str:
        """Enrol a new member and issue a card."""
        return f"{name} of {town} is enrolled."

    @tools.tool(group="members", annotations={"destructiveHint": True})
    def end_membership(name: str, reason: str) -> str:
        """End a membership; open loans must be settled first."""
        return f"{name} is no longer a member: {reason}."


def _add_exclusive_groups(tools: ToolSet, log: list[str]) -> None:
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
        "Count the books on the shelves, which are closed to readers meanwhile",
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
