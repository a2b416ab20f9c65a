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
ROW = re.compile(r" +:: at == at_\w+ && event == on_\w+ ")
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
    ALONE = "alone"
    """One transition at a time runs hooks (SES-2)."""
    IN_ORDER = "in order"
    """No request begins before one that arrived earlier has ended; so they start and commit as they arrive (SES-2)."""
    BALANCED = "balanced"
    """When nobody is at work, what hooks have opened outside is what is open (HOOK-4, HOOK-5)."""
    NESTED = "nested"
    """At any time, what hooks have opened is within what they have opened (HOOK-3, HOOK-5)."""
    PAIRED = "paired"
    """No hook opens what is open, or closes what is closed (HOOK-5)."""
    GIVEN_UP = "given up"
    """Nothing is committed for a caller who was cancelled, unless it is forced (HOOK-6, HOOK-8)."""
    ROWS = "rows"
    """Each event has a row (ACT-11, HOOK-10)."""


@frozen
class Model:
    """A model: a file of SPIN, and what is asked of it."""

    file: str
    properties: tuple[Property, ...]


STEPS = Model("activation.pml", (Property.LEGAL, Property.SEQUENTIAL, Property.NO_DEADLOCK))
LIFE = Model("life.pml", tuple(Property))


@frozen
class Variant:
    """A model with definitions, which it describes, and the properties that are expected to be violated then."""

    model: Model
    name: str
    defines: tuple[tuple[str, str | int], ...]
    violated: frozenset[Property] = frozenset()
    only_violated: bool = False
    """Whether nothing else is asked, since a search that finds nothing takes long."""

    @property
    def asked(self) -> tuple[Property, ...]:
        """What is asked of it."""
        return tuple(one for one in self.model.properties if one in self.violated or not self.only_violated)

    def expected(self, asked: Property) -> Verdict:
        """Return the expected verdict."""
        return "violated" if asked in self.violated else "holds"


def _steps(
    name: str, protocol: str, reentry: str = "NEVER", clients: int = 2, requests: int = 2, violated: Iterable[str] = ()
) -> Variant:
    defines = (("PROTOCOL", protocol), ("REENTRY", reentry), ("CLIENTS", clients), ("REQUESTS", requests))
    return Variant(STEPS, name, defines, frozenset(map(Property, violated)))


def _life(name: str, what: str, violated: str, clients: int = 1, catalogs: int = 1) -> Variant:
    """Return a variant that leaves something out; of three clients, few hooks run."""
    defines: tuple[tuple[str, str | int], ...] = (("VARIANT", what), ("CLIENTS", clients), ("CATALOGS", catalogs))
    few: tuple[tuple[str, str | int], ...] = (("FEW", 1),) if clients > 2 else ()
    return Variant(LIFE, name, (*defines, *few), frozenset([Property(violated)]), only_violated=True)


def _faithful(name: str, *defines: tuple[str, int]) -> Variant:
    return Variant(LIFE, name, (("VARIANT", "FAITHFUL"), *defines))


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
    _faithful("the core: one client, two requests, two catalogs", ("CLIENTS", 1), ("REQUESTS", 2), ("CATALOGS", 2)),
    _faithful("the core: two clients", ("CLIENTS", 2)),
    _faithful("the core: three clients, few hooks", ("CLIENTS", 3), ("CATALOGS", 0), ("FEW", 1)),
    _life("a setup that fails is forgiven", "FORGIVEN", "balanced"),
    _life("a setup that was cancelled is not undone", "FORGOTTEN", "balanced"),
    _life("a rollback ends after its first hook", "UNDOES_ONE", "balanced"),
    _life("a void plan is not undone before the next one", "NOT_UNDONE", "paired"),
    _life("a plan that is refused by now is saved", "SAVED_OVER", "legal"),
    _life("a plan is saved whatever the catalog is", "OLD_CATALOG", "sequential"),
    _life("hooks are undone in the order in which they ran", "UNDOES_FIRST", "nested"),
    _life("the hook that failed is undone, too", "UNDOES_FAILED", "paired"),
    _life("a rollback stops when it is cancelled", "UNSHIELDED", "balanced"),
    _life("a plan is made again for who was cancelled", "PLANS_AGAIN", "given up"),
    _life("an event has no row", "ROW_LESS", "rows"),
    _life("nobody waits", "NO_QUEUE", "alone", 3, 0),
    _life("whoever comes first is next", "OVERTAKEN", "in order", 3, 0),
    _life("plans are made on arrival", "EARLY_PLAN", "sequential", 3, 0),
    _life("who is cancelled as its turn comes keeps it", "KEPT_PLACE", "no deadlock", 3, 0),
    _life("who is cancelled while it waits keeps its place", "LEFT_WAITING", "no deadlock", 3, 0),
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
    """Return the outcome of every property that is asked of one variant; raises `SpinFailed`."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _generate(variant, folder)
        outcomes = dict[Property, Outcome]()
        claimed = [asked for asked in variant.asked if asked is not Property.NO_DEADLOCK]
        if claimed:
            verifier = _compile(folder, "claims")
            together = _verify(verifier, claimed[0], "-N", TOGETHER) if len(claimed) > 1 else None
            if together is not None and together.verdict == "holds":  # one search instead of one for each claim
                outcomes.update(dict.fromkeys(claimed, together))
            else:
                outcomes.update({one: _verify(verifier, one, "-N", one.value.replace(" ", "_")) for one in claimed})
        if Property.NO_DEADLOCK in variant.asked:
            verifier = _compile(folder, "ends", "-DNOCLAIM")  # one with claims does not check for deadlocks
            outcomes[Property.NO_DEADLOCK] = _verify(verifier, Property.NO_DEADLOCK)
        return {asked: outcomes[asked] for asked in variant.asked}


def unused_rows(variant: Variant) -> frozenset[str]:
    """Return the rows of the table, as a model has them, that no run of a variant uses; raises `SpinFailed`."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        text = _generate(variant, folder, "-o3").splitlines()  # without merging, what is unreached is said of each line
        verifier = _compile(folder, "ends", "-DNOCLAIM")
        output = _run([str(verifier), f"-m{DEPTH}", f"-w{SLOTS}"], folder)
        if parse(output, Property.NO_DEADLOCK).verdict != "holds":
            raise SpinFailed(f"the search of {variant.name!r} has not ended:\n{output}")
        lines = {int(number) for number in re.findall(r"^\t\S+:(\d+), state \d+, \"at = ", output, re.MULTILINE)}
        return frozenset(line.strip() for number, line in enumerate(text, 1) if number in lines and ROW.match(line))


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


def _generate(variant: Variant, folder: Path, *options: str) -> str:
    """Make a verifier of a variant, and return its model."""
    model = (files("verification.spin") / variant.model.file).read_text(encoding="utf-8")
    together = " && ".join(f"({claim})" for claim in CLAIM.findall(model))
    (folder / variant.model.file).write_text(f"{model}\nltl {TOGETHER} {{ [] ({together}) }}\n", encoding="utf-8")
    defines = (f"-D{name}={value}" for name, value in variant.defines)
    _run(["spin", "-a", *options, *defines, variant.model.file], folder)
    if not (folder / "pan.c").exists():
        raise SpinFailed(f"spin made no verifier of the variant {variant.name!r}")
    return model


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
