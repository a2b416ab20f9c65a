"""Run pages: `python -m tests.process.docs [--write] [PAGE…]`; all pages unless some are given.

What their code prints and a page does not show is printed as a difference, with status 1, or written into the page.
"""

from __future__ import annotations

import difflib
import logging
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.process.docs.blocks import ROOT, pages, replaced
from tests.process.docs.running import run


def main(names: list[str]) -> int:
    """Run pages, and return how many blocks show something else than what was printed."""
    write, found = "--write" in names, 0
    for page in [Path(name).resolve() for name in names if name != "--write"] or pages():
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "you"  # some commands print its name
            folder.mkdir()
            stale = run(page, folder)
        logging.root.handlers.clear()  # a server of one page would log into the output of the next
        found += len(stale)
        if stale and write:
            page.write_text(replaced(page.read_text(encoding="utf-8"), stale), encoding="utf-8")
        name = page.relative_to(ROOT)
        for block, text in stale.items():
            print(
                *difflib.unified_diff(block.text.splitlines(), text.splitlines(), f"{name}:{block.line}", "printed"),
                sep="\n",
            )
    return 0 if write else found


if __name__ == "__main__":
    warnings.simplefilter("error")
    sys.exit(main(sys.argv[1:]) != 0)
