"""Compare every conversation before and after every transition of every small system with the table of prefixes."""

from __future__ import annotations

import argparse
import logging
import sys

import anyio

from toolfold_specs.prefixes import TABLE
from toolfold_specs.systems import systems

from .proving import proof_of


async def run(groups: int) -> int:
    """Return the exit status."""
    wrong = 0
    for delivery in TABLE:
        proofs = [await proof_of(delivery, system) for size in range(1, groups + 1) for system in systems(size)]
        violations = [violation for proof in proofs for violation in proof.violations]
        transitions, broken = sum(proof.transitions for proof in proofs), sum(proof.broken for proof in proofs)
        print(f"{delivery}: {len(proofs)} systems, {transitions:,} transitions, {broken:,} prefixes broken", flush=True)
        print(*violations, sep="\n", end="\n" if violations else "")
        wrong += len(violations)
    return 1 if wrong else 0


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.prefixes", description=__doc__)
    parser.add_argument("--groups", type=int, default=3, help="up to how many groups a system has")
    logging.disable()
    return anyio.run(run, parser.parse_args().groups)


if __name__ == "__main__":
    sys.exit(main())
