"""Folders in which the program works: one with a module, and a home."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import SHOP


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with `shop.py` in it; modules that are imported from it are forgotten afterwards."""
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without files of clients; the current folder is a project in it."""
    of_hosts = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "FAST_AGENT_HOME", "KIMI_CODE_HOME", "VIBE_HOME")
    for name in (*of_hosts, "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("TOOLFOLD_RUNTIME", str(tmp_path / "runtime"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return tmp_path
