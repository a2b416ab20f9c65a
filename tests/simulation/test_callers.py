"""Callers act as themselves in every order of a few small systems, and mutants that do not are found (SPEC GWY-19)."""

from __future__ import annotations

import pytest

from tests.simulation.callers import MUTANTS, RIGHT, Operation, explored

pytestmark = pytest.mark.spec("GWY-19")

SYSTEMS = {
    "a revocation while a refresh is under way": (
        Operation("refresh", "alice"),
        Operation("revoke", "alice", 1),
        Operation("call", "alice"),
    ),
    "a revocation while a refresh takes too long": (
        Operation("refresh", "alice"),
        Operation("revoke", "alice", 1),
        Operation("time"),
        Operation("call", "alice", 1),
    ),
    "a refresh that another replica takes over": (
        Operation("refresh", "alice"),
        Operation("refresh", "alice", 1),
        Operation("crash"),
    ),
    "three principals": (Operation("call", "alice"), Operation("refresh", "bob"), Operation("call", "carol", 1)),
    "a login beside another one": (
        Operation("login", "alice"),
        Operation("call", "bob", 1),
        Operation("revoke", "bob"),
    ),
    "a refresh after another's call": (Operation("call", "alice"), Operation("refresh", "bob")),
    "calls side by side": (Operation("call", "alice"), Operation("call", "bob")),
    "calls after one another": (
        Operation("call", "alice"),
        Operation("revoke", "alice", 1),
        Operation("call", "alice"),
    ),
    "refreshes side by side": (Operation("refresh", "alice"), Operation("refresh", "alice", 1)),
}


@pytest.mark.parametrize("name", SYSTEMS)
async def test_in_no_order_a_caller_acts_as_another_or_after_its_revocation(name: str) -> None:
    orders, calls, violation = await explored(RIGHT, [SYSTEMS[name]])
    assert violation == ""
    assert orders > 1
    assert calls > 0 or not any(one.kind == "call" for one in SYSTEMS[name])


FOUND_IN = {
    "key by URL": "calls side by side",
    "cache by server": "calls side by side",
    "cache outlives a revocation": "calls after one another",
    "refresh of another's token": "a refresh after another's call",
    "refresh without a lease": "refreshes side by side",
    "log to all": "calls side by side",
}


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_mutant_is_found(name: str) -> None:
    rules, expected = MUTANTS[name]
    _, _, violation = await explored(rules, [SYSTEMS[FOUND_IN[name]]])
    assert violation.startswith(expected)
