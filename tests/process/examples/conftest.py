"""Fixtures of the tests of examples; some are those of `tests/examples`."""

from pathlib import Path

import pytest

from tests.examples.conftest import connect, hub, page

__all__ = ["connect", "hub", "page"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder, next to a secret."""
    (tmp_path / "secret.json").write_text('{"key": "secret"}\n')
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The file that a successful attack creates."""
    return tmp_path / "made"
