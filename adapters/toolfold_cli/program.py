"""The program: its commands, each imported when it is used."""

from __future__ import annotations

import gc
import os
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click

from . import INTERRUPTED
from .kinds import is_target
from .logs import configure_logging
from .options import examples, unread_variables

COMMANDS = MappingProxyType(
    {
        "approve": "Approve the definitions of servers as they are now.",
        "check": "Check that the tools an agent needs can be had.",
        "completion": "Have the shell complete commands and options.",
        "connect": "Connect a client that starts commands to the runtime, or to a server at a URL.",
        "call": "Call a tool.",
        "conform": "Check an implementation against the specification.",
        "demo": "Watch an example.",
        "down": "End the runtime.",
        "diagram": "Draw groups, states and traces.",
        "evaluate": "Play tasks, and count which get done.",
        "explain": "Say why a tool can or can't be seen and called.",
        "init": "Have MCP clients start Toolfold instead of their servers.",
        "inspect": "Show groups, their tools and their token counts.",
        "login": "Log in at a server, or store a token for it.",
        "logins": "Show who is logged in where.",
        "logout": "End logins at a server.",
        "man": "Print the manual page.",
        "report": "Say what was used of a server, with advice.",
        "profiles": "Show the profiles that a target can be served with.",
        "status": "Say how each server and store is doing.",
        "stubs": "Print declarations of tools for programs that call them.",
        "serve": "Serve tools in groups, over stdio or HTTP.",
        "up": "Be the runtime that all relays share.",
        "verify": "Verify what a server did against the specification.",
    }
)
"""A summary of each command, by its name, which is also that of its module."""


class Program(click.Group):
    """A group of commands, imported when they are used; it exits quietly with status 130 when interrupted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or `None`."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f".{cmd_name}", __package__), f"{cmd_name}_command")
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `help COMMAND` for `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named first; the error about another name says what may have been meant."""
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, COMMANDS, 1)
        intended = near[0] if near else f"serve {name}" if is_target(name) else None
        raise click.UsageError(
            f"No such command {name!r}." + (f" Did you mean: toolfold {intended}?" if intended else ""), ctx
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and summaries of all commands, and import none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; after Ctrl-C exit without the word "Aborted!"."""
        gc.enable()  # which `main` has turned off
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


def print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the version and exit, if the option is given: its callback."""
    if value and not ctx.resilient_parsing:
        from toolfold import __version__

        click.echo(f"toolfold {__version__}")
        ctx.exit()


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=examples(
        "toolfold demo                               watch an example",
        "toolfold inspect shop:tools                 groups, tools and token counts",
        "toolfold init                               serve the servers of your MCP clients",
        "toolfold serve shop:tools                   over stdio",
        "toolfold help serve                         what a command does, and its options",
        "toolfold serve -- npx -y some-mcp-server    put groups in front of another server",
    ),
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=print_version,
    help="Show the version and exit.",
)
def program() -> None:
    """Tools in groups that open and close, for MCP servers and agents.

    A TARGET is module:attribute or path/to/file.py:attribute (a ToolSet, or a function that makes one; modules in the
    current folder can be imported), a .toml or .json file, a folder of skills, the URL of an MCP server, or, after --,
    the command that starts one.
    """
    configure_logging()
    for sentence in unread_variables(os.environ):
        click.echo(f"toolfold: {sentence}", err=True)
