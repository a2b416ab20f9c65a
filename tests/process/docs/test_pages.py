"""Every block of the pages is run, what a page shows is what is printed, and the program that ran it ends."""

from __future__ import annotations

import subprocess

import pytest

from tests.preloaded import forked
from tests.process.docs.blocks import ROOT, blocks_of, pages
from tests.process.docs.running import SECONDS

WITH_BLOCKS = [page for page in pages() if blocks_of(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in WITH_BLOCKS])
def test_the_code_of_a_page_is_a_program_that_prints_what_the_page_shows_and_ends(page: str) -> None:
    program = forked("-m", "tests.process.docs", page)
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=3 * SECONDS, check=False)
    assert done.returncode == 0, f"python -m tests.process.docs --write {page}"
