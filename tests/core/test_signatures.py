"""SPEC CTL-4: a tool as a call on one line, where its schema does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from toolfold._view.types import SIGNATURE, signature

pytestmark = pytest.mark.spec("CTL-4")


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
PLACE = {"$ref": "#/$defs/Place"}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (an_object(), ""),
        (
            an_object("repo", "title", labels={"type": "array", "items": STRING}, repo=STRING, title=STRING),
            "repo: str, title: str, labels?: [str]",
        ),
        (an_object(state={"enum": ["open", "closed"]}, n={"const": 5}), 'state?: "open"|"closed", n?: 5'),
        (an_object(long={"enum": ["x" * 40, "y" * 40, "z"]}), f'long?: "{"x" * 40}"|2 more'),
        (
            an_object(a={"type": ["integer", "null"]}, b={"anyOf": [STRING, {"type": "number"}]}),
            "a?: int|null, b?: str|float",
        ),
        (an_object("at", at=an_object("x", x={"type": "integer"}, y={})), "at: {x: int, y?: any}"),
        ({**an_object("at", at=PLACE), "$defs": {"Place": an_object(name=STRING)}}, "at: {name?: str}"),
        ({"$ref": "#/$defs/All", "$defs": {"All": an_object("x", x=STRING)}}, "x: str"),
        ({**an_object(x=STRING), "anyOf": [{"required": ["x"]}]}, "x?: str, see its schema"),
        (an_object("no name", **{"no name": True}), '"no name": any'),
    ],
)
def test_a_signature_has_the_arguments_with_their_types(schema: dict[str, Any], arguments: str) -> None:
    assert signature("call", schema) == f"call({arguments})"


def test_a_long_one_keeps_the_names_of_all_required_arguments_and_says_what_is_left_out() -> None:
    inner = an_object(**{f"part_{number}": STRING for number in range(9)})
    schema = an_object("b", "d", a=inner, b=inner, c=STRING, d=STRING)
    assert signature("call", schema, 60) == "call(b: object, d: str, a?: object, c?: str)"
    assert signature("call", schema, 42) == "call(b: object, d: str, and 2 optional)"
    assert signature("call", schema, 43) == "call(b: object, d: str, and 2 optional)"
    assert signature("call", schema, 20) == "call(b, d, and 2 optional)"
    assert signature("call", an_object("b", "d", b=inner, d=STRING), 5) == "call(b, d)"


def test_parts_that_refer_to_one_another_many_times_stay_short() -> None:
    node = an_object(**{f"child_{number}": {"$ref": "#/$defs/Node"} for number in range(2_000)})
    schema = {**an_object("root", root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    assert signature("call", schema) == "call(root: object)"
    assert len(signature("call", {**node, "$defs": {"Node": node}})) <= SIGNATURE
