"""Mutants of names and registration (SPEC 2 and 3)."""
# ruff: noqa: D103 - the table says what is wrong with each

from __future__ import annotations

import re
from contextlib import suppress

from toolfold_specs.driver import Group, Tool

from .engine import Engine, Refused
from .mutant import Mutant, Right, exhaustive, refuse, vectors


def last_tool_wins(right: Right[None], self: Engine, tool: Tool) -> None:
    self.tools.pop(tool.full_name, None)
    right()


def last_group_wins(right: Right[None], self: Engine, group: Group) -> None:
    self.groups.pop(group.path, None)
    right()


def swallowed(right: Right[None], self: Engine, members: list[str]) -> None:
    with suppress(Refused):
        right()


MUTANTS: tuple[Mutant, ...] = (
    vectors("accepts any character in a name", "NAM-1")(
        Engine.segment_is_valid, lambda right, self, segment: 1 <= len(segment) <= 64
    ),
    vectors("accepts letters of every script in a name", "NAM-1")(
        Engine.segment_is_valid, lambda right, self, segment: bool(re.fullmatch(r"[\w-]{1,64}", segment))
    ),
    vectors("accepts a line break at the end of a name", "NAM-1")(
        Engine.segment_is_valid,
        lambda right, self, segment: right() or (segment.endswith("\n") and self.segment_is_valid(segment[:-1])),
    ),
    vectors("accepts an empty segment", "NAM-1")(
        Engine.segment_is_valid, lambda right, self, segment: not segment or right()
    ),
    vectors("accepts a segment of 65 characters", "NAM-1")(
        Engine.segment_is_valid, lambda right, self, segment: right() or len(segment) == 65
    ),
    vectors("refuses hyphens", "NAM-1")(
        Engine.segment_is_valid, lambda right, self, segment: "-" not in segment and right()
    ),
    vectors("refuses a segment of 64 characters", "NAM-1")(
        Engine.segment_is_valid, lambda right, self, segment: len(segment) < 64 and right()
    ),
    vectors("accepts a full name of any length", "NAM-1")(Engine.length_is_valid, lambda right, self, name: True),
    exhaustive("puts the tool's name before the group's", "NAM-2")(
        Engine.full_name, lambda right, self, tool: ".".join(right().split(".")[::-1])
    ),
    exhaustive("joins group and tool by an underscore", "NAM-2")(
        Engine.full_name, lambda right, self, tool: "_".join(right().rsplit(".", 1))
    ),
    vectors("shows the user's own activator only while its group is active", "NAM-4")(
        Engine.replaces_control, lambda right, self, tool: False
    ),
    vectors("hides the user's tool that replaces a control tool", "NAM-4", also=["NTF-3"])(
        Engine.listed, lambda right, self, tool, session: right() and not self.replaces_control(tool)
    ),
    vectors("lists a control tool beside the user's that replaces it", "NAM-4")(
        Engine.control_listed, lambda right, self, group, verb, session: right() or f"{group.path}.{verb}" in self.tools
    ),
    vectors("accepts a group without its parent", "REG-2")(Engine.check_parent, lambda right, self, path: None),
    vectors("accepts a group if its topmost ancestor exists", "REG-2")(
        Engine.check_parent, lambda right, self, path: self.check_known(self.ancestors(path)[:1])
    ),
    vectors("accepts an exclusion set of one group", "REG-3")(
        Engine.check_exclusion, lambda right, self, members: None if len(set(members)) == 1 else right()
    ),
    vectors("accepts an exclusion between ancestor and descendant", "REG-3")(
        Engine.check_exclusion, lambda right, self, members: None if len(set(members)) > 1 else right()
    ),
    vectors("accepts an exclusion between grandparent and grandchild", "REG-3")(
        Engine.check_exclusion,
        lambda right, self, members: (
            None if len(set(members)) > 1 and {p.rpartition(".")[0] for p in members}.isdisjoint(members) else right()
        ),
    ),
    vectors("accepts an unknown group in an exclusion set", "REG-3")(
        Engine.register_exclusion,
        lambda right, self, members: (
            right() if set(members) <= set(self.groups) else self.exclusions.append(set(members) & set(self.groups))
        ),
    ),
    vectors("silently leaves out invalid exclusion sets", "REG-3")(Engine.register_exclusion, swallowed),
    exhaustive("refuses every exclusion set", "REG-3")(
        Engine.check_exclusion, lambda right, self, members: refuse("ExclusionConflict")
    ),
    vectors("replaces a tool by another of its name", "REG-4")(Engine.register_tool, last_tool_wins),
    vectors("replaces a group by another of its name", "REG-4")(Engine.register_group, last_group_wins),
    vectors("reports a name that is taken as a group that is not found", "REG-4")(
        Engine.check_duplicate, lambda right, self, name, known: name in known and refuse("GroupNotFound")
    ),
)
