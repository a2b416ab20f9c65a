"""Drawing a large tool set: 300 groups with 5,000 tools, in several trees and with exclusions."""

from tests.diagrams.support import forest, somewhere
from toolfold_diagrams import page, structure, tree

from .harness import Row, median

GROUPS, TOOLS = 300, 5000
LIMIT = 50e-3


def measure(*, quick: bool) -> list[Row]:
    """Return how long the structure view takes without Graphviz, beside the tree, the page, and Graphviz's part."""
    snapshot = somewhere(forest(GROUPS, TOOLS).catalog, seed=1)
    runs = 5 if quick else 25
    size = f"{GROUPS} groups, {TOOLS:,} tools"
    drawn = structure(snapshot)
    return [
        Row(
            what="structure view as DOT, Mermaid and SVG",
            value=median(lambda: structure(snapshot), runs=runs),
            unit="ms",
            target=LIMIT,
            note=f"{size}; {len(drawn.svg or ''):,} characters of SVG",
        ),
        Row(
            what="structure view, Graphviz's part of a PNG",
            value=median(lambda: drawn.rendered("png"), runs=min(runs, 3)),
            unit="ms",
        ),
        Row(what="tree of text", value=median(lambda: tree(snapshot), runs=runs), unit="ms"),
        Row(what="page of HTML", value=median(lambda: page(snapshot), runs=min(runs, 10)), unit="ms"),
    ]
