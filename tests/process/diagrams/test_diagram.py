"""Pictures as Graphviz renders them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.diagrams.support import forest, needs_dot, somewhere
from tests.diagrams.test_diagram import TINY
from toolfold import ConfigError
from toolfold_diagrams import (
    Diagram,
    structure,
)

BEGINNINGS = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF-"}


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_a_picture_is_rendered_to_the_same_bytes_again(suffix: str, tmp_path: Path) -> None:
    needs_dot()
    picture = structure(somewhere(forest(12).catalog, 1))
    one, other = (picture.render(tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "OTHER"))
    assert one == other
    assert one.startswith(BEGINNINGS[suffix])


@pytest.mark.spec("DIA-1")
def test_a_pdf_has_no_creation_date() -> None:
    needs_dot()
    assert b"/CreationDate (D:20000101000000Z)" in TINY.rendered("pdf")


@pytest.mark.spec("DIA-1")
def test_a_rendered_picture_has_no_background() -> None:
    needs_dot()
    root = ET.fromstring(structure(forest(5)).rendered("svg"))
    for graph in root:
        shapes = [each for each in graph if each.tag.endswith("polygon")]
        assert all(each.get("fill") in ("none", "transparent") for each in shapes)


@pytest.mark.spec("DIA-1")
def test_the_elements_of_a_picture_have_ids_and_classes_in_the_svg() -> None:
    needs_dot()
    root = ET.fromstring(structure(somewhere(forest(20).catalog, 1)).rendered("svg"))
    kinds = {each.get("class", "") for each in root.iter()}
    assert {"node root", "node legend", "edge parent", "node group active", "node group inactive"} <= kinds
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_without_graphviz_the_error_says_what_to_install(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"apt-get install graphviz.*DOT, Mermaid"):
        TINY.render(tmp_path / f"a.{form}")
    assert not list(tmp_path.iterdir())


@pytest.mark.spec("DIA-1")
def test_the_error_of_graphviz_is_reported() -> None:
    needs_dot()
    with pytest.raises(ConfigError, match=r"could not draw 'broken'.*syntax error"):
        Diagram("broken", "digraph {").rendered("svg")
