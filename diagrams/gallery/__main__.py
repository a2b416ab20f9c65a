"""Draws the pictures in this folder, or reports with `--check` which are stale: `python -m diagrams.gallery`.

The texts are compared word by word: `.dot`, `.mmd`, `.html`, and SVG whose layout is our own. What Graphviz draws
differs from one version to the next, so it names the DOT that it was drawn from, and that is compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import anyio
from attrs import frozen

from diagrams.gallery.before_after import before_after
from examples import assistant, automation_hub, browser_telemetry, desk, modern_cli, toolkit
from toolfold import Snapshot, ToolSet, TransitionRequest
from toolfold_diagrams import (
    Diagram,
    page,
    reachable,
    region_chart,
    sequence,
    statechart,
    structure,
    transaction_chart,
)
from toolfold_diagrams.drawing import record

FOLDER = Path(__file__).parent
SOURCES = frozenset({"README.md", "__main__.py", "before_after.json", "before_after.py", "gitlab.json"})
OPENED = ("database", "database.write")


@frozen
class Picture:
    """A picture under a name; `mermaid` is whether its Mermaid form is stored too."""

    name: str
    diagram: Diagram
    mermaid: bool = False

    @property
    def texts(self) -> dict[str, str]:
        """What is compared, by file name."""
        suffixes = (".svg", ".dot", *([".mmd"] if self.mermaid else []))
        return {self.name + suffix: text for suffix, text in self.diagram.texts.items() if suffix in suffixes}

    @property
    def is_stale(self) -> bool:
        """Whether its SVG, drawn by Graphviz, is not there, or is drawn from another text."""
        return self.diagram.svg is None and self.diagram.stamp not in _read(f"{self.name}.svg")


async def pictures() -> list[Picture]:
    """Return the pictures of the project."""
    opened = _active(desk.tools, "database")
    return [
        Picture("transaction", transaction_chart(), mermaid=True),
        Picture("region", region_chart(), mermaid=True),
        Picture("desk", structure(opened), mermaid=True),
        Picture("desk-statechart", statechart(opened), mermaid=True),
        Picture("desk-reachable", reachable(opened), mermaid=True),
        Picture("automation_hub", structure(automation_hub.build())),
        Picture("automation_hub-statechart", statechart(automation_hub.build())),
        Picture("automation_hub-sequence", sequence(await record(automation_hub.build(), None, OPENED))),
        Picture("browser_telemetry", structure(browser_telemetry.tools())),
        Picture("assistant", structure(_active(assistant.tools, "google_gmail"))),
        Picture("toolkit", structure(toolkit.tools)),
        Picture("modern_cli", structure(modern_cli.build(which=lambda name: f"/usr/bin/{name}"))),
        Picture("gitlab", structure(gitlab())),
    ]


def gitlab() -> ToolSet:
    """Return the tools of a large MCP server in its own groups, by name only."""
    tools = ToolSet("gitlab", control_visibility="relevant")
    for group, names in json.loads((FOLDER / "gitlab.json").read_text(encoding="utf-8")).items():
        tools.register_group(group)
        for name in names:
            tools.register(name, lambda: None, group=group)
    return tools


def _active(tools: ToolSet, *groups: str) -> Snapshot:
    return Snapshot.of(tools.catalog).after(TransitionRequest(groups))


def texts(drawn: list[Picture]) -> dict[str, str]:
    """Return everything that is compared word by word, by file name."""
    costs = json.loads((FOLDER / "before_after.json").read_text(encoding="utf-8"))
    ours = {"gitlab.html": page(gitlab()), "before_after.svg": before_after(costs)}
    return {**ours, **{name: text for each in drawn for name, text in each.texts.items()}}


def stale(drawn: list[Picture]) -> list[str]:
    """Return the names of files that are not there, not as they would be drawn, or no longer drawn."""
    wanted = texts(drawn)
    old = [name for name, text in wanted.items() if _read(name) != text]
    old += [f"{picture.name}.svg" for picture in drawn if picture.is_stale]
    known = {*wanted, *(f"{picture.name}.svg" for picture in drawn), *SOURCES}
    return sorted([*old, *({path.name for path in FOLDER.iterdir() if path.is_file()} - known)])


def write(drawn: list[Picture]) -> None:
    """Draw everything anew; an SVG whose DOT is the same is left alone."""
    for picture in drawn:
        if picture.is_stale:
            _write(f"{picture.name}.svg", picture.diagram.rendered("svg").decode())
    for name, text in texts(drawn).items():
        _write(name, text)


def _read(name: str) -> str:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _write(name: str, text: str) -> None:
    (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")


def main() -> None:
    """Draw the pictures, or check them: status 1 if some are stale."""
    parser = argparse.ArgumentParser(prog="python -m diagrams.gallery", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="draw nothing; name what is stale, with status 1")
    options = parser.parse_args()
    drawn = anyio.run(pictures)
    if not options.check:
        write(drawn)
    if old := stale(drawn):
        sys.exit(f"Stale in {FOLDER.name}: {', '.join(old)}. Run: python -m diagrams.gallery")
    print(f"{len(drawn)} pictures are up to date.")


if __name__ == "__main__":
    main()
