"""Document A's own tests in the terms of this library, on the default session, which has the API that A describes."""

import anyio
import pytest

from toolfold import Change, HookFailed, ParentInactive, ToolNotFound, ToolSet, Visibility, group, tool


@group(description="File operations")
class FileOps:
    @tool
    async def read_file(self, path: str = "readme") -> str:
        """Read a file."""
        return f"contents of {path}"


@group(description="Network operations")
class Network:
    @tool
    async def fetch_url(self, url: str) -> str:
        """Fetch a URL."""
        return f"body of {url}"


class AutomationHub:
    def __init__(self, tools: ToolSet) -> None:
        self.tools = tools

    @group
    def file_ops(self) -> FileOps:
        return FileOps()

    @group
    def network(self) -> Network:
        return Network()

    @tool(always=True)
    def list_capabilities(self) -> list[str]:
        return [info.name for info in self.tools.list_groups()]


def automation_hub() -> ToolSet:
    tools = ToolSet("automation_hub")
    tools.include(AutomationHub(tools))
    return tools


@pytest.mark.spec("KIT-7", "NAM-2", "NAM-3", "CTL-1")
def test_the_hub_has_the_names_of_the_document() -> None:
    assert set(automation_hub().catalog.tools) == {
        "file_ops.activate",
        "file_ops.deactivate",
        "file_ops.read_file",
        "network.activate",
        "network.deactivate",
        "network.fetch_url",
        "list_capabilities",
    }


@pytest.mark.spec("CTL-1", "CALL-1", "VIS-2")
async def test_progressive_activation() -> None:
    hub = automation_hub()
    assert hub.list_tools().names == (
        "file_ops.activate",
        "file_ops.deactivate",
        "list_capabilities",
        "network.activate",
        "network.deactivate",
    )
    with pytest.raises(ToolNotFound):
        await hub.call_tool("file_ops.read_file")
    assert not (await hub.call_tool("file_ops.activate")).is_error
    assert "file_ops.read_file" in hub.list_tools().names
    assert (await hub.call_tool("file_ops.read_file")).text == "contents of readme"
    assert (await hub.call_tool("list_capabilities")).text == '["file_ops", "network"]'


@pytest.mark.spec("ACT-4", "REG-3")
async def test_mutual_exclusion() -> None:
    tools = ToolSet("modes")
    tools.register_group("mode_a", "Mode A")
    tools.register_group("mode_b", "Mode B")
    tools.register_exclusion("mode_a", "mode_b")
    await tools.activate_group("mode_a")
    assert (tools.is_group_active("mode_a"), tools.is_group_active("mode_b")) == (True, False)
    await tools.activate_group("mode_b")
    assert (tools.is_group_active("mode_a"), tools.is_group_active("mode_b")) == (False, True)


@pytest.mark.spec("ACT-2", "ACT-5", "REG-2")
async def test_hierarchical_groups() -> None:
    tools = ToolSet("desk")
    tools.register_group("database", "Database operations")
    tools.register_group("database.write", "Write operations", parent="database")
    with pytest.raises(ParentInactive):
        await tools.activate_group("database.write")
    await tools.activate_group("database")
    await tools.activate_group("database.write")
    assert tools.default_session.active == ("database", "database.write")
    await tools.deactivate_group("database")
    assert not tools.is_group_active("database")
    assert not tools.is_group_active("database.write")


@pytest.mark.spec("VIS-1", "VIS-2")
async def test_when_visibility() -> None:
    flag = [False]
    tools = ToolSet("desk")
    tools.register("conditional_tool", lambda: None, visibility=Visibility.when(lambda view: flag[0]))
    assert tools.list_tools().names == ()
    with pytest.raises(ToolNotFound):
        await tools.call_tool("conditional_tool")
    flag[0] = True
    assert tools.list_tools().names == ("conditional_tool",)
    assert not (await tools.call_tool("conditional_tool")).is_error


@pytest.mark.spec("CTL-1", "VIS-5")
async def test_deactivation() -> None:
    hub = automation_hub()
    await hub.call_tool("file_ops.activate")
    assert hub.is_group_active("file_ops")
    await hub.call_tool("file_ops.deactivate")
    assert not hub.is_group_active("file_ops")
    assert "file_ops.read_file" not in hub.list_tools().names
    with pytest.raises(ToolNotFound):
        await hub.call_tool("file_ops.read_file")


@pytest.mark.spec("HOOK-1")
async def test_activation_hooks() -> None:
    ran: list[str] = []

    async def mount() -> None:
        ran.append("mount")

    tools = ToolSet("desk")
    tools.register_group("file_ops", "File operations", on_activate=mount, on_deactivate=lambda: ran.append("unmount"))
    await tools.activate_group("file_ops")
    assert ran == ["mount"]
    await tools.call_tool("file_ops.deactivate")
    assert ran == ["mount", "unmount"]


@pytest.mark.spec("HOOK-4")
async def test_a_failing_hook_leaves_the_state_as_it_was() -> None:
    def fail() -> None:
        raise OSError("no disk")

    tools = ToolSet("desk")
    tools.register_group("file_ops", on_activate=fail)
    with pytest.raises(HookFailed):
        await tools.activate_group("file_ops")
    assert not tools.is_group_active("file_ops")


@pytest.mark.spec("CTL-1")
async def test_hidden_deactivator() -> None:
    tools = ToolSet("desk")
    tools.register_group("file_ops", "File operations", show_deactivator=False)
    assert tools.list_tools().names == ("file_ops.activate",)
    assert await tools.activate_group("file_ops")
    assert await tools.deactivate_group("file_ops")


@pytest.mark.spec("LST-4")
async def test_list_groups() -> None:
    tools = ToolSet("desk")
    tools.register_group("file_ops", "File operations")
    tools.register_group("network", "Network operations")
    await tools.activate_group("file_ops")
    assert [(info.name, info.description, info.active) for info in tools.list_groups()] == [
        ("file_ops", "File operations", True),
        ("network", "Network operations", False),
    ]


@pytest.mark.spec("LST-4")
def test_root_is_not_listed() -> None:
    tools = ToolSet("desk")
    tools.register("ping", lambda: "pong")
    assert tools.list_groups() == ()
    tools.register_group("file_ops", "File operations")
    assert [info.name for info in tools.list_groups()] == ["file_ops"]


@pytest.mark.spec("LST-1")
def test_list_tools_ordering() -> None:
    tools = ToolSet("desk")
    tools.register("b_tool", lambda: None)
    tools.register("a_tool", lambda: None)
    assert tools.list_tools().names == ("a_tool", "b_tool")


@pytest.mark.spec("NTF-1", "CTL-1")
async def test_tool_list_changed_notification() -> None:
    hub = automation_hub()
    told: list[frozenset[str]] = []
    hub.default_session.on_list_changed(told.append)
    await hub.call_tool("file_ops.activate")
    assert told == [{"tool"}]


@pytest.mark.spec("SES-2", "ACT-3", "NTF-1")
async def test_concurrent_activation() -> None:
    hub = automation_hub()
    told: list[frozenset[str]] = []
    hub.default_session.on_list_changed(told.append)
    changes: list[Change] = []

    async def activate(path: str) -> None:
        changes.append(await hub.default_session.transition(activate=[path]))

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(activate, "network" if number % 2 else "file_ops")
    assert hub.default_session.active == ("file_ops", "network")
    assert [change.activated for change in changes if change] == [("file_ops",), ("network",)]
    assert len(told) == 2


@pytest.mark.spec("NTF-3", "REG-7", "REG-5")
async def test_plugins_are_loaded_and_unloaded_at_run_time() -> None:
    tools = ToolSet("plugins")
    tools.register_group("plugins", "Dynamically loaded plugin tools")
    told: list[frozenset[str]] = []
    tools.default_session.on_list_changed(told.append)
    await tools.activate_group("plugins")
    told.clear()
    name = ToolSet.qualified_name("plugins", "spell")
    tools.register(name, lambda: "spelt", visibility=Visibility.group("plugins"))
    assert told == []
    tools.notify_list_changed()
    assert told == [{"tool"}]
    assert (await tools.call_tool("plugins.spell")).text == "spelt"
    assert tools.unregister(name) is not None
    assert name not in tools.list_tools().names
