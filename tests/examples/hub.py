"""What the tests of the automation hub share: a hub in folders of its own, and what a client asks of it."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen

from examples.automation_hub import build
from tests.examples.callers import Answer, Caller
from toolfold import ToolSet

GROUPS = (
    *("database", "database.maintenance", "database.read", "database.write"),
    *("file_ops", "network", "plugins"),
)
CONTROLS = [
    f"{path}.{verb}"
    for path in GROUPS
    for verb in ("activate", "deactivate")
    if f"{path}.{verb}" != "database.maintenance.deactivate"
]
AT_FIRST = sorted([*CONTROLS, "list_capabilities"])
FILE_TOOLS = ["file_ops.delete_file", "file_ops.list_files", "file_ops.read_file", "file_ops.write_file"]


@frozen
class Hub:
    """A hub, where its files are, and where its plugins are dropped."""

    tools: ToolSet
    files: Path
    plugins: Path
    folder: Path = field(kw_only=True)

    @classmethod
    def at(cls, folder: Path, **options: object) -> Hub:
        """Return a hub in a folder, with no plugins yet."""
        plugins = folder / "plugins"
        plugins.mkdir(parents=True)
        return cls(build(folder / "hub", plugins, **options), folder / "hub" / "files", plugins, folder=folder)

    def drop(self, name: str, source: str) -> None:
        """Put a plugin into the folder, or something else in the place of one."""
        (self.plugins / name).write_text(source)


def plugin(tool: str, answer: str) -> str:
    """Return a plugin with one tool that answers with a text."""
    return f"from toolfold import tool\n\n@tool\ndef {tool}() -> str:\n    return {answer!r}\n"


async def done(client: Caller, name: str, /, **arguments: object) -> Answer:
    """Return what a call is answered, which must be no error."""
    answer = await client.answer(name, arguments)
    assert not answer.is_error, answer.text
    return answer


async def refused(client: Caller, name: str, /, **arguments: object) -> str:
    """Return the words with which a call is refused."""
    answer = await client.answer(name, arguments)
    assert answer.is_error, answer.text
    return answer.text


async def opened(client: Caller, path: str, *more: str) -> Answer:
    """Open groups one after the other, and return the last answer."""
    answer = await done(client, f"{path}.activate")
    for path in more:
        answer = await done(client, f"{path}.activate")
    return answer


async def open_groups(client: Caller) -> list[str]:
    """Return the groups that are open for the client."""
    received = (await done(client, "list_capabilities")).structured
    return [info["name"] for info in received["groups"] if info["active"]]
