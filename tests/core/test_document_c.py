"""Document C's tests of its registry, in the terms of this library; its loader is in test_loader_texts.py.

Through clients of both eras they are in tests/adapters/mcp/test_document_c.py, of conversations in
tests/adapters/inprocess/test_conversation.py; those of its manifests are in tests/adapters/manifests/test_folders.py.
"""

import pytest

from tests.core.document_c import CORE, GROUPED, assistant, names
from tests.core.support import with_groups
from toolfold import ToolSet


@pytest.mark.spec("GRP-4")
def test_document_c_registry_core_tools_exclude_those_of_groups() -> None:
    assert names(assistant().core_tools()) == CORE
    assert len(CORE) == 13
    two = ToolSet("two", control="none")
    two.register_group("config")
    two.register("core_tool", lambda: "")
    two.register("grouped_tool", lambda: "", group="config")
    assert names(two.core_tools()) == ["core_tool"]


@pytest.mark.spec("GRP-4")
def test_document_c_registry_group_tools_are_those_of_one_group() -> None:
    tools = assistant()
    assert {group: names(tools.group_tools(group)) for group in GROUPED} == {
        group: sorted(tools) for group, tools in GROUPED.items()
    }
    assert [len(tools.group_tools(group)) for group in GROUPED] == [17, 4, 3, 5]
    assert tools.group_tools("pdf")[1].description == "Does pdf_info"
    assert tools.group_tools("nonexistent") == ToolSet("t").group_tools("nonexistent") == ()


@pytest.mark.spec("GRP-4")
def test_document_c_registry_every_group_has_its_tools_wherever_they_are_registered() -> None:
    tools = assistant()
    tools.register("gmail_search", lambda arguments: "", input_schema={"type": "object"}, description="", group="pdf")
    assert {group.path: names(tools.group_tools(group.path)) for group in tools.groups()} == {
        **{group: sorted(names) for group, names in GROUPED.items()},
        "pdf": ["pdf.gmail_search", "pdf_extract_text", "pdf_info", "pdf_render_page"],
    }


@pytest.mark.spec("GRP-4")
def test_the_tools_of_a_group_are_the_users_own_including_hidden_ones() -> None:
    tools = with_groups("a", "a.x")
    tools.register("seen", lambda: "", group="a")
    tools.register("unseen", lambda: "", group="a", hidden=True)
    tools.register("deep", lambda: "", group="a.x")
    assert names(tools.group_tools("a")) == ["a.seen", "a.unseen"]
    assert tools.core_tools() == ()
