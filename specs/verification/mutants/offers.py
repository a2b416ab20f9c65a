"""Mutants of what is offered: visibility, lists, control tools and calls (SPEC 6 to 9)."""
# ruff: noqa: D101, D102, D103 - what is wrong with each stands in the table that it is for

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolfold_specs.driver import Tool

from .engine import Engine, Refused, Session
from .mutant import Mutant, Right, exhaustive, refuse, vectors

VISIBILITY = (
    exhaustive("lists every tool, whatever is active", "VIS-2")(
        Engine.listed, lambda right, self, tool, session: not tool.hidden
    ),
    exhaustive("lists the tools at root only while some group is active", "VIS-2")(
        Engine.listed, lambda right, self, tool, session: right() and (tool.group is not None or bool(session.active))
    ),
    exhaustive("lists the tools of the groups within an active group", "VIS-2")(
        Engine.available,
        lambda right, self, tool, session: (
            right() or bool(set(self.ancestors(f"{tool.group or ''}")) & set(session.active))
        ),
    ),
    vectors("takes every fact for true", "VIS-2", also=["NAM-4"])(
        Engine.available, lambda right, self, tool, session: tool.when.startswith("fact ") or right()
    ),
    vectors("keeps the group's rule beside the tool's own", "VIS-2")(
        Engine.available,
        lambda right, self, tool, session: right() and (self.is_free(tool) or tool.group in session.active),
    ),
    vectors("calls a tool that is not available", "VIS-5")(Engine.callable, lambda right, self, tool, session: True),
    vectors("lists hidden tools", "VIS-6")(
        Engine.listed, lambda right, self, tool, session: self.available(tool, session)
    ),
    vectors("does not call hidden tools", "VIS-6")(
        Engine.callable, lambda right, self, tool, session: self.listed(tool, session)
    ),
    vectors("calls hidden tools even where they are not available", "VIS-5")(
        Engine.callable, lambda right, self, tool, session: self.available(tool, session) or tool.hidden
    ),
    vectors("decides by the group alone whether a listed tool may be called", "VIS-7")(
        Engine.callable,
        lambda right, self, tool, session: (
            self.available(tool, session) and (self.is_free(tool) or tool.group in session.active)
        ),
    ),
)


# -- lists ------------------------------------------------------------------------------------------------------------


class OffsetCursor(Engine):
    def cursor(self, names: list[str], last: str) -> str:
        return super().cursor(names, str(names.index(last) + 1))

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        super().after_cursor(names, cursor)
        return names[int(bytes.fromhex(cursor).decode().removeprefix("after ")) :]


def last_tool_must_be_there(right: Right[list[str]], self: Engine, names: list[str], cursor: str) -> list[str]:
    rest = right()
    return rest if bytes.fromhex(cursor).decode().removeprefix("after ") in names else names


def loses_the_last_page(
    right: Right[tuple[list[str], str | None]], self: Engine, session: Session, cursor: str | None
) -> tuple[list[str], str | None]:
    names, following = right()
    full = following is None or len(self.after_cursor(self.names(session), following)) >= len(names)
    return names, following if full else None


def one_page(
    right: Right[tuple[list[str], str | None]], self: Engine, session: Session, cursor: str | None
) -> tuple[list[str], str | None]:
    right()
    return self.names(session), None


def endless_pages(
    right: Right[tuple[list[str], str | None]], self: Engine, session: Session, cursor: str | None
) -> tuple[list[str], str | None]:
    names, following = right()
    return names, following or (self.cursor(names, names[-1]) if names and self.setup.page_size else None)


LISTS = (
    exhaustive("lists in the order of registration", "LST-1")(Engine.sorted_names, lambda right, self, names: names),
    vectors("lists in an order that knows no case", "LST-1")(
        Engine.sorted_names, lambda right, self, names: sorted(names, key=str.lower)
    ),
    vectors("lists group by group, and not by the characters of the names", "LST-1")(
        Engine.sorted_names, lambda right, self, names: self.canonical(names)
    ),
    vectors("counts the tools that were listed, and not up to which", "LST-2").being(OffsetCursor),
    vectors("begins again where the last tool that was seen is gone", "LST-2")(
        Engine.after_cursor, last_tool_must_be_there
    ),
    vectors("gives no cursor to a last page that is not full", "LST-2")(Engine.page, loses_the_last_page),
    vectors("begins a page with the tool that the one before ended with", "LST-2")(
        Engine.after_cursor, lambda right, self, names, cursor: names[max(0, len(names) - len(right()) - 1) :]
    ),
    vectors("leaves out the first tool of every further page", "LST-2")(
        Engine.after_cursor, lambda right, self, names, cursor: right()[1:]
    ),
    vectors("gives everything at once, whatever the size of a page", "LST-2")(Engine.page, one_page),
    vectors("gives a cursor with the last page too", "LST-2")(Engine.page, endless_pages),
    vectors("begins again at a cursor that it did not give", "LST-3")(
        Engine.bad_cursor, lambda right, self, names: names
    ),
    vectors("gives an empty page for a cursor that it did not give", "LST-3")(
        Engine.bad_cursor, lambda right, self, names: []
    ),
    vectors("takes a bad cursor for an unknown tool", "LST-3")(
        Engine.bad_cursor, lambda right, self, names: refuse("ToolNotFound")
    ),
    vectors("lists `a-b` between `a` and `a.b`", "LST-4")(
        Engine.group_infos, lambda right, self, session: sorted(right(), key=lambda info: str(info["name"]))
    ),
    vectors("says that a group is inactive where it is locked", "LST-4")(
        Engine.group_infos,
        lambda right, self, session: [
            {**info, "state": "active" if info["active"] else "inactive"} for info in right()
        ],
    ),
    vectors("lists the root among the groups", "LST-4")(
        Engine.group_infos,
        lambda right, self, session: [{"name": "", "state": "active", "active": True, "tools": 0}, *right()],
    ),
    vectors("lists the active groups only", "LST-4")(
        Engine.group_infos, lambda right, self, session: [info for info in right() if info["active"]]
    ),
    vectors("counts the tools of the groups within a group, too", "LST-4")(
        Engine.tool_count,
        lambda right, self, path: sum(Engine.tool_count(self, below) for below in self.subtree(path)),
    ),
    vectors("counts a group's control tools", "LST-4")(Engine.tool_count, lambda right, self, path: right() + 2),
)


# -- control tools and calls ------------------------------------------------------------------------------------------


def required_only(right: Right[str | None], self: Engine, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    required = (tool.input_schema or {}).get("required", ())
    return next((f"/{name}: is missing" for name in required if name not in arguments), None)


CONTROLS = (
    exhaustive("lists no activators", "CTL-1")(
        Engine.control_listed, lambda right, self, group, verb, session: verb == "deactivate" and right()
    ),
    vectors("has a deactivator for a group that is to have none", "CTL-1", also=["CTL-2"])(
        Engine.control_exists, lambda right, self, group, verb: f"{group.path}.{verb}" not in self.tools
    ),
    exhaustive("lists no control tools of a locked group", "CTL-1")(
        Engine.control_listed,
        lambda right, self, group, verb, session: right() and self.state(group.path, session) != "locked",
    ),
    vectors("lists control tools that could do nothing", "CTL-2")(
        Engine.control_listed, lambda right, self, group, verb, session: self.control_exists(group, verb)
    ),
    vectors("lists the activator of a group whose parent is inactive", "CTL-2")(
        Engine.control_listed,
        lambda right, self, group, verb, session: (
            right()
            or (verb == "activate" and self.state(group.path, session) == "locked" and self.control_exists(group, verb))
        ),
    ),
)

CALLS = (
    vectors("refuses what is not available otherwise than what is unknown", "CALL-1")(
        Engine.not_found,
        lambda right, self, name, tool: Refused("ParentInactive" if tool else "ToolNotFound", missing=name),
    ),
    vectors("says of a tool that is not available which group it is in", "CALL-1")(
        Engine.not_found,
        lambda right, self, name, tool: Refused("ToolNotFound", name=name, **{"group": tool.group} if tool else {}),
    ),
    vectors("answers the call of an unknown tool with a result, not an error", "CALL-1")(
        Engine.call,
        lambda right, self, session, name, arguments: (
            right() if name in self.tools else ("There is no such tool.", True)
        ),
    ),
    vectors("runs a handler with whatever arguments came", "CALL-2")(
        Engine.problem, lambda right, self, tool, arguments: None
    ),
    vectors("looks only whether the required arguments are there", "CALL-2")(Engine.problem, required_only),
    vectors("answers wrong arguments with an error of the protocol", "CALL-2")(
        Engine.problem, lambda right, self, tool, arguments: right() and refuse("InvalidArguments", problem=right())
    ),
    vectors("tells the model what an exception said", "CALL-3")(
        Engine.handle,
        lambda right, self, tool, arguments: ("The tool failed: secret", True) if tool.does == "crash" else right(),
    ),
    vectors("answers a handler's exception with a result that is no error", "CALL-3")(
        Engine.handle, lambda right, self, tool, arguments: (right()[0], right()[1] and tool.does != "crash")
    ),
    vectors("keeps from the model what a handler wants it to read", "CALL-3")(
        Engine.handle, lambda right, self, tool, arguments: ("The tool failed.", True) if right()[1] else right()
    ),
)

MUTANTS: tuple[Mutant, ...] = VISIBILITY + LISTS + CONTROLS + CALLS
