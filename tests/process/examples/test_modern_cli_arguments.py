"""Document E's tools: what each gives its program, called through a session, with programs that print what they got."""

from __future__ import annotations

import json
import shutil
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from examples.modern_cli import build
from examples.modern_cli.definitions import groups
from tests.examples.programs import fake
from toolfold import ToolSet

PROGRAMS = {name: tool for group in groups().values() for name, tool in group.tools.items() if tool.program}
TABLE: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("modern_cli_arguments.toml").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder, beside one with every program, each of which prints as JSON what it was given."""
    made = tmp_path_factory.mktemp("modern_cli")
    for name in {tool.program[0] for tool in PROGRAMS.values()}:
        fake(made / "bin" / name)
    (made / "work").mkdir()
    return made / "work"


@pytest.fixture(scope="module")
def tools(folder: Path) -> ToolSet:
    return build(which=partial(shutil.which, path=str(folder.parent / "bin")), folder=folder)


@pytest.mark.spec("PRO-4")
def test_the_table_has_every_tool_that_runs_a_program_and_every_parameter_of_it() -> None:
    """Document E, tool groups: the tools that are programs, with their parameters."""
    assert TABLE.keys() == PROGRAMS.keys()
    for name, rows in TABLE.items():
        assert {key for row in rows for key in row["given"]} == PROGRAMS[name].input.keys(), name


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize("name", TABLE)
async def test_a_program_gets_these_arguments_and_this_input(name: str, tools: ToolSet, folder: Path) -> None:
    """Document E, tool groups: each tool with the arguments of its program."""
    group = tools.catalog.tools[name].group
    assert group is not None
    async with tools.open_session(active=[group]) as session:
        for row in TABLE[name]:
            result = await session.call(name, row["given"])
            assert not result.is_error, result.text
            received = json.loads(result.text)
            assert received["program"] == PROGRAMS[name].program[0]
            assert received["argv"] == row["argv"]
            assert received["stdin"] == row.get("stdin", "")
            assert received["cwd"] == str(folder)
