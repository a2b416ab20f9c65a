"""`toolfold connect`."""

from __future__ import annotations

from functools import partial

import click

from .connecting import be_relay, say_what_is_awaited
from .failures import run
from .kinds import is_url
from .options import examples, traceback_option


@click.command(
    "connect",
    epilog=examples(
        "toolfold connect ~/.mcp.toolfold.json              as the command in the configuration of each client",
        "toolfold connect gateway.toml --profile review     a view of its own over the same servers",
        "toolfold serve gateway.toml --http --port 8000     once, for all clients",
        "toolfold connect http://127.0.0.1:8000/mcp         as the command of clients that can only start commands",
    ),
)
@click.argument("target", metavar="FILE_OR_URL")
@click.option("--profile", metavar="NAME", help="The profile to serve, of FILE.")
@click.option("--groups", metavar="GROUPS", help="Groups of FILE to open first, or servers, by commas.")
@click.option("--agent", metavar="NAME", help="Whose tools these are, for toolfold status.")
@click.option("--no-usage", is_flag=True, help="Record nothing of what is used of FILE.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header to send with each request to URL, such as a token.",
)
@traceback_option
@click.pass_context
def connect_command(
    ctx: click.Context,
    /,
    target: str,
    profile: str | None,
    groups: str | None,
    agent: str | None,
    no_usage: bool,
    headers: tuple[str, ...],
) -> None:
    """Connect a client that starts commands, over stdio, to the runtime, or to the MCP server at a URL.

    With FILE, the configuration of a gateway or of an MCP client, the servers in it are served by one runtime, which
    all clients and sessions of this user share: it is started where there is none, and again where it was killed.
    With URL, ten clients share the server there, with a session each.
    """
    if not is_url(target):
        if headers:
            raise click.UsageError(
                f"--header is for a URL; {target!r} is none, such as http://127.0.0.1:8000/mcp.", ctx
            )
        usage = "" if no_usage else None
        be_relay({"target": target, "profile": profile, "groups": groups, "agent": agent, "usage": usage})
        return
    if given := next((name for name, value in _of_file(profile, groups, agent, no_usage) if value), None):
        raise click.UsageError(f"--{given} is for a file; the server at a URL is selected there.", ctx)
    parsed = {name: value for name, _, value in (header.partition("=") for header in headers)}
    if not all(parsed) or any("=" not in header for header in headers):
        raise click.UsageError("--header takes NAME=VALUE, such as 'Authorization=Bearer abc'.", ctx)
    from toolfold_adapters.transport.signals import cancelled_by_signals

    with cancelled_by_signals() as shutdown:
        run(partial(_connect, target, parsed))
    shutdown.exit_if_signalled()


def _of_file(
    profile: str | None, groups: str | None, agent: str | None, no_usage: bool
) -> tuple[tuple[str, object], ...]:
    return ("profile", profile), ("groups", groups), ("agent", agent), ("no-usage", no_usage)


async def _connect(url: str, headers: dict[str, str]) -> None:
    from toolfold_adapters.transport.starting import starting

    with starting("mcp.client.streamable_http") as started:
        from toolfold_adapters.transport.bridge import bridge

        started()
        say_what_is_awaited()
        await bridge(url, headers)
