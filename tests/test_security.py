"""What SECURITY.md promises names its clauses, and tests that show it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISED = (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("## What is promised")[1].split("## What is not")[0]
PROMISES = re.split(r"(?m)^(?=- \*\*)", PROMISED)[1:]
TESTS_OF: dict[str, list[str]] = json.loads((ROOT / "specs/verification/tests.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[4 : promise.index("**", 4)])
def test_a_promise_names_tests_that_exist_and_the_clauses_that_they_show(promise: str) -> None:
    tests = re.findall(r"(?m)^  - `(tests/[\w/]+\.py)::(\w+)`$", promise)
    (clauses,) = re.findall(r"\(([A-Z]+-\d+(?:, [A-Z]+-\d+)*)\)\n", promise)
    assert tests
    for file, name in tests:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = ast.FunctionDef, ast.AsyncFunctionDef
        assert name in {node.name for node in tree.body if isinstance(node, functions)}, f"{file} has no {name}"
    shown = {file for file, _ in tests} | {f"{file}::{name}" for file, name in tests}
    assert {clause for clause in clauses.split(", ") if shown.isdisjoint(TESTS_OF.get(clause, ()))} == set()
