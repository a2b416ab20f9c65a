"""`toolfold conform`: checks an implementation with the kit (SPEC CNF-2)."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define

from toolfold_adapters.tokens import plural

from .drivers import (
    BUILT_BY,
    IN_PROCESS,
    NOTICE_GRACE,
    RESPONSE_TIMEOUT,
    START_TIMEOUT,
    TRANSPORTS,
    driver_factories,
    remote_driver,
    write_starter,
)
from .failures import Failed, debugging, escaped, failing
from .options import FILE, FOLDER, Number, OneOf, TargetCommand, chosen_target, examples, names_in, target_options
from .printing import console, show, show_json, table
from .runs import Ended, watched
from .targets import Target

if TYPE_CHECKING:
    from toolfold_specs import Report
    from toolfold_specs.drivers.protocol import Era
    from toolfold_specs.kit import KitRun
    from toolfold_specs.report import Result, Violation
    from toolfold_specs.targets import Factory

    from .runs import Progress

TIMEOUT = 600.0
DEEP_TIMEOUT = 3600.0
ERAS: tuple[Era, ...] = ("legacy", "modern")
BOTH = "both"
WIDTH = 160
"""The width of reports in characters where there is no terminal."""
_SECONDS = partial(click.option, type=Number(0, min_open=True), metavar="SECONDS", show_default=True)


class NothingChecked(Failed):
    """The target could not be checked: exits with status 2."""

    exit_code = 2


@click.command(
    "conform",
    cls=TargetCommand,
    epilog=examples(
        "toolfold conform engine:Engine                         through a driver, in process",
        "toolfold conform shop:tools                            a ToolSet, as clients see it",
        "toolfold conform --smoke engine:Engine                 only the smallest systems",
        "toolfold conform https://example.org/mcp --era modern",
        "toolfold conform --describe groups.toml -- npx -y some-mcp-server",
        "toolfold conform --driver -- node driver.ts            a command that speaks the driver protocol",
        "toolfold conform --starter go conformance              write such a driver to a folder",
        "toolfold conform shop:tools -o reports",
        "toolfold conform shop:tools --replay reports/failure.json",
        "toolfold conform --itf trace.itf.json engine:Engine    a trace of Quint",
    ),
)
@target_options
@click.option("--era", type=OneOf([*ERAS, BOTH]), help="The era of MCP to speak.")
@click.option("--transport", type=OneOf([*TRANSPORTS, BOTH, IN_PROCESS]), help="The transport that reaches the target.")
@click.option(
    "--driver", "speaks_driver", is_flag=True, help="The command, or a tool of the server, speaks the driver protocol."
)
@click.option(
    "--profile",
    "--level",
    "profiles",
    default="state",
    show_default=True,
    metavar="NAMES",
    help="The levels of conformance to check, separated by commas: state, hooks, sessions, delivery, mcp, style, or "
    "all.",
)
@click.option("--layers", metavar="NAMES", help="Run only these layers of checks, separated by commas.")
@click.option("--smoke", is_flag=True, help="Check only the smallest systems; this takes seconds.")
@click.option("--deep", is_flag=True, help="Search further than usual; this takes minutes.")
@_SECONDS(
    "--timeout",
    help=f"End the run after this time, and report what was found until then.  [default: {TIMEOUT:g}, with --deep "
    f"{DEEP_TIMEOUT:g}]",
)
@_SECONDS(
    "--response-timeout",
    default=RESPONSE_TIMEOUT,
    help="A request that is not answered within this time has failed.",
)
@_SECONDS(
    "--start-timeout",
    default=START_TIMEOUT,
    help="A server or driver that is not ready within this time after its start has failed.",
)
@_SECONDS(
    "--notice-grace",
    default=NOTICE_GRACE,
    help="How long a notice of a changed list may come after the answer that it belongs to.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of everything random.")
@click.option(
    "--expected-failures", "expected", type=FILE, metavar="FILE", help="A .toml file of clauses that do not hold yet."
)
@click.option("--replay", "recorded", type=FILE, metavar="FILE", help="Replay the violation in a failure.json.")
@click.option("--itf", type=FILE, metavar="FILE", help="Replay a trace of Quint or Apalache, in ITF.")
@click.option("--describe", type=FILE, metavar="FILE", help="A .toml file that describes a server's groups.")
@click.option("-o", "--output", "folder", type=FOLDER, metavar="DIR", help="Write reports.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.option(
    "--starter", type=OneOf([*BUILT_BY]), help="Write a driver in this language to the folder that is given as TARGET."
)
@click.option("--list-checks", is_flag=True, help="Print the checks and exit.")
@click.option("--list-clauses", is_flag=True, help="Print the clauses, with the checks of each, and exit.")
@click.pass_context
def conform_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    app_dir: Path | None,
    layers: str | None,
    profiles: str,
    starter: str | None,
    **given: Any,
) -> None:
    """Check a TARGET against the specification, clause by clause.

    TARGET is module:attribute or path/to/file.py:attribute (a Driver of the kit, a function that makes one, or a
    ToolSet), a .toml file, or the URL of an MCP server; after -- comes the command that starts one, or with --driver a
    command that speaks the driver protocol over stdio. Without --era and --transport, all are tried, and those that the
    target does not support are skipped. The status is 0 if every applicable MUST of the levels in --profile holds, 1 if
    one is violated, 2 if the kit could not decide.
    """
    with _failing():
        chosen = _layers(ctx, layers)
        checks, clauses = given.pop("list_checks"), given.pop("list_clauses")
        if starter is not None:
            if len(targets) != 1:
                raise click.UsageError("--starter is followed by one folder to write to.", ctx)
            click.echo(write_starter(starter, Path(targets[0])))
        elif checks:
            _list_checks(chosen, given["as_json"])
        elif clauses:
            _list_clauses(chosen, given["as_json"])
        elif given["smoke"] and (given["deep"] or chosen):
            raise click.UsageError("--smoke chooses what runs: leave out --deep and --layers.", ctx)
        else:
            target, _ = chosen_target(ctx, targets, app_dir=app_dir)
            ctx.exit(_conform(target, chosen, _profiles(ctx, profiles), app_dir=app_dir, **given))


def _layers(ctx: click.Context, names: str | None) -> tuple[str, ...] | None:
    from toolfold_specs.checks import LAYERS

    if names is None:
        return None
    chosen = names_in(names)
    if unknown := [name for name in chosen if name not in LAYERS]:
        raise click.UsageError(f"There is no layer {unknown[0]!r}; there are {', '.join(LAYERS)}.", ctx)
    return chosen


def _profiles(ctx: click.Context, names: str) -> tuple[str, ...]:
    from toolfold_specs.clauses import aimed_at

    try:
        return aimed_at(names_in(names) or ("",))
    except ValueError as error:
        raise click.UsageError(f"{str(error).capitalize()}.", ctx) from error


def _conform(
    target: Target,
    layers: Sequence[str] | None,
    profiles: Sequence[str],
    *,
    app_dir: Path | None,
    era: str | None,
    transport: str | None,
    speaks_driver: bool,
    smoke: bool,
    deep: bool,
    timeout: float | None,
    response_timeout: float,
    start_timeout: float,
    notice_grace: float,
    seed: int,
    expected: Path | None,
    recorded: Path | None,
    itf: Path | None,
    describe: Path | None,
    folder: Path | None,
    as_json: bool,
) -> int:
    """Return the exit status, after running the kit or replaying a violation."""
    from toolfold_specs.checks import SMOKE, Options
    from toolfold_specs.kit import KitRun

    from .runs import show_progress

    eras: list[Era] = [name for name in ERAS if era in (None, BOTH, name)]
    choices = TRANSPORTS if transport == BOTH else (*TRANSPORTS, IN_PROCESS)
    transports = [name for name in choices if transport in (None, BOTH, name)]
    limit = timeout or (DEEP_TIMEOUT if deep else TIMEOUT)
    arguments = f"--driver {target.arguments}" if speaks_driver else target.arguments
    times = {"timeout": response_timeout, "start_timeout": start_timeout}
    if speaks_driver:
        made = remote_driver(target, (era, transport, describe) == (None, None, None), **times)
    else:
        made = driver_factories(target, eras, transports, describe, **times, grace=notice_grace)
    named = {"response_timeout": response_timeout, "start_timeout": start_timeout, "notice_grace": notice_grace}
    options = _repeated(app_dir=app_dir, describe=describe, **named)
    output = _Output(folder, as_json)
    try:
        with (
            watched(limit, output.forced),
            made as factories,
            _implementation_log_silenced(),
        ):
            if recorded is not None:
                return _replay(recorded, factories)
            if itf is not None:
                return _replay_itf(itf, factories)
            with show_progress(limit) as progress, output.journal() as write:
                output.progress, output.write = progress, write
                chosen = Options(
                    **(SMOKE if smoke else {"layers": layers}),
                    deep=deep,
                    seed=seed,
                    expected=expected,
                    target=arguments,
                    arguments=options + arguments,
                    optional=era is None and transport is None,
                    profiles=profiles,
                    progress=progress,
                    at_once=os.cpu_count() or 1,
                    ended=output.write,
                    found=output.found,
                )
                output.run = KitRun(factories, chosen)
                report = output.run.perform()
    except Ended as error:
        output.interrupted(error)
        return error.status
    output.show(report)
    if not report.ran:
        reasons = dict.fromkeys(f"{result.setting}: {result.reason}" for result in report.results)
        raise NothingChecked("\n".join(("Nothing could be checked.", *(reasons or ("There are no checks.",)))))
    return report.exit_status


def _repeated(**given: Path | float | None) -> str:
    """Return the options with which a violation is also to be replayed: those that are not as usual."""
    usual = {"response_timeout": RESPONSE_TIMEOUT, "start_timeout": START_TIMEOUT, "notice_grace": NOTICE_GRACE}
    said = {name.replace("_", "-"): value for name, value in given.items() if value != usual.get(name)}
    return "".join(f"--{name} {shlex.quote(str(value))} " for name, value in said.items())


@define(eq=False)
class _Output:
    """Prints the report, and writes it to a folder if there is one."""

    folder: Path | None
    as_json: bool
    run: KitRun | None = None
    progress: Progress | None = None
    write: Callable[[Result], None] = lambda _: None

    def journal(self) -> AbstractContextManager[Callable[[Result], None]]:
        """Return the function that writes each result to the folder at once."""
        from toolfold_specs.render import journal

        return nullcontext(lambda _: None) if self.folder is None else journal(self.folder)

    def found(self, violation: Violation) -> None:
        """Show the first unexpected violation of a clause, as soon as it is known."""
        from toolfold_specs.render.trace import finding

        if self.progress is not None:
            self.progress.print_line(finding(violation))

    def show(self, report: Report) -> None:
        """Print the report, and write it to the folder."""
        from toolfold_specs.render import jsonl, write_reports
        from toolfold_specs.render.text import show as show_report
        from toolfold_specs.render.trace import replay

        if self.as_json:
            click.echo(jsonl(report), nl=False)
        elif report.ran:
            show_report(report, console(WIDTH))
        if self.folder is not None:
            write_reports(report, self.folder)
            click.echo(f"toolfold: reports in {self.folder}", err=True)
            if report.violations:
                command = replay(report, self.folder / "failure.json")
                click.echo(f"toolfold: to replay the first violation: {command}", err=True)

    def interrupted(self, error: Ended) -> None:
        """Show the results that were found before the run was ended."""
        if self.run is not None:
            self.show(self.run.report(f"the run was ended: {error.reason}"))
        click.echo(f"toolfold: The run was ended early: {error.reason}.", err=True)

    def forced(self, error: Ended) -> None:
        """Show them although the run is stuck, and kill the processes that it has started."""
        from toolfold_specs.children import kill_all

        kill_all()
        self.interrupted(error)


# -- replay -----------------------------------------------------------------------------------------------------------


def _replay(path: Path, factories: Mapping[str, Factory]) -> int:
    """Return 1 if a recorded violation is reproduced in its setting, or in any if that is not available, else 0."""
    from toolfold_specs import TargetFailed
    from toolfold_specs.render.trace import found_by, plain, steps
    from toolfold_specs.replay import read_failure, replay

    recorded = read_failure(path)
    for warning in _version_warnings(recorded.header):
        click.echo(f"toolfold: warning: {warning}", err=True)
    violation = recorded.violation
    settings = [violation.setting] if violation.setting in factories else list(factories)
    for setting in settings:
        driver = factories[setting]()
        driver.name = setting
        try:
            reproduced = replay(violation, driver, seed=recorded.seed, deep=recorded.deep)
        except TargetFailed as error:
            click.echo(f"The target failed ({setting}): {plain(str(error))}")
            return 1
        finally:
            driver.close()
        if reproduced is not None:
            found = f"{reproduced.clause} is violated ({found_by(reproduced)})"
            click.echo(f"Reproduced: {found}: {plain(reproduced.message)}")
            click.echo("\n".join(f"  {line}" for line in steps(reproduced)))
            return 1
    click.echo(f"Not reproduced: {violation.clause} is no longer violated ({' / '.join(settings)}).")
    return 0


def _replay_itf(path: Path, factories: Mapping[str, Factory]) -> int:
    """Return 1 if an implementation departs from a trace in any of its settings, else 0.

    Raises:
        NothingChecked: No request of the trace was made in any setting.
    """
    from toolfold_specs.itf import read_trace, replay_trace, shown

    moments, status, asked = read_trace(path), 0, False
    for setting, make in factories.items():
        driver = make()
        driver.name = setting
        try:
            replayed = replay_trace(moments, driver)
        finally:
            driver.close()
        departs = replayed.divergence is not None
        is_asked = departs or any(one.operation for one in moments[: replayed.states])
        asked |= is_asked
        if replayed.divergence is not None:
            status = 1
            click.echo(f"{setting}: it departs from the trace.\n")
            click.echo("\n".join(map(escaped, shown(replayed.divergence))))
        elif is_asked:
            rest = f" of {len(moments)}; the rest is left out: {replayed.left_out}" if replayed.left_out else ""
            click.echo(f"{setting}: as in the trace, {plural(replayed.states, 'state')}{rest}.")
        else:
            click.echo(f"{setting}: nothing was replayed: {replayed.left_out or 'the trace has no request'}.")
    if not asked:
        raise NothingChecked(
            f"No request of {path} can be made here. Over MCP a request is of one group: `quint run --step single` "
            "writes such traces, as specs/quint/traces/single_0.itf.json is."
        )
    return status


def _version_warnings(header: Mapping[str, str]) -> list[str]:
    from toolfold_specs.clauses import load_revision
    from toolfold_specs.kit import kit_version

    versions = {"spec": ("the specification", load_revision()), "kit": ("the kit", kit_version())}
    return [
        f"it was recorded with version {header[name]} of {what}; this is {present}."
        for name, (what, present) in versions.items()
        if header.get(name, present) != present
    ]


# -- lists ------------------------------------------------------------------------------------------------------------


def _list_checks(layers: Sequence[str] | None, as_json: bool) -> None:
    from toolfold_specs.layers import all_checks

    checks = [
        {"name": check.name, "layer": check.layer, "clauses": list(check.clauses), "needs": sorted(check.needs)}
        for check in all_checks(layers)
    ]
    _show_list(checks, as_json, layer="LAYER", name="CHECK", clauses="CLAUSES", needs="NEEDS")


def _list_clauses(layers: Sequence[str] | None, as_json: bool) -> None:
    from toolfold_specs.clauses import load_clauses
    from toolfold_specs.layers import all_checks

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
    _show_list(clauses, as_json, id="CLAUSE", level="LEVEL", text="SUMMARY", checks="CHECKS")


def _show_list(entries: Sequence[Mapping[str, Any]], as_json: bool, **headings: str) -> None:
    if as_json:
        show_json(entries)
        return
    first, *texts = headings.values()
    rows = table(first, *texts, texts=tuple(texts))
    for entry in entries:
        cells = (entry[name] for name in headings)
        rows.add_row(*(cell if isinstance(cell, str) else ", ".join(cell) or "-" for cell in cells))
    show(rows, WIDTH)


# -- failures ---------------------------------------------------------------------------------------------------------


def _failing() -> AbstractContextManager[None]:
    """Turn errors into `NothingChecked`."""
    from toolfold_specs import ExpectationError, TargetFailed
    from toolfold_specs.driver import DriverFault
    from toolfold_specs.drivers.description import DescriptionError
    from toolfold_specs.itf import ItfError
    from toolfold_specs.replay import ReplayError

    expected = (TargetFailed, DriverFault, ExpectationError, DescriptionError, ReplayError, ItfError)
    return failing(*expected, failure=NothingChecked)


@contextmanager
def _implementation_log_silenced() -> Generator[None]:
    """Suppress the implementation's log: the kit makes its handlers and hooks fail on purpose."""
    before = logging.root.manager.disable
    if not debugging():
        logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
