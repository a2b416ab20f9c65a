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

INTERRUPTED = 130
EXTRAS = frozenset({"click", "mcp", "mcp_types", "rich", "starlette", "uvicorn"})


def main() -> None:
    """Run the program `toolfold` with the arguments of this process, and end with its status."""
    try:
        from .app import program

        program(prog_name="toolfold")
    except ModuleNotFoundError as error:
        if not is_extra(error):
            raise
        sys.exit(f"toolfold: {missing_extra(error)}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def is_extra(error: ModuleNotFoundError) -> bool:
    """Return whether what is missing comes with an extra of this distribution."""
    return (error.name or "").partition(".")[0] in EXTRAS


def missing_extra(error: ModuleNotFoundError) -> str:
    """Return what to do about a missing extra."""
    missing = (error.name or "").partition(".")[0]
    return f'The package {missing!r} is not installed, which this needs. Install it with: pip install "toolfold[all]"'
