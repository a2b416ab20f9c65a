"""Tasks that are made of a server's own tools: by rule, or with requests that a model writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.evaluation import endpoint
from tests.adapters.evaluation.endpoint import Answer, Sent, model_at, read_of, said
from tests.adapters.evaluation.support import played
from toolfold import ConfigError, ToolSet
from toolfold_adapters.evaluation import World, load_tasks, rewritten, suggested
from toolfold_adapters.evaluation.models import writer_of

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


async def test_each_tool_becomes_a_task_that_can_be_played(tmp_path: Path) -> None:
    catalog = tools().catalog
    file = tmp_path / "tasks.toml"
    file.write_text(suggested(catalog).toml(), encoding="utf-8")
    tasks = load_tasks(file, catalog)
    assert {task.id: (task.calls[0].arguments, task.calls[0].free) for task in tasks} == {
        "orders.whole": ({"a": [1, {"b": True}]}, {}),
        "orders.parts": ({"item": 'a "black" tea', "size": "small", "count": 2}, {}),
        "orders.none": ({}, {"item": "x"}),
        "orders.free": ({}, {}),
    }
    assert {task.ask for task in tasks} == {f"Does {name} and more" for name in ("whole", "parts", "none", "free")}
    assert tasks == suggested(catalog).tasks
    assert all(record.done for record in await played(*tasks, world=World(catalog), size=None))


def described(*tools: tuple[str, str]) -> ToolSet:
    made = ToolSet("shop", control="none")
    for name, text in tools:
        made.register(name, print, description=text, input_schema={"type": "object"})
    return made


@pytest.mark.parametrize(
    ("name", "text", "request_"),
    [
        ("send", "Send a message. And more.", "Send a message."),  # a word that anyone uses
        ("find_person", "find_person finds one. Look for people!", "Look for people!"),
        ("findPerson", "Use findPerson to look. Look for people.\n\nMore.", "Look for people."),
        ("people-find", "PEOPLE-FIND", None),
        ("find_person", "Unlike find_persons it finds one.", "Unlike find_persons it finds one."),
        ("find", "", None),
        ("long", "a b " * 100, ("a b " * 50).strip()),
    ],
)
def test_a_request_by_rule_is_a_sentence_of_the_description_without_the_name(
    name: str, text: str, request_: str | None
) -> None:
    made = suggested(described((name, text), ("other", "Another.")).catalog)
    assert [task.ask for task in made.tasks if task.id == name] == [request_] * (request_ is not None)
    assert made.without == (() if request_ else (name,))
    assert (f"# No request can be made of the descriptions of {name}." in made.toml()) == (request_ is None)


def test_a_tool_whose_schema_has_no_plain_value_has_no_task() -> None:
    made = described(("other", "Another."))
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^ab+$"}}, "required": ["a"]}
    made.register("strict", print, description="Strict.", input_schema=schema)
    assert suggested(made.catalog).without == ("strict",)


def test_without_descriptions_there_are_no_tasks_which_is_a_failure() -> None:
    with pytest.raises(ConfigError, match="No tasks can be made: of 2 tools, none has a description that does not"):
        suggested(described(("buy", ""), ("sell", "")).catalog)


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ('{"request": "I look for a  person in Lund"}', "I look for a person in Lund"),
        ('{"request": "\\"Who is the person?\\""}', "Who is the person?"),
        ('{"request": "Use find_person for Ada"}', None),  # it names the tool
        ('{"request": "I am a helpful assistant"}', None),  # it has nothing to do with it
        (json.dumps({"request": "a person " * 30}), None),  # it was cut
        ('{"request": ""}', None),
        ('{"request": 5}', None),
        ("Sure! Here it is", None),
    ],
)
async def test_what_a_model_writes_is_taken_if_it_could_be_a_request(written: str, taken: str | None) -> None:
    async def writing(sent: Sent) -> Answer:
        assert "find_person" not in str(sent["messages"])
        return said(written, read_of(sent))

    catalog = described(("find_person", "Find the address of a person.")).catalog
    made = await rewritten(suggested(catalog), catalog, writer_of(model_at(writing), 0))
    (task,) = made.tasks
    assert (task.ask, task.calls[0].query) == ((taken or "Find the address of a person."),) * 2
    assert made.by_model == ({"find_person"} if taken else frozenset())


async def test_a_model_that_is_not_reached_writes_nothing_and_is_an_error() -> None:
    catalog = described(("find_person", "Find the address of a person.")).catalog
    with pytest.raises(ConfigError, match="The model 'mine' can't be used: "):
        await rewritten(suggested(catalog), catalog, writer_of(model_at(endpoint.down), 0))
