"""Check the modules of Quint by simulation, and write example traces in ITF.

    python -m verification.quint             # needs `quint`: npm install @informalsystems/quint
    python -m verification.quint --samples 500
    python -m verification.quint --check     # write no traces

Quint's evaluator in TypeScript is used, which needs neither a JVM nor a network. Its package needs
`"overrides": {"antlr4ts": "0.5.0-alpha.4"}` in package.json. What simulation does not find may still be there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parents[2] / "quint"
REGIONS, LIFE = FOLDER / "regions.qnt", FOLDER / "life.qnt"
TRACES = FOLDER / "traces"
SEED = "0x51"
FAST = ("--backend", "typescript", "--seed", SEED, "--verbosity", "1")
FOUND = "[violation]"
STEPS = "12"
"""How long the traces of regions are."""
WRITTEN: Mapping[str, int] = {"step": 8, "single": 4}
"""How many of them are written whose requests are of several groups, and of one: servers over MCP know no others."""
VIOLATED: Mapping[str, str] = {
    "noLease": "exclusive",
    "noIntent": "balanced",
    "oldPlans": "commits",
    "pauseInAHook": "exclusive",
    "recordedLate": "balanced",
    "recordedFirst": "begunOnly",
    "removedLate": "noIntentLeft",
    "givenUp": "balanced",
    "forgiven": "balanced",
    "forgotten": "balanced",
    "undoesOne": "balanced",
    "savedOver": "safe",
}
"""The variants of the life of a transition that are broken, and what simulation finds to be violated."""


def simulated(program: str, module: Path, invariant: str, samples: int, *options: str) -> str:
    """Return what Quint prints of a simulation; the first line says whether the invariant was violated."""
    asked = ["--invariant", invariant, "--max-samples", str(samples), *options]
    run = subprocess.run(
        [program, "run", *FAST, *asked, str(module)], check=False, capture_output=True, text=True, encoding="utf-8"
    )
    return run.stdout + run.stderr


def holds(printed: str) -> bool:
    """Return whether nothing was found."""
    return printed.startswith("[ok]")


def wrong(program: str, samples: int) -> Iterator[str]:
    """Yield what is not as expected: an invariant that is violated, or a broken variant in which none is."""
    for module in (REGIONS, LIFE):
        typed = subprocess.run(
            [program, "typecheck", str(module)], check=False, capture_output=True, text=True, encoding="utf-8"
        )
        if typed.returncode != 0:
            yield f"{module.name}: {typed.stdout}{typed.stderr}"
            return
    for module, invariant, steps in ((REGIONS, "legal", STEPS), (LIFE, "safe", "60")):
        if not holds(printed := simulated(program, module, invariant, samples, "--max-steps", steps)):
            yield f"{module.name}: {invariant}: {printed}"
    alone = simulated(program, LIFE, "safe", samples // 5 or 1, "--init", "alone", "--max-steps", "40")
    if not holds(alone):
        yield f"{LIFE.name}, of one process: {alone}"
    for variant, invariant in VIOLATED.items():
        printed = simulated(program, LIFE, invariant, 400, "--init", variant, "--max-steps", "50")
        if not printed.startswith(FOUND):
            yield f"{variant}: {invariant} is not found to be violated: {printed}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run Quint; the status is 1 if something is not as expected, 2 if it is not installed."""
    parser = argparse.ArgumentParser(prog="python -m verification.quint", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quint", default="quint", help="the program")
    parser.add_argument("--samples", type=int, default=100, help="how many runs are simulated")
    parser.add_argument("--check", action="store_true", help="write no traces")
    given = parser.parse_args(arguments)
    program = shutil.which(str(given.quint))
    if program is None:
        print("quint is not installed: npm install @informalsystems/quint", file=sys.stderr)
        return 2
    found = list(wrong(program, given.samples))
    print("\n".join(found) or f"as expected: 2 modules, and {len(VIOLATED)} broken variants that are found")
    if found or given.check:
        return int(bool(found))
    for file, text in traces(program):
        (TRACES / file).write_text(text, encoding="utf-8")
    return 0


def traces(program: str) -> Iterator[tuple[str, str]]:
    """Yield the traces of regions without what differs between two runs: when and where they were made."""
    with TemporaryDirectory() as temporary:
        for action, count in WRITTEN.items():
            name = "regions" if action == "step" else action
            out = Path(temporary, f"{name}_{{seq}}.itf.json")
            counted = ["--n-traces", str(count), "--max-samples", str(2 * count), "--out-itf", str(out)]
            asked = ["--mbt", "--step", action, *counted, "--max-steps", STEPS]
            subprocess.run([program, "run", *FAST, *asked, str(REGIONS)], check=True, stdout=subprocess.DEVNULL)
        for path in sorted(Path(temporary).glob("*.itf.json")):
            data = json.loads(path.read_text(encoding="utf-8"))
            data["#meta"] = {key: value for key, value in data["#meta"].items() if key.startswith("format")}
            yield path.name, f"{json.dumps(data)}\n"


if __name__ == "__main__":
    sys.exit(main())
