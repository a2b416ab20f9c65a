"""The command line, `toolfold`: one word for each job.

    app.py       the program: its commands, and how it ends      options.py   TARGET, command, and shared options
    serving.py   serve                                           inspection.py   inspect, profiles
    telling.py   demo                                            output.py    tables, for people and for programs
    signals.py   Ctrl-C and standard output while serving

Results go to standard output, everything else to standard error. The status is 0 if the job was done, 1 if it failed,
2 for wrong usage, and 130 after Ctrl-C.
"""

from __future__ import annotations

import sys

from toolfold import MissingExtra
from toolfold.spi import extras_named

INTERRUPTED = 130


def main() -> None:
    """Run the program `toolfold` with the arguments of this process, and end with its status."""
    try:
        with extras_named():
            from .app import program
        program(prog_name="toolfold")
    except MissingExtra as error:
        sys.exit(f"toolfold: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
