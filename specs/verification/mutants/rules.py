"""The rules, implemented naively: sets of paths, computed anew each time, and a method for each decision."""
# ruff: noqa: D102 - a method without a docstring implements the clause beside it

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import jsonschema_rs

from toolfold_specs.driver import Group, Phase, Setup, Tool

Hook: TypeAlias = tuple[Phase, str]
Paths: TypeAlias = set[str]

CONTROLS = ("activate", "deactivate")


class Refused(Exception):
    """A request is refused, with the name of the error (SPEC ERR-1) and its details."""

    def __init__(self, error: str, **detail: Any) -> None:
        self.error = error
        self.detail = detail
        super().__init__(f"{error}: {', '.join(f'{name} {value}' for name, value in detail.items())}")


class Session:
    """The state of one session; `active` is in order of activation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.active: list[str] = []
        self.facts: dict[str, bool] = {}
        self.notifications = 0
        self.queue: list[object] = []
        """The requested transitions in order of arrival; the first one is running."""
        self.fence = 0
        """The number of processes that have served it before this one."""
        self.intent: list[Hook] = []
        """The hooks that the transition under way has begun."""
        self.abandoned: list[Hook] = []
        """Those that a stopped process had begun, which are still to be undone."""
        self.asks: Session | None = None
        """The session that one of its hooks waits for."""
        self.closed = False
        self.bound: Paths | None = None
        """The groups that exist for it, if not all do."""


class Rules:
    """Registration, planning, listing and calling."""

    def __init__(self, setup: Setup) -> None:
        self.setup: Setup = setup
        self.groups: dict[str, Group] = {}
        self.exclusions: list[Paths] = []
        self.tools: dict[str, Tool] = {}
        for group in sorted(setup.groups, key=lambda group: group.path.split(".")):
            self.register_group(group)
        for members in setup.exclusions:
            self.register_exclusion(list(members))
        for tool in setup.tools:
            self.register_tool(tool)

    # -- names and registration (SPEC 2, 3) ---------------------------------------------------------------------------

    def segment_is_valid(self, segment: str) -> bool:  # NAM-1
        return re.fullmatch("[A-Za-z0-9_-]{1,64}", segment) is not None

    def length_is_valid(self, name: str) -> bool:  # NAM-1
        return len(name) <= 128

    def check_name(self, *segments: str) -> None:  # NAM-1
        name = ".".join(segments)
        if not (all(self.segment_is_valid(segment) for segment in segments) and self.length_is_valid(name)):
            raise Refused("InvalidName", name=name)

    def check_duplicate(self, name: str, known: Iterable[str]) -> None:  # REG-4
        if name in known:
            raise Refused("DuplicateName", name=name)

    def check_parent(self, path: str) -> None:  # REG-2
        self.check_known(self.ancestors(path))

    def register_group(self, group: Group) -> None:  # REG-2, REG-4
        segments = group.path.split(".")
        for name in (segments, *([*segments, verb] for verb in CONTROLS)):
            self.check_name(*name)
        self.check_duplicate(group.path, self.groups)
        self.check_parent(group.path)
        self.groups[group.path] = group

    def register_exclusion(self, members: list[str]) -> None:  # REG-3
        self.check_known(members)
        self.check_exclusion(members)
        self.exclusions.append(set(members))

    def check_exclusion(self, members: list[str]) -> None:  # REG-3
        if len(set(members)) < 2 or any(set(self.ancestors(path)) & set(members) for path in members):
            raise Refused("ExclusionConflict", groups=members)

    def register_tool(self, tool: Tool) -> None:  # NAM-1, REG-4
        self.check_name(*([] if tool.group is None else tool.group.split(".")), tool.name)
        self.check_known([] if tool.group is None else [tool.group])
        self.check_duplicate(self.full_name(tool), self.tools)
        self.tools[self.full_name(tool)] = tool

    def full_name(self, tool: Tool) -> str:  # NAM-2
        return tool.name if tool.group is None else f"{tool.group}.{tool.name}"

    # -- the forest (SPEC 1) ------------------------------------------------------------------------------------------

    def canonical(self, paths: Iterable[str]) -> list[str]:
        """Groups in canonical order."""
        return sorted(paths, key=lambda path: path.split("."))

    def ancestors(self, path: str) -> list[str]:
        """The ancestors of a group, the topmost first."""
        segments = path.split(".")
        return [".".join(segments[:depth]) for depth in range(1, len(segments))]

    def subtree(self, path: str) -> Paths:
        """A group with its descendants."""
        return {other for other in self.groups if f"{other}.".startswith(f"{path}.")}

    def partners(self, path: str) -> Paths:
        """The groups that share an exclusion set with it."""
        return {other for members in self.exclusions if path in members for other in members} - {path}

    # -- planning (SPEC 4) -----------------------------------------------------------------------------

    def plan(self, session: Session, activate: Iterable[str], deactivate: Iterable[str]) -> list[str]:
        """The active groups after a transition (SPEC ACT-9)."""
        now = set(session.active)
        self.check_known([*deactivate, *activate])
        self.check_exists(session, [*deactivate, *activate])
        for path in self.canonical(set(deactivate)):
            now = self.deactivated(now, path)
        requested: Paths = set()
        for path in self.activation_order(activate):
            now = self.activated(now, path)
            self.check_conflict(requested, now)
            requested.add(path)
        after = [path for path in session.active if path in now] + self.canonical(now - set(session.active))
        return self.within_limit(after, session.active, requested)

    def activation_order(self, paths: Iterable[str]) -> list[str]:
        """ACT-9: ancestors first."""
        return self.canonical(set(paths))

    def check_known(self, paths: Iterable[str]) -> None:  # ACT-1
        for path in paths:
            if path not in self.groups:
                raise self.unknown(path)

    def check_exists(self, session: Session, paths: Iterable[str]) -> None:  # GWY-16
        for path in paths:
            if not self.exists(session, path):
                raise self.unknown(path)

    def exists(self, session: Session, path: str) -> bool:  # GWY-16
        return session.bound is None or path in session.bound

    def bound(self, profiles: Iterable[Iterable[str]]) -> Paths:  # GWY-16
        """The groups that exist under a profile that is within the next one, and so on."""
        known = {*self.groups}
        for one in profiles:
            known &= {path for named in one for path in (named, *self.ancestors(named))}
        return known

    def unknown(self, path: str) -> Refused:  # ACT-1
        return Refused("GroupNotFound", group=path)

    def check_ancestors(self, now: Paths, path: str) -> None:  # ACT-2
        if inactive := [ancestor for ancestor in self.ancestors(path) if ancestor not in now]:
            raise self.locked(path, inactive)

    def locked(self, path: str, inactive: list[str]) -> Refused:  # ACT-2
        return Refused("ParentInactive", missing=inactive[0])

    def check_conflict(self, requested: Paths, now: Paths) -> None:
        """ACT-9: no activation displaces an earlier one of the same transition."""
        if not requested <= now:
            raise Refused("ExclusionConflict")

    def activated(self, now: Paths, path: str) -> Paths:  # ACT-3, ACT-4
        if path in now:
            return now
        self.check_ancestors(now, path)
        return now - self.displaced(now, path) | {path}

    def displaced(self, now: Paths, path: str) -> Paths:  # ACT-4
        return {below for partner in self.partners(path) for below in self.subtree(partner)}

    def deactivated(self, now: Paths, path: str) -> Paths:  # ACT-5
        return now - self.subtree(path)

    def within_limit(self, after: list[str], before: list[str], requested: Paths) -> list[str]:  # ACT-10
        limit = self.setup.max_active
        while limit is not None and len(after) > limit and not set(after) <= set(before):
            if not (evictable := self.evictable(after, before, requested)):
                raise Refused("QuotaExceeded")
            gone = self.subtree(evictable[0])
            after = [path for path in after if path not in gone]
        return after

    def evictable(self, after: list[str], before: list[str], requested: Paths) -> list[str]:
        """ACT-10: the groups that may be evicted, in order of eviction."""
        if not self.setup.evict_oldest:
            return []
        required = requested | (set(self.setup.pinned) & set(after))
        required |= {ancestor for path in required for ancestor in self.ancestors(path)}
        return [path for path in after if path in before and path not in required]

    def use(self, session: Session, tool: Tool) -> None:  # FND-3
        if self.setup.evict_idlest and tool.group is not None and not self.is_free(tool):
            last = [*self.ancestors(tool.group), tool.group]
            session.active = [path for path in session.active if path not in last] + last

    # -- visibility and control tools (SPEC 6, 8) ---------------------------------------------------------------------

    def available(self, tool: Tool, session: Session) -> bool:  # VIS-2
        in_group = self.is_free(tool) or tool.group in session.active
        return in_group and self.is_allowed(tool, session)

    def is_allowed(self, tool: Tool, session: Session) -> bool:
        """Whether a tool's predicate holds, if it has one."""
        if tool.when == "raises":
            return self.if_raises()
        return not tool.when.startswith("fact ") or session.facts.get(tool.when.removeprefix("fact "), False)

    def if_raises(self) -> bool:  # VIS-4
        """Whether a tool whose rule raises is available."""
        return False

    def is_free(self, tool: Tool) -> bool:
        """VIS-1, VIS-2, NAM-4: whether a tool is independent of groups."""
        return tool.group is None or tool.when == "always" or self.replaces_control(tool)

    def replaces_control(self, tool: Tool) -> bool:  # NAM-4
        return tool.group is not None and tool.name in CONTROLS

    def listed(self, tool: Tool, session: Session) -> bool:  # VIS-6
        return self.available(tool, session) and not tool.hidden

    def callable(self, tool: Tool, session: Session) -> bool:  # VIS-5
        return self.available(tool, session)

    def control_exists(self, group: Group, verb: str) -> bool:  # CTL-1, NAM-4, FND-4
        closed = group.deactivator and group.path not in self.setup.pinned
        return (verb == "activate" or closed) and f"{group.path}.{verb}" not in self.tools

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:  # CTL-2
        useful = self.state(group.path, session) == {"activate": "inactive", "deactivate": "active"}[verb]
        return self.control_exists(group, verb) and (useful or not self.setup.relevant_controls)

    def control(self, name: str) -> tuple[str, str] | None:
        """Verb and group of the control tool of that name, if there is one."""
        path, _, verb = name.rpartition(".")
        known = verb in CONTROLS and path in self.groups and self.control_exists(self.groups[path], verb)
        return (verb, path) if known else None

    # -- lists (SPEC 7) -----------------------------------------------------------------------------------------------

    def names(self, session: Session) -> list[str]:
        """Everything that is listed."""
        controls = [(group, verb) for group in self.groups.values() for verb in CONTROLS]
        names = [self.full_name(tool) for tool in self.tools.values() if self.listed(tool, session)]
        names += [f"{group.path}.{verb}" for group, verb in controls if self.control_listed(group, verb, session)]
        return self.sorted_names(names)

    def sorted_names(self, names: list[str]) -> list[str]:  # LST-1
        return sorted(names)

    def page(self, session: Session, cursor: str | None) -> tuple[list[str], str | None]:  # LST-2
        names = self.names(session)
        rest = names if cursor is None else self.after_cursor(names, cursor)
        size = self.setup.page_size
        return (rest, None) if size is None or len(rest) <= size else (rest[:size], self.cursor(names, rest[size - 1]))

    def cursor(self, names: list[str], last: str) -> str:
        """LST-2: the cursor of the page after the name `last`."""
        return f"after {last}".encode().hex()

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:  # LST-2, LST-3
        try:
            last = bytes.fromhex(cursor).decode()
        except ValueError:
            last = ""
        if not last.startswith("after "):
            return self.bad_cursor(names)
        return [name for name in names if name > last.removeprefix("after ")]

    def bad_cursor(self, names: list[str]) -> list[str]:  # LST-3
        raise Refused("InvalidCursor")

    def state(self, path: str, session: Session) -> str:
        """The state of a group's region (SPEC 4)."""
        if not set(self.ancestors(path)) <= set(session.active):
            return "locked"
        return "active" if path in session.active else "inactive"

    def tool_count(self, path: str) -> int:
        """LST-4: the number of tools directly in a group."""
        return len([tool for tool in self.tools.values() if tool.group == path])

    def group_infos(self, session: Session) -> list[dict[str, Any]]:  # LST-4
        known = [path for path in self.canonical(self.groups) if self.exists(session, path)]
        states = {path: self.state(path, session) for path in known}
        return [
            {"name": path, "state": state, "active": path in session.active, "tools": self.tool_count(path)}
            for path, state in states.items()
        ]

    # -- calling (SPEC 9) ---------------------------------------------------------------------------------------------

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """The text of a call's result, and whether it is an error."""
        tool = self.tools.get(name)
        if tool is None or not self.callable(tool, session):
            raise self.not_found(name, tool)
        self.use(session, tool)
        problem = self.problem(tool, arguments)
        return self.handle(tool, arguments) if problem is None else (problem, True)

    def not_found(self, name: str, tool: Tool | None) -> Refused:
        """CALL-1: the only refusal of a call."""
        return Refused("ToolNotFound", name=name)

    def problem(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        """CALL-2: the first problem with the arguments and its location."""
        schema = dict(tool.input_schema or {})
        for error in jsonschema_rs.validator_for(schema).iter_errors(dict(arguments)):
            return f"/{'/'.join(map(str, error.instance_path))}: {error.message}"
        return None

    def handle(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """CALL-3: the result of the tool's handler."""
        if tool.does == "echo":
            return json.dumps({"tool": self.full_name(tool), "arguments": dict(arguments)}), False
        return ("refused on purpose" if tool.does == "refuse" else "The tool failed."), True

    def why(self, session: Session, name: str) -> str:  # EXP-1
        tool = self.tools.get(name)
        if tool is None:
            return "unknown"
        if self.available(tool, session):
            return "hidden" if tool.hidden else "listed"
        if tool.group is None or self.is_free(tool) or tool.group in session.active:
            return "predicate"
        closed = {*self.ancestors(tool.group), tool.group} - set(session.active)
        apart = (closed & set(members) and set(members) & set(session.active) for members in self.setup.exclusions)
        return "excluded" if any(apart) else "group" if closed == {tool.group} else "ancestor"

    # -- persistence (SPEC 12) ----------------------------------------------------------------------------------------

    def dump(self, session: Session) -> dict[str, Any]:  # PER-1
        return {"active": list(session.active), "facts": dict(session.facts)}

    def load(self, session: Session, data: Mapping[str, Any]) -> list[str]:  # PER-1, PER-2
        """Restore a session; the result is the groups that are discarded."""
        session.facts = dict(data["facts"])
        normalised = self.normalised(data["active"])
        session.active = [path for path in data["active"] if path in normalised]
        return [path for path in data["active"] if path not in normalised]

    def normalised(self, paths: Iterable[str]) -> Paths:  # PER-2
        restored = {path for path in paths if path in self.groups and set(self.ancestors(path)) <= set(paths)}
        for path in self.preferred(restored):
            if path in restored:
                restored -= self.displaced(restored, path)
        return restored

    def preferred(self, paths: Iterable[str]) -> list[str]:
        """PER-2: the first group of an exclusion set in canonical order is restored."""
        return self.canonical(paths)
