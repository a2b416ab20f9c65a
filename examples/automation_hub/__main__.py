"""Shows in a few lines what document A is about: `python -m examples.automation_hub`."""

from __future__ import annotations

import logging

import anyio

from toolfold import Session, ToolNotFound

from . import build


async def call(session: Session, tool: str, /, **arguments: object) -> str:
    """Return the first line of what a tool answers."""
    try:
        return (await session.call(tool, arguments)).text.partition("\n")[0]
    except ToolNotFound as error:
        return str(error)


async def main() -> None:
    logging.basicConfig(level=logging.CRITICAL)  # a hook fails below, intentionally
    tools = build()
    async with tools.open_session() as one, tools.open_session() as other:
        changes: list[object] = []
        one.on_list_changed(changes.append)
        hello = {"path": "hello.txt", "text": "Hello."}
        print("Groups:            ", ", ".join(info.name for info in one.list_groups()))
        print("Listed at first:   ", len(one.list_tools().tools), "of", len(tools.catalog.tools), "tools")
        print("A closed group:    ", await call(one, "file_ops.write_file", **hello))
        print("Opening it:        ", await call(one, "file_ops.activate"))
        print("Open:              ", await call(one, "file_ops.write_file", **hello))
        print("Hooks that serve:  ", await call(one, "network.activate"))
        url = await call(one, "network.address") + "hello.txt"
        print("What they serve:   ", await call(one, "network.fetch_url", url=url))
        print("Parents go first:  ", await call(one, "database.write.activate"))
        for path in ("database", "database.read", "database.write"):
            await one.activate(path)
        print("Hooks around work: ", await call(one, "database.write.insert", name="colour", value="blue"))
        await other.activate("database")
        print("A hook that fails: ", await call(other, "database.write.activate"))
        print("Exclusion:         ", await call(one, "database.maintenance.activate"))
        print("Two groups' tool:  ", await call(one, "export_records", path="records.txt"))
        await one.activate("plugins")
        print("A plugin's tool:   ", await call(one, "plugins.count_words", text="one two three"))
        print("Open in the end:   ", ", ".join(one.active))
        print("To another client: ", ", ".join(other.active))
        print("List changed:      ", len(changes), "times")


if __name__ == "__main__":
    anyio.run(main)
