"""What can be changed and taken back while sessions are open."""

from __future__ import annotations

import pytest

from toolfold import ExclusionConflict, GroupNotFound, InvalidDefinition, Profile, ToolSet

pytestmark = pytest.mark.spec("REG-7")


def a_tool_set(**settings: str) -> ToolSet:
    tools = ToolSet("t", **settings)  # type: ignore[arg-type]
    tools.register_group("a", "Old")
    tools.register_group("b")
    tools.register("x", lambda: "x", group="a", flat=True)
    return tools


async def test_the_texts_of_a_group_change_and_sessions_have_it_open_as_before() -> None:
    tools = a_tool_set()
    async with tools.open_session(active=["a"]) as session:
        tools.update_group("a", "New", title="A", pinned=True)
        assert session.active == ("a",)
        group = tools.catalog.group("a")
        assert (group.description, group.title, group.pinned) == ("New", "A", True)
        assert "New" in tools.catalog.tools["a.activate"].description
        assert "x" in [tool.name for tool in session.list_tools().tools]


def test_a_tool_that_replaced_a_control_tool_stays_when_its_group_changes() -> None:
    tools = a_tool_set()
    tools.register("a.activate", lambda: "mine", description="Mine", replaces_control=True)
    tools.update_group("a", "New")
    assert tools.catalog.tools["a.activate"].description == "Mine"


def test_a_group_that_clients_can_no_longer_close_loses_its_deactivator_and_gets_it_back() -> None:
    tools = a_tool_set()
    tools.update_group("a", "Old", show_deactivator=False)
    assert "a.deactivate" not in tools.catalog.tools
    tools.update_group("a", "Old")
    assert "a.deactivate" in tools.catalog.tools


def test_a_wrong_change_of_a_group_changes_nothing() -> None:
    tools = a_tool_set()
    with pytest.raises(GroupNotFound):
        tools.update_group("c", "")
    with pytest.raises(InvalidDefinition):
        tools.update_group("a", 5)  # type: ignore[arg-type]
    assert tools.catalog.group("a").description == "Old"


async def test_an_exclusion_set_is_taken_back() -> None:
    tools = a_tool_set()
    tools.register_exclusion("a", "b")
    assert not tools.unregister_exclusion("a", "c")
    assert tools.unregister_exclusion("b", "a")
    assert tools.catalog.exclusions == ()
    async with tools.open_session(active=["a", "b"]) as session:
        assert session.active == ("a", "b")
        with pytest.raises(ExclusionConflict):
            tools.register_exclusion("a", "b")


async def test_a_profile_is_taken_back_and_sessions_under_it_go_on() -> None:
    tools = a_tool_set()
    profile = tools.register_profile(Profile(name="p", active=("a",)))
    async with tools.open_session("p") as session:
        assert tools.unregister_profile("p") is profile
        assert tools.unregister_profile("p") is None
        assert tools.catalog.profiles == {}
        assert session.active == ("a",)
        assert [info.name for info in session.list_groups()] == ["a"]


@pytest.mark.spec("CTL-3")
def test_open_group_is_there_while_there_are_groups_that_it_can_open() -> None:
    tools = ToolSet("t", control="open_group")
    assert list(tools.catalog.tools) == []
    tools.register_group("hidden", controls=False)
    assert list(tools.catalog.tools) == []
    tools.register_group("g")
    assert sorted(tools.catalog.tools) == ["close_group", "open_group"]
