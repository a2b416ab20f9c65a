"""The kit as a command of its own, where `toolfold` is not installed: `python -m toolfold_specs`, `toolfold-conform`.

It checks any MCP server, or a program that speaks the driver protocol. `toolfold conform` can do more, such as replay.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from .checks import LAYERS, SMOKE, Options
from .clauses import aimed_at
from .driver import DriverFault, TargetFailed
from .drivers.description import Description, DescriptionError, load
from .drivers.piped import PipedDriver
from .drivers.protocol import ERAS
from .expected import ExpectationError
from .kit import KitRun
from .render import jsonl, trace, write_reports
from .report import Violation
from .targets import Factory, factories_of

NO_VERDICT = 2
"""The exit status where nothing could be decided."""
EPILOG = (
    "The status is 0 if every applicable MUST of the levels in --profile holds, 1 if one is violated, "
    f"{NO_VERDICT} if the kit could not decide."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check what the arguments name, print a report, and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    words, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = _parser()
    given = parser.parse_args(words)
    if bool(command) == bool(given.target):
        parser.error("name one target: a URL, module:attribute, or a command after --")
    try:
        return _check(given, command)
    except (TargetFailed, DriverFault, DescriptionError, ExpectationError, ImportError, TypeError, ValueError) as error:
        print(f"toolfold-conform: {error}", file=sys.stderr)
        return NO_VERDICT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolfold-conform", description="Check a server against the specification, by clause.", epilog=EPILOG
    )
    parser.add_argument("target", nargs="?", help="a URL or module:attribute; a command comes last, after --")
    parser.add_argument("--era", choices=ERAS, help="the era of MCP to speak; both by default")
    parser.add_argument("--describe", type=Path, metavar="FILE", help="a .toml file that describes a server's groups")
    parser.add_argument("--driver", action="store_true", help="the command speaks the driver protocol")
    parser.add_argument("--profile", default="state", metavar="NAMES", help="levels of conformance, or all")
    parser.add_argument("--layers", metavar="NAMES", help=f"only these of {', '.join(LAYERS)}")
    parser.add_argument("--smoke", action="store_true", help="check only the smallest systems")
    parser.add_argument("--deep", action="store_true", help="search further than usual")
    parser.add_argument("--seed", type=int, default=0, help="the seed of everything random")
    parser.add_argument("--expected-failures", type=Path, metavar="FILE", help="clauses that do not hold yet")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write reports")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    return parser


def _check(given: argparse.Namespace, command: Sequence[str]) -> int:
    layers = None if given.layers is None else tuple(given.layers.split(","))
    chosen: dict[str, Any] = {**(SMOKE if given.smoke else {"layers": layers}), "deep": given.deep, "seed": given.seed}
    options = Options(
        **chosen,
        expected=given.expected_failures,
        target=given.target or " ".join(command),
        optional=given.era is None and not given.driver,
        profiles=aimed_at(given.profile.split(",")),
        at_once=os.cpu_count() or 1,
        found=_print,
    )
    report = KitRun(_factories(given, command), options).perform()
    if given.json:
        print(jsonl(report), end="")
    else:
        from .render.text import text

        print(text(report), end="")
    if given.output is not None:
        write_reports(report, given.output)
    return report.exit_status if report.ran else NO_VERDICT


def _factories(given: argparse.Namespace, command: Sequence[str]) -> Mapping[str, Factory]:
    """Return what makes drivers, by setting."""
    if given.driver:
        return {PipedDriver.name: partial(PipedDriver, tuple(command))}
    target: Any = given.target
    if target is not None and "://" not in target and ":" in target:
        sys.path.insert(0, os.fspath(Path.cwd()))
        module, _, attribute = target.partition(":")
        target = getattr(import_module(module), attribute)
    description: Description | None = None if given.describe is None else load(given.describe)
    made = factories_of(target or tuple(command), description)
    return {name: make for name, make in made.items() if given.era is None or name.endswith(given.era)}


def _print(violation: Violation) -> None:
    print(trace.finding(violation), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
