"""SPEC SAF-1: no request or schema takes more than its share, shown in processes of little time and memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.process.attacks import ATTACKS

if TYPE_CHECKING:
    from tests.process.conftest import Run

EXPECTED = {
    "recursive_union": "arguments.node" + ".of" * 14 + '.value: "x" is not of type "integer". Call',
    "recursive_union_as_a_result": "result.node" + ".of" * 14 + '.value: it is not of type "integer". Its',
    "ambiguous_model": "arguments: it is 46 levels deep, and has too many alternatives",
    "many_wrong_items": 'arguments.v[9]: 1 is not of type "string"; and 198,990 more. Call',
    "too_many_wrong_items": "arguments: it has more than 200,000 values. Call",
    "many_wrong_items_of_an_alternative": 'arguments.v[9]: 1 is not of type "string"; and 198,990 more. Call',
    "doubling_definitions": "too many schemas for one value",
    "doubling_definitions_inside": "too many at once for a schema as intricate as its own",
    "unevaluated_properties": "too many schemas for one value",
    "loop_of_references": "refers to itself for the same value, without end",
    "backtracking_pattern": "too many at once for a schema as intricate as its own",
    "many_comparisons": "too many at once for a schema as intricate as its own",
    "deep_arguments": "arguments: it is more than 100 levels deep",
    "uri_template": "Unknown resource: x://a/a/",
    "uri_template_of_neighbours": "Unknown resource: x://aaaa",
    "similar_names": "There is no group '089hgfedcba_",
}


@pytest.mark.spec("SAF-1")
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_answered_in_few_words_within_little_time_and_memory(run_module: Run, name: str) -> None:
    done = run_module("tests.process.attacks", name)
    assert done.returncode == 0, done.stderr[-2000:]
    text = json.loads(done.stdout)
    assert EXPECTED[name] in text
    assert len(text) < 5000
