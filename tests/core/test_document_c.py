"""Document C's tests of its registry, its loader and its chat loop, in the terms of this library.

Those of its manifests are in tests/adapters/test_manifests.py.
"""

import pytest

from toolfold import Session, ToolNotFound, ToolSet, prompt_section, system_prompt

GROUPS = {
    "config": ("Configuration", "Manage providers, models and app settings"),
    "pdf": ("PDF Tools", "Extract text, get info, and render pages from PDF files"),
    "scheduled_tasks": ("Scheduled Tasks", "Create, list, run, update, and delete scheduled tasks"),
}
TOOLS = {
    "get_current_time": (None, "Tell the time"),
    "exec": (None, "Run a command"),
    "get_config": ("config", "Read a setting"),
    "set_config": ("config", "Write a setting"),
    "pdf_info": ("pdf", "Say how many pages there are"),
    "pdf_extract_text": ("pdf", "Give the text of pages"),
    "list_scheduled_tasks": ("scheduled_tasks", "Name the tasks"),
}


def assistant() -> ToolSet:
    """A few of document C's tools, in three of its groups and in none."""
    tools = ToolSet("assistant", control="load_tool_group")
    for name, (title, description) in GROUPS.items():
        tools.register_group(name, description, title=title)
    for name, (group, description) in TOOLS.items():
        tools.register(name, lambda: "done", description=description, group=group, flat=group is not None)
    return tools


def names(specs: object) -> list[str]:
    return [spec.name for spec in specs]  # type: ignore[attr-defined]


CORE = ["exec", "get_current_time", "load_tool_group"]


@pytest.mark.spec("GRP-4")
def test_document_c_registry_core_tools_leave_out_those_of_groups() -> None:
    assert names(assistant().core_tools()) == CORE
    two = ToolSet("two", control="none")
    two.register_group("config")
    two.register("core_tool", lambda: "")
    two.register("grouped_tool", lambda: "", group="config")
    assert names(two.core_tools()) == ["core_tool"]


@pytest.mark.spec("GRP-4")
def test_document_c_registry_group_tools_are_those_of_one_group() -> None:
    tools = assistant()
    assert names(tools.group_tools("config")) == ["get_config", "set_config"]
    assert names(tools.group_tools("pdf")) == ["pdf_extract_text", "pdf_info"]
    assert tools.group_tools("pdf")[1].description == "Say how many pages there are"


@pytest.mark.spec("GRP-4")
def test_document_c_registry_an_unknown_group_has_no_tools() -> None:
    assert assistant().group_tools("nonexistent") == ()
    assert ToolSet("t").group_tools("nonexistent") == ()


@pytest.mark.spec("GRP-4")
def test_document_c_registry_a_registered_group_is_among_all_groups() -> None:
    tools = ToolSet("t")
    assert tools.groups() == ()
    tools.register_group("config", "Config tools", title="Configuration")
    [group] = tools.groups()
    assert (group.path, group.display_name, group.description) == ("config", "Configuration", "Config tools")


@pytest.mark.spec("GRP-4")
def test_document_c_registry_every_group_has_its_tools_wherever_they_come_from() -> None:
    tools = assistant()
    tools.register("gmail_search", lambda arguments: "", input_schema={"type": "object"}, description="", group="pdf")
    assert {group.path: names(tools.group_tools(group.path)) for group in tools.groups()} == {
        "config": ["get_config", "set_config"],
        "pdf": ["pdf.gmail_search", "pdf_extract_text", "pdf_info"],
        "scheduled_tasks": ["list_scheduled_tasks"],
    }


@pytest.mark.spec("GRP-4")
def test_the_tools_of_a_group_are_the_users_own_hidden_ones_among_them() -> None:
    tools = ToolSet("t")
    tools.register_group("a")
    tools.register_group("a.x")
    tools.register("seen", lambda: "", group="a")
    tools.register("unseen", lambda: "", group="a", hidden=True)
    tools.register("deep", lambda: "", group="a.x")
    assert names(tools.group_tools("a")) == ["a.seen", "a.unseen"]
    assert tools.core_tools() == ()


@pytest.mark.spec("GRP-3")
async def test_document_c_loader_a_valid_group_is_answered_with_its_tools() -> None:
    result = await assistant().call_tool("load_tool_group", {"group_name": "pdf"})
    assert not result.is_error
    assert "pdf_info" in result.text
    assert "pdf_extract_text" in result.text
    assert "Loaded 2 tools" in result.text


@pytest.mark.spec("GRP-3")
async def test_document_c_loader_an_unknown_group_is_an_error_that_names_the_known_ones() -> None:
    result = await assistant().call_tool("load_tool_group", {"group_name": "nonexistent"})
    assert result.is_error
    assert result.structured["error_type"] == "not_found"
    assert "pdf" in result.text


@pytest.mark.spec("GRP-3")
async def test_document_c_loader_a_missing_parameter_is_an_error() -> None:
    for tools in (assistant(), ToolSet("t", control="load_tool_group")):
        result = await tools.call_tool("load_tool_group", {})
        assert result.is_error
        assert result.structured["error_type"] == "missing_parameter"


@pytest.mark.spec("GRP-3", "GRP-4")
async def test_document_c_chat_1_the_first_list_has_the_core_tools_alone() -> None:
    tools = assistant()
    async with tools.open_session() as session:
        assert list(session.list_tools().names) == names(tools.core_tools()) == CORE


async def load(session: Session, group: str) -> None:
    assert not (await session.call("load_tool_group", {"group_name": group})).is_error


@pytest.mark.spec("GRP-3", "GRP-4")
async def test_document_c_chat_2_loading_a_group_adds_its_tools_to_the_next_list() -> None:
    tools = assistant()
    async with tools.open_session() as session:
        await load(session, "pdf")
        assert set(session.list_tools().names) == {*CORE, *names(tools.group_tools("pdf"))}
        await load(session, "config")
        assert set(session.list_tools().names) == {*CORE, *names(tools.group_tools("pdf")), "get_config", "set_config"}


SECTION = """\
## Available Tool Groups

Use `load_tool_group` to load tools from a group before using them.

- config: Manage providers, models and app settings
- pdf: Extract text, get info, and render pages from PDF files
- scheduled_tasks: Create, list, run, update, and delete scheduled tasks"""


@pytest.mark.spec("GRP-5")
async def test_document_c_chat_3_the_system_prompt_lists_every_group_with_its_description() -> None:
    tools = assistant()
    async with tools.open_session() as session:
        assert prompt_section(session) == prompt_section(tools) == SECTION
        assert system_prompt("Be brief.", session) == f"Be brief.\n\n---\n\n{SECTION}"
        await load(session, "pdf")
        assert prompt_section(session) == SECTION


@pytest.mark.spec("GRP-3", "CALL-1")
async def test_document_c_chat_4_a_tool_of_a_group_is_blocked_until_the_group_is_loaded() -> None:
    async with assistant().open_session() as session:
        with pytest.raises(ToolNotFound):
            await session.call("pdf_info")
        await load(session, "pdf")
        assert (await session.call("pdf_info")).text == "done"


@pytest.mark.spec("GRP-3")
async def test_document_c_by_hand_what_the_time_is_needs_no_group_and_a_new_conversation_has_none() -> None:
    tools = assistant()
    async with tools.open_session() as first, tools.open_session() as second:
        assert (await first.call("get_current_time")).text == "done"
        await load(first, "config")
        assert second.active == ()
        with pytest.raises(ToolNotFound):
            await second.call("get_config")
