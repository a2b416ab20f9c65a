"""The command: `python -m verification.spin`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from time import perf_counter

from verification.spin.checking import (
    INSTALL,
    VARIANTS,
    Outcome,
    Property,
    SpinFailed,
    Variant,
    check_all,
    missing,
)


def main(arguments: Sequence[str] | None = None, variants: Sequence[Variant] = VARIANTS) -> int:
    """Check the model and print the outcomes; return 0, 1 if one is unexpected, or 2 if a program is missing."""
    argparse.ArgumentParser(
        prog="python -m verification.spin",
        description="Check concurrent transitions with SPIN.",
        epilog="Exit status: 0 if every outcome is as expected, 1 if not, 2 if spin or gcc is missing.",
    ).parse_args(arguments)
    if lacking := missing():
        print(f"The model checker needs {' and '.join(lacking)}. Install them; {INSTALL}.", file=sys.stderr)
        return 2
    start = perf_counter()
    try:
        results = check_all(variants)
    except SpinFailed as error:
        print(error, file=sys.stderr)
        return 1
    unexpected = [
        f"UNEXPECTED: {variant.name}: {asked.value} {outcome.verdict}, expected {variant.expected(asked)}"
        for variant, outcomes in results.items()
        for asked, outcome in outcomes.items()
        if outcome.verdict != variant.expected(asked)
    ]
    print(as_text(results), "", *unexpected, sep="\n")
    count = sum(map(len, results.values()))
    print(f"{count - len(unexpected)} of {count} outcomes as expected, in {perf_counter() - start:.0f} s.")
    return 1 if unexpected else 0


def as_text(results: Mapping[Variant, Mapping[Property, Outcome]]) -> str:
    """Return the outcomes as text: a line for each variant, with the properties that have the same one together."""
    width = max(len(variant.name) for variant in results)
    return "\n".join(f"{variant.name.ljust(width)}  {_said(outcomes)}" for variant, outcomes in results.items())


def _said(outcomes: Mapping[Property, Outcome]) -> str:
    same = dict[str, list[str]]()
    for asked, outcome in outcomes.items():
        same.setdefault(_cell(outcome), []).append(asked.value)
    return "; ".join(f"{', '.join(properties)}: {found}" for found, properties in same.items())


def _cell(outcome: Outcome) -> str:
    if outcome.verdict == "violated":
        return f"violated at depth {outcome.depth}"
    return f"{outcome.verdict}: {outcome.reason}" if outcome.reason else f"{outcome.verdict} ({outcome.states} states)"


if __name__ == "__main__":
    sys.exit(main())
