"""The docstring of each package has a map of its folder: what is there, on at most fifteen lines."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType

import pytest

import toolfold
import toolfold_adapters
import toolfold_cli
import toolfold_diagrams
import toolfold_specs
import verification
from toolfold import spi

ROOTS = (toolfold, toolfold_adapters, toolfold_cli, toolfold_diagrams, toolfold_specs, verification)
LINES = 15
_NAME = r"[A-Za-z_][A-Za-z0-9_]*/?"
_FIRST = re.compile(rf"^(?: {{4}})?({_NAME}(?:, {_NAME})*) {{2,}}\S")
"""The names at the beginning of a line of a map, with at least two spaces before what they are."""
_WITH_SUFFIX = re.compile(r"\b(\w+)\.py\b|\b(\w+/)(?![\w.])")
"""Modules and folders anywhere in a line, where a map has two columns."""


def packages() -> list[str]:
    inner = [one.name for root in ROOTS for one in walk_packages(root.__path__, f"{root.__name__}.") if one.ispkg]
    return [*(root.__name__ for root in ROOTS), *inner]


def entries(package: ModuleType) -> list[set[str]]:
    """The names on each line of a package's map."""
    lines = (package.__doc__ or "").splitlines()
    return [names for line in lines if (names := names_in(line))]


def names_in(line: str) -> set[str]:
    first = _FIRST.match(line)
    marked = {module or folder for module, folder in _WITH_SUFFIX.findall(line)}
    return marked | set(first.group(1).split(", ") if first else ())


@pytest.mark.parametrize("name", packages())
def test_the_map_of_a_package_names_what_is_in_its_folder_and_nothing_else(name: str) -> None:
    package = import_module(name)
    mapped = entries(package)
    named = [one for line in mapped for one in line]
    there = {f"{one.name}/" if one.ispkg else one.name for one in iter_modules(package.__path__)} - {"__main__"}
    data = {f"{one.name}/" for path in package.__path__ for one in Path(path).iterdir() if one.is_dir()}
    assert there <= set(named) <= there | data
    assert len(mapped) <= LINES


def test_the_interface_for_adapters_has_at_most_forty_names_and_no_modules() -> None:
    names = {name for name in vars(spi) if not name.startswith("_")}
    assert names == set(spi.__all__)
    assert len(names) <= 40
    assert not [name for name in names if isinstance(getattr(spi, name), ModuleType)]
