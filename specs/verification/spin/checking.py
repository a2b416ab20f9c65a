"""The variants of the models with their expected verdicts, and the runs of SPIN."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from attrs import frozen

PROGRAMS = ("spin", "gcc")
INSTALL = "on Debian and Ubuntu: apt-get install spin gcc"
PATIENCE = 120  # seconds per program
CLAIM = re.compile(r"^ltl \w+ +\{ \[\] (.+) \}$", re.MULTILINE)  # in a model
TOGETHER = "together"  # the name of the claim that all of them hold
SLOTS = 20  # binary logarithm of the size of the hash table, which takes time to allocate
DEPTH = 100_000  # greatest depth of the search; a deeper run makes the verdict "unknown"

Verdict = Literal["holds", "violated", "unknown"]


class Property(Enum):
    """A property of a protocol: its value is how it is called, and its claim in a model has that name with `_`."""

    LEGAL = "legal"
    """INV-1 and INV-2 hold in every state."""
    SEQUENTIAL = "sequential"
    """Every commit is the requested transition in the state at that time; so every history is linearizable."""
    NO_DEADLOCK = "no deadlock"
    """Every run ends with all requests answered."""


@frozen
class Model:
    """A model: a file of SPIN, and what is asked of it."""

    file: str
    properties: tuple[Property, ...]


STEPS = Model("activation.pml", (Property.LEGAL, Property.SEQUENTIAL, Property.NO_DEADLOCK))


@frozen
class Variant:
    """A model with definitions, which it describes, and the properties that are expected to be violated then."""

    model: Model
    name: str
    defines: tuple[tuple[str, str | int], ...]
    violated: frozenset[Property] = frozenset()

    def expected(self, asked: Property) -> Verdict:
        """Return the expected verdict."""
        return "violated" if asked in self.violated else "holds"


def _steps(
    name: str, protocol: str, reentry: str = "NEVER", clients: int = 2, requests: int = 2, violated: Iterable[str] = ()
) -> Variant:
    defines = (("PROTOCOL", protocol), ("REENTRY", reentry), ("CLIENTS", clients), ("REQUESTS", requests))
    return Variant(STEPS, name, defines, frozenset(map(Property, violated)))


VARIANTS = (
    _steps("unguarded", "NONE", violated=["sequential"]),
    _steps("commits of deltas", "DELTA", violated=["legal", "sequential"]),
    _steps("lock", "LOCK"),
    _steps("lock, three clients", "LOCK", clients=3, requests=1),
    _steps("lock, transitions of hooks are queued", "LOCK", "WAITS", violated=["no deadlock"]),
    _steps("lock, transitions of hooks are refused: the core", "LOCK", "REFUSED"),
    _steps("compare and set", "CAS"),
    _steps("compare and set, three clients", "CAS", clients=3, requests=1),
    _steps("compare and set, with transitions of hooks", "CAS", "WAITS", requests=1),
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

        claimed: list[Property] = [asked for asked in variant.model.properties if asked is not Property.NO_DEADLOCK]
        together = _verify(claims, claimed[0], "-N", TOGETHER)
        if together.verdict == "holds":  # one search instead of one for each claim
            outcomes: dict[Property, Outcome] = dict.fromkeys(claimed, together)
        else:
            outcomes = {asked: _verify(claims, asked, "-N", asked.value.replace(" ", "_")) for asked in claimed}
        return {**outcomes, Property.NO_DEADLOCK: _verify(ends, Property.NO_DEADLOCK)}


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
    model = (files("verification.spin") / variant.model.file).read_text(encoding="utf-8")
    together = " && ".join(f"({claim})" for claim in CLAIM.findall(model))
    (folder / variant.model.file).write_text(f"{model}\nltl {TOGETHER} {{ [] ({together}) }}\n", encoding="utf-8")
    defines = (f"-D{name}={value}" for name, value in variant.defines)
    _run(["spin", "-a", *defines, variant.model.file], folder)
    if not (folder / "pan.c").exists():
        raise SpinFailed(f"spin made no verifier of the variant {variant.name!r}")


def _compile(folder: Path, name: str, *options: str) -> Path:
    # Without optimisation, because compiling takes longer than running.
    _run(["gcc", "-O0", "-w", "-DSAFETY", "-DMEMLIM=512", *options, "-o", name, "pan.c"], folder)
    return folder / name


def _verify(verifier: Path, asked: Property, *options: str) -> Outcome:
    try:
        output = _run([str(verifier), f"-m{DEPTH}", f"-w{SLOTS}", *options], verifier.parent)
    except subprocess.TimeoutExpired:
        return Outcome("unknown", reason=f"it took more than {PATIENCE} seconds")
    return parse(output, asked)


def _run(command: Iterable[str], folder: Path) -> str:
    command = list(command)
    done = subprocess.run(
        command,
        cwd=folder,
        timeout=PATIENCE,
        check=False,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise SpinFailed(f"{command[0]} failed with status {done.returncode}:\n{done.stdout}")
    return done.stdout
