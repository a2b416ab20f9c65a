"""Servers for the tests of the kit's wire side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tests.preloaded import forked
from toolfold_specs.drivers.process import Command

FIXTURE = ("-m", "verification.library.server")


def environment() -> dict[str, str]:
    """Return an environment in which other processes find what this one finds."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def fixture_command(*arguments: str) -> Command:
    """Return how to start our fixture server over stdio."""
    return Command(forked(*FIXTURE, *arguments), environment())


class Served(str):
    """The URL of a server in a process of its own, which can be stopped."""

    process: subprocess.Popen[str]

    def stop(self) -> None:
        """End the server, and wait until nothing of it holds its output any more."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def served_fixture(transport: str, *arguments: str) -> Generator[Any]:
    """Yield our fixture server as a target: a command for "stdio", a URL for "http"."""
    if transport == "stdio":
        yield fixture_command(*arguments)
        return
    with served(*FIXTURE, "--http", "0", *arguments) as url:
        yield url


@contextmanager
def served(*command: str) -> Generator[Served]:
    """Yield the URL that a Python program prints once it serves."""
    environ = {**os.environ, **environment()}
    with subprocess.Popen(forked(*command), env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = Served(process.stdout.readline().strip())
            url.process = process
            yield url
        finally:
            process.kill()
