"""What an editor shows of a public name: a first paragraph that needs no other document."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import toolfold_adapters

CLAUSE = re.compile(r"\bSPEC\b|\b(?!UTF-)[A-Z]{2,5}-\d+\b")
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
ADAPTERS = Path(toolfold_adapters.__file__).parent
PACKAGES = (
    "toolfold",
    "toolfold.machine",
    "toolfold.spi",
    "toolfold_diagrams",
    "toolfold_specs",
    *(
        f"toolfold_adapters.{file.parent.name}"
        for file in sorted(ADAPTERS.glob("*/__init__.py"))
        if "__all__" in file.read_text(encoding="utf-8")
    ),
)
MODULES = (*ADAPTERS.glob("*.py"), *(ADAPTERS / "integrations").glob("*.py"), ADAPTERS / "mcp" / "options.py")
"""Modules whose names users import from them, which need not be installed in full to be read."""


def definitions(nodes: Iterable[ast.stmt]) -> Iterator[Definition]:
    """Yield the public classes and functions among some statements."""
    for node in nodes:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


@cache
def defined_in(path: Path) -> tuple[Definition, ...]:
    return tuple(definitions(ast.parse(path.read_text(encoding="utf-8")).body))


def first_paragraph(node: Definition) -> str:
    return (ast.get_docstring(node) or "").partition("\n\n")[0]


def of_packages() -> Iterator[tuple[str, str]]:
    """Yield what the packages export, each with the file in which it is defined."""
    for package in map(import_module, PACKAGES):
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield name, inspect.getsourcefile(value) or ""


OF_PUBLIC_NAMES = sorted({*of_packages(), *((node.name, str(path)) for path in MODULES for node in defined_in(path))})
IDS = [f"{'/'.join(Path(path).parts[-3:])}:{name}" for name, path in OF_PUBLIC_NAMES]


def first_paragraphs(name: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield the names of what is defined as `name` in a file and of its public methods, with the first paragraph."""
    for node in defined_in(Path(path)):
        if node.name != name:
            continue
        yield name, first_paragraph(node)
        for part in definitions(node.body) if isinstance(node, ast.ClassDef) else ():
            yield f"{name}.{part.name}", first_paragraph(part)


@pytest.mark.parametrize(("name", "path"), OF_PUBLIC_NAMES, ids=IDS)
def test_the_first_paragraph_of_a_public_name_has_no_clause_numbers(name: str, path: str) -> None:
    assert {where: text for where, text in first_paragraphs(name, path) if CLAUSE.search(text)} == {}


def test_public_names_are_found_with_their_methods() -> None:
    found = [where for name, path in OF_PUBLIC_NAMES for where, _ in first_paragraphs(name, path)]
    assert {
        "ToolSet.register",
        "Session.activate",
        "ParentInactive",
        "explain",
        "use",
        "group_server",
        "Conversation.tools",
        "ToolfoldToolset",
        "measure",
        "page",
        "check",
        "Driver.exchange",
    } <= {*found}
