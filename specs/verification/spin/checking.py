"""The variants of the model with their expected verdicts, and the runs of SPIN."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from attrs import frozen

PROGRAMS = ("spin", "gcc")
INSTALL = "on Debian and Ubuntu: apt-get install spin gcc"
PATIENCE = 120  # seconds per program
DEPTH = 100_000  # greatest depth of the search; a deeper run makes the verdict "unknown"

Verdict = Literal["holds", "violated", "unknown"]


class Property(Enum):
    """A property of a protocol."""

    LEGAL = "legal"
    """INV-1 and INV-2 hold in every state."""
    SEQUENTIAL = "sequential"
    """Every commit is the requested step in the state at that time; so every history is linearizable."""
    NO_DEADLOCK = "no deadlock"
    """Every run ends with all requests answered."""


@frozen
class Variant:
    """The model under a protocol; `activation.pml` describes the protocols."""

    name: str
    protocol: Literal["NONE", "DELTA", "LOCK", "CAS"]
    reentry: Literal["NEVER", "WAITS", "REFUSED"] = "NEVER"
    clients: int = 2
    requests: int = 2
    """The number of requests of each client."""
    violated: frozenset[Property] = frozenset()
    """The properties that are expected to be violated; the others are expected to hold."""

    def expected(self, asked: Property) -> Verdict:
        """Return the expected verdict."""
        return "violated" if asked in self.violated else "holds"


VARIANTS = (
    Variant("unguarded", "NONE", violated=frozenset({Property.SEQUENTIAL})),
    Variant("commits of deltas", "DELTA", violated=frozenset({Property.LEGAL, Property.SEQUENTIAL})),
    Variant("lock", "LOCK"),
    Variant("lock, three clients", "LOCK", clients=3, requests=1),
    Variant("lock, steps of hooks are queued", "LOCK", "WAITS", violated=frozenset({Property.NO_DEADLOCK})),
    Variant("lock, steps of hooks are refused: the core", "LOCK", "REFUSED"),
    Variant("compare and set", "CAS"),
    Variant("compare and set, three clients", "CAS", clients=3, requests=1),
    Variant("compare and set, with steps of hooks", "CAS", "WAITS", requests=1),
)


@frozen
class Outcome:
    """The outcome of a verifier."""

    verdict: Verdict
    states: int = 0
    depth: int = 0
    reason: str = ""
    """Why it is unknown, if it is."""


class SpinFailed(Exception):
    """SPIN or the compiler failed on the model."""


def missing() -> tuple[str, ...]:
    """Return the required programs that are not installed."""
    return tuple(program for program in PROGRAMS if shutil.which(program) is None)


def check_all(variants: Sequence[Variant] = VARIANTS) -> Mapping[Variant, Mapping[Property, Outcome]]:
    """Return the outcome of every property of every variant; raises `SpinFailed`."""
    with ThreadPoolExecutor(max_workers=2) as pool:  # the threads wait for other programs, and more gain little
        return dict(zip(variants, pool.map(check, variants), strict=True))


def check(variant: Variant) -> Mapping[Property, Outcome]:
    """Return the outcome of every property of one variant; raises `SpinFailed`."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _generate(variant, folder)
        claims = _compile(folder, "claims")
        ends = _compile(folder, "ends", "-DNOCLAIM")  # a verifier with claims does not check for deadlocks
        return {
            Property.LEGAL: _verify(claims, Property.LEGAL, "-N", "legal"),
            Property.SEQUENTIAL: _verify(claims, Property.SEQUENTIAL, "-N", "sequential"),
            Property.NO_DEADLOCK: _verify(ends, Property.NO_DEADLOCK),
        }


def parse(output: str, asked: Property) -> Outcome:
    """Return the outcome of a property from a verifier's output."""
    states, depth, errors = (
        _number(output, pattern) for pattern in (r"(\d+) states, stored", r"depth reached (\d+)", r"errors: (\d+)")
    )
    sign = "invalid end state" if asked is Property.NO_DEADLOCK else "assertion violated"
    stopped = re.findall(r"^(?:pan:\d+:|pan:(?= reached)|error:) (.+)", output, re.MULTILINE)
    if errors is None:
        return Outcome("unknown", reason=f"no result in the output: {output.strip()[-200:] or 'it is empty'}")
    if errors and re.search(rf"^pan:\d+: {sign}", output, re.MULTILINE):
        return Outcome("violated", states or 0, depth or 0)
    if errors or "Search not completed" in output or "max search depth too small" in output:
        return Outcome("unknown", states or 0, depth or 0, "; ".join(stopped) or f"{errors} errors of another kind")
    return Outcome("holds", states or 0, depth or 0)


def _number(output: str, pattern: str) -> int | None:
    found = re.search(pattern, output)
    return int(found[1]) if found else None


def _generate(variant: Variant, folder: Path) -> None:
    defines = {
        "PROTOCOL": variant.protocol,
        "REENTRY": variant.reentry,
        "CLIENTS": variant.clients,
        "REQUESTS": variant.requests,
    }
    with as_file(files("verification.spin") / "activation.pml") as model:
        _run(["spin", "-a", *(f"-D{name}={value}" for name, value in defines.items()), str(model.resolve())], folder)
    if not (folder / "pan.c").exists():
        raise SpinFailed(f"spin made no verifier of the variant {variant.name!r}")


def _compile(folder: Path, name: str, *options: str) -> Path:
    # Without optimisation, because compiling takes longer than running.
    _run(["gcc", "-O0", "-w", "-DSAFETY", "-DMEMLIM=512", *options, "-o", name, "pan.c"], folder)
    return folder / name


def _verify(verifier: Path, asked: Property, *options: str) -> Outcome:
    try:
        output = _run([str(verifier), f"-m{DEPTH}", *options], verifier.parent)
    except subprocess.TimeoutExpired:
        return Outcome("unknown", reason=f"it took more than {PATIENCE} seconds")
    return parse(output, asked)


def _run(command: Iterable[str], folder: Path) -> str:
    command = list(command)
    done = subprocess.run(
        command, cwd=folder, timeout=PATIENCE, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        raise SpinFailed(f"{command[0]} failed with status {done.returncode}:\n{done.stdout}")
    return done.stdout
