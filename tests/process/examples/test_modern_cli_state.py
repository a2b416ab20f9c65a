"""Patches, which a program applies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples.test_modern_cli_state import PATCH, done, folder, refused, tools_in

__all__ = ["folder"]  # a fixture


@pytest.mark.spec("PRO-4")
@pytest.mark.skipif(shutil.which("patch") is None, reason="this machine has no program patch")
async def test_a_patch_changes_only_the_named_file(folder: Path) -> None:
    renaming = f"diff --git a/poem.txt b/../x\nrename from poem.txt\nrename to ../x\n{PATCH.replace('b/poem', '../x')}"
    async with tools_in(folder).open_session(active=["file_ops"]) as session:
        await done(session, "file_patch", path="poem.txt", patch=PATCH, backup=True)
        assert (folder / "poem.txt").read_text() == "one\nTWO\nthree\n"
        assert (folder / "poem.txt.orig").read_text() == "one\ntwo\nthree\n"
        assert "patch failed: it ended with status 1." in await refused(
            session, "file_patch", path="poem.txt", patch=PATCH
        )
        assert (folder / "poem.txt").read_text() == "one\nTWO\nthree\n"
        for bad in (renaming, "0a\nx\n.\n!touch made\n", "no patch"):
            await session.call("file_patch", {"path": "poem.txt", "patch": bad})
    assert sorted(one.name for one in folder.parent.iterdir()) == ["secret", "work"]
    assert not (folder / "made").exists()
