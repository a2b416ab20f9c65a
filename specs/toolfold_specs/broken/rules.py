"""The rules, decided the plain way: sets of paths, one method for each decision.

A session is the holder of some state; everything else is worked out anew each time it is asked for.
"""

from __future__ import annotations

import json
import re
from asyncio import Lock
from collections.abc import Iterable, Mapping
from typing import Any

import jsonschema_rs

from ..driver import Group, Setup, Tool

CONTROLS = ("activate", "deactivate")


class Refused(Exception):
    """A request is refused, with the name of the error (SPEC ERR-1) and what it names."""

    def __init__(self, error: str, **detail: Any) -> None:
        self.error = error
        self.detail = detail
        self.text = f"{error}: {', '.join(f'{name} {value}' for name, value in detail.items())}"
        super().__init__(self.text)


class ForTheModel(Exception):
    """What a handler wants the model to read (SPEC CALL-3)."""


class Session:
    """One holder's state. `active` has the oldest first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.active: list[str] = []
        self.facts: dict[str, bool] = {}
        self.notices = 0
        self.lock = Lock()
        self.ended = False
        self.memory: set[str] = set()
        """Of variants that remember what they should not."""


class Rules:
    """What may be registered, what a step comes to, what is listed, and what may be called."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.groups: dict[str, Group] = {}
        self.exclusions: list[set[str]] = []
        self.tools: dict[str, Tool] = {}
        for group in sorted(setup.groups, key=lambda group: group.path.split(".")):
            self.register_group(group)
        for members in setup.exclusions:
            self.register_exclusion(members)
        for tool in setup.tools:
            self.register_tool(tool)

    # -- names and registration (SPEC 2, 3) ---------------------------------------------------------------------------

    def segment_is_valid(self, segment: str) -> bool:
        """Whether it may be one part of a name (SPEC NAM-1)."""
        return re.fullmatch("[A-Za-z0-9_-]{1,64}", segment) is not None

    def length_is_valid(self, name: str) -> bool:
        """Whether a full name is short enough (SPEC NAM-1)."""
        return len(name) <= 128

    def check_name(self, *segments: str) -> None:
        """Refuse what is not a name (SPEC NAM-1)."""
        for segment in segments:
            if not self.segment_is_valid(segment):
                raise Refused("InvalidName", part=segment)
        if not self.length_is_valid(name := ".".join(segments)):
            raise Refused("InvalidName", part=name)

    def check_duplicate(self, name: str, known: Iterable[str]) -> None:
        """Refuse what is there already (SPEC REG-4)."""
        if name in known:
            raise Refused("DuplicateName", name=name)

    def check_parent(self, path: str) -> None:
        """Refuse a path that skips a level (SPEC REG-2)."""
        for ancestor in self.ancestors(path):
            if ancestor not in self.groups:
                raise Refused("GroupNotFound", group=ancestor)

    def register_group(self, group: Group) -> None:
        """Take a group in, with the names of its control tools."""
        segments = group.path.split(".")
        self.check_name(*segments)
        for control in CONTROLS:
            self.check_name(*segments, control)
        self.check_duplicate(group.path, self.groups)
        self.check_parent(group.path)
        self.groups[group.path] = group

    def register_exclusion(self, members: Iterable[str]) -> None:
        """Take an exclusion set in (SPEC REG-3)."""
        given = list(members)
        for path in given:
            if path not in self.groups:
                raise Refused("GroupNotFound", group=path)
        self.check_exclusion(given)
        self.exclusions.append(set(given))

    def check_exclusion(self, members: list[str]) -> None:
        """Refuse too few groups, and groups of which one contains another (SPEC REG-3)."""
        if len(set(members)) < 2:
            raise Refused("ExclusionConflict", groups=members)
        for path in members:
            if set(self.ancestors(path)) & set(members):
                raise Refused("ExclusionConflict", groups=members)

    def register_tool(self, tool: Tool) -> None:
        """Take a tool in, perhaps in the place of a control tool (SPEC NAM-4)."""
        segments = [] if tool.group is None else tool.group.split(".")
        self.check_name(*segments, tool.name)
        if tool.group is not None and tool.group not in self.groups:
            raise Refused("GroupNotFound", group=tool.group)
        self.check_duplicate(self.full_name(tool), self.tools)
        self.tools[self.full_name(tool)] = tool

    def full_name(self, tool: Tool) -> str:
        """The name that a tool is listed and called by (SPEC NAM-2)."""
        return tool.name if tool.group is None else f"{tool.group}.{tool.name}"

    # -- the forest ---------------------------------------------------------------------------------------------------

    def canonical(self, paths: Iterable[str]) -> list[str]:
        """Groups in canonical order (SPEC 1)."""
        return sorted(paths, key=lambda path: path.split("."))

    def ancestors(self, path: str) -> list[str]:
        """What a group is in, the topmost first."""
        segments = path.split(".")
        return [".".join(segments[:depth]) for depth in range(1, len(segments))]

    def subtree(self, path: str) -> set[str]:
        """A group and everything below it."""
        return {other for other in self.groups if other == path or other.startswith(path + ".")}

    def partners(self, path: str) -> set[str]:
        """The groups that share an exclusion set with it."""
        return {other for members in self.exclusions if path in members for other in members} - {path}

    # -- transitions (SPEC 4) -----------------------------------------------------------------------------------------

    def plan(self, session: Session, activate: Iterable[str], deactivate: Iterable[str]) -> list[str]:
        """The active groups after a step, the oldest first (SPEC ACT-9)."""
        now = set(session.active)
        self.check_known([*deactivate, *activate])
        for path in self.canonical(set(deactivate)):
            now = self.deactivated(now, path)
        wanted: set[str] = set()
        for path in self.activation_order(activate):
            now = self.activated(now, path)
            self.check_conflict(wanted, now)
            wanted.add(path)
        return self.within_limit(self.in_order(session.active, now), session.active, wanted)

    def activation_order(self, paths: Iterable[str]) -> list[str]:
        """The order in which a step activates: ancestors first (SPEC ACT-9)."""
        return self.canonical(set(paths))

    def check_known(self, paths: Iterable[str]) -> None:
        """Refuse groups that don't exist (SPEC ACT-1)."""
        for path in paths:
            if path not in self.groups:
                raise Refused("GroupNotFound", group=path)

    def check_ancestors(self, now: set[str], path: str) -> None:
        """Refuse to activate a group within an inactive one (SPEC ACT-2)."""
        for ancestor in self.ancestors(path):
            if ancestor not in now:
                raise Refused("ParentInactive", missing=ancestor)

    def check_conflict(self, wanted: set[str], now: set[str]) -> None:
        """Refuse a step whose later activation displaces an earlier one (SPEC ACT-9)."""
        if not wanted <= now:
            raise Refused("ExclusionConflict")

    def activated(self, now: set[str], path: str) -> set[str]:
        """The active groups after an activation (SPEC ACT-3, ACT-4)."""
        if path in now:
            return now
        self.check_ancestors(now, path)
        return now - self.displaced(now, path) | {path}

    def displaced(self, now: set[str], path: str) -> set[str]:
        """What an activation switches off (SPEC ACT-4)."""
        return {below for partner in self.partners(path) for below in self.subtree(partner)}

    def deactivated(self, now: set[str], path: str) -> set[str]:
        """The active groups after a deactivation (SPEC ACT-5)."""
        return now - self.subtree(path)

    def in_order(self, before: list[str], now: set[str]) -> list[str]:
        """The oldest first: what stays keeps its place, what enters follows."""
        return [path for path in before if path in now] + self.canonical(now - set(before))

    def within_limit(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        """The same within the limit on active groups, or a refusal (SPEC ACT-10)."""
        limit = self.setup.max_active
        if limit is None or set(after) <= set(before):
            return after
        while len(after) > limit:
            if not (evictable := self.evictable(after, before, wanted)):
                raise Refused("QuotaExceeded")
            gone = self.subtree(evictable[0])
            after = [path for path in after if path not in gone]
        return after

    def evictable(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        """What may be evicted, in the order in which it is (SPEC ACT-10)."""
        if not self.setup.evict_oldest:
            return []
        kept = wanted | (set(self.setup.pinned) & set(after))
        kept |= {ancestor for path in kept for ancestor in self.ancestors(path)}
        return [path for path in after if path in before and path not in kept]

    # -- visibility and lists (SPEC 6, 7) -----------------------------------------------------------------------------

    def available(self, tool: Tool, session: Session) -> bool:
        """Whether the tool's rule holds (SPEC VIS-2)."""
        if tool.when.startswith("fact "):
            return session.facts.get(tool.when.removeprefix("fact "), False)
        if tool.when == "always" or tool.group is None or self.replaces_control(tool):
            return True
        return tool.group in session.active

    def replaces_control(self, tool: Tool) -> bool:
        """Whether a user's tool stands in the place of a control tool (SPEC NAM-4)."""
        return tool.group is not None and tool.name in CONTROLS

    def listed(self, tool: Tool, session: Session) -> bool:
        """Whether the tool is in lists (SPEC VIS-6)."""
        return self.available(tool, session) and not tool.hidden

    def callable(self, tool: Tool, session: Session) -> bool:
        """Whether the tool may be called (SPEC VIS-5)."""
        return self.available(tool, session)

    def control_exists(self, group: Group, verb: str) -> bool:
        """Whether a group has a control tool (SPEC CTL-1, NAM-4)."""
        return (verb == "activate" or group.deactivator) and f"{group.path}.{verb}" not in self.tools

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        """Whether a control tool is in lists (SPEC CTL-2)."""
        if not self.control_exists(group, verb):
            return False
        if not self.setup.relevant_controls:
            return True
        return self.state(group.path, session) == {"activate": "inactive", "deactivate": "active"}[verb]

    def control(self, name: str) -> tuple[str, str] | None:
        """Verb and group of a control tool of that name."""
        path, _, verb = name.rpartition(".")
        known = verb in CONTROLS and path in self.groups and self.control_exists(self.groups[path], verb)
        return (verb, path) if known else None

    def names(self, session: Session) -> list[str]:
        """Everything that is listed (SPEC LST-1)."""
        tools = [self.full_name(tool) for tool in self.tools.values() if self.listed(tool, session)]
        controls = [
            f"{group.path}.{verb}"
            for group in self.groups.values()
            for verb in CONTROLS
            if self.control_listed(group, verb, session)
        ]
        return self.sorted_names(tools + controls)

    def sorted_names(self, names: list[str]) -> list[str]:
        """The order of a list (SPEC LST-1)."""
        return sorted(names)

    def page(self, session: Session, cursor: str | None) -> tuple[list[str], str | None]:
        """One page, and the cursor of the next (SPEC LST-2)."""
        names = self.names(session)
        rest = names if cursor is None else self.after_cursor(names, cursor)
        size = self.setup.page_size
        if size is None or len(rest) <= size:
            return rest, None
        return rest[:size], self.cursor_at(names, rest[size - 1])

    def cursor_at(self, names: list[str], last: str) -> str:
        """The cursor of the page after the one that ends with the name `last`."""
        return f"after {last}".encode().hex()

    def after_cursor(self, names: list[str], cursor: str) -> list[str]:
        """What comes after a cursor (SPEC LST-2, LST-3)."""
        try:
            word, last = bytes.fromhex(cursor).decode().split(" ")
        except ValueError:
            word, last = "", ""
        if word != "after":
            raise Refused("InvalidCursor")
        return [name for name in names if name > last]

    def state(self, path: str, session: Session) -> str:
        """What a group is seen as (SPEC 4)."""
        if not set(self.ancestors(path)) <= set(session.active):
            return "locked"
        return "active" if path in session.active else "inactive"

    def count(self, path: str) -> int:
        """How many user tools are directly in a group (SPEC LST-4)."""
        return len([tool for tool in self.tools.values() if tool.group == path])

    def group_infos(self, session: Session) -> list[dict[str, Any]]:
        """All groups with their states (SPEC LST-4)."""
        return [
            {
                "name": path,
                "state": self.state(path, session),
                "active": path in session.active,
                "tools": self.count(path),
            }
            for path in self.canonical(self.groups)
        ]

    # -- calling (SPEC 9) ---------------------------------------------------------------------------------------------

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Text of the result, and whether it is an error."""
        tool = self.tools.get(name)
        if tool is None or not self.callable(tool, session):
            raise self.not_found(name, tool)
        if problem := self.problem(tool, arguments):
            return problem, True
        try:
            return self.handle(tool, arguments), False
        except ForTheModel as error:
            return str(error), True
        except RuntimeError as error:
            return self.crash_text(tool, error), True

    def not_found(self, name: str, tool: Tool | None) -> Refused:
        """The one answer to a call of what can't be called (SPEC CALL-1)."""
        return Refused("ToolNotFound", name=name)

    def problem(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with the arguments, and where (SPEC CALL-2)."""
        if tool.input_schema is None:
            return None
        for error in jsonschema_rs.validator_for(dict(tool.input_schema)).iter_errors(dict(arguments)):
            return f"/{'/'.join(map(str, error.instance_path))}: {error.message}"
        return None

    def handle(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """What the handlers of a setup do."""
        if tool.does == "refuse":
            raise ForTheModel("refused on purpose")
        if tool.does == "crash":
            raise RuntimeError("secret")
        return json.dumps({"tool": self.full_name(tool), "arguments": dict(arguments)})

    def crash_text(self, tool: Tool, error: Exception) -> str:
        """What the model is told of a handler that crashed (SPEC CALL-3)."""
        return "The tool failed."

    # -- persistence (SPEC 12) ----------------------------------------------------------------------------------------

    def dump(self, session: Session) -> dict[str, Any]:
        """A session's state as JSON data (SPEC PER-1)."""
        return {"active": list(session.active), "facts": dict(session.facts)}

    def load(self, session: Session, data: Mapping[str, Any]) -> None:
        """Bring a dumped state back, normalised (SPEC PER-2)."""
        session.facts = dict(data["facts"])
        session.active = [path for path in data["active"] if path in self.normalised(data["active"])]

    def normalised(self, paths: Iterable[str]) -> set[str]:
        """What of it may be active here (SPEC PER-2)."""
        known = {path for path in paths if path in self.groups}
        kept = {path for path in known if set(self.ancestors(path)) <= known}
        for path in self.canonical(kept):
            if path in kept:
                kept -= self.displaced(kept, path)
        return kept
