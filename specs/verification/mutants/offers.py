"""Mutants of visibility, lists, control tools and calls (SPEC 6 to 9)."""
# ruff: noqa: D101, D102, D103 - the tables below say what is wrong with each

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
    exhaustive("lists the tools of an active group's descendants", "VIS-2")(
        Engine.available,
        lambda right, self, tool, session: (
            right() or bool(set(self.ancestors(f"{tool.group or ''}")) & set(session.active))
        ),
    ),
    vectors("treats every fact as true", "VIS-2", also=["NAM-4"])(
        Engine.available, lambda right, self, tool, session: tool.when.startswith("fact ") or right()
    ),
    vectors("makes a tool available whose rule raises", "VIS-4")(Engine.if_raises, lambda right, self: True),
    vectors("refuses to list tools while the rule of one raises", "VIS-4")(
        Engine.available, lambda right, self, tool, session: right() if tool.when != "raises" else refuse("error")
    ),
    vectors("applies the group's rule beside the tool's own", "VIS-2")(
        Engine.is_free, lambda right, self, tool: right() and (tool.group is None or self.replaces_control(tool))
    ),
    vectors("lets a predicate replace the group's rule", "VIS-2")(
        Engine.is_free, lambda right, self, tool: right() or tool.when.startswith("fact ")
    ),
    vectors("calls tools that are not available", "VIS-5")(Engine.callable, lambda right, self, tool, session: True),
    vectors("lists hidden tools", "VIS-6")(
        Engine.listed, lambda right, self, tool, session: self.available(tool, session)
    ),
    vectors("does not call hidden tools", "VIS-6")(
        Engine.callable, lambda right, self, tool, session: self.listed(tool, session)
    ),
    vectors("calls hidden tools even where they are not available", "VIS-5")(
        Engine.callable, lambda right, self, tool, session: self.available(tool, session) or tool.hidden
    ),
    vectors("refuses calls of listed tools whose group is inactive", "VIS-7")(
        Engine.callable,
        lambda right, self, tool, session: (
            self.available(tool, session)
            and (tool.group is None or self.replaces_control(tool) or tool.group in session.active)
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


def requires_the_last_tool(right: Right[list[str]], self: Engine, names: list[str], cursor: str) -> list[str]:
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


def is_control(name: str) -> bool:
    return name.rpartition(".")[2] in ("activate", "deactivate")


def with_reversed_controls(names: list[str]) -> list[str]:
    controls = [name for name in names if is_control(name)]
    return [controls.pop() if is_control(name) else name for name in names]


LISTS = (
    exhaustive("lists in the order of registration", "LST-1")(Engine.sorted_names, lambda right, self, names: names),
    vectors("lists in an order that ignores case", "LST-1")(
        Engine.sorted_names, lambda right, self, names: sorted(names, key=str.lower)
    ),
    exhaustive("lists control tools after all others", "LST-1")(
        Engine.sorted_names, lambda right, self, names: sorted(right(), key=is_control)
    ),
    exhaustive("lists control tools in the reverse order among the others", "LST-1")(
        Engine.sorted_names, lambda right, self, names: with_reversed_controls(right())
    ),
    vectors("lists by segments instead of characters", "LST-1")(
        Engine.sorted_names, lambda right, self, names: self.canonical(names)
    ),
    vectors("has cursors that are offsets", "LST-2").being(OffsetCursor),
    vectors("begins again if the last tool of a page is gone", "LST-2")(Engine.after_cursor, requires_the_last_tool),
    vectors("returns no cursor before a last page that is not full", "LST-2")(Engine.page, loses_the_last_page),
    vectors("repeats the last tool of a page on the next", "LST-2")(
        Engine.after_cursor, lambda right, self, names, cursor: names[max(0, len(names) - len(right()) - 1) :]
    ),
    vectors("skips the first tool of every further page", "LST-2")(
        Engine.after_cursor, lambda right, self, names, cursor: right()[1:]
    ),
    vectors("ignores the page size", "LST-2")(Engine.page, one_page),
    vectors("returns a cursor with the last page", "LST-2")(Engine.page, endless_pages),
    vectors("begins again at an invalid cursor", "LST-3")(Engine.bad_cursor, lambda right, self, names: names),
    vectors("returns an empty page for an invalid cursor", "LST-3")(Engine.bad_cursor, lambda right, self, names: []),
    vectors("reports an invalid cursor as an unknown tool", "LST-3")(
        Engine.bad_cursor, lambda right, self, names: refuse("ToolNotFound")
    ),
    vectors("lists `a-b` between `a` and `a.b`", "LST-4")(
        Engine.group_infos, lambda right, self, session: sorted(right(), key=lambda info: str(info["name"]))
    ),
    vectors("lists locked groups as inactive", "LST-4")(
        Engine.group_infos,
        lambda right, self, session: [
            {**info, "state": "active" if info["active"] else "inactive"} for info in right()
        ],
    ),
    vectors("lists the root among the groups", "LST-4")(
        Engine.group_infos,
        lambda right, self, session: [{"name": "", "state": "active", "active": True, "tools": 0}, *right()],
    ),
    vectors("lists only active groups", "LST-4")(
        Engine.group_infos, lambda right, self, session: [info for info in right() if info["active"]]
    ),
    vectors("counts the tools of descendants too", "LST-4")(
        Engine.tool_count,
        lambda right, self, path: sum(Engine.tool_count(self, below) for below in self.subtree(path)),
    ),
    vectors("counts control tools", "LST-4")(Engine.tool_count, lambda right, self, path: right() + 2),
)


# -- control tools and calls ------------------------------------------------------------------------------------------


def required_only(right: Right[str | None], self: Engine, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    required = (tool.input_schema or {}).get("required", ())
    return next((f"/{name}: is missing" for name in required if name not in arguments), None)


CONTROLS = (
    exhaustive("lists no activators", "CTL-1")(
        Engine.control_listed, lambda right, self, group, verb, session: verb == "deactivate" and right()
    ),
    vectors("ignores that a group is to have no deactivator", "CTL-1", also=["CTL-2"])(
        Engine.control_exists, lambda right, self, group, verb: f"{group.path}.{verb}" not in self.tools
    ),
    exhaustive("hides control tools of locked groups", "CTL-1")(
        Engine.control_listed,
        lambda right, self, group, verb, session: right() and self.state(group.path, session) != "locked",
    ),
    vectors("lists control tools that are not relevant", "CTL-2")(
        Engine.control_listed, lambda right, self, group, verb, session: self.control_exists(group, verb)
    ),
    vectors("lists activators of locked groups", "CTL-2")(
        Engine.control_listed,
        lambda right, self, group, verb, session: (
            right()
            or (verb == "activate" and self.state(group.path, session) == "locked" and self.control_exists(group, verb))
        ),
    ),
)

CALLS = (
    vectors("refuses unavailable tools with another error than unknown ones", "CALL-1")(
        Engine.not_found,
        lambda right, self, name, tool: Refused("ParentInactive" if tool else "ToolNotFound", missing=name),
    ),
    vectors("refuses unavailable tools in other words than unknown ones", "CALL-1")(
        Engine.not_found,
        lambda right, self, name, tool: Refused("ToolNotFound", name=name, **{"group": tool.group} if tool else {}),
    ),
    vectors("answers calls of unknown tools with a result", "CALL-1")(
        Engine.call,
        lambda right, self, session, name, arguments: (
            right() if name in self.tools else ("There is no such tool.", True)
        ),
    ),
    vectors("does not validate arguments", "CALL-2")(Engine.problem, lambda right, self, tool, arguments: None),
    vectors("validates only that required arguments are present", "CALL-2")(Engine.problem, required_only),
    vectors("answers invalid arguments with an error instead of a result", "CALL-2")(
        Engine.problem, lambda right, self, tool, arguments: right() and refuse("InvalidArguments", problem=right())
    ),
    vectors("shows the model the text of an exception", "CALL-3")(
        Engine.handle,
        lambda right, self, tool, arguments: ("The tool failed: secret", True) if tool.does == "crash" else right(),
    ),
    vectors("answers a handler's exception with a success", "CALL-3")(
        Engine.handle, lambda right, self, tool, arguments: (right()[0], right()[1] and tool.does != "crash")
    ),
    vectors("hides a handler's `ToolError` from the model", "CALL-3")(
        Engine.handle, lambda right, self, tool, arguments: ("The tool failed.", True) if right()[1] else right()
    ),
)

REASONS = (
    exhaustive("takes a group that is closed for an ancestor for one that can open", "EXP-1")(
        Engine.why, lambda right, self, session, name: "group" if right() == "ancestor" else right()
    ),
    exhaustive("does not say which groups are excluded", "EXP-1")(
        Engine.why, lambda right, self, session, name: "group" if right() == "excluded" else right()
    ),
    exhaustive("takes hidden tools for listed ones", "EXP-1")(
        Engine.why, lambda right, self, session, name: "listed" if right() == "hidden" else right()
    ),
    exhaustive("says of tools that can't be called that there are none", "EXP-1")(
        Engine.why, lambda right, self, session, name: right() if right() in ("listed", "hidden") else "unknown"
    ),
)

MUTANTS: tuple[Mutant, ...] = VISIBILITY + LISTS + CONTROLS + CALLS + REASONS
