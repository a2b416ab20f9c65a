"""What commands share: TARGET, the command after `--`, and options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from .failures import request_traceback
from .kinds import is_target

if TYPE_CHECKING:
    from toolfold import Store
    from toolfold_adapters.mcp import Limits

    from .targets import GatewayOptions, Target

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)

COMMAND = "toolfold.command"
"""The key in `Context.meta` of the command after `--`."""
ARGUMENTS = "toolfold.arguments"
"""The key in `Context.meta` of the arguments of a `TargetCommand`, as they were given."""
PREFIX = "TOOLFOLD_"
"""How the names of all variables begin that Toolfold has."""
READ_BESIDE_OPTIONS = frozenset({"CREDENTIALS_KEY", "DEBUG", "HANDLE_KEY", "OPERATOR_TOKEN", "RUNTIME"})
"""What follows the prefix in the variables that set no option of `serve`."""
_LIMIT = re.compile(r"(?P<name>[a-z]+)=(?P<total>[0-9]{1,9}|none)(?:/(?P<each>[0-9]{1,9}|none))?")


class TargetCommand(click.Command):
    """A command with a TARGET, or, after `--`, the command that starts an MCP server.

    Attributes:
        positional: Its arguments with a TARGET.
        before_command: Its arguments with a command.
    """

    positional = "TARGET"
    before_command = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set aside what follows `--`, before click takes it for arguments."""
        ctx.meta[ARGUMENTS] = tuple(args)
        if "--" in args:
            separator = args.index("--")
            ctx.meta[COMMAND] = tuple(args[separator + 1 :])
            if not ctx.meta[COMMAND]:
                raise click.UsageError("Nothing follows --; write the command that starts an MCP server there.", ctx)
            args = args[:separator]
        given = tuple(args)
        args = [self._with_value(arg) for arg in args]
        self._check_environment(ctx, os.environ)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                hint = f" Did you mean {error.possibilities[0]}?"
            elif given[0].startswith("-") or is_target(given[0]):
                hint = ""
            else:
                hint = f" A command and its options go after --: {ctx.command_path} -- {' '.join(given)}"
            raise click.UsageError(f"{error.message}{hint}", ctx) from error
        except click.BadParameter as error:
            option = error.param
            if option is None or ctx.get_parameter_source(option.name or "") is not ParameterSource.ENVIRONMENT:
                raise
            variable = variable_of(ctx, option)
            message = f"{error.message.removesuffix('.')}. It was set by {variable}."
            raise click.BadParameter(message, ctx, option) from error

    def _check_environment(self, ctx: click.Context, environ: Mapping[str, str]) -> None:
        """Refuse an option that the environment sets to nothing: click would pass over it (SPEC SAF-7)."""
        for option in self.params if ctx.auto_envvar_prefix else ():
            if isinstance(option, click.Option) and environ.get(name := variable_of(ctx, option), "?").strip() == "":
                raise click.UsageError(f"{name} is empty: give it a value for {option.opts[0]}, or unset it.", ctx)

    def _with_value(self, arg: str) -> str:
        """Return an option whose value may be left out with its value: click would take what follows for that."""
        options = (option for option in self.params if isinstance(option, click.Option) and arg in option.opts)
        left_out = next((option.flag_value for option in options if not option.is_flag), None)
        return f"{arg}={left_out}" if isinstance(left_out, str) else arg

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the two forms of the command."""
        formatter.write_usage(ctx.command_path, f"[OPTIONS] {self.positional}")
        formatter.write_usage(ctx.command_path, f"[OPTIONS] {self.before_command} -- COMMAND...".replace("  ", " "))


def variable_of(ctx: click.Context, option: click.Parameter) -> str:
    """Return the variable of the environment that sets an option."""
    return str(option.envvar or f"{ctx.auto_envvar_prefix}_{option.name}".upper())


def unread_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence on each variable that begins with the prefix, and that nothing reads (SPEC SAF-7)."""
    given = {name.removeprefix(PREFIX) for name in environ if name.startswith(PREFIX)} - READ_BESIDE_OPTIONS
    if not given:
        return
    from toolfold_adapters.gateway.config.clients import INPUT_PREFIX

    from .serve import serve_command

    ctx = click.Context(serve_command, auto_envvar_prefix=PREFIX.rstrip("_"))
    options = (option for option in serve_command.params if isinstance(option, click.Option))
    known = READ_BESIDE_OPTIONS | {variable_of(ctx, option).removeprefix(PREFIX) for option in options}
    for name in sorted(given - known):
        if not f"{PREFIX}{name}".startswith(INPUT_PREFIX):
            near = get_close_matches(name, known, 1)
            hint = f" Did you mean {PREFIX}{near[0]}?" if near else ""
            yield f"The variable {PREFIX}{name} is set, and nothing reads it.{hint}"


def examples(*lines: str) -> str:
    """Return the epilog of a help text: examples, line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class Integer(click.IntRange):
    """A whole number in a range, which the message about another value names."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """What a value has to be, as in "'abc' is not a valid whole number (1<=x)"."""
        return f"whole number ({self._describe_range()})"


class Number(click.FloatRange):
    """A number in a range, which the message about another value names."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """What a value has to be."""
        return f"number ({self._describe_range()})"


class OneOf(click.Choice[str]):
    """One of some words; the message about another word names the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return what is wrong with a word."""
        near = get_close_matches(str(value), map(str, self.choices), 1)
        return super().get_invalid_choice_message(value, ctx) + (f" Did you mean {near[0]}?" if near else "")


class ServerOption(click.Option):
    """An option that `build_server` has, by the same name."""

    def is_changed(self, value: Any) -> bool:
        """Return whether a value of the option is another than that it has unless given."""
        return value not in (None, (), self.default)


server_option = partial(click.option, cls=ServerOption)


traceback_option = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    callback=request_traceback,
    help="Show where in the code it failed (or set TOOLFOLD_DEBUG=1).",
)


def target_options(function: F) -> F:
    """Add TARGET and the options that go with it in every command."""
    return _decorated(
        function,
        click.argument("targets", nargs=-1, metavar="[TARGET]"),
        click.option(
            "--app-dir",
            type=click.Path(path_type=Path, file_okay=False, exists=True),
            metavar="DIR",
            help="The folder whose modules are found; the current one unless given.",
        ),
        traceback_option,
    )


def gateway_options(function: F) -> F:
    """Add the options for putting groups in front of another server."""
    return _decorated(
        function,
        click.option(
            "--groups",
            type=FILE,
            metavar="FILE",
            help="A .toml file that groups the tools of the URL or COMMAND.",
        ),
        click.option(
            "--control",
            metavar="STYLE",
            help="How groups of other servers are opened: per_group, open_group, load_tool_group, expand_tools, none.",
        ),
        click.option(
            "--control-visibility",
            type=OneOf(["always", "relevant"]),
            help="List control tools always, or only while they can do something.",
        ),
        click.option(
            "--search",
            type=OneOf(["bm25", "embeddings", "none"]),
            help="How find_tools of other servers ranks: by words, or by meaning too; none leaves it out.",
        ),
        click.option("--max-active", type=Integer(min=1), metavar="N", help="At most N groups open at a time."),
        click.option(
            "--start-timeout",
            type=Number(min=0, min_open=True),
            metavar="SECONDS",
            help="How long another server may take to start.",
        ),
    )


def target_command(
    name: str, *lines: str, cls: type[TargetCommand] = TargetCommand, **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command with a TARGET, and what it may say of other servers.

    Args:
        name: The name of the command.
        lines: Examples.
        cls: The class of the command.
        settings: Those of `click.command`.
    """

    def made(function: Callable[..., Any]) -> click.Command:
        function = target_options(gateway_options(click.pass_context(function)))
        return click.command(name, cls=cls, epilog=examples(*lines), **settings)(function)

    return made


def _decorated(function: F, *decorators: Callable[[F], F]) -> F:
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def names_in(*texts: str) -> tuple[str, ...]:
    """Return the names in texts, each of which may have several, separated by commas."""
    return tuple(name for text in texts for name in re.split(r"[,\s]+", text) if name)


def parse_names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in an option's values."""
    return names_in(*values)


def parse_drafts(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the drafts that an option names, each with its value."""
    if values:
        from toolfold import ConfigError
        from toolfold_adapters.mcp.extensions.drafts import drafts

        try:
            drafts(values)
        except ConfigError as error:
            raise click.BadParameter(str(error), ctx, parameter) from error
    return values


def has_tags(given: Sequence[str]) -> bool:
    """Return whether one of these drafts has servers behind a gateway be sent the tags of their lists (SPEC NXT-1)."""
    return any(one.partition("=")[0] == "tags" for one in given)


active_option = partial(click.option, "--active", metavar="GROUPS", multiple=True, callback=parse_names)


def parse_limits(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Limits | None:
    """Return the limits with those that an option's values change, or `None` if it has no values."""
    if not values:
        return None
    from attrs import evolve, fields

    from toolfold import ConfigError
    from toolfold_adapters.mcp.options import DEFAULTS, Limits
    from toolfold_adapters.tally import share_of

    names = [attribute.name for attribute in fields(Limits)]
    changed: dict[str, Any] = {}
    try:
        for value in values:
            match = _LIMIT.fullmatch(value)
            if match is None or match["name"] not in names:
                form = f"NAME=ALL or NAME=ALL/EACH, such as calls=500/50; NAME is one of {', '.join(names)}"
                raise click.BadParameter(f"{value!r} is not {form}.", ctx, parameter)
            counts = {"total": match["total"], "per_caller": match["each"]}
            numbers = {key: None if count == "none" else int(count) for key, count in counts.items() if count}
            before = changed.get(match["name"], getattr(DEFAULTS, match["name"]))
            if (total := numbers.get("total")) is not None and match["name"] not in changed:
                numbers.setdefault("per_caller", share_of(total, before.per_caller))
            changed[match["name"]] = evolve(before, **numbers)
        return Limits(**changed)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


def parse_origin(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """Return the address of a server without a path, or refuse what is none."""
    if given is None:
        return None
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise click.BadParameter(f"{given!r} is no address without a path, such as https://tools.example.org.")
    return given.rstrip("/")


def parse_store(ctx: click.Context, parameter: click.Parameter, url: str | None) -> Store | None:
    """Return the store of a URL, if one is given."""
    if not url:
        return None
    from toolfold import ToolfoldError
    from toolfold_adapters.stores import open_store

    try:
        return open_store(url)
    except ToolfoldError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


def chosen_target(
    ctx: click.Context, targets: tuple[str, ...], *, app_dir: Path | None, **gateway: Any
) -> tuple[Target, GatewayOptions]:
    """Return the target of a command and the options of its gateway, or raise `click.UsageError`."""
    if len(targets) > 1:
        raise click.UsageError(
            f"There is one TARGET, not {len(targets)}; a command goes after --: {ctx.command_path} -- "
            f"{' '.join(targets)}",
            ctx,
        )
    from toolfold import ConfigError

    from .targets import GatewayOptions, parse_target

    options = GatewayOptions(**gateway)
    command = ctx.meta.get(COMMAND, ())
    try:
        return parse_target(targets[0] if targets else None, command, options, app_dir=app_dir), options
    except ConfigError as error:
        raise click.UsageError(str(error), ctx) from error
