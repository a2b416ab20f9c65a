"""The README is short, shows lines of the shop and measured figures as they are, and its example pays in both eras."""

from __future__ import annotations

import re
from itertools import dropwhile
from pathlib import Path
from typing import Literal

import pytest
from mcp import Client

from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import wire_name
from toolfold_adapters.tokens import approximate_tokens, cost
from toolfold_cli.costs import initial_view, wire_costs
from toolfold_cli.shop import tools

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_lines_of_the_shop_in_the_readme_are_as_they_stand_in_it() -> None:
    _, _, excerpt = README.partition('```python\ntools = ToolSet("shop"')
    left = iter((ROOT / "adapters/toolfold_cli/shop.py").read_text(encoding="utf-8").splitlines())
    for line in f'tools = ToolSet("shop"{excerpt.partition("```")[0]}'.splitlines():
        assert not line or next(dropwhile(line.__ne__, left), None) == line


def test_the_readme_is_two_screens() -> None:
    read = [line for line in README.splitlines() if line and not line.startswith(("```", "<!--"))]
    assert len(read) <= 90


def test_the_figures_of_the_readme_and_of_the_home_page_are_those_that_were_measured() -> None:
    picture = (ROOT / "diagrams/gallery/before_after.svg").read_text(encoding="utf-8")
    before, after = re.findall(r"<title>([\d,]+) tokens of definitions become ([\d,]+)</title>", picture)[0]
    servers, listed = re.findall(r"(\d+) servers, (\d+) tools<", picture)[0]
    said = f"{servers} real servers with {listed} tools cost falls from {before} tokens to {after}:"
    assert said in " ".join(README.split())
    home = " ".join((ROOT / "docs/index.md").read_text(encoding="utf-8").split())
    costs, modern = wire_costs(initial_view(tools), read_tool=False)
    saved = [f"{100 * (1 - one / costs.before):.0f} %" for one in (costs.after, modern or costs.after)]
    own = [tool for tool in tools.catalog.tools.values() if tool.control is None]
    assert f"{saved[0]} of what its {len(own)} tools cost is saved at first ({saved[1]} in" in home


@pytest.mark.spec("GWY-5")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_first_list_of_the_shop_saves_at_least_seventy_percent(mode: Literal["legacy", "auto"]) -> None:
    everything = cost((tool for tool in tools.catalog.tools.values() if tool.control is None), wire_name)
    async with Client(build_server(tools), mode=mode) as client:
        listed = (await client.list_tools()).tools
    definitions = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
    assert sum(map(approximate_tokens, definitions)) <= 0.3 * everything
