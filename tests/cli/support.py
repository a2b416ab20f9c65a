"""Helpers of the tests of the command line: a module to work on, and the program in this process or as another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import rich.table  # noqa: F401 (before any test, as pytester forgets what is first imported during its runs)
from click.testing import CliRunner, Result
from mcp import StdioServerParameters

import toolfold
import toolfold_cli
import toolfold_diagrams
import toolfold_specs
from tests.preloaded import forked_toolfold
from toolfold import ConfigError
from toolfold_cli.program import program
from toolfold_cli.targets import GatewayOptions, open_target, parse_target
from toolfold_specs.children import APART

SECONDS = 120
RAW = (sys.executable, str(Path(__file__).parents[1] / "adapters" / "gateway" / "upstreams" / "raw.py"))

SHOP = '''
"""Orders with returns inside, and a cellar that excludes them; two profiles."""

from toolfold import Profile, ToolSet

tools = ToolSet("shop")
closed = []

tools.register_group("orders", "Take orders")
tools.register_group("returns", "Take goods back", parent="orders")
tools.register_group("cellar", "Count what is in store", on_activate=lambda: print("the cellar is lit"))
tools.register_exclusion("orders", "cellar")
tools.register_profile(Profile(name="till", description="For the counter", active=("orders",), available=("*",)))
tools.register_profile(Profile(name="look", description="Change nothing", available=("cellar",), read_only=True))


@tools.tool()
def hours() -> str:
    """When the shop is open."""
    return "9 to 18"


@tools.tool(group="orders")
def place(item: str, count: int = 1) -> str:
    """Order an item."""
    print("a handler prints")
    return f"{count} of {item}"


@tools.tool(group="orders.returns")
def take_back(item: str) -> str:
    """Take an item back."""
    return f"took back {item}"


@tools.tool(group="cellar", annotations={"readOnlyHint": True})
def count(item: str) -> int:
    """Count an item."""
    return len(item)


def make() -> ToolSet:
    return tools


async def make_later() -> ToolSet:
    return tools


def fail() -> ToolSet:
    raise RuntimeError("the till is locked")


def needs(key):
    return tools


def wrong():
    return 5


NUMBER = 5
'''


def environment(folder: Path | None = None, /, **more: str) -> dict[str, str]:
    """This process's environment, with a path on which the packages are found from anywhere.

    What the program stores of its user goes below `folder`, if it is given.
    """
    if folder is not None:
        more = {"XDG_CACHE_HOME": str(folder / ".cache"), "XDG_DATA_HOME": str(folder / ".data"), **more}
    paths = [
        str(Path(package.__file__ or "").parents[1])
        for package in (toolfold, toolfold_cli, toolfold_diagrams, toolfold_specs)
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", **more}


def run(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a process to its end."""
    return subprocess.run(
        [*forked_toolfold(), *arguments],
        cwd=cwd,
        env=environment(cwd, **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


@contextmanager
def started(*arguments: str, cwd: Path, ignoring: signal.Signals | None = None) -> Generator[subprocess.Popen[str]]:
    """The program as a process with pipes, in a session of its own; it is killed if it takes too long.

    It starts with the signal `ignoring` ignored, as `nohup` does.
    """
    nohup = ["/bin/sh", "-c", f'trap "" {ignoring.name[3:]}; exec "$@"', "sh"] if ignoring is not None else []
    process = subprocess.Popen(
        [*nohup, *forked_toolfold(), *arguments],
        cwd=cwd,
        env=environment(cwd),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **APART,
    )
    limit = threading.Timer(SECONDS, process.kill)
    limit.start()
    try:
        yield process
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def server(*arguments: str, cwd: Path) -> StdioServerParameters:
    """The program as a server that a client starts."""
    command, *rest = forked_toolfold()
    return StdioServerParameters(command=command, args=[*rest, *arguments], cwd=cwd, env=environment(cwd))


def invoke(*arguments: str, stdin: str | None = None) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(program, arguments, input=stdin, prog_name="toolfold")


async def name_of(text: str | None, *command: str, **options: Any) -> str:
    """Open a target, and return the name of its tool set."""
    given = GatewayOptions(**options)
    async with open_target(parse_target(text, command, given), given) as opened:
        return opened.tools.name


async def refusal_of(text: str | None, *command: str, **options: Any) -> str:
    """Return why a target can't be opened."""
    with pytest.raises(ConfigError) as caught:
        await name_of(text, *command, **options)
    return str(caught.value)
