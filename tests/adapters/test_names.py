"""Names that clients may be given."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold_adapters.names import allowed_names, server_name, stable_names

HASHED = re.compile(r"(.*)_[0-9a-f]{6}")
NAMES = st.lists(st.text("ab_-.ü", min_size=1, max_size=60) | st.text(min_size=1), unique=True, max_size=9)


@pytest.mark.spec("GWY-6")
def test_an_allowed_name_stays_as_it_is() -> None:
    names = ["create_issue", "get-sum", "X1", "x" * 48]
    assert allowed_names(names) == {name: name for name in names}


@pytest.mark.spec("NAM-1", "GWY-6")
def test_what_is_not_allowed_is_replaced_and_what_is_taken_or_too_long_ends_in_a_hash() -> None:
    mapped = allowed_names(["a.b", "a_b", "call_tool", "größe", "y" * 70, "y" * 71], taken=["call_tool"])
    assert (mapped["a_b"], mapped["größe"]) == ("a_b", "gr__e")
    for name, beginning in {"a.b": "a_b", "call_tool": "call_tool", "y" * 70: "y" * 41, "y" * 71: "y" * 41}.items():
        found = HASHED.fullmatch(mapped[name])
        assert found is not None
        assert found[1] == beginning
    assert len(set(mapped.values())) == len(mapped)


@pytest.mark.spec("GWY-6")
@given(NAMES, NAMES, st.sampled_from([None, "a", "a_b"]))
def test_names_are_different_allowed_and_short_whatever_is_taken(
    names: list[str], taken: list[str], server: str | None
) -> None:
    mapped = allowed_names(names, taken, server)
    assert list(mapped) == names
    assert len({*mapped.values(), *taken}) == len(names) + len(set(taken))
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,48}", name) for name in mapped.values())
    assert mapped == allowed_names(names, taken, server)


@pytest.mark.spec("GWY-6", "ISO-1")
@given(NAMES, NAMES, NAMES, st.sampled_from([None, "a", "a_b"]))
def test_names_that_depend_on_no_other_are_different_allowed_and_short(
    names: list[str], others: list[str], taken: list[str], server: str | None
) -> None:
    every = stable_names([*names, *others], taken, server)
    like = stable_names(every.values(), taken)  # what is called as another one is here already
    assert stable_names(names, taken, server) == {name: every[name] for name in names}
    assert len({*every.values(), *taken}) == len(every) + len(set(taken))
    assert len({*like.values()}) == len(every)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,48}", name) for name in [*every.values(), *like.values()])


@pytest.mark.spec("GWY-6", "ISO-1")
def test_what_looks_like_a_changed_name_is_changed_too() -> None:
    changed = stable_names(["do it"], server="board")["do it"]
    given = stable_names(["do_it", changed.removeprefix("board__")], server="board")
    assert given.pop("do_it") == "board__do_it"
    assert changed not in given.values()


@pytest.mark.spec("GWY-6")
def test_with_a_name_of_its_own_a_server_begins_those_of_its_tools() -> None:
    mapped = allowed_names(["create", "a.b", "x" * 64], server="github")
    assert (mapped["create"], mapped["a.b"]) == ("github__create", "github__a_b")
    assert mapped["x" * 64].startswith("github__" + "x" * 33 + "_")


@pytest.mark.spec("GWY-6")
@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("github", "github"),
        ("My Server", "My_Server"),
        ("@upstash/context7-mcp", "upstash_context7-mcp"),
        ("a__b_", "a_b"),
        ("x" * 24, "x" * 24),
        ("upstream", "upstream-server"),
    ],
)
def test_a_server_is_called_by_what_clients_accept_and_never_has_the_separator(given: str, name: str) -> None:
    assert server_name(given) == name


@pytest.mark.spec("GWY-6")
def test_names_of_servers_that_begin_alike_stay_different_when_they_are_cut() -> None:
    first, second = server_name("x" * 16 + "_" + "a" * 20), server_name("x" * 16 + "_" + "b" * 20)
    assert first != second
    assert len(first) <= 24
    assert "__" not in first


@pytest.mark.spec("GWY-6")
@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("日本", "server_cf2abf"),
        ("中国", "server_f0e952"),
        ("文件 a", "a_9355ea"),
        ("Zürich_Café", "Zurich_Cafe"),
        ("!!!", "server_e84c53"),
        ("", "server_e3b0c4"),
    ],
)
def test_a_server_of_any_name_has_one_that_is_always_the_same(given: str, name: str) -> None:
    assert server_name(given) == name
