"""`toolfold serve`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve, frozen
from click.core import ParameterSource

from toolfold import ToolSet
from toolfold_adapters.names import WIRE_SEPARATOR
from toolfold_adapters.tokens import ANSWER_TOKENS

from .costs import initial_view, wire_costs
from .failures import run
from .options import (
    TargetCommand,
    chosen_target,
    examples,
    gateway_options,
    parse_groups,
    parse_limits,
    target_options,
)
from .printing import approximate, counted
from .profiles import show_profiles
from .servers import check_options
from .signals import Shutdown, cancelled_by_signals, stdin_closed_by_signals, stdout_reserved
from .targets import GatewayOptions, OpenTarget, Target, open_target

if TYPE_CHECKING:
    from toolfold_adapters.mcp import Limits


@frozen(kw_only=True)
class HttpOptions:
    """The options that are for HTTP alone."""

    host: str
    port: int
    path: str
    allow_host: tuple[str, ...]
    allow_origin: tuple[str, ...]
    forwarded_allow_ips: str | None


@frozen(kw_only=True)
class ServerOptions:
    """The options of the server, over either transport."""

    profile: str | None = None
    active: tuple[str, ...] = ()
    separator: str = WIRE_SEPARATOR
    answers: str = "auto"
    answer_tokens: int | None = None
    selection: bool = True
    disclosure: bool = True
    limits: Limits | None = None


@click.command(
    "serve",
    cls=TargetCommand,
    epilog=examples(
        "toolfold serve shop:tools",
        "toolfold serve shop:make_tools --http --port 8000",
        "toolfold serve gateway.toml --profile readonly",
        "toolfold serve claude_desktop_config.json",
        "toolfold serve https://example.org/mcp --control load_tool_group",
        "toolfold serve --groups groups.toml -- npx -y some-mcp-server",
    ),
)
@target_options
@gateway_options
@click.option("--http", "over_http", is_flag=True, help="Serve streamable HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port; 0 for any.")
@click.option("--path", default="/mcp", show_default=True, help="The path of the endpoint.")
@click.option("--allow-host", multiple=True, metavar="NAME:PORT", help="A Host header to accept; PORT may be *.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="An Origin header to accept.")
@click.option(
    "--forwarded-allow-ips",
    metavar="ADDRESSES",
    help="The proxies whose X-Forwarded-For header is trusted, separated by commas; * for any.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    callback=parse_limits,
    metavar="NAME=ALL[/EACH]",
    help="How many connections, sessions, handles, calls or streams there may be at a time, and from one caller, such "
    "as calls=500/50; none for no limit.",
)
@click.option("--profile", metavar="NAME", help="The profile to serve.")
@click.option(
    "--active", metavar="GROUPS", multiple=True, callback=parse_groups, help="Groups to open first, by commas."
)
@click.option("--list-profiles", is_flag=True, help="Print the profiles and exit.")
@click.option(
    "--separator", default=WIRE_SEPARATOR, show_default=True, help="Replaces the dot in names that clients see."
)
@click.option(
    "--answers",
    type=click.Choice(["auto", "definitions", "names"]),
    default="auto",
    show_default=True,
    help="Answer the opening of a group with the definitions of its tools, or with their names; auto: with names where "
    "the client lists again automatically.",
)
@click.option(
    "--answer-tokens",
    type=int,
    default=None,
    show_default=f"{ANSWER_TOKENS}, or as the configuration says",
    metavar="N",
    help="The greatest length of such an answer, in approximate tokens.",
)
@click.option(
    "--selection/--no-selection",
    default=True,
    help="Let requests name groups, in their URL or headers; or ignore that.",
)
@click.option("--disclosure/--no-disclosure", default=True, help="Offer the draft extension for groups, or don't.")
@click.pass_context
def serve_command(
    ctx: click.Context, /, targets: tuple[str, ...], over_http: bool, list_profiles: bool, **given: Any
) -> None:
    """Serve a TARGET's tools to MCP clients, in groups that open and close.

    TARGET is module:attribute, path/to/file.py:attribute, a file that configures a gateway or an MCP client (.toml,
    .json), or the URL of an MCP server; after -- comes the command that starts one.
    Over stdio, standard output carries the protocol alone; a summary and warnings go to standard error.
    """
    http = HttpOptions(**{name: given.pop(name) for name in HttpOptions.__annotations__})
    server = ServerOptions(**{name: given.pop(name) for name in ServerOptions.__annotations__})
    set_by_user = [name for name in asdict(http) if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if set_by_user and not over_http:
        raise click.UsageError(f"--{set_by_user[0].replace('_', '-')} is for HTTP: add --http, or leave it out.", ctx)
    target, options = chosen_target(ctx, targets, **given)
    if list_profiles:
        show_profiles(target, options)
        return
    with cancelled_by_signals() as shutdown:
        if over_http:
            run(partial(_serve_http, target, options, server, http))
        else:
            run(partial(_serve_stdio, target, options, server, shutdown))
    shutdown.exit_if_signalled()


async def _serve_http(target: Target, options: GatewayOptions, server: ServerOptions, http: HttpOptions) -> None:
    from toolfold_adapters.mcp import serve

    async with open_target(target, options, serving=True) as opened:
        server = evolve(server, active=opened.active(server.profile, server.active))
        arguments = _server_arguments(opened, server)
        summary = summarise(opened.tools, server)
        await serve(
            opened.server or opened.tools,
            transport="http",
            host=http.host,
            port=http.port,
            path=http.path,
            allowed_hosts=http.allow_host,
            allowed_origins=http.allow_origin,
            forwarded_allow_ips=http.forwarded_allow_ips,
            on_ready=lambda url: _announce(f"{summary}; serving {url}"),
            **arguments,
        )


async def _serve_stdio(target: Target, options: GatewayOptions, server: ServerOptions, shutdown: Shutdown) -> None:
    from toolfold_adapters.mcp import serve

    with stdout_reserved() as released:
        async with open_target(target, options, serving=True) as opened:
            server = evolve(server, active=opened.active(server.profile, server.active))
            arguments = _server_arguments(opened, server)
            summary = summarise(opened.tools, server)
            with released(), stdin_closed_by_signals(shutdown):
                await serve(opened.server or opened.tools, on_ready=lambda _: _announce(summary), **arguments)


def _server_arguments(opened: OpenTarget, server: ServerOptions) -> dict[str, Any]:
    if opened.server is not None:
        defaults = asdict(ServerOptions())
        check_options(opened.tools.name, [name for name, value in asdict(server).items() if value != defaults[name]])
        return {}
    arguments = {
        **asdict(server, recurse=False),
        "answer_tokens": next(
            tokens for tokens in (server.answer_tokens, opened.answer_tokens, ANSWER_TOKENS) if tokens is not None
        ),
        "handles": opened.handles,
        "extend": opened.extend,
        "instructions": opened.instructions,
        "version": opened.version,
    }
    optional = ("limits", "version", "extend")
    return {name: value for name, value in arguments.items() if value or name not in optional}


def summarise(tools: ToolSet, server: ServerOptions) -> str:
    """Return a line on what is served, how much of it is listed at first, and about how many tokens that saves."""
    costs, _ = wire_costs(initial_view(tools, server.profile, server.active))
    groups = len(costs.groups) - 1
    return (
        f"{counted(costs.tools, 'tool')} in {counted(groups, 'group')}; {costs.listed:,} listed at first "
        f"({approximate(costs.before)} → {approximate(costs.after)} tokens)"
    )


def _announce(text: str) -> None:
    click.echo(f"toolfold: {text}", err=True)
