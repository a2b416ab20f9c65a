"""LiveMCPBench from a folder: its tools and tasks, and folders that have none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adapters.evaluation.support import played
from toolfold import ConfigError
from toolfold_adapters.evaluation import ARMS, World, bench_tasks
from toolfold_adapters.evaluation.bench import NOTES, TOOLS

pytestmark = pytest.mark.spec("EVA-1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    read, search = ({"name": name, "description": f"{name} it", "inputSchema": schema} for name in ("read", "search"))
    odd = {"name": "odd", "inputSchema": {"type": "object", "properties": 5}}
    listed = [
        {"description": "Files", "tools": {"my files": {"tools": [read, odd]}}},
        {"description": "The web", "tools": {"web": {"tools": [search, {**read, "description": "read a page"}]}}},
    ]
    notes = [
        {
            "Question": "What is it?",
            "Annotator Metadata": {"Steps": "1. search\n2. read", "Tools": "1. search\n2. read"},
        },
        {"Question": "And that?", "Annotator Metadata": {"Steps": "1. look", "Tools": "1. odd\n2. gone\n3. read"}},
        {"Question": "None.", "Annotator Metadata": {"Steps": "1. look", "Tools": "1. gone"}},
    ]
    for name, data in ((TOOLS, listed), (NOTES, notes)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    return tmp_path


def test_servers_are_groups_and_any_of_the_tools_of_a_name_will_do(folder: Path) -> None:
    catalog, (first, second) = bench_tasks(folder)
    assert [group.path for group in catalog.groups] == ["my_files", "web"]
    assert [call.tools for call in first.calls] == [("web.search",), ("my_files.read", "web.read")]
    assert [call.query for call in first.calls] == ["search", "read"]
    assert [call.tools for call in second.calls] == [("my_files.odd",), ("my_files.read", "web.read")]
    assert {call.query for call in second.calls} == {"And that?"}
    assert not first.ordered


@pytest.mark.parametrize("arm", list(ARMS))
async def test_its_tasks_are_played_with_any_arguments(folder: Path, arm: str) -> None:
    catalog, tasks = bench_tasks(folder)
    records = await played(*tasks, arm=arm, size=None, world=World(catalog))
    assert [record.problems for record in records] == [(), ()]


def test_a_folder_without_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no LiveMCPBench that can be read"):
        bench_tasks(tmp_path)
