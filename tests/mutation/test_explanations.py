"""The explanations of mutants that survive are about code that exists."""

import ast
from collections.abc import Iterator

import pytest

from tests.mutation.run import EXPLAINED, ROOMS, ROOT, explained, source_of

MODULES = [module for room in ROOMS.values() for module in room.modules]


@pytest.mark.parametrize("module", MODULES)
def test_every_explanation_is_about_lines_of_its_function(module: str) -> None:
    text = (ROOT / "core" / "toolfold" / source_of(module)).read_text(encoding="utf-8")
    lines = {function: [line.strip() for line in source.splitlines()] for function, source in functions(text)}
    for each in explained(EXPLAINED.read_text(encoding="utf-8")):
        if each.module == module:
            assert set(each.before.splitlines()) <= set(lines.get(each.function, ()))
        assert each.module in MODULES


def functions(text: str) -> Iterator[tuple[str, str]]:
    """The name and the source of each function and method."""
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, ast.get_source_segment(text, node) or ""
            case ast.ClassDef():
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield f"{node.name}.{inner.name}", ast.get_source_segment(text, inner) or ""


def test_the_tests_of_a_room_are_files_that_exist() -> None:
    assert [test for room in ROOMS.values() for test in room.tests if not (ROOT / "tests" / test).exists()] == []
