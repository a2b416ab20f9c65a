"""An automation hub whose tools are in groups that open and close: document A built on the core.

A client is listed the tools that open the groups; opening a group lists its tools. Each group shows one feature:

    file_ops   a plain group                            plugins    tools that come and go while the hub runs
    network    hooks that open and close a server       database   groups in a group, a transaction, and an exclusion

    python -m examples.automation_hub
    toolfold serve examples.automation_hub:tools
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any
from weakref import finalize

from toolfold import Context, ToolSet, View, Visibility, group, tool

from .database import Database
from .file_ops import FileOps
from .network import Network
from .plugins import Plugins
from .workspace import Workspace

DROP_INS = Path(__file__).with_name("drop_ins")


def can_export(view: View) -> bool:
    """Return whether records can be read and files written."""
    return view.is_group_active("database.read") and view.is_group_active("file_ops")


class AutomationHub:
    """The server: its own tools are in no group, and its group methods return the groups.

    Clients share the files, the saved records and the plugins. The state of a single client is in the groups whose
    hooks create it.

    Args:
        tools: The tool set that the hub is included in; plugins are registered there.
        folder: The folder of the files that tools may use, and of the database.
        plugins: The folder with the plugins. No tool writes there.
    """

    def __init__(self, tools: ToolSet, folder: Path, plugins: Path = DROP_INS) -> None:
        self._workspace = Workspace(folder / "files")
        self._database = Database(folder / "records.db")
        self._plugins = Plugins(tools, plugins)

    @group
    def file_ops(self) -> FileOps:
        return FileOps(self._workspace)

    @group
    def network(self) -> Network:
        return Network(self._workspace)

    @group
    def database(self) -> Database:
        return self._database

    @group
    def plugins(self) -> Plugins:
        return self._plugins

    @tool(always=True, annotations={"readOnlyHint": True})
    def list_capabilities(self, context: Context) -> dict[str, Any]:
        """List all groups and whether they are open."""
        groups = context.session.list_groups()
        return {
            "groups": [
                {"name": one.name, "description": one.description, "active": one.active, "tools": one.tool_count}
                for one in groups
            ]
        }

    @tool(visibility=Visibility.when(can_export))
    def export_records(self, path: str, context: Context) -> str:
        """Write all records into a file, one per line."""
        records = self._database.find(context, "%")
        self._workspace.write(path, "".join(f"{name}\t{value}\n" for name, value in records.items()))
        return f"{path} now has all {len(records)} records."


def build(folder: Path | None = None, plugins: Path = DROP_INS, **options: Any) -> ToolSet:
    """Return the tools of a hub with its own state, in `folder` or in a temporary one.

    `options` are those of `ToolSet`: `control_visibility="relevant"` lists only control tools that can have an effect.
    """
    tools = ToolSet("automation_hub", **options)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="automation-hub-"))
        finalize(tools, shutil.rmtree, folder, ignore_errors=True)
    hub = AutomationHub(tools, folder, plugins)
    tools.include(hub)
    tools.register_exclusion("database.write", "database.maintenance")
    hub.plugins().rescan()
    return tools


tools = build  # a function: a hub creates its folder when it is built, not when this module is imported
