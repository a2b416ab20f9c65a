"""The site of the documentation, built in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.process.docs.blocks import ROOT


def build(folder: Path) -> Path:
    """Build the site in an empty folder, and return where it is."""
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in ("adapters", "core", "diagrams", "examples", "specs"):
        (folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.partition("Traceback")[0]
    return folder / "site"
