"""The README shows lines of the shop as they are, and its example pays in both eras."""

from __future__ import annotations

from itertools import dropwhile
from pathlib import Path
from typing import Literal

import pytest
from mcp import Client

from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import wire_name
from toolfold_adapters.tokens import approximate_tokens, cost
from toolfold_cli.shop import tools

ROOT = Path(__file__).parents[2]


def test_the_lines_of_the_shop_in_the_readme_are_as_they_stand_in_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, excerpt = readme.partition('```python\ntools = ToolSet("shop"')
    left = iter((ROOT / "adapters/toolfold_cli/shop.py").read_text(encoding="utf-8").splitlines())
    for line in f'tools = ToolSet("shop"{excerpt.partition("```")[0]}'.splitlines():
        assert not line or next(dropwhile(line.__ne__, left), None) == line


@pytest.mark.spec("GWY-5")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_first_list_of_the_shop_saves_at_least_seventy_percent(mode: Literal["legacy", "auto"]) -> None:
    everything = cost((tool for tool in tools.catalog.tools.values() if tool.control is None), wire_name)
    async with Client(build_server(tools), mode=mode) as client:
        listed = (await client.list_tools()).tools
    definitions = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
    assert sum(map(approximate_tokens, definitions)) <= 0.3 * everything
