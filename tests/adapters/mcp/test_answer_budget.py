"""However large a catalog and long its texts, an answer stays within its budget and loses no tool (SPEC CTL-4)."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import pytest
from attrs import field, frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_types import Implementation

from tests.adapters.mcp.support import change_of, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold import Loader, LoaderTexts, ToolSet
from toolfold._view.describe import SHORTENED, Described, describe, names_alone
from toolfold_adapters.mcp import build_server
from toolfold_adapters.tokens import approximate_tokens

pytestmark = pytest.mark.spec("CTL-4")

BUDGET = 1_200
GUIDE = "Give it as 'handle' to call_tool, which calls these tools, and to open or close more groups."

TEXTS = st.tuples(st.text(max_size=20), st.integers(0, 400)).map(lambda drawn: drawn[0] * drawn[1])
"""Short texts, long ones, and among them ones that are longer than any answer may be."""


@frozen
class Made:
    """A catalog: for each tool its description and the description of its argument, and other texts."""

    tools: list[tuple[str, str]]
    title: str = ""
    displaced: int = 0
    loaded: str | None = None
    instructions: str = ""
    names: list[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "names", [f"tool-{number:04}" for number in range(len(self.tools))])

    def schema(self, number: int) -> dict[str, Any]:
        argument = {"type": "string", "description": self.tools[number][1]}
        return {"type": "object", "properties": {f"argument-{number:04}": argument}}

    def tool_set(self) -> ToolSet:
        """Return it as a tool set: the group "g" has the tools, and excludes as many others as it displaces."""
        control: Any = "per_group"
        if self.loaded is not None:
            control = Loader(name="open", texts=LoaderTexts(loaded=self.loaded, nothing=self.loaded, again=self.loaded))
        tools = ToolSet("made", control=control)
        tools.register_group("g", title=self.title, instructions=self.instructions)
        for number, name in enumerate(self.names):
            tools.register(
                name,
                lambda arguments: "",
                description=self.tools[number][0],
                input_schema=self.schema(number),
                group="g",
                flat=True,
            )
        for number in range(self.displaced):
            path = f"{'other' * 9}{number:04}"
            tools.register_group(path)
            tools.register_exclusion("g", path)
        return tools

    def judge(self, text: str) -> None:
        """Check that each tool is named or counted once, and no definition occurs twice."""
        received = {name for name in self.names if re.search(rf"^- {name}(:|\(|$)", text, re.MULTILINE)}
        counted = [int(number) for number in re.findall(r"^- (?:and )?(\d+) (?:more|tools)$", text, re.MULTILINE)]
        assert len(received) + sum(counted) == len(self.names)
        for number, name in enumerate(self.names):
            assert text.count(f"- {name}") == (name in received)
            whole = json.dumps(self.schema(number), ensure_ascii=False, separators=(",", ":"))
            signed = text.count(f'- {name}("argument-{number:04}"?: str)')
            assert text.count(f'"argument-{number:04}"') == text.count(whole) + signed <= 1


CATALOGS = st.builds(
    Made,
    st.one_of(
        st.lists(st.tuples(TEXTS, TEXTS), max_size=30),
        st.tuples(TEXTS, TEXTS, st.integers(0, 250)).map(lambda drawn: [drawn[:2]] * drawn[2]),
    ),
    title=st.text("ab \n", max_size=5).map(lambda text: text * 500),
    displaced=st.sampled_from([0, 1, 120]),
    loaded=st.sampled_from([None, "Loaded {title}:\n{tools}", "{tools}\n{title}", "{title}", ""]),
    instructions=TEXTS,
)


async def answers(made: Made, era: str, **options: Any) -> list[Any]:
    """Return what opening the group is answered, at first and once it is open already."""
    active = ["other" * 9 + f"{number:04}" for number in range(made.displaced)]
    server = build_server(made.tool_set(), answer_tokens=BUDGET, active=active, separator=".", **options)
    name, arguments = ("g.activate", {}) if made.loaded is None else ("open", {"group": "g"})
    async with Client(server, mode=era) as client:
        first = await client.call_tool(name, arguments)
        handle = {"handle": change_of(first)["handle"]} if era == MODERN else {}
        return [first, await client.call_tool(name, {**arguments, **handle})]


@pytest.mark.parametrize("era", ["legacy", MODERN])
@settings(deadline=None, max_examples=10)
@example(made=Made([("description " * 20, "argument " * 20)] * 12), form="auto")
@example(made=Made([("description " * 20, "argument " * 20)] * 40, displaced=30), form="auto")
@example(made=Made([("", "")] * 500, title="title " * 100, loaded="{title}\n{tools}"), form="names")
@example(made=Made([("", "x")] * 3, displaced=120), form="auto")
@example(made=Made([("", "x")] * 3, title="title " * 2_000, loaded="{title}"), form="auto")
@example(made=Made([("", "x")] * 3, instructions="step " * 2_000), form="auto")
@given(made=CATALOGS, form=st.sampled_from(["auto", "names"]))
def test_an_answer_is_never_longer_than_its_budget_and_covers_every_tool(made: Made, form: str, era: str) -> None:
    for result in anyio.run(lambda: answers(made, era, answers=form)):
        text = text_of(result)
        assert approximate_tokens(text) <= BUDGET
        made.judge(text)
        assert change_of(result)["tools"] == made.names
        if era == MODERN:
            guide = GUIDE if made.names else GUIDE.replace(", which calls these tools,", "")
            assert text.startswith(f"Handle: {change_of(result)['handle']}\n{guide}\n")


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_beyond_the_budget_every_tool_has_its_line_and_only_the_first_ones_schemas(era: str) -> None:
    made = Made([("words " * 10, "words " * 20)] * 40)
    first, _ = await answers(made, era)
    text = text_of(first)
    received = [f'"argument-{number:04}":' in text for number in range(40)]
    signed = [f'("argument-{number:04}"?: str): words' in text for number in range(40)]
    assert signed == [not whole for whole in received]
    assert received == sorted(received, reverse=True)
    assert 2 < sum(received) < 35
    assert text.count(": " + " ".join(["words"] * 10)) == 40
    assert SHORTENED in text
    assert approximate_tokens(text) > 0.9 * BUDGET


@given(made=st.builds(Made, st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12)), room=st.integers(0, 2_000))
def test_a_description_uses_all_available_room_and_covers_every_tool(made: Made, room: int) -> None:
    tools = [
        Described.of({"name": name, "description": made.tools[number][0], "inputSchema": made.schema(number)})
        for number, name in enumerate(made.names)
    ]
    shortest = f"- {len(tools)} tools"
    for report in (describe, names_alone):
        text = report(tools, room)[0]
        assert len(text) <= max(room, len(shortest))
        made.judge(text)
        assert report(tools, room)[0] == text
    if len(whole := "\n".join(tool.full for tool in tools)) <= room:
        assert describe(tools, room)[0] == whole
    elif len("\n".join(f"- {name}" for name in [*made.names, SHORTENED])) <= room:
        assert describe(tools, room)[0].endswith(SHORTENED)


def of_length(name: str, description: int, schema: int) -> Described:
    return Described(name, f"- {name}: {'d' * description}", "s" * schema, f"{name}(x: str)")


def test_schemas_are_left_out_first_then_signatures_then_descriptions_then_names_from_the_last_tool_on() -> None:
    tools = [of_length(name, 20, 100) for name in ("a", "b", "c", "d")]
    named, lined, full = ["- a", "- b", "- c", "- d"], [tool.line for tool in tools], [tool.full for tool in tools]
    signed = [f"- {name}(x: str): {'d' * 20}" for name in "abcd"]

    def exactly(*pieces: str) -> str:
        """Return the text for the room that `pieces` need, and check that less room gives less."""
        expected = "\n".join(pieces)
        assert describe(tools, len(expected))[0] == expected
        assert describe(tools, len(expected) - 1)[0] != expected
        return expected

    exactly(*full)
    exactly(*full[:3], signed[3], SHORTENED)
    exactly(full[0], *signed[1:], SHORTENED)
    exactly(*signed, SHORTENED)
    exactly(*signed[:2], *lined[2:], SHORTENED)
    exactly(*lined, SHORTENED)
    exactly(*lined[:2], *named[2:], SHORTENED)
    exactly(*named, SHORTENED)
    exactly(*named)
    assert describe(tools, 14)[0] == describe(tools, 0)[0] == "- 4 tools"
    many = [of_length(f"tool-{number}", 0, 0) for number in range(9)]
    assert names_alone(many, len("- tool-0\n- tool-1\n- and 7 more"))[0] == "- tool-0\n- tool-1\n- and 7 more"


def test_a_tool_that_is_too_long_does_not_shorten_the_others() -> None:
    tools = [of_length("a", 5_000, 0), of_length("b", 20, 5_000), of_length("c", 20, 100)]
    signed = tools[1].line.replace("- b", "- b(x: str)")
    assert describe(tools, 500)[0] == "\n".join(["- a", signed, tools[2].full, SHORTENED])


def test_a_described_schema_has_no_dialect_and_no_titles_that_repeat_names() -> None:
    page = {"title": "Page Size", "type": "integer"}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "find_allArguments",
        "type": "object",
        "properties": {
            "page_size": page,
            "title": {"title": "Title", "type": "string", "default": {"title": "title", "$schema": "x"}},
            "where": {"title": "A folder below the root", "anyOf": [{"type": "string"}, {"$ref": "#/$defs/Place"}]},
            "files": {"title": "s"},
            "many": {"title": "Many", "type": "array", "items": {"type": "object", "properties": {"page_size": page}}},
        },
        "$defs": {"Place": {"title": "Place", "enum": [{"title": "Place"}]}},
        "required": ["title"],
    }
    described = Described.of({"name": "library__find_all", "inputSchema": schema})
    assert json.loads(described.schema) == {
        "type": "object",
        "properties": {
            "page_size": {"type": "integer"},
            "title": {"type": "string", "default": {"title": "title", "$schema": "x"}},
            "where": {"title": "A folder below the root", "anyOf": [{"type": "string"}, {"$ref": "#/$defs/Place"}]},
            "files": {"title": "s"},
            "many": {"type": "array", "items": {"type": "object", "properties": {"page_size": {"type": "integer"}}}},
        },
        "$defs": {"Place": {"enum": [{"title": "Place"}]}},
        "required": ["title"],
    }
    assert json.loads(Described.of({"name": "odd", "inputSchema": {"type": "object", "items": True}}).schema) == {
        "type": "object",
        "items": True,
    }


@pytest.mark.parametrize("era", ["legacy", MODERN])
@pytest.mark.parametrize(
    ("name", "most"), [("Cline", 5_500), ("fast-agent-mcp", 15_000), ("another", 20_000), ("decline", 20_000)]
)
async def test_an_answer_has_what_its_host_shows(era: str, name: str, most: int) -> None:
    tools = ToolSet("long")
    tools.register_group("g")
    for number in range(60):
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {"x": {"type": "string", "description": "word " * 100}},
        }
        tools.register(f"tool_{number}", lambda arguments: "", description="Some.", input_schema=schema, group="g")
    client_info = Implementation(name=name, version="1")
    async with client_of(build_server(tools, separator="."), era, client_info=client_info) as (client, _):
        text = text_of(await client.call_tool("g.activate", {}))
        assert most - 700 < len(text) <= most
        assert all(f"g.tool_{number}(x?: str)" in text for number in range(40, 60))
