"""Document E's tools with the programs themselves, where what they do depends on more than their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.modern_cli import build


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({}, "one\ntwo"),
        ({"number": True}, "   1 one\n   2 two"),
        ({"number": True, "range": "2:2"}, "   2 two"),
        ({"style": "header"}, "File: {path}\none\ntwo"),
        ({"style": "header", "number": True}, "     File: {path}\n   1 one\n   2 two"),
    ],
)
async def test_bat_prints_the_text_with_the_requested_decorations(
    bat: str, given: dict[str, Any], printed: str, tmp_path: Path
) -> None:
    path = tmp_path / "two.txt"
    path.write_text("one\ntwo\n")
    tools = build(which=lambda name: bat if name == "bat" else None, folder=tmp_path)
    async with tools.open_session(active=["filesystem"]) as session:
        result = await session.call("bat", {"path": str(path), **given})
    assert (result.text, result.is_error) == (printed.format(path=path), False)


@pytest.mark.spec("PRO-4")
async def test_bat_marks_the_requested_lines(bat: str, tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("one\ntwo\n")
    tools = build(which=lambda name: bat if name == "bat" else None, folder=tmp_path)
    async with tools.open_session(active=["filesystem"]) as session:
        one, two = (await session.call("bat", {"path": "two.txt", "highlight": "2"})).text.splitlines()
    assert "\x1b[" not in one
    assert "\x1b[" in two
