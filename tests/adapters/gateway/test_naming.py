"""Names that clients may be given."""

from __future__ import annotations

import pytest

from toolfold import ConfigError
from toolfold._names import check_segment
from toolfold_adapters.gateway import allowed_names
from toolfold_adapters.gateway.naming import server_name


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


@pytest.mark.spec("GWY-6")
def test_with_several_servers_a_name_begins_with_its_server() -> None:
    mapped = allowed_names(["create", "a.b", "x" * 64], server="github")
    assert mapped == {"create": "github__create", "a.b": "github__a_b", "x" * 64: "github__" + "x" * 56}


@pytest.mark.spec("GWY-6")
@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("github", "github"),
        ("My Server", "My_Server"),
        ("@upstash/context7-mcp", "upstash_context7-mcp"),
        ("a__b_", "a_b"),
        ("x" * 80, "x" * 32),
    ],
)
def test_a_server_is_called_by_what_clients_accept_and_never_has_the_separator(given: str, name: str) -> None:
    assert server_name(given) == name


def test_a_server_whose_name_has_nothing_that_clients_accept_is_refused() -> None:
    with pytest.raises(ConfigError, match="'日本' can't be served; its name needs a letter or digit of ASCII"):
        server_name("日本")
