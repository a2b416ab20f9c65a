"""`toolfold conform`: the kit on the command line (SPEC CNF-2)."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolfold import MissingExtra
from toolfold.extras import extras_named

if TYPE_CHECKING:
    from .kit import Factory
    from .report import Report
    from .targets import Era, Target

CANNOT = 2
SMOKE_LAYERS = ("exhaustive",)
SMOKE = 674
"""How many operations the systems of up to three groups take; the layer begins with the smallest."""
_COMMAND = "toolfold.conform.command"
BOTH = "both"


class CannotRun(click.ClickException):
    """Nothing can be said about the target: ends the program with status 2 and a paragraph on standard error."""

    exit_code = CANNOT

    def show(self, file: Any = None) -> None:
        """Print the paragraph."""
        click.echo(f"toolfold: {self.message}", file=file or sys.stderr)


class ConformCommand(click.Command):
    """A command that works on a TARGET, or on what follows `--`: the command that starts an MCP server."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set aside what follows `--`, before click takes it for arguments."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[place + 1 :])
            if not ctx.meta[_COMMAND]:
                raise click.UsageError("Nothing follows --; write the command that starts an MCP server there.", ctx)
            args = args[:place]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the two forms of the command."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] TARGET")
        formatter.write_usage(ctx.command_path, "[OPTIONS] -- COMMAND...")


EXAMPLES = """\b
Examples:
  toolfold conform shop.conformance:ShopDriver           through a driver, in process
  toolfold conform shop:tools                            a ToolSet, as clients see it
  toolfold conform --smoke shop.conformance:ShopDriver   the smallest systems alone
  toolfold conform https://example.org/mcp --era modern
  toolfold conform --describe groups.toml -- npx -y some-mcp-server
  toolfold conform shop:tools -o reports
  toolfold conform shop:tools --replay reports/failure.json"""

_file = click.Path(path_type=Path, dir_okay=False)


@click.command(
    "conform",
    cls=ConformCommand,
    short_help="Check an implementation against the specification.",
    epilog=EXAMPLES,
)
@click.argument("target", required=False, metavar="[TARGET]")
@click.option("--era", type=click.Choice(["legacy", "modern", BOTH]), help="The era of MCP to speak.")
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http", BOTH, "in-process"]),
    help="How to reach the target.",
)
@click.option("--layers", metavar="NAMES", help="Run these layers of checks alone, by commas.")
@click.option("--smoke", is_flag=True, help="Try the smallest systems alone; this takes seconds.")
@click.option("--deep", is_flag=True, help="Look further than usual; this takes minutes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of whatever is random.")
@click.option(
    "--expected-failures", "expected", type=_file, metavar="FILE", help="A .toml file of clauses that do not hold yet."
)
@click.option("--replay", "recorded", type=_file, metavar="FILE", help="Try the violation in a failure.json again.")
@click.option("--describe", type=_file, metavar="FILE", help="A .toml file that describes a server's groups.")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write reports."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.option("--list-checks", is_flag=True, help="Print the checks and end.")
@click.option("--list-clauses", is_flag=True, help="Print the clauses, with the checks of each, and end.")
@click.option("--traceback", "with_traceback", is_flag=True, help="Show where in the code the kit failed.")
@click.pass_context
def conform(ctx: click.Context, /, target: str | None, **said: Any) -> None:
    """Check a TARGET against the specification, clause by clause.

    TARGET is module:attribute or path/to/file.py:attribute (a Driver of the kit, a function that makes one, or a
    ToolSet), a .toml file, or the URL of an MCP server; after -- comes the command that starts one. What is not said of
    --era and --transport is tried, and left out if the target does not have it. The status is 0 if every MUST that
    applies holds, 1 if one is violated, 2 if nothing could be checked.
    """
    with _in_words(said.pop("with_traceback")):
        layers = _layers(ctx, said.pop("layers"))
        as_json, checks, clauses = said["as_json"], said.pop("list_checks"), said.pop("list_clauses")
        if checks:
            _list_checks(layers, as_json)
        elif clauses:
            _list_clauses(layers, as_json)
        elif said["smoke"] and (said["deep"] or layers):
            raise click.UsageError("--smoke chooses what runs: leave out --deep and --layers.", ctx)
        else:
            ctx.exit(_conform(_chosen(ctx, target), layers, **said))


def _chosen(ctx: click.Context, text: str | None) -> Target:
    from .targets import FORMS, Target

    command = ctx.meta.get(_COMMAND, ())
    if text is not None and command:
        raise click.UsageError(f"There is a TARGET, {text}, and a command: leave one of them out.", ctx)
    if text is None and not command:
        raise click.UsageError(f"There is no TARGET. It is {FORMS}.", ctx)
    return Target(text, command)


def _layers(ctx: click.Context, names: str | None) -> tuple[str, ...] | None:
    from .checks import LAYERS

    if names is None:
        return None
    chosen = tuple(name.strip() for name in names.split(",") if name.strip())
    if unknown := [name for name in chosen if name not in LAYERS]:
        raise click.UsageError(f"There is no layer {unknown[0]!r}; there are {', '.join(LAYERS)}.", ctx)
    return chosen


def _conform(
    target: Target,
    layers: Sequence[str] | None,
    *,
    era: str | None,
    transport: str | None,
    smoke: bool,
    deep: bool,
    seed: int,
    expected: Path | None,
    recorded: Path | None,
    describe: Path | None,
    folder: Path | None,
    as_json: bool,
) -> int:
    """Return the exit status, after running the kit or replaying a violation."""
    from .targets import ERAS, IN_PROCESS, TRANSPORTS, settings

    eras: list[Era] = [name for name in ERAS if era in (None, BOTH, name)]
    there: tuple[str, ...] = (*TRANSPORTS, IN_PROCESS)
    transports = TRANSPORTS if transport == BOTH else [name for name in there if transport in (None, name)]
    with settings(target, eras, transports, describe) as found, _quiet():
        if recorded is not None:
            return _replay(recorded, found.factories)
        from .kit import check
        from .progress import shown_progress

        with shown_progress() as progress:
            report = check(
                found.factories,
                layers=SMOKE_LAYERS if smoke else layers,
                budget=SMOKE if smoke else None,
                deep=deep,
                seed=seed,
                expected=expected,
                target=target.name,
                optional=era is None and transport is None,
                progress=progress,
            )
    _give(report, folder, target, as_json)
    return report.exit_status


def _give(report: Report, folder: Path | None, target: Target, as_json: bool) -> None:
    """Print the report, and write it if that was asked for."""
    from .render import jsonl, write_reports
    from .render.text import show

    if as_json:
        click.echo(jsonl(report), nl=False)
    elif report.ran:
        show(report, _console())
    if folder is not None:
        write_reports(report, folder)
        click.echo(f"toolfold: reports in {folder}", err=True)
        if report.violations:
            again = f"toolfold conform --replay {folder / 'failure.json'} {target.name}"
            click.echo(f"toolfold: to see the first violation again: {again}", err=True)
    if not report.ran:
        reasons = dict.fromkeys(f"{result.setting}: {result.reason}" for result in report.results)
        raise CannotRun("\n".join(("Nothing could be checked.", *(reasons or ("There are no checks.",)))))


def _replay(path: Path, factories: Mapping[str, Factory]) -> int:
    """Return 1 if a recorded violation shows again in its setting, or in any if that is not there; otherwise 0."""
    from .driver import TargetFailed
    from .render.story import found_by, plain, steps
    from .replay import read_failure, replay

    recorded = read_failure(path)
    for warning in _other_kit(recorded.header):
        click.echo(f"toolfold: warning: {warning}", err=True)
    violation = recorded.violation
    there = [violation.setting] if violation.setting in factories else list(factories)
    for setting in there:
        driver = factories[setting]()
        driver.name = setting
        try:
            shown = replay(violation, driver, seed=recorded.seed, deep=recorded.deep)
        except TargetFailed as error:
            click.echo(f"The target failed ({setting}): {plain(str(error))}")
            return 1
        finally:
            driver.close()
        if shown is not None:
            click.echo(f"Reproduced: {shown.clause} is violated ({found_by(shown)}): {plain(shown.message)}")
            click.echo("\n".join(f"  {line}" for line in steps(shown)))
            return 1
    click.echo(f"Not reproduced: {violation.clause} does not show to be violated any more ({' / '.join(there)}).")
    return 0


def _other_kit(header: Mapping[str, str]) -> list[str]:
    from .clauses import load_revision
    from .kit import kit_version

    now = {"spec": ("revision of the specification", load_revision()), "kit": ("version of the kit", kit_version())}
    return [
        f"it was recorded with {what} {header[name]}, and this is {present}."
        for name, (what, present) in now.items()
        if header.get(name, present) != present
    ]


# -- lists ------------------------------------------------------------------------------------------------------------


def _list_checks(layers: Sequence[str] | None, as_json: bool) -> None:
    from .layers import all_checks

    checks = [
        {"name": check.name, "layer": check.layer, "clauses": list(check.clauses), "needs": sorted(check.needs)}
        for check in all_checks(layers)
    ]
    columns = {"layer": "LAYER", "name": "CHECK", "clauses": "CLAUSES", "needs": "NEEDS"}
    _list(checks, columns, as_json)


def _list_clauses(layers: Sequence[str] | None, as_json: bool) -> None:
    from .clauses import load_clauses
    from .layers import all_checks

    checks = all_checks(layers)
    clauses = [
        {
            "id": clause.id,
            "level": clause.level,
            "checks": [check.name for check in checks if clause.id in check.clauses],
            "text": clause.text if as_json else clause.summary,
        }
        for clause in load_clauses()
    ]
    _list(clauses, {"id": "CLAUSE", "level": "LEVEL", "text": "SAYS", "checks": "CHECKS"}, as_json)


def _list(entries: Sequence[Mapping[str, Any]], columns: Mapping[str, str], as_json: bool) -> None:
    import json

    if as_json:
        click.echo(json.dumps(entries, indent=2))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in columns.values():
        table.add_column(heading, overflow="fold")
    for entry in entries:
        cells = (entry[name] for name in columns)
        table.add_row(*(cell if isinstance(cell, str) else ", ".join(cell) or "-" for cell in cells))
    console = _console()
    with console.capture() as printed:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def _console() -> Any:
    from rich.console import Console

    made = Console(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = 160
    return made


# -- how it ends ------------------------------------------------------------------------------------------------------


@contextmanager
def _in_words(with_traceback: bool) -> Generator[None]:
    """Turn what keeps the kit from running into `CannotRun`."""
    try:
        with extras_named():
            yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except BrokenPipeError:
        raise
    except Exception as error:
        if with_traceback or _debugging():
            traceback.print_exception(error)
        raise CannotRun(_said(error)) from error


@contextmanager
def _quiet() -> Generator[None]:
    """Keep what an implementation logs to itself: the kit makes its handlers and hooks fail on purpose."""
    before = logging.root.manager.disable
    if not _debugging():
        logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def _debugging() -> bool:
    return os.environ.get("TOOLFOLD_DEBUG", "") not in ("", "0")


def _said(error: Exception) -> str:
    from .driver import TargetFailed
    from .expected import ExpectationError
    from .replay import ReplayError
    from .targets import TargetError

    if isinstance(error, MissingExtra | TargetFailed | ExpectationError | ReplayError | TargetError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}. Use --traceback to see where."
