"""What hosts write in the arguments of control tools, where it has one meaning (SPEC GWY-20)."""

from __future__ import annotations

from typing import Any

import pytest

from toolfold import InvalidArguments, ToolSet
from toolfold.spi import Arguments

pytestmark = pytest.mark.spec("GWY-20")

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "given": {"type": "object"},
        "count": {"type": "integer", "maximum": 50},
        "share": {"type": "number"},
        "now": {"type": "boolean"},
        "after": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}

ONE_MEANING: list[tuple[Any, Any]] = [
    ({"given": '{"a": "{\\"b\\": 1}"}'}, {"given": {"a": '{"b": 1}'}}),
    ({"given": " {}\n"}, {"given": {}}),
    (
        {"given": {"a": '{"b": 1}', "c": None, "d": "", "e": "3"}},
        {"given": {"a": '{"b": 1}', "c": None, "d": "", "e": "3"}},
    ),
    ({"given": None}, {}),
    ({"given": ""}, {}),
    ({"count": "3"}, {"count": 3}),
    ({"count": ""}, {}),
    ({"count": None, "now": None, "after": None, "handle": None}, {}),
    ({"handle": ""}, {}),
    ({"handle": "null", "count": "null", "now": "null", "name": "null"}, {"name": "null"}),
    ({"share": "0.5"}, {"share": 0.5}),
    ({"now": "true"}, {"now": True}),
    ({"now": "False"}, {"now": False}),
    ({"after": "[1, 2]"}, {"after": [1, 2]}),
    ({"after": ["1", 2]}, {"after": [1, 2]}),
    ({"name": '["n"]'}, {"name": "n"}),
    ({"name": ["n"]}, {"name": "n"}),
    ({"name": '"n"'}, {"name": "n"}),
    ({"name": "[n"}, {"name": "[n"}),
    ({"name": '["n", "m"]'}, {"name": '["n", "m"]'}),
]

NO_MEANING: list[tuple[Any, str, str]] = [
    ({"given": '{"a": '}, "arguments.given", "the JSON text ends too early, after 6 characters"),
    ({"given": '{"a": "b'}, "arguments.given", "the JSON text ends too early, after 8 characters"),
    ({"given": '{"a": 1}}'}, "arguments.given", "the JSON text is not valid JSON at character 9"),
    ({"given": '{"a": NaN}'}, "arguments.given", "the JSON text is not valid JSON: write the whole of it again"),
    ({"given": '{"a": "\\ud800"}'}, "arguments.given", "the JSON text is not valid JSON: write"),
    ({"given": '{"a":' * 100_000}, "arguments.given", "the JSON text is not valid JSON: write"),
    ({"given": "[1]"}, "arguments.given", 'is not of type "object"'),
    ({"given": "a note"}, "arguments.given", 'is not of type "object"'),
    ({"given": 3}, "arguments.given", 'is not of type "object"'),
    ({"count": "three"}, "arguments.count", 'is not of type "integer"'),
    ({"count": "true"}, "arguments.count", 'is not of type "integer"'),
    ({"count": "9" * 5_000}, "arguments.count", "999"),
    ({"count": "60"}, "arguments.count", "60 is greater than the maximum of 50"),
    ({"now": "yes"}, "arguments.now", 'is not of type "boolean"'),
    ({"now": "1"}, "arguments.now", 'is not of type "boolean"'),
    ({"after": "1, 2"}, "arguments.after", 'is not of type "array"'),
    ({"after": ["[1"]}, "arguments.after[0]", "the JSON text ends too early"),
    ({"name": ["n", "m"]}, "arguments.name", "it takes one, and 2 are given: make a call for each of n, m"),
    ({"name": ["n", 5]}, "arguments.name", 'is not of type "string"'),
    ({"name": []}, "arguments.name", 'is not of type "string"'),
    ({"name": None}, "arguments.name", 'is not of type "string"'),
]


@pytest.mark.parametrize(("written", "meant"), ONE_MEANING, ids=lambda value: str(value)[:40])
def test_what_has_one_meaning_is_taken_as_meant(written: Any, meant: Any) -> None:
    arguments = Arguments.passing_handle("t", SCHEMA)
    assert arguments.check("t", {"name": "n", **written}) == {"name": "n", **meant}
    assert arguments.faults({"name": "n", **written}) is None


@pytest.mark.parametrize(("written", "place", "problem"), NO_MEANING, ids=lambda value: str(value)[:40])
def test_what_has_none_is_refused_with_what_to_write(written: Any, place: str, problem: str) -> None:
    arguments = Arguments.passing_handle("t", SCHEMA)
    with pytest.raises(InvalidArguments) as refused:
        arguments.check("t", {"name": "n", **written})
    assert problem in refused.value.problems[place]
    assert arguments.faults({"name": "n", **written})


@pytest.mark.spec("GWY-7")
async def test_arguments_of_other_tools_are_not_read_otherwise_than_their_schema_says() -> None:
    tools = ToolSet("t")
    tools.register("count", lambda arguments: arguments, input_schema=SCHEMA)
    assert (await tools.call_tool("count", {"name": "n", "count": "3"})).is_error
    kept = {"name": '["n"]', "given": {"a": "{}"}}
    assert (await tools.call_tool("count", kept)).structured == kept
