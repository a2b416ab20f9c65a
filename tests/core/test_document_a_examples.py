"""Document A's worked examples: groups as classes, what their options do, and tools that come and go at run time."""

from __future__ import annotations

import pytest

from tests.core.document_a import (
    Database,
    FileSystem,
    Menu,
    PluginServer,
    Renaming,
    Vault,
    automation_hub,
)
from toolfold import ToolNotFound, ToolSet, Visibility


@pytest.mark.spec("KIT-7", "NAM-2", "NAM-3", "CTL-1")
def test_the_hub_has_the_names_of_the_document() -> None:
    """Document A, derive macro integration: the names derived from the first block."""
    assert set(automation_hub().catalog.tools) == {
        "file_ops.activate",
        "file_ops.deactivate",
        "file_ops.read_file",
        "network.activate",
        "network.deactivate",
        "network.fetch_url",
        "list_capabilities",
    }


@pytest.mark.spec("KIT-7", "NAM-2", "NAM-3", "REG-2")
def test_a_deeper_hierarchy_has_the_names_of_the_document() -> None:
    """Document A, deeper hierarchy example. Its names need `name=`: by its own rule the segments are the classes'."""
    tools = ToolSet("hub", control="none")
    tools.include(Database())
    assert set(tools.catalog.tools) == {"database.read.query", "database.write.insert"}
    assert [(info.name, info.parent) for info in tools.list_groups()] == [
        ("database", None),
        ("database.read", "database"),
        ("database.write", "database"),
    ]


@pytest.mark.spec("KIT-7", "HOOK-1", "CTL-1")
async def test_a_group_is_customised_where_its_class_is_declared() -> None:
    """Document A, group customization example: name, description, hidden deactivator, hooks as methods."""
    tools, files = ToolSet("hub"), FileSystem()
    tools.include(files)
    assert tools.list_tools().names == ("fs.activate",)
    assert [(info.name, info.description) for info in tools.list_groups()] == [("fs", "Filesystem operations")]
    await tools.call_tool("fs.activate")
    await tools.deactivate_group("fs")
    assert files.did == ["mount fs", "unmount fs"]


@pytest.mark.spec("KIT-7", "NAM-3")
def test_a_group_method_renames_the_group_for_its_place_alone() -> None:
    """Document A, macro attributes: `#[group(name = "...")]` on a method."""
    tools = ToolSet("hub", control="none")
    tools.include(Renaming())
    assert set(tools.catalog.tools) == {"disk.read_file", "file_ops.read_file"}
    assert {info.description for info in tools.list_groups()} == {"File operations"}


@pytest.mark.spec("KIT-7", "VIS-2")
async def test_an_always_tool_is_visible_while_its_group_is_not() -> None:
    """Document A, macro attributes: `#[tool(always)]`, for menus."""
    tools = ToolSet("hub", control="none")
    tools.include(Menu())
    assert tools.list_tools().names == ("menu.choices",)
    assert (await tools.call_tool("menu.choices")).text == "soup"
    with pytest.raises(ToolNotFound):
        await tools.call_tool("menu.order")


@pytest.mark.spec("NAM-4", "CTL-1")
async def test_a_tool_called_activate_or_deactivate_takes_the_place_of_the_generated_one() -> None:
    """Document A, automatic activators: a group's own method overrides the generation for that name."""
    tools, vault = ToolSet("hub"), Vault()
    tools.include(vault)
    assert tools.list_tools().names == ("vault.activate", "vault.deactivate")
    assert (await tools.call_tool("vault.activate", {"code": 1})).text == "shut"
    assert not tools.is_group_active("vault")
    assert (await tools.call_tool("vault.activate", {"code": 7})).text == "open"
    assert (await tools.call_tool("vault.deactivate")).text == "It shuts by itself."
    assert (await tools.call_tool("vault.look")).text == "gold"
    assert vault.asked == 2


@pytest.mark.spec("KIT-7", "SES-1")
async def test_every_server_of_a_class_registers_its_tools() -> None:
    """Document A, macro tool registration: there it is once for all instances, which leaves later ones empty."""
    first, second = automation_hub(), automation_hub()
    assert first.list_tools().names == second.list_tools().names != ()
    await first.activate_group("file_ops")
    assert not second.is_group_active("file_ops")


# Dynamic tools


@pytest.mark.spec("NTF-3", "REG-7", "REG-5", "VIS-2")
async def test_a_plugin_server_loads_and_unloads_at_run_time() -> None:
    """Document A, dynamic registration: the plugin server."""
    server = PluginServer({"words": {"to_wire": lambda: "spelt", "count": lambda: "3"}, "sums": {"add": lambda: "4"}})
    tools = server.tools
    received: list[frozenset[str]] = []
    tools.default_session.on_list_changed(received.append)
    server.load_plugin("words")
    with pytest.raises(ToolNotFound):
        await tools.call_tool("plugins.to_wire")
    await tools.call_tool("plugins.activate")
    assert (await tools.call_tool("plugins.to_wire")).text == "spelt"
    server.load_plugin("sums")
    assert (await tools.call_tool("plugins.add")).text == "4"
    server.unload_plugin("words")
    assert tools.list_tools().names == ("plugins.activate", "plugins.add", "plugins.deactivate")
    with pytest.raises(ToolNotFound):
        await tools.call_tool("plugins.to_wire")
    assert received == [{"tool"}] * 4


@pytest.mark.spec("SES-5", "VIS-2", "NTF-3")
async def test_tools_can_depend_on_permissions_and_state() -> None:
    """Document A, use case dynamic tool trees: by permissions or state, in the same pipeline as static tools."""
    tools = ToolSet("hub")
    may_write = Visibility.when(lambda view: view.facts.get("role") == "editor")
    tools.register("publish", lambda: "published", visibility=may_write)
    tools.register("read", lambda: "text")
    assert tools.list_tools().names == ("read",)
    tools.default_session.set_fact("role", "editor")
    assert tools.list_tools().names == ("publish", "read")
    assert (await tools.call_tool("publish")).text == "published"


@pytest.mark.spec("NTF-3", "REG-7", "REG-5")
async def test_registration_alone_notifies_nobody() -> None:
    """Document A, the note on dynamic registration: for direct calls, the server notifies."""
    tools = ToolSet("plugins")
    tools.register_group("plugins", "Dynamically loaded plugin tools")
    received: list[frozenset[str]] = []
    tools.default_session.on_list_changed(received.append)
    await tools.activate_group("plugins")
    received.clear()
    name = ToolSet.qualified_name("plugins", "to_wire")
    tools.register(name, lambda: "spelt", visibility=Visibility.group("plugins"))
    assert received == []
    tools.notify_list_changed()
    assert received == [{"tool"}]
    assert (await tools.call_tool("plugins.to_wire")).text == "spelt"
    assert tools.unregister(name) is not None
    assert name not in tools.list_tools().names
