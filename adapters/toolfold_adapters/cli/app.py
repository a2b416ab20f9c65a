"""The program: its commands, and how it ends."""

from __future__ import annotations

from typing import Any

import click

from toolfold import __version__

from . import INTERRUPTED
from .inspection import inspect_target, list_profiles
from .options import configure_logging, examples
from .plugins import plugin_command, plugin_names
from .serving import serve_target
from .telling import demonstrate


class Program(click.Group):
    """A group of commands, with those that others bring along; it ends quietly with status 130 when interrupted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *plugin_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; nobody takes the place of one of our own."""
        return super().get_command(ctx, cmd_name) or plugin_command(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and let Ctrl-C through without the word "Aborted!"."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=examples(
        "toolfold demo                               see what it does",
        "toolfold inspect shop:tools                 groups, and what their tools cost",
        "toolfold serve shop:tools                   over stdio",
        "toolfold serve -- npx -y some-mcp-server    put groups in front of another server",
    ),
)
@click.version_option(__version__, message="toolfold %(version)s")
def program() -> None:
    """Tools in groups that open and close, for MCP servers and agents.

    A TARGET is module:attribute or path/to/file.py:attribute (a ToolSet, or a function that makes one; modules of the
    current folder are found), a .toml file, the URL of an MCP server, or, after --, the command that starts one.
    """
    configure_logging()


for command in (serve_target, demonstrate, inspect_target, list_profiles):
    program.add_command(command)
