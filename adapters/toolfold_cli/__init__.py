"""The command line, `toolfold`.

    program.py    the program and its commands      options.py     TARGET, `--` and the options that commands share
    targets.py    the kinds of TARGET               references.py  objects named module:attribute or file.py:attribute
    printing.py   tables, text and JSON             failures.py    failures of commands, and logging
    counts.py     numbers in texts                  logs.py        what is logged, and how
    costs.py      initial token counts              drivers.py     how `conform` reaches a target
    progress.py   the progress of a long run        watchdog.py    ending such a run early

Each command has a module of its name. Results go to standard output, everything else to standard error. The exit status
is 0 for success, 1 for failure, 2 for wrong usage (`conform`: also if nothing could be checked), and 130 after Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc
import sys

from toolfold import MissingExtra
from toolfold.spi import extras_named

INTERRUPTED = 130
ALLOCATIONS = 50_000
"""After how many new objects the interpreter looks for garbage among them; by default after 700."""


def main() -> None:
    """Run `toolfold` with the arguments of this process, and exit with its status."""
    # What is imported is no garbage: looking for it takes a tenth of the start, and at exit a third of a short run.
    gc.set_threshold(ALLOCATIONS)
    atexit.register(gc.freeze)
    try:
        with extras_named():
            from .program import program

            program(prog_name="toolfold")
    except MissingExtra as error:
        sys.exit(f"toolfold: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
