"""Show which programs are installed and which are missing, run a few harmless ones, and show a profile.

python -m examples.modern_cli
"""

from __future__ import annotations

import json
from typing import Any

import anyio

from toolfold import Session, ToolSet

from . import build
from .definitions import groups

CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("filesystem", "fs_exists", {"path": "no such file; echo $(id)"}),
    ("git", "git_log", {"count": 3, "oneline": True}),
    ("system", "shell_exec", {"command": ["echo", "one argument | not a pipe", "`not run`"]}),
    ("system", "shell_exec", {"command": ["sleep", "60"], "timeout": 1}),
    ("system", "system_info", {}),
)


def show_groups(tools: ToolSet) -> None:
    """Print the groups, how many of their tools are offered, and the missing programs."""
    known = groups()
    for group in tools.groups():
        here, of = len(tools.group_tools(group.path)), len(known[group.path].tools)
        missing = group.description.removeprefix(known[group.path].description).removeprefix(". ")
        print(f"  {group.path:<11} {here:>2} of {of:>2}  {missing}")


async def show_call(session: Session, group: str, name: str, arguments: dict[str, Any]) -> None:
    """Expand a group and call one of its tools, if its program is installed."""
    await session.call("expand_tools", {"group": group})
    if name in session.catalog.tools:
        result = await session.call(name, arguments)
        print(f"\n> {name} {json.dumps(arguments)}\n{'[error] ' if result.is_error else ''}{result.text}")


async def demonstrate() -> None:
    """Run the demonstration."""
    tools = build()
    print("The groups on this machine:\n")
    show_groups(tools)
    async with tools.open_session() as session:
        print(f"\nA new session is listed {', '.join(session.list_tools().names)}. Then:")
        for group, name, arguments in CALLS:
            await show_call(session, group, name, arguments)
    async with tools.open_session("explore") as session:
        names = [name for name in session.list_tools().names if name != "expand_tools"]
        print(f"\nUnder the read-only profile explore, it is also listed {', '.join(names)},")
        print(f"and there are no groups but {', '.join(info.name for info in session.list_groups())}.")
        refused = await session.call("expand_tools", {"group": "kubernetes"})
        print(f"\n> expand_tools kubernetes\n[error] {refused.text}")


if __name__ == "__main__":
    anyio.run(demonstrate)
