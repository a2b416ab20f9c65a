"""SPEC CAT-1, CAT-2: the catalog tool, with the arguments and defaults of document D, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.document_d import ALL, ARGUMENTS, SECTIONS, WRONG_ARGUMENTS, names, shop
from tests.core.support import with_groups
from toolfold import (
    DuplicateName,
    InvalidDefinition,
    Mode,
    Modes,
    Profile,
    Session,
    ToolNotFound,
    ToolSet,
    Visibility,
)


async def ask(session: Session, **arguments: Any) -> dict[str, list[dict[str, Any]]]:
    result = await session.call("catalog", arguments)
    assert not result.is_error, result.text
    sections: dict[str, list[dict[str, Any]]] = result.structured
    return sections


@pytest.mark.spec("CAT-1", "CAT-2")
@pytest.mark.parametrize(("arguments", "expected"), ARGUMENTS, ids=str)
async def test_arguments_select_what_is_included(arguments: dict[str, Any], expected: dict[str, list[str]]) -> None:
    """Document D, arguments of the catalog tool and their defaults; `category` filters tools only."""
    sections = await ask(shop().default_session, **arguments)
    assert names(sections) == expected
    assert list(sections) == [section for section in SECTIONS if section in expected]


@pytest.mark.spec("CAT-1", "CALL-2")
@pytest.mark.parametrize(("arguments", "place"), WRONG_ARGUMENTS)
async def test_wrong_arguments_are_refused_by_place(arguments: dict[str, Any], place: str) -> None:
    result = await shop().call_tool("catalog", arguments)
    assert result.is_error
    assert place in result.text


@pytest.mark.spec("CAT-1", "KIT-5")
async def test_an_entry_has_the_whole_definition_the_hidden_flag_and_the_category() -> None:
    """Document D, the result of the catalog tool."""
    tools = shop()
    sections = await ask(tools.default_session)
    catalog = tools.catalog
    wipe = next(entry for entry in sections["tools"] if entry["name"] == "wipe")
    assert wipe == {**catalog.tools["wipe"].definition, "hidden": True, "category": "Admin"}
    assert {"title", "annotations", "inputSchema", "_meta"} <= wipe.keys()
    plain = next(entry for entry in sections["tools"] if entry["name"] == "plain")
    assert plain == {**catalog.tools["plain"].definition, "hidden": False}
    assert sections["resources"][1] == {
        **catalog.components["resource"].by_name["shop://ledger"].definition,
        "hidden": True,
    }
    assert all("category" not in entry for section in SECTIONS[1:] for entry in sections[section])


@pytest.mark.spec("CAT-2", "VIS-7")
async def test_what_is_included_follows_the_callers_snapshot() -> None:
    tools = shop()
    async with tools.open_session(active=["orders"]) as buyer, tools.open_session() as auditor:
        auditor.set_fact("auditor", True)
        assert names(await ask(buyer)) == {
            "tools": ["catalog", "orders.open", "plain", "search", "wipe"],
            "prompts": ["insult", "orders.refund", "review"],
            "resources": ["all", "books"],
            "resource_templates": ["one", "order"],
        }
        assert names(await ask(auditor, type="tools"))["tools"] == ["audit", *ALL["tools"]]
        assert names(await ask(buyer, category="GOODS"))["tools"] == ["orders.open", "search"]
        await buyer.deactivate("orders")
        assert names(await ask(buyer)) == ALL


@pytest.mark.spec("CAT-2")
async def test_all_that_is_included_can_be_called_and_nothing_else() -> None:
    """Document D, the catalog tool: what it shows is there to be called."""
    tools = shop()
    async with tools.open_session() as session:
        shown = {entry["name"] for entry in (await ask(session))["tools"]}
        for name in tools.catalog.tools:
            if name in shown:
                assert not (await session.call(name)).is_error
            else:
                with pytest.raises(ToolNotFound):
                    await session.call(name)


@pytest.mark.spec("CAT-2")
async def test_an_author_may_show_everything_and_nothing_more_can_be_called() -> None:
    tools = shop(everything=True)
    async with tools.open_session() as session:
        sections = await ask(session)
        assert names(sections)["tools"] == sorted(tools.catalog.tools)
        assert names(sections)["prompts"] == ["insult", "orders.refund", "review"]
        assert names(sections)["resource_templates"] == ["one", "order"]
        for name in ("orders.open", "audit"):
            with pytest.raises(ToolNotFound):
                await session.call(name)


@pytest.mark.spec("CAT-2", "PRO-1")
async def test_what_a_profile_excludes_is_never_included() -> None:
    tools = shop(everything=True)
    async with tools.open_session(Profile(name="p")) as session:
        assert "orders.open" not in names(await ask(session))["tools"]
        assert names(await ask(session))["prompts"] == ALL["prompts"]


@pytest.mark.spec("CAT-2", "PRO-3")
async def test_the_catalog_tool_is_read_only_and_available_under_a_read_only_profile() -> None:
    async with shop().open_session(Profile(name="p", available="*", read_only=True)) as session:
        assert names(await ask(session, type="tools")) == {"tools": ["catalog"]}


@pytest.mark.spec("CAT-1", "CTL-6")
async def test_without_hidden_entries_it_shows_what_the_lists_show_including_control_tools() -> None:
    tools = ToolSet("t", control_visibility="relevant")
    for path in ("a", "a.x"):
        tools.register_group(path, f"About {path}")
        tools.register("t", lambda: "", group=path)
    tools.register_catalog_tool()
    async with tools.open_session() as session:
        for opened in (None, "a", "a.x"):
            if opened is not None:
                await session.activate(opened)
            listed = [{**spec.definition, "hidden": False} for spec in session.list_tools().tools]
            assert (await ask(session, type="tools", include_hidden=False))["tools"] == listed
        assert "a.x.deactivate" in names(await ask(session, query="close the group A.X"))["tools"]


@pytest.mark.spec("CAT-1", "MOD-1")
async def test_a_composite_tool_is_described_with_the_modes_that_are_available() -> None:
    tools = ToolSet("t")
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    late = Mode(available=lambda view: "late" in view.facts)
    tools.register(
        "observe", lambda: "", input=schema, hidden=True, modes=Modes("what", {"always": Mode(), "late": late})
    )
    tools.register_catalog_tool()
    session = tools.default_session

    async def modes() -> Any:
        (entry,) = (await ask(session, query="observe"))["tools"]
        return entry["inputSchema"]["properties"]["what"]["enum"]

    assert await modes() == ["always"]
    session.set_fact("late", True)
    assert await modes() == ["always", "late"]


@pytest.mark.spec("CAT-1", "VIS-4")
async def test_a_predicate_that_fails_hides_its_tool_from_the_catalog_and_nothing_else() -> None:
    tools = shop()
    tools.register("broken", lambda: "", visibility=Visibility.when(lambda view: view.facts["missing"]))
    assert names(await ask(tools.default_session)) == ALL


@pytest.mark.spec("CAT-1", "REG-7")
async def test_the_catalog_tool_is_registered_like_any_tool_and_shows_later_registrations() -> None:
    """Document D, registration of the catalog tool: hidden keeps it out of lists, but it can be called."""
    tools = with_groups("meta", control="none")
    spec = tools.register_catalog_tool("find", group="meta", hidden=True, category="Meta", description="Look around")
    assert (spec.name, spec.hidden, spec.description) == ("meta.find", True, "Look around")
    assert spec.definition["annotations"]["readOnlyHint"] is True
    session = tools.default_session
    with pytest.raises(ToolNotFound):
        await session.call("meta.find")
    await session.activate("meta")
    assert session.list_tools().names == ()
    tools.register("later", lambda: "")
    (later, itself) = (await session.call("meta.find", {"type": "tools"})).structured["tools"]
    assert (later["name"], itself["name"]) == ("later", "meta.find")
    assert itself["category"] == "Meta"
    with pytest.raises(DuplicateName):
        tools.register_catalog_tool("meta.find")
    with pytest.raises(InvalidDefinition):
        tools.register_catalog_tool(description=5)  # type: ignore[arg-type]
    assert tools.unregister("meta.find") is spec
