"""SPEC KIT-2, REG-9: handlers of prompts, resources and templates whose annotations describe their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolfold import Context, InvalidArguments, InvalidDefinition, ToolSet, group, prompt, resource, resource_template


class Tone(Enum):
    KIND = "kind"
    STERN = "stern"


def asked(answer: Any) -> str:
    return str(answer["messages"][0]["content"]["text"])


def read(answer: Any) -> str:
    return str(answer["contents"][0]["text"])


@pytest.mark.spec("KIT-2", "REG-9")
async def test_the_parameters_of_a_prompt_are_its_arguments_given_as_texts() -> None:
    tools = ToolSet("t")

    @tools.prompt
    def review(
        topic: Annotated[str, Field(description="What about.")],
        context: Context,
        tone: Tone = Tone.KIND,
        times: int = 1,
    ) -> str:
        """Ask for a review.

        Args:
            topic: Not used.
            tone: In which tone.
        """
        return f"{topic} {tone.value} {times + 1} {context.name}"

    session = tools.default_session
    definition = tools.catalog.components["prompt"].by_name["review"].definition
    assert definition["description"] == "Ask for a review."
    assert definition["arguments"] == [
        {"name": "topic", "description": "What about.", "required": True},
        {"name": "tone", "description": "In which tone.", "required": False},
        {"name": "times", "required": False},
    ]
    assert asked(await session.get_prompt("review", {"topic": "tea"})) == "tea kind 2 review"
    given = {"topic": "tea", "tone": "stern", "times": "5"}
    assert asked(await session.get_prompt("review", given)) == "tea stern 6 review"
    for wrong in ({}, {"topic": "tea", "times": "many"}, {"topic": "tea", "times": 5}, {"topic": "tea", "other": "x"}):
        with pytest.raises(InvalidArguments):
            await session.get_prompt("review", wrong)


@pytest.mark.spec("KIT-2", "REG-9")
async def test_the_parameters_of_a_template_are_its_variables() -> None:
    tools = ToolSet("t")

    @tools.resource_template("x:{year}/{day}")
    async def day(year: int, day: str, context: Context) -> str:
        return f"{day} {year + 1} {type(context).__name__}"

    @tools.resource("x:now")
    def now(context: Context) -> str:
        return context.name

    session = tools.default_session
    assert read(await session.read("x:2026/monday")).startswith("monday 2027 ")
    assert read(await session.read("x:now")) == "x:now"


@group
class Notes:
    @prompt
    def ask(self, topic: str, more: str, detail: str) -> str:
        return f"{topic} {more} {detail}"

    @resource_template("notes:{day}")
    def note(self, day: str) -> str:
        return day

    @resource("notes:all")
    def all(self, context: Context) -> str:
        return "all"


@pytest.mark.spec("KIT-2", "KIT-8")
async def test_marked_methods_are_typed_too() -> None:
    tools = ToolSet("t")
    tools.include(Notes())
    async with tools.open_session(active="notes") as session:
        given = {"topic": "a", "more": "b", "detail": "c"}
        assert asked(await session.get_prompt("notes.ask", given)) == "a b c"
        assert (read(await session.read("notes:x")), read(await session.read("notes:all"))) == ("x", "all")


def by_dict(arguments: dict[str, str]) -> str:
    return f"{arguments}"


def by_mapping(arguments: Mapping[str, str], context: Context) -> str:
    return f"{dict(arguments)}"


def by_anything(arguments: Any) -> str:
    return f"{arguments}"


@pytest.mark.spec("KIT-2")
@pytest.mark.parametrize("handler", [by_dict, by_mapping, by_anything, lambda arguments: f"{arguments}"])
async def test_a_mapping_or_no_annotation_makes_a_raw_handler(handler: Callable[..., Any]) -> None:
    tools = ToolSet("t")
    tools.register_prompt("p", handler, arguments=["n"])
    tools.register_prompt("q", handler)
    tools.register_resource_template("x:{n}", handler)
    session = tools.default_session
    assert asked(await session.get_prompt("p", {"n": "1"})) == "{'n': '1'}"
    assert asked(await session.get_prompt("q")) == "{}"
    assert read(await session.read("x:1")) == "{'n': '1'}"


def listing(topics: list[str]) -> str:
    return ""


def named(n: str, other: int) -> str:
    return ""


REFUSED: list[tuple[Callable[[ToolSet], object], str]] = [
    (
        lambda tools: tools.register_prompt("p", listing),
        "'p' can't be registered: its parameter 'topics' is given as a text, and no text fits its",
    ),
    (
        lambda tools: tools.register_resource_template("x:{n}/{m}", named),
        "its URI has the variables m, n, and its handler the parameters n, other: name them alike",
    ),
    (
        lambda tools: tools.register_resource_template("x:{n}", named),
        "its URI has the variables n, and its handler the parameters n, other",
    ),
    (
        lambda tools: tools.register_resource("x:n", named),
        "its URI has the variables none, and its handler the parameters",
    ),
]


@pytest.mark.spec("KIT-2", "REG-1", "ERR-2")
@pytest.mark.parametrize(("register", "problem"), REFUSED, ids=range(len(REFUSED)))
def test_parameters_that_can_not_be_given_are_refused(register: Callable[[ToolSet], object], problem: str) -> None:
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=problem):
        register(tools)
    assert tools.catalog is before
