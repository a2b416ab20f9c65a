"""Texts as Graphviz reads them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diagrams.support import HOSTILE, UNPRINTABLE, Drawn
from toolfold_diagrams.dot import Dot, Label, Line
from toolfold_diagrams.text import printable


@pytest.mark.spec("DIA-1")
@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(), max_size=30))
def test_graphviz_reads_every_string_and_every_label_as_intended(some: list[str]) -> None:
    graph = Dot('the "graph" \\G')
    texts = [printable(text) for text in [*some, *HOSTILE, UNPRINTABLE]]
    for number, text in enumerate(texts):
        graph.node(f"plain {number}", f"{text}\nand more", shape="box", tooltip=text)
        graph.node(f"html {number}", Label((Line(text or "-"),)))
        graph.node(f'"{text}" {number}', "")
    drawn = Drawn.of(graph.text())
    for number, text in enumerate(texts):
        plain = [each["text"] for each in drawn.nodes[f"plain {number}"]["_ldraw_"] if each["op"] == "T"]
        assert plain == [*([text] if text else []), "and more"]
        html = [each["text"] for each in drawn.nodes[f"html {number}"]["_ldraw_"] if each["op"] == "T"]
        assert "".join(html).strip() == (text or "-")
