"""What is computed once for a value: by kind of result and key, and no more of it than there is room for."""

from __future__ import annotations

import pytest

from toolfold._memo import Memo, Memory

pytestmark = pytest.mark.spec("LST-5", "SAF-1")


def test_a_result_is_made_once_for_each_key_owner_and_kind() -> None:
    squares, cubes = Memo[int, int](most=8), Memo[int, int](most=8)
    one: Memory = {}
    other: Memory = {}
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    assert [squares.of(one, 1, make), squares.of(one, 1, make), squares.of(one, 2, make)] == [0, 0, 1]
    assert [squares.of(other, 1, make), cubes.of(one, 1, make), squares.of(one, 1, make)] == [2, 3, 0]


def test_an_owner_that_has_no_room_starts_afresh_and_loses_nothing_of_another_kind() -> None:
    few, many = Memo[int, str](most=2), Memo[int, str](most=8)
    memory: Memory = {}
    many.of(memory, 0, lambda: "kept")
    for key in range(3):
        few.of(memory, key, lambda: "first")
    assert [few.of(memory, key, lambda: "again") for key in (2, 0)] == ["first", "again"]
    assert many.of(memory, 0, lambda: "lost") == "kept"


def test_what_fails_is_made_again() -> None:
    results = Memo[str, int](most=1)
    memory: Memory = {}

    def fail() -> int:
        raise ValueError("not yet")

    with pytest.raises(ValueError, match="not yet"):
        results.of(memory, "key", fail)
    assert results.of(memory, "key", lambda: 1) == 1
