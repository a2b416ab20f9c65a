"""Document A's own tests and rules in the terms of this library, on the default session, which has the API of A.

What clients see of them is in `tests/examples/test_automation_hub.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
import pytest

from tests.core.document_a import Database, automation_hub
from toolfold import (
    Change,
    DuplicateName,
    GroupNotFound,
    HookContext,
    HookFailed,
    InvalidName,
    ParentInactive,
    ToolNotFound,
    ToolSet,
    View,
    Visibility,
)


@pytest.mark.spec("CTL-1", "CALL-1", "VIS-2")
async def test_progressive_activation() -> None:
    """Document A, test_progressive_activation."""
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
    """Document A, test_mutual_exclusion."""
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
    """Document A, test_hierarchical_groups."""
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
    """Document A, test_when_visibility."""
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
    """Document A, test_deactivation."""
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
    """Document A, test_activation_hooks."""
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
    """Document A, error handling: hook failures."""

    def fail() -> None:
        raise OSError("no disk")

    tools = ToolSet("desk")
    tools.register_group("file_ops", on_activate=fail)
    with pytest.raises(HookFailed):
        await tools.activate_group("file_ops")
    assert not tools.is_group_active("file_ops")


@pytest.mark.spec("CTL-1")
async def test_hidden_deactivator() -> None:
    """Document A, test_hidden_deactivator."""
    tools = ToolSet("desk")
    tools.register_group("file_ops", "File operations", show_deactivator=False)
    assert tools.list_tools().names == ("file_ops.activate",)
    assert await tools.activate_group("file_ops")
    assert await tools.deactivate_group("file_ops")


@pytest.mark.spec("LST-4")
async def test_list_groups() -> None:
    """Document A, test_list_groups."""
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
    """Document A, test_root_not_listed."""
    tools = ToolSet("desk")
    tools.register("ping", lambda: "pong")
    assert tools.list_groups() == ()
    tools.register_group("file_ops", "File operations")
    assert [info.name for info in tools.list_groups()] == ["file_ops"]


@pytest.mark.spec("LST-1")
def test_list_tools_ordering() -> None:
    """Document A, test_list_tools_ordering."""
    tools = ToolSet("desk")
    tools.register("b_tool", lambda: None)
    tools.register("a_tool", lambda: None)
    assert tools.list_tools().names == ("a_tool", "b_tool")


@pytest.mark.spec("NTF-1", "CTL-1")
async def test_tool_list_changed_notification() -> None:
    """Document A, test_tool_list_changed_notification."""
    hub = automation_hub()
    received: list[frozenset[str]] = []
    hub.default_session.on_list_changed(received.append)
    await hub.call_tool("file_ops.activate")
    assert received == [{"tool"}]


@pytest.mark.spec("SES-2", "ACT-3", "NTF-1")
async def test_concurrent_activation() -> None:
    """Document A, test_concurrent_activation."""
    hub = automation_hub()
    received: list[frozenset[str]] = []
    hub.default_session.on_list_changed(received.append)
    changes: list[Change] = []

    async def activate(path: str) -> None:
        changes.append(await hub.default_session.transition(activate=[path]))

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(activate, "network" if number % 2 else "file_ops")
    assert hub.default_session.active == ("file_ops", "network")
    assert [change.activated for change in changes if change] == [("file_ops",), ("network",)]
    assert len(received) == 2


# Naming, and what is root


@pytest.mark.spec("NAM-1", "NAM-2")
async def test_names_are_paths_and_two_groups_may_use_the_same_base() -> None:
    """Document A, tool naming policy: two groups can both have `read`; `.` separates and occurs in no segment."""
    assert ToolSet.qualified_name("database.write", "insert") == "database.write.insert"
    assert ToolSet.qualified_name("", "ping") == "ping"
    tools = ToolSet("hub")
    tools.register_group("disk")
    tools.register_group("tape")
    tools.register("read", lambda: "from the disk", group="disk")
    tools.register("read", lambda: "from the tape", group="tape")
    await tools.default_session.transition(activate=["disk", "tape"])
    assert (await tools.call_tool("disk.read")).text == "from the disk"
    assert (await tools.call_tool("tape.read")).text == "from the tape"
    for base in ("a.b", "", ".", "a b"):
        with pytest.raises(InvalidName):
            ToolSet.qualified_name("disk", base)
    with pytest.raises(DuplicateName):
        tools.register("disk.read", lambda: None)


@pytest.mark.spec("VIS-1", "LST-4", "ACT-1", "CTL-1")
async def test_root_is_always_active_and_is_no_group() -> None:
    """Document A, invariants, and the default behaviour of a server without groups."""
    tools = ToolSet("plain")
    tools.register("ping", lambda: "pong")
    assert tools.list_tools().names == ("ping",)
    assert (await tools.call_tool("ping")).text == "pong"
    assert tools.list_groups() == ()
    for name in ("root", ""):
        with pytest.raises(GroupNotFound):
            await tools.deactivate_group(name)
    assert tools.list_tools().names == ("ping",)


@pytest.mark.spec("VIS-5", "CALL-1", "VIS-7")
async def test_registered_visible_and_dispatchable_are_three_things() -> None:
    """Document A, model and invariants: dispatchability implies visibility, and hidden is as unknown."""
    hub = automation_hub()
    assert "file_ops.read_file" in hub.catalog.tools
    errors: list[str] = []
    for name in ("file_ops.read_file", "file_ops.missing"):
        assert name not in hub.list_tools().names
        with pytest.raises(ToolNotFound) as raised:
            await hub.call_tool(name)
        errors.append(str(raised.value).replace(name, "NAME"))
    assert errors[0] == errors[1]


@pytest.mark.spec("VIS-3", "LST-1")
async def test_all_predicates_of_one_list_see_one_snapshot_and_each_list_asks_anew() -> None:
    """Document A, visibility: snapshot-based evaluation, per call, through a read-only view."""
    seen: list[tuple[View, bool]] = []

    def looks(view: View) -> bool:
        seen.append((view, view.is_group_active("mode")))
        return view.is_group_active("mode")

    tools = ToolSet("hub")
    tools.register_group("mode")
    for name in ("one", "two"):
        tools.register(name, lambda: None, visibility=Visibility.when(looks))
    assert not {"one", "two"} & set(tools.list_tools().names)
    assert [active for _, active in seen] == [False, False]
    assert seen[0][0].snapshot is seen[1][0].snapshot
    with pytest.raises(AttributeError):
        seen[0][0].snapshot = tools.default_session.snapshot  # type: ignore[misc]
    await tools.activate_group("mode")
    seen.clear()
    assert {"one", "two"} <= set(tools.list_tools().names)
    assert [active for _, active in seen] == [True, True]


@pytest.mark.spec("LST-1", "LST-2")
def test_cursors_are_read_against_the_order_of_names() -> None:
    """Document A, `list_tools`: name-sorted, and cursors are interpreted against that ordering."""
    tools = ToolSet("pages", page_size=2)
    for name in ("d", "b", "e", "c"):
        tools.register(name, lambda: None)
    first = tools.list_tools()
    assert first.names == ("b", "c")
    tools.register("a", lambda: None)
    assert tools.list_tools(first.next_cursor).names == ("d", "e")


# Groups


@pytest.mark.spec("ACT-4", "ACT-5", "ACT-7", "LST-4")
async def test_an_excluded_group_leaves_with_its_descendants_and_list_groups_shows_it() -> None:
    """Document A, group semantics and error handling: an exclusion conflict succeeds, and can be observed."""
    tools = ToolSet("hub")
    tools.include(Database())
    tools.register_group("offline", "No database")
    tools.register_exclusion("database", "offline")
    for path in ("database", "database.read", "database.write"):
        assert await tools.activate_group(path)
    assert await tools.activate_group("offline")
    assert [info.name for info in tools.list_groups() if info.active] == ["offline"]
    assert await tools.activate_group("database")
    assert [info.name for info in tools.list_groups() if info.active] == ["database"]


@pytest.mark.spec("LST-4")
async def test_what_list_groups_tells_of_a_group() -> None:
    """Document A, `GroupInfo`: name, description, active, parent, number of tools."""
    tools = ToolSet("hub")
    tools.include(Database())
    tools.register("plan", lambda: None, group="database.write")
    await tools.activate_group("database")
    received = [
        (info.name, info.description, info.active, info.parent, info.tool_count) for info in tools.list_groups()
    ]
    assert received == [
        ("database", "", True, None, 0),
        ("database.read", "", False, "database", 1),
        ("database.write", "", False, "database", 2),
    ]


@pytest.mark.spec("ACT-3", "NTF-1")
async def test_activating_tells_whether_anything_changed() -> None:
    """Document A, `activate_group` and `deactivate_group`: a bool, and a notification if visibility changed."""
    hub = automation_hub()
    hub.register_group("empty")
    received: list[frozenset[str]] = []
    hub.default_session.on_list_changed(received.append)
    assert await hub.activate_group("empty") is True
    assert received == []
    assert [await hub.activate_group("network"), await hub.activate_group("network")] == [True, False]
    assert [await hub.deactivate_group("network"), await hub.deactivate_group("network")] == [True, False]
    assert received == [{"tool"}] * 2


@pytest.mark.spec("ACT-1", "REG-2", "REG-3", "ERR-2")
async def test_an_unknown_group_is_an_error_wherever_it_is_named() -> None:
    """Document A, error handling: unknown group, rather than creating one."""
    hub = automation_hub()
    before = hub.catalog
    places: Mapping[str, Callable[[], object]] = {
        "state": lambda: hub.is_group_active("file_op"),
        "parent": lambda: hub.register_group("deep", parent="file_op"),
        "tool": lambda: hub.register("t", lambda: None, group="file_op"),
        "rule": lambda: hub.register("t", lambda: None, visibility=Visibility.group("file_op")),
        "exclusion": lambda: hub.register_exclusion("file_op", "network"),
    }
    for place in places.values():
        with pytest.raises(GroupNotFound, match="Did you mean 'file_ops'"):
            place()
    for change in (hub.activate_group, hub.deactivate_group):
        with pytest.raises(GroupNotFound, match="Did you mean 'file_ops'"):
            await change("file_op")
    assert hub.catalog is before
    assert hub.default_session.active == ()


@pytest.mark.spec("ACT-2", "CTL-5", "ERR-2")
async def test_an_inactive_parent_is_named_as_the_one_to_activate_first() -> None:
    """Document A, error handling: parent inactive."""
    tools = ToolSet("hub")
    tools.include(Database())
    with pytest.raises(ParentInactive, match="activate 'database' first") as raised:
        await tools.activate_group("database.write")
    assert raised.value.parent == "database"
    refused = await tools.call_tool("database.write.activate")
    assert refused.is_error
    assert "call database.activate first" in refused.text


@pytest.mark.spec("HOOK-1", "HOOK-2", "HOOK-4")
async def test_hooks_run_before_the_change_and_an_error_of_teardown_keeps_the_group_active() -> None:
    """Document A, activation hooks: before state changes are applied; an error aborts deactivation too."""
    seen: list[tuple[str, bool]] = []
    broken = [True]
    tools = ToolSet("hub")

    def look(context: HookContext) -> None:
        seen.append((context.phase, context.session.is_active("file_ops")))
        if context.phase == "on_deactivate" and broken[0]:
            raise OSError("still in use")

    tools.register_group("file_ops", on_activate=look, on_deactivate=look)
    await tools.activate_group("file_ops")
    with pytest.raises(HookFailed) as raised:
        await tools.deactivate_group("file_ops")
    assert isinstance(raised.value.__cause__, OSError)
    assert tools.is_group_active("file_ops")
    broken[0] = False
    assert await tools.deactivate_group("file_ops")
    assert seen == [("on_activate", False), ("on_deactivate", True), ("on_deactivate", True)]
