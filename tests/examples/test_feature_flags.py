"""The machine without tools, as an example."""

from __future__ import annotations

import pytest

from examples import feature_flags


@pytest.mark.spec("ACT-11")
def test_flags_need_and_exclude_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    feature_flags.main()
    assert capsys.readouterr().out.splitlines() == [
        "Group 'search.fuzzy' can't be opened yet: open 'search' first.",
        "on: search, search.fuzzy, theme_dark; turned off: none",
        "on: search, search.semantic, theme_dark; turned off: search.fuzzy",
        "on: search, search.semantic, theme_light; turned off: theme_dark",
    ]
