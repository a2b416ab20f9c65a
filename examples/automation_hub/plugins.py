"""The group `plugins`: its tools are loaded from Python files of a folder, and removed with these files.

Only the operator of the hub can put files there. So any client may rescan the folder, although the result is shared by
all clients.
"""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import asdict, define, field, frozen

from toolfold import InvalidDefinition, ToolfoldError, ToolSet, group, tool

log = logging.getLogger(__name__)


@frozen
class Plugin:
    """A loaded file: its source and the tools that it registered."""

    source: bytes
    tools: frozenset[str] = frozenset()


@define
class Findings:
    """The result of a rescan, by file name; `problems` has the error of each file that could not be loaded."""

    loaded: list[str] = field(factory=list[str])
    unloaded: list[str] = field(factory=list[str])
    problems: dict[str, str] = field(factory=dict[str, str])


@group(description="Tools from plugins that come and go")
class Plugins:
    def __init__(self, tools: ToolSet, folder: Path) -> None:
        self._tools = tools
        self._folder = folder
        self._loaded: dict[str, Plugin] = {}

    @tool(annotations={"idempotentHint": True}, run_in_thread=False)  # one rescan at a time
    def rescan(self) -> dict[str, Any]:
        """Load new and changed plugins, and unload deleted ones."""
        found = Findings()
        files = sorted(self._folder.glob("*.py"))
        for name in sorted(self._loaded.keys() - {file.name for file in files}):
            self._remove(self._loaded.pop(name))
            found.unloaded.append(name)
        for file in files:
            self._load(file, found)
        if found.loaded or found.unloaded:
            self._tools.notify_list_changed()
        return asdict(found)

    def _load(self, file: Path, found: Findings) -> None:
        """Load a plugin that is new or has changed; if that fails, change nothing."""
        before = self._loaded.get(file.name, Plugin(b""))
        try:
            source = file.read_bytes()
            if source == before.source and file.name in self._loaded:
                return
            with self._tools.all_or_nothing():
                self._remove(before)
                self._loaded[file.name] = Plugin(source, self._include(file.name, source))
        except (Exception, SystemExit) as error:
            log.warning("the plugin %s can't be loaded", file.name, exc_info=error)
            found.problems[file.name] = _problem(error)
        else:
            found.loaded.append(file.name)

    def _include(self, name: str, source: bytes) -> frozenset[str]:
        """Run a plugin, register the functions that it decorates as tools, and return their names."""
        module = ModuleType(Path(name).stem)
        exec(compile(source, name, "exec", dont_inherit=True), vars(module))
        before = self._tools.catalog
        self._tools.include(module, group="plugins")
        after = self._tools.catalog
        if after.groups != before.groups:
            raise InvalidDefinition(name, "a plugin can define tools, but no groups")
        return frozenset(tool for tool, spec in after.tools.items() if before.tools.get(tool) is not spec)

    def _remove(self, plugin: Plugin) -> None:
        for name in plugin.tools:
            self._tools.unregister(name)


def _problem(error: BaseException) -> str:
    """Return what clients may know: errors in the file itself, but no details of what it raised when it ran."""
    detail = f": {error}" if isinstance(error, (SyntaxError, ToolfoldError)) else "; the log says more"
    return f"{type(error).__name__}{detail}"
