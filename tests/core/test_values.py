"""Frozen values: equal, hashed and shown by their fields, as those that attrs makes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import attrs
import pytest
from attrs import evolve, field
from attrs.exceptions import FrozenInstanceError

from toolfold._values import frozen


@frozen
class Point:
    x: int
    y: int = 0
    label: str = field(default="", eq=False)
    cause: object = field(default=None, repr=False)

    @cached_property
    def sum(self) -> int:
        return self.x + self.y


@frozen
class Place:
    x: int
    y: int = 0


@frozen
class Nothing: ...


@frozen
class Node:
    children: list[Any]

    def __repr__(self) -> str:
        return "<Node>"


@frozen(eq=False)
class Thing:
    x: int


@frozen(cache_hash=True)
class Name:
    text: str


class Special(Point): ...


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (Point(1, 2), Point(1, 2), True),
        (Point(1, 2), Point(1, 3), False),
        (Point(1, 2), Point(1, 2, "b"), True),
        (Point(1, 2), Point(1, 2, cause="c"), False),
        (Point(1, 2), Place(1, 2), False),
        (Point(1), Special(1), False),
        (Special(1), Special(1), True),
        (Point(1), (1, 0, None), False),
        (Nothing(), Nothing(), True),
        (Thing(1), Thing(1), False),
        (Name("a"), Name("a"), True),
    ],
)
def test_values_of_one_class_are_equal_by_the_fields_that_count(one: object, other: object, equal: bool) -> None:
    assert (one == other) is equal
    assert (one != other) is not equal
    assert not equal or hash(one) == hash(other)


def test_equal_fields_of_two_classes_have_two_hashes() -> None:
    assert hash(Place(1, 2)) != hash(Point(1, 2))
    assert len({Point(1), Place(1), Point(1)}) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Point(1, label="a", cause="hidden"), "Point(x=1, y=0, label='a')"),
        (Special(1), "Special(x=1, y=0, label='')"),
        (Nothing(), "Nothing()"),
        (Node([]), "<Node>"),
        (Thing(1), "Thing(x=1)"),
        (Name("a"), "Name(text='a')"),
    ],
)
def test_a_value_shows_its_fields_but_for_those_that_are_not_shown(value: object, text: str) -> None:
    assert repr(value) == text


def test_a_value_that_contains_itself_is_shown_once() -> None:
    inner: list[Any] = []
    inner.append(Point(1, cause=None, label=inner))  # type: ignore[arg-type]  # what a user's object may be
    assert "..." in repr(inner[0])


def test_a_value_is_an_attrs_class_whose_fields_do_not_change() -> None:
    point = Point(1, 2)
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    assert evolve(point, y=5) == Point(1, 5)
    assert point.sum == 3
    assert [one.name for one in attrs.fields(Point)] == ["x", "y", "label", "cause"]
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_what_has_an_unhashable_field_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1, cause=[]))
