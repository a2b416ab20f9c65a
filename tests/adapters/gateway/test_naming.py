"""Names that clients may be given."""

from __future__ import annotations

import pytest

from toolfold._names import check_segment
from toolfold_adapters.gateway import allowed_names


@pytest.mark.spec("GWY-1")
def test_an_allowed_name_stays_as_it_is() -> None:
    names = ["create_issue", "get-sum", "X1", "x" * 64]
    assert allowed_names(names) == {name: name for name in names}


@pytest.mark.spec("NAM-1", "GWY-1")
def test_every_other_name_becomes_an_allowed_and_unique_one() -> None:
    names = ["a.b", "a_b", "a b", "a/b", "größe", "日本", "y" * 70, "y" * 71, "y" * 64]
    mapped = allowed_names(names)
    assert list(mapped) == names
    assert len(set(mapped.values())) == len(names)
    assert all(check_segment(name) for name in mapped.values())
    assert mapped["a_b"] == "a_b"
    assert (mapped["a.b"], mapped["a b"], mapped["a/b"]) == ("a_b_2", "a_b_3", "a_b_4")
    assert mapped["y" * 64] == "y" * 64
    assert mapped["y" * 70] == "y" * 62 + "_2"


def test_a_taken_name_gets_a_number_that_no_tool_has() -> None:
    mapped = allowed_names(["call_tool", "call_tool_2"], taken=["call_tool"])
    assert mapped == {"call_tool": "call_tool_3", "call_tool_2": "call_tool_2"}
