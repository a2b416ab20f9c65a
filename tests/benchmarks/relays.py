"""What a relay costs a host, and how soon it and the runtime answer (Linux).

    python -m tests.benchmarks.relays            # as things are
    python -m tests.benchmarks.relays --load 10  # with so many programs that compute beside it

A relay is started again and again, as a host does for a session, for one server behind a warm runtime. Printed are
medians: the processor time of the relay until its first answer, its peak memory and its share of memory (PSS) then,
and the time of the first list after that. In the end the runtime is killed as often; printed is the time until the next
list of a relay that was there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from toolfold_adapters.runtime.place import FOLDER
from toolfold_adapters.runtime.relay import asked

UPSTREAM = Path(__file__).parents[1] / "process" / "runtime" / "plain.py"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a-host", "version": "1"}}
COMPUTE = "while True: pass"


class Relay:
    """A relay that a host has started."""

    def __init__(self, config: Path, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "toolfold_cli", "connect", str(config)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, method: str, **params: Any) -> None:
        """Ask something, and wait for the answer."""
        self._say(id=method, method=method, params=params)
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, b""):
            if json.loads(line).get("id") == method:
                return
        raise RuntimeError("the relay has ended")

    def open(self) -> None:
        """Open the session."""
        self.ask("initialize", **HELLO)

    def listed(self) -> float:
        """Return how long a list takes."""
        began = monotonic()
        self.ask("tools/list")
        return monotonic() - began

    def _say(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def computed(self) -> float:
        """Return the processor time of all its threads so far, in seconds."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def memory(self, file: str, name: str) -> float:
        """Return what the system says of its memory, in MB."""
        lines = Path(f"/proc/{self.process.pid}/{file}").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024

    def end(self) -> None:
        """Have it end, as a host does."""
        self.process.communicate()


@contextmanager
def machine() -> Generator[tuple[Path, dict[str, str]]]:
    """Yield a configuration, and an environment in which a runtime of its own serves it."""
    with TemporaryDirectory(prefix="toolfold-relays-") as place, TemporaryDirectory(prefix="r-") as runtime:
        config, record = Path(place, "gateway.json"), Path(place, "record")
        record.touch()
        server = {"command": sys.executable, "args": ["-S", "-E", str(UPSTREAM), str(record)]}
        config.write_text(json.dumps({"mcpServers": {"one": server}}))
        own = dict.fromkeys(("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), place)
        environment = {**os.environ, **own, FOLDER: runtime}
        try:
            yield config, environment
        finally:
            down = [sys.executable, "-m", "toolfold_cli", "down"]
            subprocess.run(down, env=environment, capture_output=True, check=True)


@contextmanager
def busy(programs: int) -> Generator[None]:
    """Have programs compute beside what is measured."""
    with ExitStack() as stack:
        for _ in range(programs):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", COMPUTE]))
            stack.callback(process.kill)
        yield


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--load", type=int, default=0, help="how many programs compute beside it")
    parser.add_argument("--times", type=int, default=15)
    given = parser.parse_args()
    with machine() as (config, environment):
        for _ in range(2):  # from now on, a handshake is answered at once
            first = Relay(config, environment)
            first.open()
            first.listed()
            first.end()
        found: list[tuple[float, ...]] = []
        with busy(given.load):
            for _ in range(given.times):
                relay = Relay(config, environment)
                relay.open()
                costs = relay.computed() * 1000, relay.memory("status", "VmHWM"), relay.memory("smaps_rollup", "Pss")
                found.append((*costs, relay.listed() * 1000))
                relay.end()
            computed, peak, share, listed = (statistics.median(one) for one in zip(*found, strict=True))
            print(f"until the first answer: {computed:.0f} ms of processor time, {peak:.1f} MB, PSS {share:.1f} MB")
            print(f"the first list, after that: {listed:.0f} ms")
            relay = Relay(config, environment)
            relay.open()
            away: list[float] = []
            for _ in range(given.times):
                relay.listed()
                os.kill(int(asked(environment[FOLDER], "status")["process"]), signal.SIGKILL)
                away.append(relay.listed())
            relay.end()
            print(f"a list after the runtime was killed: {statistics.median(away):.2f} s, at worst {max(away):.2f} s")


if __name__ == "__main__":
    main()
