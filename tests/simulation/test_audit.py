"""The audit of a store's operations finds those that no store may do, and those that no process has to ask for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.audit import Audit, in_order
from toolfold import Lease, Record

pytestmark = pytest.mark.spec("STO-2", "STO-3", "STO-9")

Operation = tuple[str, str, tuple[Any, ...], Any]
KEY = "desk/1"
MADE: Operation = ("p", "create", (KEY, "{}", None, 9.0), 1)
LEASED: Operation = ("p", "acquire", (KEY, 2.0), Lease(5, Record(1, "{}", None, 2.0)))


def wrong_with(*operations: Operation) -> list[str]:
    audit = Audit(lambda: 0.0)
    for process, operation, given, result in operations:
        audit.done(process, operation, given, result)
        audit.answered(process, operation, given, result)
    return [text.partition(": ")[2] for text in audit.wrong]


@pytest.mark.parametrize(
    ("operations", "wrong"),
    [
        ([("q", "swap", (KEY, 1, "{}"), 2)], "a write with the token None is done under the lease 5"),
        ([("q", "swap", (KEY, 1, "{}", 4), 2)], "a write with the token 4 is done under the lease 5"),
        ([("p", "swap", (KEY, 3, "{}", 5), 4)], "3 is replaced by 4, and was 1"),
        ([("q", "intend", (KEY, None, 4), True)], "a change under the lease 4 is done, and the last is 5"),
        ([("q", "acquire", (KEY, 2.0), Lease(6, Record(1, "{}", None, 2.0)))], "the lease 5 is held, and 6 is given"),
        (
            [("p", "release", (KEY, 5), None), ("q", "acquire", (KEY, 2.0), Lease(5, Record(1, "{}", None, 2.0)))],
            "the lease 5 comes after 5",
        ),
        (
            [("p", "swap", (KEY, 1, "{}", 5), 2), ("p", "swap", (KEY, 1, "{}"), None)],
            "asks to replace 1, which it has replaced by 2",
        ),
        (
            [("p", "intend", (KEY, '[["on_activate","a.b"],["on_activate","a"]]', 5), True)],
            'hooks are recorded in another order than they run in: [["on_activate","a.b"],["on_activate","a"]]',
        ),
    ],
)
def test_an_operation_that_may_not_be_done_is_found(operations: list[Operation], wrong: str) -> None:
    assert wrong_with(MADE, LEASED, *operations) == [wrong]


def test_what_stores_do_is_not_found() -> None:
    assert wrong_with(MADE, ("q", "swap", (KEY, 1, "{}"), 2), ("p", "swap", (KEY, 1, "{}"), None)) == []
    assert wrong_with(MADE, LEASED, ("p", "renew", (KEY, 5, 2.0), True), ("p", "swap", (KEY, 1, "{}", 5), 2)) == []
    assert wrong_with(MADE, LEASED, ("q", "swap", (KEY, 1, "{}"), None), ("p", "delete", (KEY, 5), None)) == []


@pytest.mark.parametrize(
    ("hooks", "right"),
    [
        ([["on_deactivate", "a.b"], ["on_deactivate", "a"], ["on_activate", "x"]], True),
        ([["on_activate", "x"], ["on_deactivate", "a"]], False),
        ([["on_deactivate", "a"], ["on_deactivate", "a.b"]], False),
    ],
)
def test_hooks_close_first_and_inner_groups_before_outer_ones(hooks: list[list[str]], right: bool) -> None:
    assert in_order(hooks) == right
