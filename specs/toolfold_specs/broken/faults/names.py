"""Faults of names and registration (SPEC 2, 3)."""
# ruff: noqa: D102 - what each replaced method is to do stands where it is replaced from

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar

from ...driver import Group, Tool
from ..fault import Broken
from ..rules import Refused, Session


class Registration(Broken):
    """What is wrong here shows when a system is configured."""

    layer: ClassVar[str] = "vectors"


class AnyCharacter(Registration):
    """Takes any character in a name."""

    clauses = ("NAM-1",)

    def segment_is_valid(self, segment: str) -> bool:
        return 1 <= len(segment) <= 64


class AnyLetter(Registration):
    """Takes the letters and digits of every script in a name."""

    clauses = ("NAM-1",)

    def segment_is_valid(self, segment: str) -> bool:
        return 1 <= len(segment) <= 64 and segment.replace("_", "x").replace("-", "x").isalnum()


class TrailingNewline(Registration):
    """Takes a segment that ends with a line break, as a pattern with `$` does."""

    clauses = ("NAM-1",)

    def segment_is_valid(self, segment: str) -> bool:
        return super().segment_is_valid(segment.removesuffix("\n"))


class EmptySegment(Registration):
    """Takes an empty segment."""

    clauses = ("NAM-1",)

    def segment_is_valid(self, segment: str) -> bool:
        return not segment or super().segment_is_valid(segment)


class LongSegment(Registration):
    """Takes a segment of 65 characters."""

    clauses = ("NAM-1",)

    def segment_is_valid(self, segment: str) -> bool:
        return super().segment_is_valid(segment[:64])


class LongName(Registration):
    """Takes a full name of any length."""

    clauses = ("NAM-1",)

    def length_is_valid(self, name: str) -> bool:
        return True


class NoHyphens(Registration):
    """Refuses a hyphen in a name."""

    clauses = ("NAM-1",)

    def segment_is_valid(self, segment: str) -> bool:
        return "-" not in segment and super().segment_is_valid(segment)


class ShortSegment(Registration):
    """Refuses a segment of 64 characters."""

    clauses = ("NAM-1",)

    def segment_is_valid(self, segment: str) -> bool:
        return len(segment) < 64 and super().segment_is_valid(segment)


class NameFirst(Broken):
    """Puts a tool's own name before its group's."""

    clauses = ("NAM-2",)

    def full_name(self, tool: Tool) -> str:
        return tool.name if tool.group is None else f"{tool.name}.{tool.group}"


class OtherSeparator(Broken):
    """Joins group and tool by an underscore."""

    clauses = ("NAM-2",)

    def full_name(self, tool: Tool) -> str:
        return tool.name if tool.group is None else f"{tool.group}_{tool.name}"


class ReplacementWithGroup(Broken):
    """Shows a user's own activator only while its group is active, so that nobody can call it."""

    clauses = ("NAM-4",)
    layer = "vectors"

    def replaces_control(self, tool: Tool) -> bool:
        return False


class ControlWins(Broken):
    """Keeps the generated control tool, and not the user's of the same name."""

    clauses = ("NAM-4",)
    also = ("NTF-3",)
    layer = "vectors"

    def listed(self, tool: Tool, session: Session) -> bool:
        return super().listed(tool, session) and not self.replaces_control(tool)


class BothControls(Broken):
    """Lists the generated control tool beside the user's that replaces it."""

    clauses = ("NAM-4",)
    layer = "vectors"

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        return super().control_listed(group, verb, session) or f"{group.path}.{verb}" in self.tools


class SkippedLevel(Registration):
    """Takes a group whose parent does not exist."""

    clauses = ("REG-2",)

    def check_parent(self, path: str) -> None:
        pass


class RootMustExist(Registration):
    """Takes a group if the topmost of those that it would be in exists."""

    clauses = ("REG-2",)

    def check_parent(self, path: str) -> None:
        if "." in path and path.partition(".")[0] not in self.groups:
            super().check_parent(path)


class LonelyExclusion(Registration):
    """Takes an exclusion set of one group."""

    clauses = ("REG-3",)

    def check_exclusion(self, members: list[str]) -> None:
        if len(set(members)) != 1:
            super().check_exclusion(members)


class RelatedExclusion(Registration):
    """Takes an exclusion between a group and one that it contains."""

    clauses = ("REG-3",)

    def check_exclusion(self, members: list[str]) -> None:
        if len(set(members)) < 2:
            super().check_exclusion(members)


class ParentExclusionOnly(Registration):
    """Refuses an exclusion with the parent, and takes one with the grandparent."""

    clauses = ("REG-3",)

    def ancestors(self, path: str) -> list[str]:
        return super().ancestors(path)[-1:] if self.in_exclusion else super().ancestors(path)

    in_exclusion = False

    def check_exclusion(self, members: list[str]) -> None:
        self.in_exclusion = True
        super().check_exclusion(members)
        self.in_exclusion = False


class UnknownExcluded(Registration):
    """Takes an exclusion set with a group that does not exist."""

    clauses = ("REG-3",)

    def register_exclusion(self, members: Iterable[str]) -> None:
        given = set(members)
        if given <= set(self.groups):
            super().register_exclusion(members)
        else:
            self.exclusions.append(given & set(self.groups))


class LastToolWins(Registration):
    """Lets a second tool of a name take the place of the first."""

    clauses = ("REG-4",)

    def register_tool(self, tool: Tool) -> None:
        self.tools.pop(tool.full_name, None)
        super().register_tool(tool)


class LastGroupWins(Registration):
    """Lets a second group of a name take the place of the first."""

    clauses = ("REG-4",)

    def register_group(self, group: Group) -> None:
        self.groups.pop(group.path, None)
        super().register_group(group)


class NoExclusions(Registration):
    """Refuses every system that has an exclusion set."""

    clauses = ("REG-3",)
    layer = "exhaustive"

    def check_exclusion(self, members: list[str]) -> None:
        raise Refused("ExclusionConflict")


class WrongRefusal(Registration):
    """Says that a group was not found where its name is taken."""

    clauses = ("REG-4",)

    def check_duplicate(self, name: str, known: Iterable[str]) -> None:
        if name in known:
            raise Refused("GroupNotFound")


class SwallowedErrors(Registration):
    """Leaves out of a system what breaks a rule of exclusion, and says nothing."""

    clauses = ("REG-3",)

    def register_exclusion(self, members: Iterable[str]) -> None:
        with suppress(Refused):
            super().register_exclusion(members)
