"""Names of groups in the form of the draft extension: every path has one, and no two have the same (SPEC DEL-5)."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolfold_adapters.names import WIRE_LENGTH, draft_name, path_of

pytestmark = pytest.mark.spec("DEL-5")

FORM = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SEGMENTS = st.text("abyz019_-ABYZ", min_size=1, max_size=12)
PATHS = st.lists(SEGMENTS, min_size=1, max_size=3).map(".".join)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("stock", "stock"),
        ("pull-requests", "pull-requests"),
        ("stock.orders", "stock-0d-orders"),
        ("file_ops", "file-0u-ops"),
        ("Files", "0cf-iles"),
        ("a--b", "a-0hh-b"),
        ("-a", "0h-a"),
        ("_", "0u"),
        ("0d", "0w0d"),
        ("a-0d-b", "a-0w0d-b"),
    ],
)
def test_a_name_of_that_form_stays_and_anything_else_is_escaped(path: str, name: str) -> None:
    assert draft_name(path) == name


@pytest.mark.parametrize("name", ["a-0q-b", "0", "a-0w-b", "-", "a--b", "0z", "A", "a-0z1234", ""])
def test_a_name_that_no_path_has_is_not_mapped_back(name: str) -> None:
    assert path_of(name) == name


@given(PATHS)
@example("a.b")
@example("a-0d-b")
@example("-")
@example("A.b_-C-d")
def test_a_name_has_the_form_and_stands_for_its_path_alone(path: str) -> None:
    name = draft_name(path)
    assert FORM.fullmatch(name)
    assert len(name) <= WIRE_LENGTH
    assert path_of(name) == (name if re.search(r"(^|-)0z", name) else path)


@given(st.text("ab_.-", min_size=60, max_size=128), st.text("ab_.-", min_size=60, max_size=128))
def test_what_is_too_long_ends_in_a_digest_that_no_other_name_has(one: str, other: str) -> None:
    first, second = draft_name(one), draft_name(other)
    assert (first == second) == (one == other)
    for path, name in ((one, first), (other, second)):
        if re.search("-0z", name):
            assert len(name) <= WIRE_LENGTH
            assert name.endswith(f"-0z{sha256(path.encode()).hexdigest()[:20]}")
            assert FORM.fullmatch(name)
