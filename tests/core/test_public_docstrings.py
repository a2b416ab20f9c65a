"""What an editor shows of a public name: a first paragraph that needs no other document."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolfold

CLAUSE = re.compile(r"\bSPEC\b|\b(?!UTF-)[A-Z]{2,5}-\d+\b")
OF_PUBLIC_NAMES = sorted(
    {
        (name, inspect.getsourcefile(value) or "")
        for name in toolfold.__all__
        if inspect.isclass(value := getattr(toolfold, name)) or inspect.isfunction(value)
    }
)


def first_paragraphs(name: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield the names of what is defined as `name` in a file and of its public methods, with the first paragraph."""
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name != name:
            continue
        yield name, (ast.get_docstring(node) or "").partition("\n\n")[0]
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and not part.name.startswith("_"):
                yield f"{name}.{part.name}", (ast.get_docstring(part) or "").partition("\n\n")[0]


@pytest.mark.parametrize(("name", "path"), OF_PUBLIC_NAMES, ids=[name for name, _ in OF_PUBLIC_NAMES])
def test_the_first_paragraph_of_a_public_name_has_no_clause_numbers(name: str, path: str) -> None:
    assert {where: text for where, text in first_paragraphs(name, path) if CLAUSE.search(text)} == {}


def test_public_names_are_found_with_their_methods() -> None:
    found = [where for name, path in OF_PUBLIC_NAMES for where, _ in first_paragraphs(name, path)]
    assert {"ToolSet.register", "Session.activate", "ParentInactive", "explain"} <= {*found}
