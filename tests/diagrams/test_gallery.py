"""The project's own pictures are as they would be drawn now (SPEC DIA-2)."""

import shutil
from pathlib import Path

import pytest

from diagrams.gallery import __main__ as gallery


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the gallery, which takes its place."""
    copy = tmp_path / "gallery"
    shutil.copytree(gallery.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(gallery, "FOLDER", copy)
    return copy


@pytest.mark.spec("DIA-2")
async def test_the_pictures_in_the_repository_are_fresh(folder: Path) -> None:
    assert gallery.stale(await gallery.pictures()) == []


@pytest.mark.spec("DIA-2")
async def test_what_is_missing_changed_or_no_longer_drawn_is_named(folder: Path) -> None:
    (folder / "transaction.svg").unlink()
    (folder / "desk.dot").write_text("digraph {}", encoding="utf-8")
    svg = folder / "region.svg"
    svg.write_text(svg.read_text(encoding="utf-8").replace("drawn from DOT", "drawn from"), encoding="utf-8")
    (folder / "old.svg").touch()
    assert gallery.stale(await gallery.pictures()) == ["desk.dot", "old.svg", "region.svg", "transaction.svg"]


@pytest.mark.spec("DIA-2")
def test_the_check_fails_and_says_what_to_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "desk.mmd").unlink()
    monkeypatch.setattr("sys.argv", ["gallery", "--check"])
    with pytest.raises(SystemExit, match=r"desk\.mmd.*python -m diagrams\.gallery"):
        gallery.main()
    assert not (folder / "desk.mmd").exists()
