"""The command line, `toolfold`.

program                           the program and its commands, each of which has a module of its name
serve, init, approve              a server, a gateway, and the clients and definitions that it is for
connect, connecting, up, down, installing  the relay of a client, which imports next to nothing, and a user's runtime
inspect, profiles, diagram, call, stubs  what a target has: listed, drawn, called, declared for programs
explain, check, allowed           why a tool can or can't be called, whether an agent can have it, what a caller may
report, status, records, saved    what was used of a server, and how it is doing: asking it, or what it recorded
conform, verify, evaluate, demo   the kit, traces of what ran, the evaluation, and a demonstration
login, logins, logout, credentials  who is logged in at which servers, and with what
options, targets, kinds, references, authentication  what commands share: TARGETs, objects by name, tokens
client_files, editing, moving, permissions, precedence  the files of clients: what moves, is allowed, is reached
printing, failures, logs          tables and texts, failures, and what is logged
costs, drivers                    initial token counts; how `conform` reaches a target, and the starters of drivers
runs, completion, man             long runs and their early end, what a shell completes, the manual page
scenario, shop                    the steps of the demonstration, and its tools
mkdocs, sphinx, zensical          pictures in pages of documentation

Results go to standard output, everything else to standard error. The exit status is 0 for success, 1 for failure, 2 for
wrong usage (`conform`: also if nothing could be checked), and 130 after Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from typing import Any

INTERRUPTED = 130
WAITING = "waiting for a client on standard input, which speaks MCP, not for you: Ctrl-C ends it"
ALLOCATIONS = 50_000
"""After how many new objects a command looks for garbage among them; by default after 700."""


def encode_output(*streams: Any, platform: str = sys.platform) -> None:
    """Have all that is printed to streams reach its reader, whatever characters it has.

    Windows writes to pipes and files in a code page that lacks most characters: it is UTF-8 here, unless
    `PYTHONIOENCODING` says otherwise. What an encoding lacks is escaped, and no error.
    """
    for stream in streams:
        if not isinstance(stream, io.TextIOWrapper) or stream.errors not in ("strict", "surrogateescape"):
            continue
        whose = platform == "win32" and "PYTHONIOENCODING" not in os.environ and not stream.isatty()
        stream.reconfigure(encoding="utf-8" if whose else None, errors="backslashreplace")


def main() -> None:
    """Run `toolfold` with the arguments of this process, and exit with its status."""
    # What is imported is no garbage: looking for it takes a tenth of the start, and at exit a third of a short run.
    gc.disable()
    gc.set_threshold(ALLOCATIONS)
    atexit.register(gc.freeze)
    encode_output(sys.stdout)
    try:
        if sys.argv[1:2] == ["connect"]:  # whose host waits for it: what is left to import is imported later
            from .connecting import relayed

            if relayed(sys.argv[2:]):
                return
        from .program import program

        try:
            program(prog_name="toolfold")
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # what fails here would otherwise be a traceback when the interpreter ends
    except ImportError as error:
        sys.exit(f"toolfold: {_missing_extra(error)}")
    except OSError as error:
        sys.exit(_unwritten(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _unwritten(error: OSError) -> str | int:
    """Return the status or sentence to exit with after an error of the output, which is written to no more."""
    from .failures import debugging

    if error.filename is not None or debugging():
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # the reader of the output has gone: a quiet end
        return 1
    return f"toolfold: The output can't be written: {error.strerror or error}."


def _missing_extra(error: ImportError) -> ImportError:
    """Return the error that names the extra which installs what is missing, or raise what it is otherwise."""
    from toolfold import MissingExtra
    from toolfold.spi import extras_named

    try:
        with extras_named():
            raise error
    except MissingExtra as missing:
        return missing
