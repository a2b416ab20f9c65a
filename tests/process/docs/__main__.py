"""Write into pages what their code prints: `python -m tests.process.docs [PAGE…]`; all pages unless some are given."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.process.docs.blocks import pages, replaced
from tests.process.docs.running import run


def main(names: list[str]) -> None:
    """Run pages, and write what they print."""
    for page in [Path(name).resolve() for name in names] or pages():
        with TemporaryDirectory() as folder:
            stale = run(page, Path(folder))
        logging.root.handlers.clear()  # a server of one page would log into the output of the next
        if stale:
            page.write_text(replaced(page.read_text(encoding="utf-8"), stale), encoding="utf-8")
            print(f"{page.name}: {len(stale)} blocks")


if __name__ == "__main__":
    main(sys.argv[1:])
