"""SPEC SES-5: facts of a session, as predicates and handlers see them."""

from typing import Any

import pytest

from tests.core.support import answer
from toolfold import Context, InvalidDefinition, QuotaExceeded, ToolSet, Visibility


@pytest.mark.spec("SES-5", "VIS-3")
async def test_a_fact_is_seen_by_predicates_from_the_next_request() -> None:
    tools = ToolSet("desk", control="none")

    def unlock(context: Context) -> str:
        context.set_fact("unlocked", True)
        return f"{dict(context.snapshot.facts)} then {dict(context.facts)}"

    tools.register("unlock", unlock)
    tools.register("t", answer, visibility=Visibility.when(lambda view: view.facts.get("unlocked") is True))
    async with tools.open_session() as session, tools.open_session() as other:
        assert "t" not in session.list_tools().names
        assert (await session.call("unlock")).text == "{} then {'unlocked': True}"
        assert "t" in session.list_tools().names
        assert "t" not in other.list_tools().names


@pytest.mark.spec("SES-5")
@pytest.mark.parametrize("value", [[], {}, set(), float("nan"), float("inf"), ([],), object(), b"x"])
def test_a_fact_is_an_immutable_json_value(value: Any) -> None:
    session = ToolSet("desk", control="none").default_session
    session.set_fact("n", (1, "two", (None, True)))
    with pytest.raises(InvalidDefinition, match="n"):
        session.set_fact("n", value)
    assert dict(session.facts) == {"n": (1, "two", (None, True))}


@pytest.mark.spec("SES-5")
def test_facts_that_are_equal_but_of_different_types_are_distinct() -> None:
    tools = ToolSet("desk", control="none")
    tools.register("t", answer, visibility=Visibility.when(lambda view: view.facts["n"] is True))
    tools.default_session.set_fact("n", 1)
    assert tools.list_tools().names == ()
    tools.default_session.set_fact("n", True)
    assert tools.list_tools().names == ("t",)


@pytest.mark.spec("STO-7")
def test_the_facts_of_a_session_are_bounded_in_number_and_length() -> None:
    session = ToolSet("desk", control="none").default_session
    with pytest.raises(QuotaExceeded, match="65536 characters of a fact"):
        session.set_fact("long", "x" * 65_536)
    for number in range(1000):
        session.set_fact(str(number), number)
    with pytest.raises(QuotaExceeded, match="1000 facts of a session"):
        session.set_fact("one more", 1)
    session.set_fact("0", "again")
    assert len(session.facts) == 1000
    assert session.facts["0"] == "again"
