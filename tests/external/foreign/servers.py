"""The servers in this folder: how each is built and started, as its `server.toml` says, and what is missing for it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tests.external.foreign.client import Client, connected
from tests.external.support import missing
from tests.preloaded import preloaded
from tests.process.ports import free_port

FOLDER = Path(__file__).parent
NODE_MODULES = FOLDER.parent / "node_modules"
BUILD_TIME = 600  # seconds
POLL = 0.05  # seconds
PROGRAMS: Mapping[str, str] = {"{kubectl-mcp}": "TESTS_KUBECTL_MCP", "{toolbox}": "TESTS_TOOLBOX"}
"""The marks of servers that are large, so that few machines have them, and the variables that name their programs."""


@frozen
class Server:
    """A server that was made without the kit, or with an SDK that was."""

    folder: Path
    name: str
    package: str
    version: str
    eras: tuple[str, ...]
    command: tuple[str, ...]
    about: str
    http: tuple[str, ...] = ()
    """The command that serves its clients over HTTP, by one process, on the port that follows."""
    http_eras: tuple[str, ...] = ()
    """The eras that it speaks there."""
    build: tuple[tuple[str, ...], ...] = ()
    imports: tuple[str, ...] = ()
    """What the Python that runs its program imports once for all processes, since that takes longer than the rest."""
    env: Mapping[str, str] = field(factory=dict[str, str])

    @property
    def description(self) -> Path:
        """The file for `toolfold conform --describe`."""
        return self.folder / "server.toml"

    @property
    def lacking(self) -> str | None:
        """Which requirement for building and starting it is missing; None if none is."""
        if (variable := PROGRAMS.get(self.command[0])) is not None:
            return None if variable in os.environ else f"{variable} does not name the program of {self.package}"
        if any("{fastmcp}" in part for part in self.command):
            return None if newest_fastmcp() else "TESTS_FASTMCP_NEWEST does not name a Python with fastmcp"
        for program in {command[0] for command in (*self.build, self.command) if "/" not in command[0]} - {"{python}"}:
            if shutil.which(program) is None:
                return f"{program} is not installed"
        return missing() if self.command[0] == "node" else None

    def make(self) -> None:
        """Build it, if it needs to be built."""
        for command in self.build:
            subprocess.run(command, cwd=self.folder, check=True, timeout=BUILD_TIME, stdout=sys.stderr)

    @property
    def started_by(self) -> tuple[str, ...]:
        """The command that starts it, in any folder."""
        return self._started(self.command)

    def _started(self, command: Sequence[str]) -> tuple[str, ...]:
        known = {"{python}": sys.executable, "{fastmcp}": newest_fastmcp(), "{node_modules}": str(NODE_MODULES)}
        known |= {mark: os.environ.get(variable, "") for mark, variable in PROGRAMS.items()}
        program, *arguments = (self._located(_filled(part, known)) for part in command)
        return (*(preloaded(program, *self.imports) if self.imports else (program,)), *arguments)

    def _located(self, part: str) -> str:
        """Return a part of the command with absolute paths for what lies in the server's folder."""
        parts = [
            str(self.folder / each) if (self.folder / each.removesuffix("/*")).exists() else each
            for each in part.split(":")
        ]
        return ":".join(parts)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Start it over HTTP, and yield its URL once its port is open."""
        port = free_port()
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = (*self._started(self.http), str(port))
        with subprocess.Popen(command, env={**os.environ, **self.env}, **quiet) as process:
            try:
                while process.poll() is None and not _is_open(port):
                    time.sleep(POLL)
                yield f"http://127.0.0.1:{port}/mcp"
            finally:
                process.kill()

    @contextmanager
    def client(self, era: str) -> Iterator[Client]:
        """Start it, and yield a hand-written client of it."""
        with connected(self.started_by, self.env, era) as client:
            yield client


def _is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def fastmcp() -> str:
    """Return the Python that has FastMCP, which needs an environment of its own; empty if none is named."""
    return os.environ.get("TESTS_FASTMCP", "")


def newest_fastmcp() -> str:
    """Return the Python that has the FastMCP of the findings; its tasks are not released for each version of it."""
    return os.environ.get("TESTS_FASTMCP_NEWEST", "")


def _filled(part: str, known: Mapping[str, str]) -> str:
    for mark, value in known.items():
        part = part.replace(mark, value)
    return part


def load(name: str) -> Server:
    """Return the server in the folder of that name."""
    folder = FOLDER / name
    said = tomllib.loads((folder / "server.toml").read_text(encoding="utf-8"))["server"]
    return Server(
        folder,
        said["name"],
        said["package"],
        said["version"],
        tuple(said["eras"]),
        tuple(said["command"]),
        said.get("about", ""),
        tuple(said.get("http", ())),
        tuple(said.get("http_eras", ())),
        tuple(map(tuple, said.get("build", ()))),
        tuple(said.get("imports", ())),
        said.get("env", {}),
    )


SERVERS = tuple(sorted(file.parent.name for file in FOLDER.glob("*/server.toml")))
"""The folders of the servers."""
