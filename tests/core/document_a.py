"""Document A's worked examples, declared in the terms of this library."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolfold import Context, HookContext, ToolSet, Visibility, group, tool


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


@group
class Database:
    @group
    def read(self) -> DatabaseRead:
        return DatabaseRead()

    @group(name="write")
    def write(self) -> DatabaseWrite:
        return DatabaseWrite()


@group(name="read")
class DatabaseRead:
    @tool
    async def query(self, sql: str) -> str:
        return sql


class DatabaseWrite:
    @tool
    async def insert(self, table: str) -> str:
        return table


@group(
    name="fs",
    description="Filesystem operations",
    show_deactivator=False,
    on_activate="mount",
    on_deactivate="unmount",
)
class FileSystem:
    def __init__(self) -> None:
        self.did: list[str] = []

    async def mount(self, context: HookContext) -> None:
        self.did.append(f"mount {context.group}")

    async def unmount(self, context: HookContext) -> None:
        self.did.append(f"unmount {context.group}")


class Renaming:
    @group(name="disk")
    def file_ops(self) -> FileOps:
        return FileOps()

    @group
    def also_file_ops(self) -> FileOps:
        return FileOps()


@group
class Menu:
    @tool(always=True)
    def choices(self) -> str:
        return "soup"

    @tool
    def order(self) -> str:
        return "soon"


@group
class Vault:
    def __init__(self) -> None:
        self.asked = 0

    @tool
    async def activate(self, code: int, context: Context) -> str:
        """Open the vault by its code."""
        self.asked += 1
        return "open" if code == 7 and await context.activate("vault") else "shut"

    @tool
    def deactivate(self) -> str:
        return "It shuts by itself."

    @tool
    def look(self) -> str:
        return "gold"


class PluginServer:
    """The document's plugin server: a plugin is a mapping of base names to handlers."""

    def __init__(self, known: Mapping[str, Mapping[str, Callable[[], str]]]) -> None:
        self.tools = ToolSet("plugins")
        self.tools.register_group("plugins", "Dynamically loaded plugin tools")
        self._known = known

    def load_plugin(self, name: str) -> None:
        for base, handler in self._known[name].items():
            full = ToolSet.qualified_name("plugins", base)
            self.tools.register(full, handler, visibility=Visibility.group("plugins"))
        self.tools.notify_list_changed()

    def unload_plugin(self, name: str) -> None:
        for base in self._known[name]:
            assert self.tools.unregister(ToolSet.qualified_name("plugins", base)) is not None
        self.tools.notify_list_changed()
