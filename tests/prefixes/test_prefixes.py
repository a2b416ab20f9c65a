"""A transition changes of a conversation what the table of prefixes says, in every delivery (SPEC PFX-1)."""

from __future__ import annotations

import logging
from collections.abc import Generator
from itertools import product
from typing import Any

import pytest

from tests.benchmarks.prefixes import OWN, PAGE, bill_of, conversation, rules
from tests.prefixes.conversations import HOSTS
from tests.prefixes.proving import proof_of
from toolfold_specs.prefixes import CALL_TOOL, MODERN, NATIVE, TABLE, MayChange, Prefix, allows, billed_again, wrong
from toolfold_specs.systems import systems

pytestmark = pytest.mark.spec("PFX-1")

PLAIN = tuple(Prefix([{"name": name} for name in "abcd"]).tools)
OTHER = tuple(Prefix([{"name": "b", "description": "another text"}]).tools)
A, B, C, D = PLAIN


@pytest.fixture(autouse=True)
def without_a_log() -> Generator[None]:
    """Log nothing: some transitions are refused on purpose."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_there_is_a_conversation_for_every_delivery_of_the_table() -> None:
    assert HOSTS.keys() == TABLE.keys()


@pytest.mark.parametrize("delivery", TABLE)
async def test_transitions_change_of_a_conversation_what_the_table_says(delivery: str) -> None:
    proofs = [await proof_of(delivery, system) for size in (1, 2) for system in systems(size)]
    assert [violation for proof in proofs for violation in proof.violations] == []
    nothing = delivery in (MODERN, CALL_TOOL, NATIVE)
    assert (sum(proof.broken for proof in proofs) == 0) == nothing


@pytest.mark.parametrize(
    ("may", "after", "right"),
    [
        (MayChange.NOTHING, (A, B, C), True),
        (MayChange.NOTHING, (A, B, C, D), False),
        (MayChange.END, (A, B, C, D), True),
        (MayChange.END, (D, A, B, C), False),
        (MayChange.FROM_CLOSED, (A, B, C, D), True),
        (MayChange.FROM_CLOSED, (A, C, D), True),
        (MayChange.FROM_CLOSED, (D, A, C), False),
        (MayChange.OF_GROUPS, (D, A, C), True),
        (MayChange.OF_GROUPS, (C, A), False),
        (MayChange.OF_GROUPS, (A, *OTHER, C), False),
    ],
)
def test_a_rule_says_what_a_part_may_become(may: MayChange, after: tuple[str, ...], right: bool) -> None:
    assert allows(may, (A, B, C), after) is right


def test_what_is_behind_a_change_is_billed_again() -> None:
    before = Prefix([A, B], ["i" * 40], ["m" * 400])
    after = Prefix([A, B, C], ["i" * 40], ["m" * 400, "n"])
    assert billed_again(before, Prefix([A, B], ["i" * 40], ["m" * 400, "n"])) == 0
    assert 110 <= billed_again(before, after) < 112
    assert billed_again(before, Prefix([], ["other"])) == before.tokens


@pytest.mark.parametrize(("part", "delivery"), [*product(("tools", "instructions", "messages"), (MODERN, NATIVE))])
def test_a_changed_part_is_named(part: str, delivery: str) -> None:
    parts: dict[str, Any] = {"tools": [A], "instructions": ["read"], "messages": ["first"]}
    assert wrong(TABLE[delivery], Prefix(**parts), Prefix(**{**parts, part: ["another"]})) == part


def test_the_page_has_the_table() -> None:
    assert rules() in PAGE.read_text("utf-8")


async def test_in_the_same_conversation_only_lists_that_change_are_billed_again() -> None:
    given = conversation(seed=0, steps=12)
    bills = {delivery: await bill_of(delivery, given) for delivery in OWN}
    nothing = (MODERN, CALL_TOOL, NATIVE)
    assert all((bill.again == bill.broken == 0) == (delivery in nothing) for delivery, bill in bills.items())
    assert all(bill.sent > bill.again for bill in bills.values())
