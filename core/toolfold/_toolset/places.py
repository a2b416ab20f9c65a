"""Where registered things belong: their full names, groups and rules (SPEC NAM-2, NAM-4, NAM-5, VIS-1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._catalog.components import Kind
from .._catalog.rules import Always, Group, Visibility, groups_of
from .._names import check_name, check_segment, is_text, qualified_name, split_name
from ..errors import InvalidDefinition, InvalidName
from .control import RESERVED

Place = tuple[str, str | None, Visibility]
"""The full name or the URI of something, its group, and its rule."""


def group_path(name: str, parent: str | None) -> str:
    """Return the path of a group that is given by a segment and its parent, or by its path."""
    check_name(name)
    above, segment = split_name(name)
    if parent is None:
        return name
    if above and above != parent:
        raise InvalidName(name, name, f"it is not directly in its parent {parent!r}")
    return check_name(f"{check_name(parent)}.{segment}")


def place_of(kind: Kind, name: str, given: Mapping[str, Any], known: Callable[[str], object]) -> Place:
    """Return where something belongs that is registered under a name, base or full, or under a URI.

    `given` are its options. `known` raises unless a group exists: its own, and those that its rules mention.
    """
    group, rule, flat = given.get("group"), given.get("visibility"), given.get("flat", False)
    base = name
    if kind in ("tool", "prompt"):
        group, base = _split(name, group, flat)
    else:
        flat = True
    for rule_of in (rule, given.get("hidden")):
        for mentioned in sorted(groups_of(rule_of)) if isinstance(rule_of, Visibility) else ():
            known(mentioned)
    if group is None and isinstance(rule, Group):
        group, flat = rule.path, True
    if group is None:
        return base, None, Always() if rule is None else rule
    known(group)
    full = base if flat else qualified_name(group, base)
    if kind == "tool" and base in RESERVED and not flat:
        return full, group, _replacement_rule(full, rule)
    return full, group, Group(group) if rule is None else rule


def _split(name: str, group: str | None, flat: bool) -> tuple[str | None, str]:
    """Return the group and the base name of what is registered under a name, base or full."""
    if not is_text(name):
        raise InvalidName(str(name), str(name), "a name is a text")
    above, base = split_name(name)
    if base != name:
        check_name(name)
        if flat or (group is not None and group != above):
            raise InvalidName(name, name, "a dotted name is a full name, and its group must agree with it")
        group = above
    check_segment(base, name)
    return group, base


def _replacement_rule(name: str, rule: Visibility | None) -> Visibility:
    if rule is None:
        return Always()
    if groups_of(rule):
        raise InvalidDefinition(
            name, "it takes the place of a control tool, so it must not depend on a group being active"
        )
    return rule
