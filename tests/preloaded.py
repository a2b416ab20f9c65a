"""Commands whose programs run in processes that have imported some modules already; see `forking`."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.forking import READY

FORKING = Path(__file__).with_name("forking.py")


def forked(*program: str) -> tuple[str, ...]:
    """Return a command that runs a program of ours: a file, or `-m` and a module, and arguments."""
    modules = ("toolfold_cli.program", "toolfold_cli.serve", "toolfold_adapters.mcp.serve", "toolfold_adapters.gateway")
    return (*preloaded(sys.executable, *modules), *program)


def forked_toolfold() -> tuple[str, ...]:
    """Return a command that is `toolfold`, without the time that its imports take."""
    return forked("-m", "toolfold_cli")


@cache
def preloaded(python: str, *modules: str, path: str | None = None) -> tuple[str, ...]:
    """Return a command that runs a Python program in a process that has imported some modules already.

    The program's file, or `-m` and its module, and its arguments are to follow. Windows can't fork: it runs Python.

    Args:
        python: The Python that the program is run by.
        modules: What is imported once, for all programs that are run so.
        path: Where Python looks for them: a PYTHONPATH; as here by default.
    """
    if sys.platform == "win32":
        return (python,)
    folder = TemporaryDirectory()
    place = str(Path(folder.name, "socket"))
    env = {**os.environ, **({} if path is None else {"PYTHONPATH": path})}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([python, str(FORKING), "fork", place, *modules], env=env, text=True, **pipes)

    def end() -> None:
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    assert process.stdout is not None
    assert process.stdout.readline() == f"{READY}\n", f"{', '.join(modules)} can't be imported by {python}"
    return (sys.executable, "-I", "-S", str(FORKING), "run", place)
