"""Document A's dynamic registration: plugins of its example server are added, removed, changed, or broken."""

from __future__ import annotations

import anyio
import pytest

from tests.adapters.mcp.support import PATIENCE, build_server
from tests.examples.callers import CHANGED, UNKNOWN, WAYS, Connect, connected
from tests.examples.hub import Hub, done, opened, plugin


@pytest.mark.spec("REG-5", "REG-7", "NTF-3", "KIT-7")
async def test_plugins_are_loaded_and_unloaded_while_clients_are_connected(hub: Hub, connect: Connect) -> None:
    """Document A, dynamic registration: load_plugin, unload_plugin, and the tools in the group `plugins`."""
    async with connect(hub.tools) as client:
        await opened(client, "plugins")
        hub.drop("greet.py", plugin("greet", "Good morning."))
        assert await client.call("plugins.greet", {}) == (True, UNKNOWN)
        assert (await done(client, "plugins.rescan")).structured["loaded"] == ["greet.py"]
        assert "plugins.greet" in await client.names()
        assert (await done(client, "plugins.greet")).text == "Good morning."
        await done(client, "plugins.deactivate")
        assert await client.call("plugins.greet", {}) == (True, UNKNOWN)
        await opened(client, "plugins")
        hub.drop("greet.py", plugin("greet", "Good evening."))
        assert (await done(client, "plugins.rescan")).structured["loaded"] == ["greet.py"]
        assert (await done(client, "plugins.greet")).text == "Good evening."
        (hub.plugins / "greet.py").unlink()
        assert (await done(client, "plugins.rescan")).structured["unloaded"] == ["greet.py"]
        assert await client.call("plugins.greet", {}) == (True, UNKNOWN)
        assert "plugins.rescan" in await client.names()


@pytest.mark.spec("NTF-3")
@pytest.mark.parametrize("way", ["in process", "legacy"])
async def test_clients_are_notified_when_plugins_come_and_go_and_of_nothing_else(hub: Hub, way: str) -> None:
    """Document A, dynamic registration: the server emits list_changed itself."""
    async with WAYS[way](hub.tools) as client:
        await opened(client, "plugins")
        client.notified.clear()
        await done(client, "plugins.rescan")
        assert client.notified == []
        hub.drop("greet.py", plugin("greet", "Good morning."))
        assert client.notified == []
        await done(client, "plugins.rescan")
        assert client.notified == [CHANGED]


@pytest.mark.spec("NTF-3", "DEL-7")
async def test_a_modern_client_that_listens_is_notified_of_plugins_too(hub: Hub) -> None:
    """Document A, dynamic registration: the server emits list_changed itself."""
    async with connected(build_server(hub.tools), "auto") as client:
        await opened(client, "plugins")
        async with client.client.listen(tools_list_changed=True) as events:
            hub.drop("greet.py", plugin("greet", "Good morning."))
            await done(client, "plugins.rescan")
            with anyio.fail_after(PATIENCE):
                event = await anext(aiter(events))
        assert type(event).__name__ == "ToolsListChanged"


BROKEN: dict[str, tuple[str | bytes, str]] = {
    "no Python": ("def greet(:", "SyntaxError: invalid syntax (broken.py, line 1)"),
    "no text": (b"\xff\xfe", "SyntaxError"),
    "raises": ("raise KeyError('a secret')", "KeyError; the log says more"),
    "ends the program": ("raise SystemExit(3)", "SystemExit; the log says more"),
    "nothing marked": ("def greet(): ...", "it declares nothing with @tool or @group"),
    "a name that is taken": (plugin("good", "?"), "A tool named 'plugins.good' is registered already"),
    "a name of the hub's": (plugin("rescan", "?"), "A tool named 'plugins.rescan' is registered already"),
    "too many parameters": (
        "from toolfold import tool\n@tool(input_schema={'type': 'object'})\ndef f(a, b, c): ...",
        "its handler must take nothing, the arguments, or the arguments and the context",
    ),
    "a wrong schema": (
        "from toolfold import tool\n@tool(input_schema={'type': 'list'})\ndef f(a): ...",
        "'f' can't be registered",
    ),
    "a group": (
        "from toolfold import group, tool\n"
        "class Inner:\n    @tool\n    def t(self): ...\n"
        "@group\ndef inner(): return Inner()",
        "a plugin can define tools, but no groups",
    ),
}


@pytest.mark.spec("REG-1", "REG-4", "REG-6", "KIT-2")
@pytest.mark.parametrize("kind", BROKEN)
async def test_a_broken_plugin_is_reported_with_its_error_and_changes_nothing(hub: Hub, kind: str) -> None:
    source, fault = BROKEN[kind]
    async with WAYS["legacy"](hub.tools) as client:
        await opened(client, "plugins")
        hub.drop("good.py", plugin("good", "Fine."))
        await done(client, "plugins.rescan")
        before = hub.tools.catalog
        client.notified.clear()

        broken = hub.plugins / "broken.py"
        broken.write_bytes(source if isinstance(source, bytes) else source.encode())
        received = (await done(client, "plugins.rescan")).structured
        assert (received["loaded"], received["unloaded"], list(received["problems"])) == ([], [], ["broken.py"])
        assert fault in received["problems"]["broken.py"]
        assert "a secret" not in received["problems"]["broken.py"]
        assert hub.tools.catalog is before
        assert client.notified == []
        assert (await done(client, "plugins.good")).text == "Fine."

        broken.write_text(plugin("fixed", "Again."))
        assert (await done(client, "plugins.rescan")).structured["loaded"] == ["broken.py"]
        assert (await done(client, "plugins.fixed")).text == "Again."


@pytest.mark.spec("REG-1")
async def test_a_plugin_that_becomes_broken_stays_loaded_unchanged(hub: Hub, connect: Connect) -> None:
    hub.drop("greet.py", plugin("greet", "Good morning."))
    async with connect(hub.tools) as client:
        await opened(client, "plugins")
        await done(client, "plugins.rescan")
        hub.drop("greet.py", "1 / 0")
        received = (await done(client, "plugins.rescan")).structured
        assert received == {
            "loaded": [],
            "unloaded": [],
            "problems": {"greet.py": "ZeroDivisionError; the log says more"},
        }
        assert (await done(client, "plugins.greet")).text == "Good morning."


@pytest.mark.spec("REG-5", "NAM-4")
@pytest.mark.filterwarnings("ignore:The tool 'plugins.deactivate' takes the place")
async def test_unreadable_plugins_are_reported_and_a_replaced_control_tool_comes_back(hub: Hub) -> None:
    (hub.plugins / "folder.py").mkdir()
    (hub.plugins / "nowhere.py").symlink_to(hub.plugins / "missing.py")
    hub.drop("own.py", plugin("deactivate", "It stays open."))
    async with hub.tools.open_session(active=["plugins"]) as session:
        received = (await session.call("plugins.rescan")).structured
        assert (received["loaded"], sorted(received["problems"])) == (["own.py"], ["folder.py", "nowhere.py"])
        assert (await session.call("plugins.deactivate")).text == "It stays open."
        (hub.plugins / "own.py").unlink()
        await session.call("plugins.rescan")
        await session.call("plugins.deactivate")
        assert session.active == ()
