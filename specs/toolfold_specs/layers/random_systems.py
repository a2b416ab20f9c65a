"""Strategies of Hypothesis: random systems of up to ten groups that a driver supports."""

from __future__ import annotations

from collections.abc import Sequence

from toolfold_specs.extras import extras_named

from ..driver import PHASES, Group, Setup, Tool
from ..reference import Parents, legal_exclusion
from ..runs import TestRun

with extras_named():
    from hypothesis import strategies as st

NAMES = ("b", "a", "a-b", "a1", "B", "c", "c_d", "d", "e", "f0")
"""The names of groups: "a" and its descendants precede "a-b" in canonical order, but not in that of full names."""

FACT = "key"


@st.composite
def _forests(draw: st.DrawFn) -> tuple[Parents, tuple[str, ...]]:
    """Draw parents, with many chains, many roots or neither, and the path of each group."""
    size = draw(st.integers(3, len(NAMES)))
    shape = draw(st.sampled_from((("last",) * 5 + ("root",), ("last", "root", "any"), ("root", "root", "any"))))
    names = draw(st.permutations(NAMES))
    parents: list[int | None] = []
    paths: list[str] = []
    for number in range(size):
        below = draw(st.sampled_from(shape)) if number else "root"
        parent = {"last": number - 1, "root": None, "any": number and draw(st.integers(0, number - 1))}[below]
        parents.append(parent)
        paths.append(names[number] if parent is None else f"{paths[parent]}.{names[number]}")
    return tuple(parents), tuple(paths)


@st.composite
def _exclusions(draw: st.DrawFn, parents: Parents) -> tuple[tuple[int, ...], ...]:
    """Draw exclusion sets of two to four members, and drop members that make a set illegal."""
    groups = st.integers(0, len(parents) - 1)
    found: list[tuple[int, ...]] = []
    most = draw(st.sampled_from((1, 2, 4, 0)))
    for drawn in draw(
        st.lists(st.lists(groups, min_size=2, max_size=5, unique=True), min_size=most and 1, max_size=most)
    ):
        members = drawn[:1]
        for group in drawn[1:]:
            if len(members) < 4 and legal_exclusion(parents, frozenset((*members, group))):
                members.append(group)
        if len(members) > 1:
            found.append(tuple(members))
    return tuple(found)


@st.composite
def random_systems(draw: st.DrawFn, test_run: TestRun) -> Setup:
    """Draw a system of which the driver can do everything."""
    parents, paths = draw(_forests())
    sets = draw(_exclusions(parents))
    phases = [PHASES[:2], PHASES, PHASES[:2], PHASES[:1], PHASES[1:2], ()] if test_run.can("hooks") else [()]
    limited = test_run.can("limits") and draw(st.integers(0, 2)) == 0
    groups = [Group(path, hooks=draw(st.sampled_from(phases))) for path in paths]
    excluded = {paths[member] for members in sets for member in members}
    free = [group.path for group in groups if not group.hooks and "." not in group.path and group.path not in excluded]
    return Setup(
        groups=tuple(groups),
        exclusions=tuple(tuple(paths[member] for member in members) for members in sets),
        tools=draw(_tools(paths, test_run.can("facts"), test_run.can("hidden tools"))),
        page_size=draw(st.none() | st.integers(1, 6)) if test_run.can("paging") else None,
        max_active=draw(st.sampled_from((3, 2, 4, 1, 6))) if limited else None,
        evict_oldest=limited and draw(st.integers(0, 3)) > 0,
        pinned=draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if limited and free else (),
        relevant_controls=test_run.can("listing", "relevant controls") and draw(st.booleans()),
    )


@st.composite
def _tools(draw: st.DrawFn, paths: Sequence[str], facts: bool, hiding: bool) -> tuple[Tool, ...]:
    """Draw a tool for root and each group, hidden in some, and more of all kinds."""
    rules = ("group", "always", *([f"fact {FACT}"] if facts else []))
    extra = st.builds(
        Tool,
        st.sampled_from(("more", "other")),
        st.sampled_from((None, *paths)),
        st.sampled_from(rules),
        st.booleans() if hiding else st.just(False),
        st.sampled_from(("echo", "refuse", "crash")),
    )
    more = draw(st.lists(extra, max_size=6, unique_by=lambda tool: tool.full_name))
    hidden = draw(st.lists(st.sampled_from(paths), max_size=3)) if hiding else []
    return (Tool("root"), *(Tool("tool", path, hidden=path in hidden) for path in paths), *more)
