"""Run every small system with and without another caller, in every delivery, and the mutants; the status says if."""

from __future__ import annotations

import argparse
import logging
import sys
from time import monotonic

import anyio

from toolfold_specs.systems import systems

from .deliveries import DELIVERIES
from .mutants import MUTANTS
from .relation import Delivery, leak_of


async def isolated(delivery: Delivery, groups: int, *, whole: bool) -> bool:
    """Print how a delivery isolates the callers of all systems of up to so many groups; return whether it does."""
    began, requests, number, leaks = monotonic(), 0, 0, 0
    for size in range(1, groups + 1):
        for system in systems(size):
            compared, leak = await leak_of(delivery, system, whole=whole)
            requests, number = requests + compared, number + 1
            if leak is not None:
                leaks += 1
                print(leak)
    seconds = monotonic() - began
    print(f"{delivery.name}: {number} systems, {requests:,} requests of B, {leaks} leaks, {seconds:.0f} s", flush=True)
    return not leaks


async def found(name: str, groups: int) -> bool:
    """Print where a mutant is found, and return whether it is."""
    mutant, delivery = MUTANTS[name]
    for system in (system for size in range(1, groups + 1) for system in systems(size)):
        with mutant():
            _, leak = await leak_of(delivery, system)
        if leak is not None:
            print(f"{name} leaks in {delivery.name}, {system}: request {leak.place} of B, {leak.step}", flush=True)
            return True
    print(f"{name} is not found", flush=True)
    return False


async def run(given: argparse.Namespace) -> int:
    """Return the exit status."""
    outcomes = []
    for delivery in DELIVERIES:
        if given.delivery in delivery.name:
            whole = given.whole or (delivery is DELIVERIES[0] and given.groups < 4)
            outcomes.append(await isolated(delivery, given.groups, whole=whole))
    outcomes += [await found(name, given.groups) for name in MUTANTS if given.delivery in MUTANTS[name][1].name]
    return 0 if all(outcomes) else 1


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.isolation", description=__doc__)
    parser.add_argument("--groups", type=int, default=3, help="up to how many groups a system has")
    parser.add_argument("--whole", action="store_true", help="A does its whole script in each state of B, over MCP too")
    parser.add_argument("--delivery", default="", help="only deliveries with this in their name")
    logging.disable()
    return anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
