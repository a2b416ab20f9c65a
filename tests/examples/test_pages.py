"""The example of a page pays in both eras, or the page says what it costs, and that it is small on purpose."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.docs.blocks import ROOT, blocks_of, pages
from toolfold import ToolSet
from toolfold_cli.costs import initial_view, wire_costs

SAVED = 70.0
"""How much of all tools' tokens an example saves, in percent."""
SMALL = (
    "The example is small, to be read at a glance: its tools are ~{before:,} tokens, and ~{after:,} are listed at "
    "first (~{modern:,} without sessions)."
)
_BOTH_LISTS = re.compile(r"\(~([\d,]+) → ~([\d,]+) tokens\)")
_IN_A_LOOP = re.compile(r"Tokens\(sent=(\d+), everything=(\d+)\)")
_MODERN = re.compile(r"Clients without sessions \(MCP 2026-07-28\) get ~([\d,]+) tokens")
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages()}
SHOWN = sorted(name for name, text in TEXTS.items() if _BOTH_LISTS.search(text) or _IN_A_LOOP.search(text))
OWN = sorted(
    name
    for name, text in TEXTS.items()
    if any(block.language == "python" and block.title and "tools = ToolSet(" in block.text for block in blocks_of(text))
)
"""The pages that show what lists cost, and those that have a file with a tool set."""


def number(text: str) -> int:
    return int(text.replace(",", ""))


def saved(before: int, after: int) -> float:
    """Return how much of the tokens of all tools the first list saves, in percent."""
    return 100 * (1 - after / before)


def says_that_it_is_small(page: str, before: int, after: int, modern: int) -> bool:
    sentence = SMALL.format(before=before, after=after, modern=modern)
    return sentence in " ".join(page.split())


@pytest.mark.spec("GWY-5")
@pytest.mark.parametrize("name", SHOWN)
def test_what_a_page_shows_is_saved_in_both_eras(name: str) -> None:
    text = TEXTS[name]
    in_both = [(number(before), number(after)) for before, after in _BOTH_LISTS.findall(text)]
    without_groups = [(before, after) for before, after in in_both if before == after]
    worth = [pair for pair in in_both if pair not in without_groups]
    first_of_loops = [(number(everything), number(sent)) for sent, everything in _IN_A_LOOP.findall(text)][:1]
    modern = [(before, number(after)) for (before, _), after in zip(worth, _MODERN.findall(text), strict=False)]
    assert [pair for pair in (*worth, *first_of_loops, *modern) if saved(*pair) < SAVED] == []
    assert "% more" not in text


@pytest.fixture
def tool_set_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ToolSet]:
    """Return what gives the tool set of a page, after all of its files that register something were imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def made(page: str) -> ToolSet:
        for file in (block for block in blocks_of(page) if block.language == "python" and block.title):
            (tmp_path / str(file.title)).write_text(file.text, encoding="utf-8")
            importlib.invalidate_caches()
            if re.search(r"^(tools = |@?tools\.)", file.text, re.MULTILINE):
                found.append(importlib.import_module(Path(str(file.title)).stem).tools)
        return found[0]

    found: list[ToolSet] = []
    return made


@pytest.mark.spec("GWY-5")
@pytest.mark.parametrize("name", OWN)
def test_the_tool_set_of_a_page_pays_or_the_page_says_that_it_is_small(
    name: str, tool_set_of: Callable[[str], ToolSet]
) -> None:
    tools = tool_set_of(TEXTS[name])
    costs, without_session = wire_costs(initial_view(tools), read_tool=False)
    modern = without_session or costs.after
    if not tools.catalog.groups or min(saved(costs.before, costs.after), saved(costs.before, modern)) >= SAVED:
        return
    assert says_that_it_is_small(TEXTS[name], costs.before, costs.after, modern), SMALL.format(
        before=costs.before, after=costs.after, modern=modern
    )


def test_there_are_at_most_fifty_pages_and_only_those_of_the_reference_are_long() -> None:
    site = {name: text for name, text in TEXTS.items() if name.startswith("docs/")}
    long = {name for name, text in site.items() if text.count("\n") > 250 and not name.startswith("docs/reference/")}
    assert (len(site) <= 50, long) == (True, set())


def test_each_shelf_of_how_to_pages_has_at_most_six_and_the_same_ones_in_the_navigation() -> None:
    nav = (
        (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("- how-to/index.md")[2].partition("- Reference:")[0]
    )
    listed = _shelves(nav, r"^      - ([\w ]+):$", r"how-to/([\w-]+\.md)")
    assert listed == _shelves(TEXTS["docs/how-to/index.md"], r"^## (.+)$", r"\(([\w-]+\.md)\) \|$")
    assert {name: len(pages) for name, pages in listed.items() if len(pages) > 6} == {}


def _shelves(text: str, heading: str, page: str) -> dict[str, list[str]]:
    _, *parts = re.split(heading, text, flags=re.MULTILINE)
    return {name: re.findall(page, part, re.MULTILINE) for name, part in zip(parts[::2], parts[1::2], strict=True)}


def test_how_to_pages_have_the_names_in_the_table_that_they_have_as_titles() -> None:
    named = re.findall(r"^\| .* \| \[([^\]]+)\]\(([\w-]+\.md)\) \|$", TEXTS["docs/how-to/index.md"], re.MULTILINE)
    titles = {name: TEXTS[f"docs/how-to/{name}"].partition("\n")[0].removeprefix("# ") for _, name in named}
    assert {name: title for title, name in named} == titles
    assert {f"docs/how-to/{name}" for name in titles} == {
        name for name in TEXTS if name.startswith("docs/how-to/") and not name.endswith("index.md")
    }
