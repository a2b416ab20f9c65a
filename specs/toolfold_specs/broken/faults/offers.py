"""Faults of what is offered: visibility, lists, control tools, calls (SPEC 6 to 9)."""
# ruff: noqa: D102 - what each replaced method is to do stands where it is replaced from

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...driver import Group, Tool
from ..fault import Broken
from ..rules import ForTheModel, Refused, Session


class Offer(Broken):
    """What is wrong here shows in lists and calls."""

    layer: ClassVar[str] = "vectors"


class GroupIgnored(Broken):
    """Lists every tool, whatever is active."""

    clauses = ("VIS-2",)

    def listed(self, tool: Tool, session: Session) -> bool:
        return not tool.hidden


class RootNeedsAGroup(Broken):
    """Lists the tools at root only while some group is active."""

    clauses = ("VIS-2",)

    def listed(self, tool: Tool, session: Session) -> bool:
        return super().listed(tool, session) and (tool.group is not None or bool(session.active))


class ListsBelow(Broken):
    """Lists the tools of the groups within an active group."""

    clauses = ("VIS-2",)

    def available(self, tool: Tool, session: Session) -> bool:
        above = [] if tool.group is None else self.ancestors(tool.group)
        return super().available(tool, session) or bool(set(above) & set(session.active))


class FactIgnored(Offer):
    """Takes every fact for true."""

    clauses = ("VIS-2",)
    also = ("NAM-4",)

    def available(self, tool: Tool, session: Session) -> bool:
        return tool.when.startswith("fact ") or super().available(tool, session)


class FactAndGroup(Offer):
    """Keeps the group's rule beside the tool's own."""

    clauses = ("VIS-2",)

    def available(self, tool: Tool, session: Session) -> bool:
        free = tool.group is None or self.replaces_control(tool)
        return super().available(tool, session) and (free or tool.group in session.active)


class UnavailableIsCalled(Offer):
    """Calls a tool that is not available."""

    clauses = ("VIS-5",)

    def callable(self, tool: Tool, session: Session) -> bool:
        return True


class HiddenIsListed(Offer):
    """Lists hidden tools."""

    clauses = ("VIS-6",)

    def listed(self, tool: Tool, session: Session) -> bool:
        return self.available(tool, session)


class HiddenIsNotCalled(Offer):
    """Does not call hidden tools."""

    clauses = ("VIS-6",)

    def callable(self, tool: Tool, session: Session) -> bool:
        return super().callable(tool, session) and not tool.hidden


class HiddenIsAlwaysCalled(Offer):
    """Calls hidden tools even where they are not available."""

    clauses = ("VIS-5",)

    def callable(self, tool: Tool, session: Session) -> bool:
        return super().callable(tool, session) or tool.hidden


class ListedIsNotCalled(Offer):
    """Decides by the group alone whether a tool may be called, and by its rule whether it is listed."""

    clauses = ("VIS-7",)

    def callable(self, tool: Tool, session: Session) -> bool:
        free = tool.group is None or self.replaces_control(tool)
        return super().callable(tool, session) and (free or tool.group in session.active)


class Unsorted(Broken):
    """Lists in the order of registration."""

    clauses = ("LST-1",)

    def sorted_names(self, names: list[str]) -> list[str]:
        return names


class AnyCase(Offer):
    """Lists in an order that knows no case."""

    clauses = ("LST-1",)

    def sorted_names(self, names: list[str]) -> list[str]:
        return sorted(names, key=str.lower)


class GroupByGroup(Offer):
    """Lists group by group, and not by the characters of the names."""

    clauses = ("LST-1",)

    def sorted_names(self, names: list[str]) -> list[str]:
        return sorted(names, key=lambda name: name.split("."))


class Page(Offer):
    """What is wrong here shows in lists of several pages."""

    clauses = ("LST-2",)


class OffsetCursor(Page):
    """Counts the tools that were listed, so that a list that changes in between is repeated or skipped."""

    def cursor_at(self, names: list[str], last: str) -> str:
        return super().cursor_at(names, str(names.index(last) + 1))

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        super().after_cursor(names, cursor)
        return names[int(bytes.fromhex(cursor).decode().removeprefix("after ")) :]


class LastToolMustBeThere(Page):
    """Begins again where the last tool that was seen is gone."""

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        rest = super().after_cursor(names, cursor)
        last = bytes.fromhex(cursor).decode().removeprefix("after ")
        return rest if last in names else names


class LosesTheLastPage(Page):
    """Gives no cursor to a last page that is not full."""

    def page(self, session: Session, cursor: str | None) -> tuple[list[str], str | None]:
        names, following = super().page(session, cursor)
        full = following is None or len(self.after_cursor(self.names(session), following)) >= len(names)
        return names, following if full else None


class RepeatsTheLast(Page):
    """Begins a page with the tool that the one before ended with."""

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        rest = super().after_cursor(names, cursor)
        return names[max(0, len(names) - len(rest) - 1) :]


class SkipsOne(Page):
    """Leaves out the first tool of every further page."""

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        return super().after_cursor(names, cursor)[1:]


class OnePage(Page):
    """Gives everything at once, whatever the size of a page."""

    def page(self, session: Session, cursor: str | None) -> tuple[list[str], str | None]:
        super().page(session, cursor)
        return self.names(session), None


class EndlessPages(Page):
    """Gives a cursor with the last page too."""

    def page(self, session: Session, cursor: str | None) -> tuple[list[str], str | None]:
        names, following = super().page(session, cursor)
        return names, following or (self.cursor_at(names, names[-1]) if names and self.setup.page_size else None)


class AnyCursor(Offer):
    """Begins again at a cursor that it did not give."""

    clauses = ("LST-3",)

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        try:
            return super().after_cursor(names, cursor)
        except Refused:
            return names


class EmptyAfterAnyCursor(Offer):
    """Gives an empty page for a cursor that it did not give."""

    clauses = ("LST-3",)

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        try:
            return super().after_cursor(names, cursor)
        except Refused:
            return []


class CursorNotFound(Offer):
    """Takes a bad cursor for an unknown tool."""

    clauses = ("LST-3",)

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        try:
            return super().after_cursor(names, cursor)
        except Refused:
            raise Refused("ToolNotFound") from None


class Groups(Offer):
    """What is wrong here shows in the list of groups."""

    clauses = ("LST-4",)


class GroupsByCharacter(Groups):
    """Lists groups in the order of their paths' characters, so that `a-b` comes between `a` and `a.b`."""

    def group_infos(self, session: Session) -> list[dict[str, Any]]:
        return sorted(super().group_infos(session), key=lambda info: str(info["name"]))


class NothingIsLocked(Groups):
    """Says that a group is inactive where it is locked."""

    def state(self, path: str, session: Session) -> str:
        return "active" if path in session.active else "inactive"

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        if self.setup.relevant_controls and not set(self.ancestors(group.path)) <= set(session.active):
            return False
        return super().control_listed(group, verb, session)


class RootIsAGroup(Groups):
    """Lists the root among the groups."""

    def group_infos(self, session: Session) -> list[dict[str, Any]]:
        root = {"name": "", "state": "active", "active": True, "tools": len(self.tools)}
        return [root, *super().group_infos(session)]


class ActiveGroupsOnly(Groups):
    """Lists the active groups only."""

    def group_infos(self, session: Session) -> list[dict[str, Any]]:
        return [info for info in super().group_infos(session) if info["active"]]


class CountsBelow(Groups):
    """Counts the tools of the groups within a group, too."""

    def count(self, path: str) -> int:
        return len([tool for tool in self.tools.values() if tool.group in self.subtree(path)])


class CountsControls(Groups):
    """Counts a group's control tools."""

    def count(self, path: str) -> int:
        return super().count(path) + 2


class NoActivators(Broken):
    """Lists no activators."""

    clauses = ("CTL-1",)

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        return verb == "deactivate" and super().control_listed(group, verb, session)


class DeactivatorAnyway(Offer):
    """Has a deactivator for a group that is to have none."""

    clauses = ("CTL-1",)
    also = ("CTL-2",)

    def control_exists(self, group: Group, verb: str) -> bool:
        return f"{group.path}.{verb}" not in self.tools


class ControlsWhileActive(Broken):
    """Lists the control tools of a group within an inactive one only once that is active."""

    clauses = ("CTL-1",)

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        inside = set(self.ancestors(group.path)) <= set(session.active)
        return super().control_listed(group, verb, session) and inside


class AllControls(Offer):
    """Lists control tools that could do nothing."""

    clauses = ("CTL-2",)

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        return self.control_exists(group, verb)


class LockedActivators(Offer):
    """Lists the activator of a group whose parent is inactive."""

    clauses = ("CTL-2",)

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        locked = self.state(group.path, session) == "locked" and verb == "activate"
        return super().control_listed(group, verb, session) or (locked and self.control_exists(group, verb))


class UnavailableToldApart(Offer):
    """Answers the call of a tool that is not available otherwise than that of one that does not exist."""

    clauses = ("CALL-1",)

    def not_found(self, name: str, tool: Tool | None) -> Refused:
        return Refused("ParentInactive", missing=tool.group) if tool else super().not_found(name, tool)


class UnavailableInOtherWords(Offer):
    """Says of a tool that is not available that it is, but not now."""

    clauses = ("CALL-1",)

    def not_found(self, name: str, tool: Tool | None) -> Refused:
        return Refused("ToolNotFound", name=name, group=tool.group) if tool else super().not_found(name, tool)


class UnknownIsAResult(Offer):
    """Answers the call of a tool that does not exist with a result, and not with an error."""

    clauses = ("CALL-1",)

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        return super().call(session, name, arguments) if name in self.tools else ("There is no such tool.", True)


class Unchecked(Offer):
    """Runs a handler with whatever arguments came."""

    clauses = ("CALL-2",)

    def problem(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        return None


class RequiredOnly(Offer):
    """Looks only whether the required arguments are there."""

    clauses = ("CALL-2",)

    def problem(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        required = (tool.input_schema or {}).get("required", ())
        return next((f"/{name}: is missing" for name in required if name not in arguments), None)


class BadArgumentsAreRefused(Offer):
    """Answers wrong arguments with an error of the protocol."""

    clauses = ("CALL-2",)

    def problem(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        if problem := super().problem(tool, arguments):
            raise Refused("InvalidArguments", problem=problem)
        return None


class TellsSecrets(Offer):
    """Tells the model what an exception said."""

    clauses = ("CALL-3",)

    def crash_text(self, tool: Tool, error: Exception) -> str:
        return f"The tool failed: {error}"


class CrashIsFine(Offer):
    """Answers a handler's exception with a result that is no error."""

    clauses = ("CALL-3",)

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        text, is_error = super().call(session, name, arguments)
        return text, is_error and self.tools[name].does != "crash"


class HidesWhatIsForTheModel(Offer):
    """Keeps from the model what a handler wants it to read."""

    clauses = ("CALL-3",)

    def handle(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        try:
            return super().handle(tool, arguments)
        except ForTheModel:
            raise RuntimeError from None
