"""`toolfold connect`."""

from __future__ import annotations

from functools import partial

import click

from toolfold_adapters.transport.signals import cancelled_by_signals
from toolfold_adapters.transport.starting import starting

from .failures import run
from .kinds import is_url
from .options import examples, traceback_option


@click.command(
    "connect",
    epilog=examples(
        "toolfold serve gateway.toml --http --port 8000     once, for all clients",
        "toolfold connect http://127.0.0.1:8000/mcp         as the command in the configuration of each client",
    ),
)
@click.argument("url")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header to send with each request, such as a token.",
)
@traceback_option
@click.pass_context
def connect_command(ctx: click.Context, /, url: str, headers: tuple[str, ...]) -> None:
    """Connect a client that can only start commands, over stdio, to the MCP server at URL.

    Ten clients then share one server, and what is behind it, with a session each.
    """
    if not is_url(url):
        raise click.UsageError(f"{url!r} is not the URL of an MCP server, such as http://127.0.0.1:8000/mcp.", ctx)
    parsed = {name: value for name, _, value in (header.partition("=") for header in headers)}
    if not all(parsed) or any("=" not in header for header in headers):
        raise click.UsageError("--header takes NAME=VALUE, such as 'Authorization=Bearer abc'.", ctx)
    with cancelled_by_signals() as shutdown:
        run(partial(_connect, url, parsed))
    shutdown.exit_if_signalled()


async def _connect(url: str, headers: dict[str, str]) -> None:
    with starting("mcp.client.streamable_http") as started:
        from toolfold_adapters.transport.bridge import bridge

        started()
        await bridge(url, headers)
