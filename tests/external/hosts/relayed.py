"""What hosts do through a relay: cold, warm, at load, when the runtime is killed, and when the relay itself is.

A host whose relay is killed before the third turn of the model starts it again, or does not. Each host is also given a
server with many tools and without Toolfold, to see how many of them its first request has.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.relays import busy

from .cases import CASES, SERVERS, TURNS
from .hosts import BY_NAME, Host
from .running import HERE, MODERN, Run, run, runtime, servers
from .tables import CONDITIONS, LOAD
from .upstream import tools

KILLED_BEFORE = 3
"""The turn before which the relay is killed."""
AFTER = ("open two", "call opened", "call closed", "long")
"""That turn, and later ones whose calls reach a server in every host."""
MANY = "acmemany"


def outcomes(host: Host, condition: str) -> str:
    """Return what came of the cases through a relay under a condition: how many are as without one, and which not."""
    with _relay(killed=condition == CONDITIONS[3]) as (folder, gateway, kill):
        if condition != CONDITIONS[0]:
            run(host, [], _made(folder, "first"), gateway=gateway)  # from now on, its handshake is answered at once
        with busy(LOAD if condition == CONDITIONS[2] else 0):
            ran = run(host, list(TURNS.values()), _made(folder, "second"), gateway=gateway, meanwhile=kill)
    other = _differing(host, ran)
    text = f"{len(CASES) - len(other)} of {len(CASES)}" + "".join(f", not *{name}*" for name in other)
    return text if (ran.protocol == MODERN) == host.modern else f"{text}, in {ran.protocol}"


def _differing(host: Host, ran: Run) -> list[str]:
    """Return the cases that come out otherwise than by `toolfold serve` in the same era."""
    expected = {case.name: case.expected for case in CASES} | dict(host.outcomes)
    if host.modern and ran.protocol != MODERN:
        expected[BY_NAME] = "yes"  # as by `--era legacy`
    return [case.name for case in CASES if case.outcome(ran) != expected[case.name]]


def restart(host: Host) -> str:
    """Return what a host does whose relay is killed."""
    with _relay(killed=False) as (folder, gateway, _):
        run(host, [], _made(folder, "first"), gateway=gateway)  # what the servers offer is known from then on
        place = next(word for word in gateway if "RUNTIME" in word).encode()
        ran = run(host, list(TURNS.values()), _made(folder, "second"), gateway=gateway, meanwhile=_killer(place))
    texts = iter(ran.results)
    came = {turn: [next(texts, "") for _ in calls] for turn, calls in TURNS.items()}
    reached = [" ran " in text or "in the export of all" in text for turn in AFTER[1:] for text in came[turn]]
    if not any(reached):
        had, has = (any("call_tool" in name for name in ran.requests[at].names) for at in (0, -1))
        return "no: its tools are taken from the model" if had and not has else "no: no call works from then on"
    if all(any(server in text for server in SERVERS) for text in came[AFTER[0]]):
        return "yes, within the call, which works"
    return "yes: the calls of that turn fail, " + ("those of the next work" if reached[0] else "and some after it")


def offered(host: Host) -> str:
    """Return how many of the tools of a large server the first request of a host has, in its list or in its text."""
    names = [tool["name"] for tool in tools(MANY)]
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        server = (sys.executable, "-S", "-E", str(HERE / "upstream.py"), MANY)
        ran = run(host, [], _made(Path(name), "only"), gateway=server)
    if not ran.requests:
        return "not known"
    listed = sum(any(one.endswith(tool) for one in ran.requests[0].names) for tool in names)
    named = sum(tool in ran.requests[0].text for tool in names)
    return f"{listed} of {len(names)}" + (f", {named} by name" if named > listed else "")


@contextmanager
def _relay(*, killed: bool) -> Iterator[tuple[Path, tuple[str, ...], Callable[[], None]]]:
    """Yield a folder, what starts a relay for the servers in it, and what kills the runtime if it is to be killed."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name, runtime(Path(name), killed=killed) as (relay, kill):
        started = _made(Path(name), "servers") / "started"
        started.touch()
        yield Path(name), (*relay, str(servers(Path(name), started))), kill


def _made(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def _relays(place: bytes) -> Iterator[int]:
    """Yield the relays whose runtime has this folder."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and place in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"toolfold_cli" in words and b"connect" in words:
                    yield int(entry.name)


def _killer(place: bytes) -> Callable[[], None]:
    """Return what is called with each request to the model, and kills the relay once."""
    requests = count(1)

    def kill() -> None:
        if next(requests) == KILLED_BEFORE:
            for process in _relays(place):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    return kill
