"""The group `file_ops`: only tools, which are listed while it is open."""

from __future__ import annotations

from toolfold import group, tool

from .workspace import Workspace


@group(description="Read and write the files of the workspace")
class FileOps:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @tool(annotations={"readOnlyHint": True})
    def list_files(self) -> list[str]:
        """List the files of the workspace."""
        return self._workspace.names()

    @tool(annotations={"readOnlyHint": True})
    def read_file(self, path: str) -> str:
        """Read a file; its path is relative to the workspace."""
        return self._workspace.read(path)

    @tool
    def write_file(self, path: str, text: str) -> str:
        """Create a file, or replace its content."""
        self._workspace.write(path, text)
        return f"{path} has {len(text)} characters."

    @tool(annotations={"destructiveHint": True})
    def delete_file(self, path: str) -> str:
        """Delete a file."""
        self._workspace.delete(path)
        return f"{path} is deleted."
