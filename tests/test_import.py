"""What the core may import; import-linter checks the rest (see pyproject.toml)."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parent.parent / "core" / "toolfold"
ALLOWED = {"annotated_types", "anyio", "attr", "attrs", "jsonschema_rs", "pydantic", "pydantic_core", "transitions"}
ALLOWED |= {"griffe", "toolfold", "typing_extensions"}


def imports(path: Path) -> Iterator[str]:
    """The top names of all modules that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case _:
                pass


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.relative_to(CORE).as_posix())
def test_a_core_module_imports_only_what_the_core_depends_on(path: Path) -> None:
    assert set(imports(path)) - set(sys.stdlib_module_names) <= ALLOWED


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.relative_to(CORE).as_posix())
def test_a_core_module_opens_no_file(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
    assert "open" not in {function.id for function in calls if isinstance(function, ast.Name)}
