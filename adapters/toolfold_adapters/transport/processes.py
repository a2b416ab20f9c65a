"""Processes that are started apart and ended with their children: the one module with a branch for each system.

On POSIX a process leads a group of its own, which can be signalled as a whole. On Windows it is in a job object, which
ends whatever was started in it; there, programs that are batch files, as `npx` is, are started by the command
interpreter, with arguments that it passes on unchanged.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import anyio
from anyio.abc import Process
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.os.win32 import utilities as windows

if sys.platform != "win32":
    import signal

GRACE_SECONDS = 2.0
POLL_SECONDS = 0.01
Stream = int | IO[Any] | None
PROCESSES = Path("/proc")
noted: ContextVar[Callable[[int], object] | None] = ContextVar("toolfold_noted", default=None)
"""Is called with each process that is started, for whoever ends it if this one is killed; not on Windows."""
_BATCH = (".cmd", ".bat")
_PLAIN = re.compile(r'"[^"%\r\n]*"')
_SPECIAL = re.compile(r'["%&|<>^\r\n]')


async def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    folder: str | Path | None = None,
    stdin: Stream = subprocess.PIPE,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
) -> Process:
    """Return a process that was started so that `end` ends what it starts, too.

    Raises:
        OSError: It can't be started.
    """
    how: dict[str, Any] = {"env": environment, "cwd": folder, "stdin": stdin, "stdout": stdout, "stderr": stderr}
    if sys.platform == "win32":
        line = windows_command(command, environment)
        process = await anyio.open_process(line, creationflags=subprocess.CREATE_NO_WINDOW, **how)
        assign_job(process)
        return process
    process = await anyio.open_process(command, start_new_session=True, **how)
    if (note := noted.get()) is not None:
        note(process.pid)
    return process


def assign_job(process: Process) -> None:
    """Put a process into a job object, with which whatever it starts is ended; this has an effect on Windows alone."""
    job = windows._create_job_object()  # pyright: ignore[reportPrivateUsage]
    windows._maybe_assign_process_to_job(process, job)  # pyright: ignore[reportPrivateUsage]


async def end(process: Process, grace: float = GRACE_SECONDS) -> None:
    """End a process and its children: asked to, where the system can ask, and by force after a grace period."""
    if sys.platform == "win32":
        await windows.terminate_windows_process_tree(process)
        windows.close_process_job(process)
    else:
        await terminate_posix_process_tree(process, grace)


def memory_of(leaders: Collection[int]) -> dict[int, int]:
    """Return how many bytes processes that were started here have, each with what it has started in turn.

    A page that several have is divided among them. Empty where the system does not tell; this reads files.
    """
    found: dict[int, int] = {}
    for path in PROCESSES.glob("[0-9]*/stat") if leaders else ():
        with suppress(OSError, ValueError, IndexError):  # it has ended
            leader = int(
                path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[3]
            )  # that of its session
            if leader in leaders:
                rollup = path.with_name("smaps_rollup").read_text(encoding="utf-8")
                kilobytes = next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
                found[leader] = found.get(leader, 0) + int(kilobytes) * 1024
    return found


def end_group(leader: int, *, force: bool) -> None:
    """Ask a process that `start` started elsewhere to end, with its children, or end it by force; not on Windows."""
    if sys.platform != "win32":
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL if force else signal.SIGTERM)


async def wait(process: Process) -> None:
    """Wait for the end of a process, but no longer than a grace period.

    By its status: waiting for it would also wait for any process that has inherited its pipes.
    """
    with anyio.move_on_after(GRACE_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(POLL_SECONDS)


def windows_command(command: Sequence[str], environment: Mapping[str, str]) -> list[str] | str:
    """Return what starts a command on Windows: its words with the path of the program, or for a batch file a line.

    The program is looked for as in a console, in the `PATH` that the process gets, with the endings of `PATHEXT`.
    The line is for the command interpreter. Each argument is in quotes there, within which only `%` means something;
    batch files pass their arguments on with the quotes.

    Raises:
        OSError: An argument can't be passed to a batch file unchanged.
    """
    name, *arguments = command
    variables = {key.upper(): value for key, value in environment.items()}
    program = shutil.which(name, path=variables.get("PATH")) or name
    if not program.lower().endswith(_BATCH):
        return [program, *arguments]
    for each in (program, *arguments):
        if _SPECIAL.search(_PLAIN.sub("", _quoted(each))):
            raise OSError(
                f"{Path(program).name} is a batch file, to which {each!r} can't be passed unchanged. Give the program "
                "that it starts instead, such as node with the path of a script."
            )
    return " ".join(_quoted(each) for each in (program, *arguments))


def _quoted(argument: str) -> str:
    """Return an argument in quotes, as programs for Windows read it."""
    inner = re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + ("\\" if found[2] else "") + found[2], argument)
    return f'"{inner}"'
