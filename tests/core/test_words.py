"""What is named in what ships has the terms of the field: one word for one thing (CONTRIBUTING, "Style")."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import toolfold
import toolfold_adapters
import toolfold_cli
import toolfold_diagrams
import toolfold_specs

PACKAGES = (toolfold, toolfold_adapters, toolfold_cli, toolfold_diagrams, toolfold_specs)
INSTEAD = {
    "anchored": "grouped, or required",
    "blame": "attribution",
    "dropped": "discarded",
    "entering": "activated",
    "greet": "introduce",
    "greeting": "introduction",
    "heard": "notify",
    "knock": "check",
    "lasting": "persistent",
    "leaving": "deactivated",
    "lender": "owner",
    "loose": "ungrouped",
    "meant": "intended",
    "narrowed": "restricted",
    "obscured": "masked",
    "owed": "pending",
    "owing": "pending",
    "park": "block",
    "parked": "blocked",
    "spelling": "wire name codec",
    "story": "trace",
    "stray": "unparsed",
    "tell": "notify",
    "told": "notify",
    "trial": "case",
}
"""Private words, and what is said in the place of each."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def named(tree: ast.AST) -> Iterator[str]:
    """What a module gives names to: functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def private(source: str) -> set[str]:
    """The names in a source that have a private word."""
    return {
        name for name in named(ast.parse(source)) if INSTEAD.keys() & {word.lower() for word in _WORD.findall(name)}
    }


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_no_name_has_a_private_word(package: ModuleType) -> None:
    root = Path(str(package.__file__)).parent
    found = {str(file.relative_to(root)): private(file.read_text("utf-8")) for file in root.rglob("*.py")}
    assert {file: names for file, names in found.items() if names} == {}, INSTEAD


def test_a_word_is_found_in_every_kind_of_name_and_not_inside_others() -> None:
    source = """
class LooseTool:
    def tell_it(self, stray, foretold):
        self.heard = Parked = 1
for _TRIAL in ():
    retell = loosen = 1
"""
    assert private(source) == {"tell_it", "stray", "heard", "Parked", "LooseTool", "_TRIAL"}
