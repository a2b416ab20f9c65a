"""Says which hosts start a server again that has died: `python -m tests.external.hosts.restarts [HOST…]`.

The relay of each is killed before the third turn of the conversation. It prints, for each call from then on, whether it
reached a server, and how often the host has opened a connection.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from .cases import TURNS
from .hosts import HOSTS, Host
from .running import run, runtime, servers

KILLED_BEFORE = 3
"""The turn before which the relay is killed."""
OPENING = ("initialize", "server/discover")


def relays(place: bytes) -> Iterator[int]:
    """Yield the relays whose runtime has this folder."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and place in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"toolfold_cli" in words and b"connect" in words:
                    yield int(entry.name)


def killer(place: bytes) -> Callable[[], None]:
    """Return what is called with each request to the model, and kills the relay once."""
    requests = count(1)

    def kill() -> None:
        if next(requests) == KILLED_BEFORE:
            for process in relays(place):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    return kill


def outcome(host: Host) -> str:
    """Return what came of the calls after the relay of a host was killed, and how often it opened a connection."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, runtime(Path(folder), killed=False) as (relay, _):
        started, first, second = (Path(folder) / name for name in ("started", "first", "second"))
        started.touch()
        for one in (first, second):
            one.mkdir()
        gateway = (*relay, str(servers(Path(folder), started)))
        run(host, [], first, gateway=gateway)  # what the servers offer is known from then on
        place = next(word for word in relay if "RUNTIME" in word).encode()
        ran = run(host, list(TURNS.values()), second, gateway=gateway, meanwhile=killer(place))
    opened = sum(message.get("method") in OPENING for _, message in ran.messages)
    before = sum(map(len, list(TURNS.values())[: KILLED_BEFORE - 1]))
    lines = [f"  {'ran' if ' ran ' in text else text[-160:]!r}" for text in ran.results[before:]]
    return "\n".join([f"{host.name}: {opened} times opened", *lines])


if __name__ == "__main__":
    for each in HOSTS:
        if not sys.argv[1:] or each.name in sys.argv[1:]:
            print(outcome(each), flush=True)
