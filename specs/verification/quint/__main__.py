"""Check the module of Quint by simulation, and write example traces in ITF.

    python -m verification.quint             # needs `quint`: npm install @informalsystems/quint
    python -m verification.quint --samples 500

Quint's evaluator in TypeScript is used, which needs neither a JVM nor a network. Its package needs
`"overrides": {"antlr4ts": "0.5.0-alpha.4"}` in package.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

MODULE = Path(__file__).parents[2] / "quint" / "regions.qnt"
TRACES = MODULE.with_name("traces")
SEED, STEPS, WRITTEN = "0x51", 12, 8
FAST = ("--backend", "typescript")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run Quint; the status is 1 if it finds a state that is not legal, 2 if it is not installed."""
    parser = argparse.ArgumentParser(prog="python -m verification.quint", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quint", default="quint", help="the program")
    parser.add_argument("--samples", type=int, default=100, help="how many runs are simulated")
    given = parser.parse_args(arguments)
    program = shutil.which(str(given.quint))
    if program is None:
        print("quint is not installed: npm install @informalsystems/quint", file=sys.stderr)
        return 2
    simulated = ["run", *FAST, "--invariant", "legal", "--max-samples", str(given.samples), "--max-steps", str(STEPS)]
    for asked in (["typecheck"], simulated):
        if (status := subprocess.run([program, *asked, str(MODULE)], check=False).returncode) != 0:
            return min(status, 1)
    with TemporaryDirectory() as temporary:
        out = Path(temporary, "regions_{seq}.itf.json")
        traced = ["run", *FAST, "--mbt", "--seed", SEED, "--n-traces", str(WRITTEN), "--max-samples", str(2 * WRITTEN)]
        command: list[str] = [program, *traced, "--max-steps", str(STEPS), "--out-itf", str(out), str(MODULE)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name, text in _written(Path(temporary)):
            (TRACES / name).write_text(text, encoding="utf-8")
    return 0


def _written(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the traces without what differs between two runs: when and where they were made."""
    for path in sorted(folder.glob("*.itf.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        data["#meta"] = {name: value for name, value in data["#meta"].items() if name.startswith("format")}
        yield path.name, f"{json.dumps(data)}\n"


if __name__ == "__main__":
    sys.exit(main())
