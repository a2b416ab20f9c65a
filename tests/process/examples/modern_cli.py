"""Document E's tools under attack: what the tests of arguments, paths and git share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from examples.modern_cli import build
from examples.modern_cli.definitions import groups
from toolfold import ToolResult, ToolSet

TOOLS = {name: tool for group in groups().values() for name, tool in group.tools.items()}
RECORDER = "import sys\nopen({!r}, 'a').write(' '.join(sys.argv) + '\\n')"
"""A program that appends its arguments to a file."""


def tools_in(folder: Path, which: Callable[[str], str | None] = shutil.which) -> ToolSet:
    return build(which=which, folder=folder)


def found_in(folder: Path) -> Callable[[str], str | None]:
    """Return a function that finds only the programs of one folder."""
    return partial(shutil.which, path=str(folder))


def called(tools: ToolSet, *calls: tuple[str, Mapping[str, Any]]) -> list[tuple[bool, str]]:
    """Return whether each call was an error, and its text; all groups are open."""

    async def call_all() -> list[ToolResult]:
        async with tools.open_session(active=[group.path for group in tools.groups()]) as session:
            return [await session.call(name, arguments) for name, arguments in calls]

    return [(result.is_error, result.text) for result in anyio.run(call_all)]
