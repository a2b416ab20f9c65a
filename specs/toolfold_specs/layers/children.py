"""Children, whose profile is within that of their parent: no request gets them what that one can't have (GWY-16)."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

from ..driver import Answer, Group, Operation, Setup, Tool
from ..drivers.messages import checked
from ..runs import TestRun

SETUP = Setup(
    groups=[Group(path) for path in ("a", "a.b", "a.c", "d")],
    exclusions=[("a.b", "a.c")],
    tools=[Tool("root"), *(Tool("tool", path) for path in ("a", "a.b", "a.c", "d"))],
)
NAMED = tuple(one for size in range(1, 3) for one in combinations(SETUP.paths, size))
"""What a profile may name."""
Profiles = tuple[tuple[str, ...], ...]
"""The groups that a profile names, then those that its parent's does, and so on."""
CHAINS: tuple[Profiles, ...] = (
    *product(NAMED, NAMED),
    (("a.b", "a.c"), ("a.b", "a.c"), ("a.b",)),
    (("a.b",), ("a.c",), ("a.b",)),
)


def bound(profiles: Profiles) -> tuple[str, ...]:
    """Return the groups that exist for a child: those that each profile names, or that are above one."""
    return tuple(
        path
        for path in SETUP.paths
        if all(any(f"{named}.".startswith(f"{path}.") for named in profile) for profile in profiles)
    )


def within(test_run: TestRun) -> None:
    """Judge that a child has the groups that its profile and its parent's have, and gets no other by any request."""
    if test_run.violated_clauses:  # what is wrong without a parent is wrong with one
        return
    for number, profiles in enumerate(CHAINS, 1):
        test_run.progress(f"child {number}")
        _judge(test_run, profiles)


def _judge(test_run: TestRun, profiles: Profiles) -> None:
    known, history = bound(profiles), list[Operation]()

    def perform(verb: str, **arguments: Any) -> Answer:
        history.append(Operation(verb, arguments))
        test_run.count()
        return checked(verb, test_run.driver.perform(history[-1]))

    test_run.driver.configure(SETUP)
    perform("open_within", profiles=profiles)
    paths = [path for path in SETUP.paths for _ in range(2)]  # opened again what was displaced
    answers = [(path, perform("activate", group=path)) for path in paths]
    groups = perform("list_groups").groups
    names = None if groups is None else [row["name"] for row in groups]
    granted = sorted({path for path, answer in answers if answer.error is None})
    active = sorted({path for _, answer in answers for path in answer.active or ()})
    if names not in (None, [*known]) or granted != sorted(known) or not {*active} <= {*known}:
        message = "a child has other groups than those that its profile and its parent's have"
        expected = {"groups": known, "granted": known, "profiles": profiles}
        got = {"groups": names, "granted": granted, "active": active}
        test_run.violated("GWY-16", message, setup=SETUP, history=tuple(history), expected=expected, got=got)
    test_run.saw(groups is not None, "groups", "GWY-16")
