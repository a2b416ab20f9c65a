"""Tasks that are suggested by the examples of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.evaluation.support import played
from toolfold import ConfigError, ToolSet
from toolfold_adapters.evaluation import World, load_tasks, suggested

pytestmark = pytest.mark.spec("EVA-1")


def tools() -> ToolSet:
    made = ToolSet("shop")
    made.register_group("orders", "Take orders")
    schemas: dict[str, dict[str, Any]] = {
        "whole": {"properties": {"a": {}}, "required": ["a"], "examples": ["no object", {"a": [1, {"b": True}]}]},
        "parts": {
            "properties": {
                "item": {"type": "string", "examples": ['a "black" tea']},
                "size": {"enum": ["small", "large"]},
                "count": {"type": "integer", "default": 2},
                "note": {"type": "string", "default": None},
            },
            "required": ["item", "size"],
        },
        "none": {"properties": {"item": {"type": "string"}}, "required": ["item"]},
        "free": {},
    }
    for name, schema in schemas.items():
        schema = {"type": "object", **schema}
        made.register(name, print, description=f"Does {name}\nand more", input_schema=schema, group="orders")
    return made


async def test_examples_become_tasks_that_can_be_played(tmp_path: Path) -> None:
    catalog = tools().catalog
    file = tmp_path / "tasks.toml"
    file.write_text(suggested(catalog), encoding="utf-8")
    tasks = load_tasks(file, catalog)
    assert {task.id: task.calls[0].arguments for task in tasks} == {
        "orders.whole": {"a": [1, {"b": True}]},
        "orders.parts": {"item": 'a "black" tea', "size": "small", "count": 2},
        "orders.free": {},
    }
    assert {task.ask for task in tasks} == {"Does whole", "Does parts", "Does free"}
    assert "# Without examples of all required arguments: orders.none." in file.read_text(encoding="utf-8")
    assert all(record.done for record in await played(*tasks, world=World(catalog), size=None))


def test_without_examples_there_are_no_tasks_which_is_a_failure() -> None:
    made = ToolSet("shop")
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    for name in ("buy", "sell"):
        made.register(name, print, description="Trade.", input_schema=schema)
    with pytest.raises(ConfigError, match="No tasks can be made: of 2 tools, none has examples of all arguments"):
        suggested(made.catalog)
