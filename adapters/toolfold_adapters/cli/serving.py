"""`toolfold serve`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen
from click.core import ParameterSource

from toolfold import ToolSet
from toolfold_adapters.names import WIRE_SEPARATOR

from ..targets import GatewayOptions, Opened, Target, open_target
from ..tokens import ANSWER_TOKENS
from .inspection import costs_over_mcp, print_profiles, view_at_start
from .options import TargetCommand, chosen, examples, limits, paths, run, target_options
from .output import about, counted
from .signals import Ending, ended_by_signals, input_ended_by_signals, output_reserved

if TYPE_CHECKING:
    from ..mcp import Limits

OF_HTTP = ("host", "port", "path", "allow_host", "allow_origin", "forwarded_allow_ips")


@frozen(kw_only=True)
class Serving:
    """How a target is served."""

    http: bool
    host: str
    port: int
    path: str
    allow_host: tuple[str, ...]
    allow_origin: tuple[str, ...]
    forwarded_allow_ips: str | None
    limits: Limits | None
    profile: str | None
    active: tuple[str, ...]
    separator: str
    answers: str
    answer_tokens: int
    selection: bool
    disclosure: bool


@click.command(
    "serve",
    cls=TargetCommand,
    short_help="Serve tools in groups, over stdio or HTTP.",
    epilog=examples(
        "toolfold serve shop:tools",
        "toolfold serve shop:make_tools --http --port 8000",
        "toolfold serve gateway.toml --profile readonly",
        "toolfold serve https://example.org/mcp --control load_tool_group",
        "toolfold serve --groups groups.toml -- npx -y some-mcp-server",
    ),
)
@target_options
@click.option("--http", is_flag=True, help="Serve streamable HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port; 0 for any.")
@click.option("--path", default="/mcp", show_default=True, help="The path of the endpoint.")
@click.option("--allow-host", multiple=True, metavar="NAME:PORT", help="A Host header to accept; PORT may be *.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="An Origin header to accept.")
@click.option(
    "--forwarded-allow-ips",
    metavar="ADDRESSES",
    help="The proxies whose X-Forwarded-For header is believed, by commas; * for any.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    callback=limits,
    metavar="NAME=ALL[/EACH]",
    help="How many connections, sessions, handles, calls or streams there may be at a time, and of one caller, such as "
    "calls=500/50; none for no limit.",
)
@click.option("--profile", metavar="NAME", help="The profile that clients are served under.")
@click.option("--active", metavar="GROUPS", multiple=True, callback=paths, help="Groups to begin with, by commas.")
@click.option("--list-profiles", is_flag=True, help="Print the profiles and end.")
@click.option(
    "--separator", default=WIRE_SEPARATOR, show_default=True, help="Stands for the dot in names that clients see."
)
@click.option(
    "--answers",
    type=click.Choice(["auto", "definitions", "names"]),
    default="auto",
    show_default=True,
    help="Answer the opening of a group with the definitions of its tools, or with names alone; auto: with names where "
    "the client lists again by itself.",
)
@click.option(
    "--answer-tokens",
    type=int,
    default=ANSWER_TOKENS,
    show_default=True,
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
def serve_target(ctx: click.Context, /, targets: tuple[str, ...], list_profiles: bool, **said: Any) -> None:
    """Serve a TARGET's tools to MCP clients, in groups that open and close.

    TARGET is module:attribute, path/to/file.py:attribute, a .toml file, or the URL of an MCP server; after -- comes the
    command that starts one.
    Over stdio, standard output carries the protocol alone; a summary and warnings go to standard error.
    """
    serving = Serving(**{name: said.pop(name) for name in Serving.__annotations__})
    _check_http(ctx, serving)
    target, options = chosen(ctx, targets, **said)
    if list_profiles:
        print_profiles(target, options, as_json=False)
        return
    with ended_by_signals() as ending:
        run(partial(_serve, target, options, serving, ending))
    ending.check()


def _check_http(ctx: click.Context, serving: Serving) -> None:
    """Raise `click.UsageError` if an option of HTTP is given and stdio is served."""
    given = [name for name in OF_HTTP if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if given and not serving.http:
        raise click.UsageError(f"--{given[0].replace('_', '-')} is for HTTP: add --http, or leave it out.", ctx)


async def _serve(target: Target, options: GatewayOptions, serving: Serving, ending: Ending) -> None:
    if serving.http:
        await _serve_http(target, options, serving)
    else:
        await _serve_stdio(target, options, serving, ending)


async def _serve_http(target: Target, options: GatewayOptions, serving: Serving) -> None:
    from ..mcp import serve

    async with open_target(target, options) as opened:
        summary = summarise(opened.tools, serving)
        await serve(
            opened.tools,
            transport="http",
            host=serving.host,
            port=serving.port,
            path=serving.path,
            allowed_hosts=serving.allow_host,
            allowed_origins=serving.allow_origin,
            forwarded_allow_ips=serving.forwarded_allow_ips,
            on_ready=lambda url: _say(f"{summary}; serving {url}"),
            **_for_server(opened, serving),
        )


async def _serve_stdio(target: Target, options: GatewayOptions, serving: Serving, ending: Ending) -> None:
    from ..mcp import serve

    with output_reserved() as released:
        async with open_target(target, options) as opened:
            summary = summarise(opened.tools, serving)
            with released(), input_ended_by_signals(ending):
                await serve(opened.tools, on_ready=lambda _: _say(summary), **_for_server(opened, serving))


def _for_server(opened: Opened, serving: Serving) -> dict[str, Any]:
    return {
        "separator": serving.separator,
        "profile": serving.profile,
        "active": serving.active,
        "answers": serving.answers,
        "answer_tokens": serving.answer_tokens,
        "selection": serving.selection,
        "disclosure": serving.disclosure,
        "handles": opened.handles,
        "instructions": opened.instructions,
        **({"version": opened.version} if opened.version else {}),
        **({"limits": serving.limits} if serving.limits is not None else {}),
    }


def summarise(tools: ToolSet, serving: Serving) -> str:
    """Return in a line what is served, what of it is listed at first, and about how many tokens that saves."""
    costs, _ = costs_over_mcp(view_at_start(tools, serving.profile, serving.active))
    groups = len(costs.groups) - 1
    return (
        f"{counted(costs.tools, 'tool')} in {counted(groups, 'group')}; {costs.listed:,} listed at first "
        f"({about(costs.before)} → {about(costs.after)} tokens)"
    )


def _say(text: str) -> None:
    click.echo(f"toolfold: {text}", err=True)
