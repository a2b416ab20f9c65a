"""What the commands share: TARGET and command, options, and how a job ends that failed."""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import click
from attrs import evolve, fields

from toolfold import ConfigError, ToolfoldError
from toolfold.spi import extras_named

from ..logs import one_line
from ..targets import GatewayOptions, Target, parse_target

if TYPE_CHECKING:
    from ..mcp import Limits

F = TypeVar("F", bound=Callable[..., Any])

LOGGED = 2000
"""How many characters of a message are logged."""

_COMMAND = "toolfold.command"
_LIMIT = re.compile(r"(?P<name>[a-z]+)=(?P<total>[0-9]{1,9}|none)(?:/(?P<each>[0-9]{1,9}|none))?")
_TRACEBACK = "toolfold.traceback"


class Failed(click.ClickException):
    """The job failed: ends the program with status 1 and a paragraph on standard error."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the paragraph."""
        click.echo(f"toolfold: {self.message}", file=file or sys.stderr, err=file is None)


class TargetCommand(click.Command):
    """A command that works on a TARGET, or on what follows `--`: the command that starts an MCP server."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set aside what follows `--`, before click takes it for arguments."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[place + 1 :])
            if not ctx.meta[_COMMAND]:
                raise click.UsageError("Nothing follows --; write the command that starts an MCP server there.", ctx)
            args = args[:place]
        given = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if given[0].startswith("-"):
                raise
            hint = f"A command and its options go after --: {ctx.command_path} -- {' '.join(given)}"
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from error

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the two forms of the command."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] TARGET")
        formatter.write_usage(ctx.command_path, "[OPTIONS] -- COMMAND...")


def examples(*lines: str) -> str:
    """Return the epilog of a help text: examples, line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def target_options(function: F) -> F:
    """Add TARGET and the options of every command that takes one."""
    for decorate in reversed(
        [
            click.argument("targets", nargs=-1, metavar="[TARGET]"),
            click.option(
                "--app-dir",
                type=click.Path(path_type=Path, file_okay=False, exists=True),
                metavar="DIR",
                help="The folder whose modules are found; the current one unless given.",
            ),
            click.option(
                "--groups",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help="A .toml file that says how the tools of the URL or COMMAND are grouped.",
            ),
            click.option(
                "--control",
                metavar="STYLE",
                help="How groups of other servers are opened: per_group, load_tool_group, expand_tools or none.",
            ),
            click.option(
                "--control-visibility",
                type=click.Choice(["always", "relevant"]),
                help="List control tools always, or only while they can do something.",
            ),
            click.option(
                "--max-active", type=click.IntRange(min=1), metavar="N", help="At most N groups open at a time."
            ),
            click.option(
                "--start-timeout",
                type=click.FloatRange(min=0, min_open=True),
                metavar="SECONDS",
                help="How long another server may take to start.",
            ),
            click.option(
                "--traceback",
                is_flag=True,
                expose_value=False,
                callback=_note_traceback,
                help="Show where in the code it failed (or set TOOLFOLD_DEBUG=1).",
            ),
        ]
    ):
        function = decorate(function)
    return function


def paths(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the group paths in an option's values, each of which may have several, separated by commas."""
    return tuple(path.strip() for value in values for path in value.split(",") if path.strip())


def limits(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Limits | None:
    """Return the limits that an option's values change, or `None` if there are none."""
    if not values:
        return None
    from ..mcp.limits import DEFAULTS, Limits

    names = [attribute.name for attribute in fields(Limits)]
    changed: dict[str, Any] = {}
    try:
        for value in values:
            said = _LIMIT.fullmatch(value)
            if said is None or said["name"] not in names:
                form = f"NAME=ALL or NAME=ALL/EACH, such as calls=500/50; NAME is one of {', '.join(names)}"
                raise click.BadParameter(f"{value!r} is not {form}.", ctx, parameter)
            counts = {"total": said["total"], "per_caller": said["each"]}
            numbers = {key: None if count == "none" else int(count) for key, count in counts.items() if count}
            changed[said["name"]] = evolve(changed.get(said["name"], getattr(DEFAULTS, said["name"])), **numbers)
        return Limits(**changed)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


def chosen(
    ctx: click.Context, targets: tuple[str, ...], *, app_dir: Path | None, **said: Any
) -> tuple[Target, GatewayOptions]:
    """Return what a command works on, or raise `click.UsageError`."""
    command = ctx.meta.get(_COMMAND, ())
    if len(targets) > 1:
        raise click.UsageError(
            f"There is one TARGET, not {len(targets)}; a command goes after --: {ctx.command_path} -- "
            f"{' '.join(targets)}",
            ctx,
        )
    options = GatewayOptions(**said)
    try:
        return parse_target(targets[0] if targets else None, command, options, app_dir=app_dir), options
    except ConfigError as error:
        raise click.UsageError(str(error), ctx) from error


def run(job: Callable[[], Any]) -> Any:
    """Return what an async job returns; whatever it raises ends the program with status 1 and a paragraph."""
    with failing():
        return anyio.run(job)


@contextmanager
def failing() -> Generator[None]:
    """Turn errors from within into `Failed`, in words, and with a traceback only if one was asked for."""
    try:
        with extras_named():
            yield
    except click.ClickException:
        raise
    except Exception as error:
        leaves = list(_leaves(error))
        if isinstance(leaves[0], BrokenPipeError):  # whoever read the output has gone: click ends the program quietly
            raise leaves[0] from None
        if traceback_wanted():
            traceback.print_exception(error)
        raise Failed("\n".join(dict.fromkeys(map(_in_words, leaves)))) from error


def configure_logging() -> None:
    """Have warnings of this library and of the SDK printed on standard error, without tracebacks."""
    for name in ("toolfold", "mcp"):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Short(f"{name}: %(message)s"))
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.propagate = False


def traceback_wanted() -> bool:
    """Return whether the user asked for tracebacks."""
    ctx = click.get_current_context(silent=True)
    asked = ctx is not None and ctx.meta.get(_TRACEBACK, False)
    return asked or os.environ.get("TOOLFOLD_DEBUG", "") not in ("", "0")


class _Short(logging.Formatter):
    """Writes a message on one line of a bounded length, and leaves tracebacks out unless they were asked for.

    What a caller wrote can then neither fill a log nor forge a line of it (SPEC SAF-3).
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record), LOGGED)

    def formatException(self, ei: Any) -> str:
        if traceback_wanted():
            return super().formatException(ei)
        return "  " + one_line(f"{ei[0].__name__}: {ei[1]}".splitlines()[0], LOGGED)


def _note_traceback(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_TRACEBACK] = ctx.meta.get(_TRACEBACK, False) or value


def _leaves(error: Exception) -> Iterator[Exception]:
    """Yield the error itself, or those that it groups."""
    if isinstance(error, ExceptionGroup):
        for inner in cast("ExceptionGroup[Exception]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _in_words(error: Exception) -> str:
    if isinstance(error, ToolfoldError):
        return str(error)
    hint = "" if traceback_wanted() else " Use --traceback to see where."
    return f"{type(error).__name__}: {error}".rstrip(".: ") + f".{hint}"
