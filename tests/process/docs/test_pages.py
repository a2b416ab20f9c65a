"""Every block of the pages is run, and what a page shows is what is printed."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.process.docs.blocks import ROOT, pages
from tests.process.docs.running import run


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in pages()])
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page: str, tmp_path: Path) -> None:
    stale = run(ROOT / page, tmp_path)
    differences = [
        "\n".join(difflib.unified_diff(block.text.splitlines(), text.splitlines(), f"{page}:{block.line}", "printed"))
        for block, text in stale.items()
    ]
    assert not differences, "\n".join([*differences, f"Write it with: python -m tests.process.docs {page}"])
