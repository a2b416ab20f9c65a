"""`toolfold serve`."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, frozen
from click.core import ParameterSource

from toolfold import ConfigError, Store, include_stubs
from toolfold.spi import extras_named
from toolfold_adapters.names import WIRE_SEPARATOR
from toolfold_adapters.observe.stored_usage import writing
from toolfold_adapters.tokens import ANSWER_TOKENS, plural
from toolfold_adapters.transport.signals import cancelled_by_signals, stdout_reserved
from toolfold_adapters.transport.starting import starting

from . import WAITING
from .costs import in_brief, initial_view, wire_costs
from .failures import run
from .logs import LEVELS, LogFormat, configure_logging
from .options import (
    FILE,
    Integer,
    Number,
    OneOf,
    ServerOption,
    TargetCommand,
    chosen_target,
    has_tags,
    parse_drafts,
    parse_limits,
    parse_names,
    parse_origin,
    parse_store,
    server_option,
    target_command,
)
from .targets import GatewayOptions, OpenTarget, Target, check_options, open_target

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from toolfold_adapters.gateway.callers.logins import CallerLogins
    from toolfold_adapters.mcp import Authentication
    from toolfold_adapters.mcp.serve import Era
    from toolfold_adapters.observe.trace import Trace

log = logging.getLogger("toolfold.cli")


@frozen(kw_only=True)
class HttpOptions:
    """The options that are only for HTTP."""

    host: str
    port: int
    path: str
    allow_host: tuple[str, ...]
    allow_origin: tuple[str, ...]
    forwarded_allow_ips: str | None
    shutdown_timeout: float
    auth: Path | None
    public_url: str | None
    live: str | None


SECTIONS: Mapping[str, str] = {
    "Over stdio": "era many-clients",
    "Over HTTP": "http host port path allow-host allow-origin forwarded-allow-ips shutdown-timeout auth public-url "
    "live",
    "What clients see": "profile list-profiles active control control-visibility separator delivery selection "
    "disclosure draft answers answer-tokens read-tool call-tools stubs status-tool",
    "Servers behind a gateway": "groups search share start-timeout",
    "Sessions, limits and records": "store limit max-active usage trace telemetry log-level log-format",
}
"""The headings of `toolfold serve --help`, and the options below each; the others stand below "Options"."""


class ServeCommand(TargetCommand):
    """A command whose help has its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, below the heading of each."""
        rows = {option.opts[-1].lstrip("-"): option.get_help_record(ctx) for option in self.get_params(ctx)}
        for heading, names in {**SECTIONS, "Options": " ".join(rows)}.items():
            shown = [row for name in names.split() if (row := rows.pop(name, None)) is not None]
            if shown:
                with formatter.section(heading):
                    formatter.write_dl(shown)


@target_command(
    "serve",
    "toolfold serve shop:tools",
    "toolfold serve shop:make_tools --http --port 8000",
    "toolfold serve gateway.toml --profile readonly",
    "toolfold serve claude_desktop_config.json",
    "toolfold serve https://example.org/mcp --control load_tool_group",
    "toolfold serve shop:tools --http --live",
    "toolfold serve shop:tools --http --store redis://localhost:6379/0",
    "toolfold serve --groups groups.toml -- npx -y some-mcp-server",
    cls=ServeCommand,
    context_settings={"auto_envvar_prefix": "TOOLFOLD"},
)
@click.option(
    "--http", "over_http", is_flag=True, envvar="TOOLFOLD_HTTP", help="Serve streamable HTTP instead of stdio."
)
@click.option(
    "--era",
    type=OneOf(["auto", "legacy"]),
    default="auto",
    show_default=True,
    help="Over stdio, the era that the client asks for; or that up to 2025-11-25 alone, in which what is opened enters "
    "the client's list.",
)
@click.option(
    "--many-clients",
    is_flag=True,
    help="Over stdio, what starts this passes on requests of several clients, so each of their states has a handle.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind.")
@click.option(
    "--port", type=Integer(0, 65535), metavar="PORT", default=8000, show_default=True, help="The port; 0 for any."
)
@click.option("--path", default="/mcp", show_default=True, help="The path of the endpoint.")
@click.option("--allow-host", multiple=True, metavar="NAME:PORT", help="A Host header to accept; PORT may be *.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="An Origin header to accept.")
@click.option(
    "--forwarded-allow-ips",
    metavar="ADDRESSES",
    help="The proxies whose X-Forwarded-For header is trusted, separated by commas; * for any.",
)
@click.option(
    "--shutdown-timeout",
    type=Number(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long calls in progress are given to finish when the server is asked to end.",
)
@click.option(
    "--auth",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="A .toml file that says whose bearer tokens are accepted: a table [tokens], or [oauth] for an OAuth server.",
)
@click.option(
    "--public-url",
    metavar="URL",
    callback=parse_origin,
    help="With --auth, the address at which callers reach this server, as in https://tools.example.org: there are the "
    "pages on which they log in at servers behind it. For an OAuth server it is that of its resource.",
)
@click.option(
    "--live",
    is_flag=False,
    flag_value="watch",
    type=OneOf(["watch", "control"]),
    help="Serve a page at /live that shows the sessions as they change; with --live=control groups can be opened and "
    "closed there. It is on loopback, or for the operators that --auth names.",
)
@server_option(
    "--limit",
    "limits",
    envvar="TOOLFOLD_LIMIT",
    multiple=True,
    callback=parse_limits,
    metavar="NAME=ALL[/EACH]",
    help="How many connections, sessions, handles, calls or streams there may be at a time, and from one caller, such "
    "as calls=500/50; none for no limit.",
)
@click.option(
    "--share",
    metavar="SERVERS",
    multiple=True,
    callback=parse_names,
    help="Servers that store nothing for a client, so that all share one connection to each; * for all servers.",
)
@server_option("--profile", metavar="NAME", help="The profile to serve.")
@server_option(
    "--active",
    metavar="GROUPS",
    multiple=True,
    callback=parse_names,
    help="Groups to open first, or servers, by commas.",
)
@click.option(
    "--log-level",
    type=OneOf(LEVELS),
    default="warning",
    show_default=True,
    help="What to log, from which level.",
)
@click.option("--log-format", type=OneOf(["text", "json"]), default="text", show_default=True, help="How to log it.")
@click.option(
    "--telemetry",
    is_flag=True,
    help="Record OpenTelemetry spans and metrics with the providers of this process, as opentelemetry-instrument makes "
    "them by OTEL_* variables.",
)
@click.option(
    "--stubs",
    is_flag=True,
    help="Offer declarations of the tools that can be called as the resources toolfold://stubs.py and .ts.",
)
@click.option(
    "--usage",
    callback=parse_store,
    metavar="URL",
    help="Where to record use for 30 days, for toolfold report: sqlite:///usage.db or redis://localhost:6379/0. "
    "Arguments and results are never recorded.",
)
@click.option(
    "--trace",
    type=FILE,
    metavar="FILE",
    help="Where to write what sessions do, a line for each step, for toolfold verify: which groups were asked for and "
    "opened, hooks, versions and leases; no arguments, results or facts. After 256 MB it goes on anew, and the file "
    "before it is FILE.1.",
)
@click.option(
    "--status-tool", is_flag=True, help="Offer the tool gateway_status, which says how each server and store is doing."
)
@click.option("--list-profiles", is_flag=True, help="Print the profiles and exit.")
@server_option(
    "--separator", default=WIRE_SEPARATOR, show_default=True, help="Replaces the dot in names that clients see."
)
@server_option(
    "--answers",
    type=OneOf(["auto", "definitions", "signatures", "names"]),
    default="auto",
    show_default=True,
    help="Answer the opening of a group with the definitions of its tools, with calls on one line without schemas, or "
    "with names; auto: definitions, or names where the client lists again automatically.",
)
@server_option(
    "--answer-tokens",
    type=int,
    default=None,
    show_default=f"{ANSWER_TOKENS}, or as the configuration says",
    metavar="N",
    help="The greatest length of such an answer, in approximate tokens.",
)
@server_option(
    "--read-tool/--no-read-tool",
    default=None,
    help="Offer read_tool beside call_tool, which calls only tools that say that they read, so that the approval of a "
    "client can tell them apart; on in front of other servers.",
)
@server_option(
    "--call-tools/--no-call-tools",
    default=False,
    help="Offer call_tools beside call_tool, which makes several calls in one request, in order or at the same time.",
)
@server_option(
    "--read-result/--no-read-result",
    default=None,
    help="Answer a result that is longer than the client's host passes on with its beginning, and offer such clients "
    "read_result, which reads the rest; on in front of other servers.",
)
@server_option(
    "--selection/--no-selection",
    default=True,
    help="Let requests name groups, in their URL or headers; or ignore that.",
)
@server_option(
    "--delivery",
    type=OneOf(["auto", "principal"]),
    default="auto",
    show_default=True,
    help="principal: each authenticated caller has lists of its own in the modern era, too.",
)
@server_option(
    "--store",
    callback=parse_store,
    metavar="URL",
    help="Where sessions are that outlive a request, so that they outlive this process, and others can serve them: "
    "sqlite:///state.db or redis://localhost:6379/0.",
)
@server_option("--disclosure/--no-disclosure", default=True, help="Offer the draft extension for groups, or don't.")
@server_option(
    "--draft",
    multiple=True,
    callback=parse_drafts,
    metavar="NAME[=VALUE]",
    help="Experimental: what is drafted for the next revision of MCP. tags[=ignore|honour|signal|reject]: lists have "
    "tags, and what a call is answered whose client knows an older list. ttl=SECONDS: how long the same tools are "
    "served, said of the lists that can't change. card=NAME: over HTTP, a server card below the endpoint's path, at "
    "/server-card. resolve: hosts can ask what a call by call_tool would do. requires: "
    "tools say what they need of clients, and refuse others.",
)
def serve_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    over_http: bool,
    era: Era,
    many_clients: bool,
    list_profiles: bool,
    log_level: str,
    log_format: LogFormat,
    telemetry: bool,
    stubs: bool,
    usage: Store | None,
    trace: Path | None,
    status_tool: bool,
    **given: Any,
) -> None:
    """Serve a TARGET's tools to MCP clients, in groups that open and close.

    TARGET is module:attribute, path/to/file.py:attribute, a file that configures a gateway or an MCP client (.toml,
    .json), a folder of skills, or the URL of an MCP server; after -- comes the command that starts one.
    Over stdio, standard output carries only the protocol; a summary and warnings go to standard error. Over HTTP,
    /health and /ready answer probes.

    Each option can be set in the environment too: --port as TOOLFOLD_PORT; several values are separated by spaces.
    """
    configure_logging(log_level, log_format)
    http = HttpOptions(**{name: given.pop(name) for name in HttpOptions.__annotations__})
    server_options = [option for option in ctx.command.params if isinstance(option, ServerOption)]
    server = {name: given.pop(name) for option in server_options if (name := option.name)}
    changed = [name for option in server_options if (name := option.name) and option.is_changed(server[name])]
    set_by_user = [name for name in asdict(http) if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if era != "auto" and over_http:
        raise click.UsageError("--era is for stdio: over HTTP each request says its era.", ctx)
    if server["delivery"] == "principal" and not over_http:
        raise click.UsageError("--delivery=principal is for HTTP, where callers are authenticated: add --http.", ctx)
    if set_by_user and not over_http:
        raise click.UsageError(f"--{set_by_user[0].replace('_', '-')} is for HTTP: add --http, or leave it out.", ctx)
    target, options = chosen_target(ctx, targets, **given)
    if list_profiles:
        from .profiles import show_profiles

        show_profiles(target, options)
        return
    tracer = None if trace is None else _tracer(ctx, trace)
    beside = Beside(telemetry, stubs, status_tool, usage, server["store"], tracer)
    if tracer is not None and server["store"] is not None:
        server["store"] = tracer.around(server["store"])
    callers = Callers(many=over_http or many_clients, authentication=http.auth, public_url=http.public_url)
    tags = has_tags(server["draft"])
    opening = partial(_open, target, options, server["active"], changed, beside, callers, tags=tags)
    with cancelled_by_signals() as shutdown, extras_named(), starting(over_http=over_http) as started:
        if over_http:
            run(partial(_serve_http, opening, server, http, started))
        else:
            run(partial(_serve_stdio, opening, server, started, era=era, many_clients=many_clients))
    shutdown.exit_if_signalled()


@frozen
class Beside:
    """What is recorded of a target that is served, and offered beside it."""

    telemetry: bool
    stubs: bool
    status_tool: bool
    usage: Store | None
    store: Store | None
    trace: Trace | None


def _tracer(ctx: click.Context, file: Path) -> Trace:
    from toolfold_adapters.observe.trace import Trace

    try:
        return Trace(file)
    except OSError as error:
        raise click.UsageError(f"--trace: {file} can't be written: {error.strerror or error}.", ctx) from error


@frozen(kw_only=True)
class Callers:
    """Whether one process serves many, the file that says whose tokens are accepted, and where they reach its pages."""

    many: bool
    authentication: Path | None
    public_url: str | None


Opening = Callable[[], AbstractAsyncContextManager[OpenTarget]]


@asynccontextmanager
async def _open(
    target: Target,
    options: GatewayOptions,
    active: tuple[str, ...],
    changed: Sequence[str],
    beside: Beside,
    callers: Callers,
    *,
    tags: bool,
) -> AsyncGenerator[OpenTarget]:
    from .authentication import variables_of

    own = variables_of(callers.authentication)
    async with AsyncExitStack() as stack:
        logins = None
        if target.is_gateway and callers.authentication is not None:
            logins = await stack.enter_async_context(_logins(callers.authentication, callers.public_url, beside.store))
        opened = await stack.enter_async_context(
            open_target(
                target,
                options,
                serving=True,
                active=active,
                many_callers=callers.many,
                own_variables=own,
                callers=logins,
                definition_tags=tags,
            )
        )
        if opened.server is not None:
            check_options(opened.tools.name, changed)
        if beside.telemetry:
            from toolfold_adapters.integrations.otel import instrument, is_configured

            if not is_configured():
                log.warning(
                    "--telemetry records no spans: start this with opentelemetry-instrument, which exports them."
                )
            instrument(opened.tools)
        if beside.stubs:
            include_stubs(opened.tools)
        if beside.status_tool:
            from toolfold_adapters.observe.status import include_status

            include_status(opened.tools, opened.status_for, beside.store)
        if beside.trace is not None:
            stack.callback(beside.trace.close)
            stack.callback(beside.trace.listen(opened.tools))
        if beside.usage is None:
            yield opened
            return
        async with aclosing(beside.usage), writing(opened.tools, beside.usage):
            yield opened


@asynccontextmanager
async def _logins(authentication: Path, public_url: str | None, store: Store | None) -> AsyncGenerator[CallerLogins]:
    """Yield what the callers of a gateway log in with at its servers (SPEC GWY-19)."""
    from toolfold_adapters.gateway.callers.logins import CallerLogins

    from .authentication import load_authentication
    from .credentials import open_credentials

    resource = load_authentication(authentication).settings.resource_server_url
    if public_url is None and resource is not None:
        public_url = str(resource)[: -len(resource.path or "")] if resource.path else str(resource)
    async with open_credentials(store) as credentials:
        yield CallerLogins(credentials, public_url, issued=resource is not None)


def _pages(opened: OpenTarget, auth: Authentication | None) -> ASGIApp | None:
    """Return the pages on which the callers of a gateway log in at its servers, if they can be reached."""
    callers = None if opened.gateway is None else opened.gateway.callers
    if callers is None or callers.public_url is None:
        return None
    from toolfold_adapters.gateway.callers.pages import LoginPages

    return LoginPages(callers, auth)


def _status(opened: OpenTarget, store: Store | None) -> Awaitable[Sequence[Mapping[str, Any]]]:
    from toolfold_adapters.observe.status import status_of

    return status_of(opened.tools, opened.status, store)


async def _serve_http(
    opening: Opening, server: Mapping[str, Any], http: HttpOptions, started: Callable[[], None]
) -> None:
    from toolfold_adapters.mcp import serve
    from toolfold_diagrams import live

    from .authentication import load_authentication

    auth = None if http.auth is None else load_authentication(http.auth)
    async with checked(server["store"]), opening() as opened:
        arguments = _server_arguments(opened, server, over_http=True)
        summary = summarise(opened, server)
        await serve(
            opened.server or opened.tools,
            transport="http",
            host=http.host,
            port=http.port,
            path=http.path,
            allowed_hosts=http.allow_host,
            allowed_origins=http.allow_origin,
            forwarded_allow_ips=http.forwarded_allow_ips,
            shutdown_timeout=http.shutdown_timeout,
            auth=auth,
            live=None
            if http.live is None
            else live(opened.tools, control=http.live == "control", status=partial(_status, opened, server["store"])),
            logins=_pages(opened, auth),
            on_ready=partial(_announce_http, summary, http, started),
            **arguments,
        )


def _announce_http(summary: str, http: HttpOptions, started: Callable[[], None], url: str) -> None:
    started()
    live = "" if http.live is None else f"live page at {url.removesuffix(http.path)}/live/; "
    _announce(f"{summary}; {live}serving {url}")


async def _serve_stdio(
    opening: Opening, server: Mapping[str, Any], started: Callable[[], None], **over_stdio: Any
) -> None:
    from toolfold_adapters.mcp import serve

    typed = sys.stdin.isatty()  # asked now, since the server takes standard input away

    def announce(_: str) -> None:
        started()
        _announce(f"{summary}; {WAITING}" if typed else summary)

    with stdout_reserved() as released:
        async with checked(server["store"]), opening() as opened:
            arguments = _server_arguments(opened, server, over_http=False)
            summary = summarise(opened, server)
            with released():
                served = opened.server or opened.tools
                await serve(served, on_ready=announce, **over_stdio, **arguments)


@asynccontextmanager
async def checked(store: Store | None) -> AsyncGenerator[None]:
    """Check that a store can be used, if there is one, and close it at the end."""
    if store is None:
        yield
        return
    try:
        await store.due("", 1)
        yield
    finally:
        await store.aclose()


def _server_arguments(opened: OpenTarget, server: Mapping[str, Any], *, over_http: bool) -> dict[str, Any]:
    """Return what `serve` is given: what the user said, and for a gateway what it has.

    A gateway has short handles (SPEC DEL-3) and more to answer (GWY-1); its configuration may change.
    """
    if opened.server is not None:
        return {}
    arguments: dict[str, Any] = {
        **server,
        "active": opened.groups_of(server["active"]),
        "answer_tokens": ANSWER_TOKENS if server["answer_tokens"] is None else server["answer_tokens"],
        "read_tool": _offers_read_tool(opened, server),
        "read_result": opened.gateway is not None if server["read_result"] is None else server["read_result"],
    }
    if (gateway := opened.gateway) is not None:
        report = gateway.report
        arguments |= {"handles": "stored", "extend": gateway.extend, "instructions": report.instructions}
        arguments |= {"version": report.version} if report.version else {}
        if server["answer_tokens"] is None:
            arguments["answer_tokens"] = lambda: gateway.config.budgets.answer_tokens
    arguments = {name: value for name, value in arguments.items() if value or name not in ("limits", "store")}
    return with_drafts(arguments, over_http=over_http)


def with_drafts(arguments: dict[str, Any], *, over_http: bool) -> dict[str, Any]:
    """Return what `build_server` is given, with what adds drafts in place of the option that names them.

    Raises:
        ConfigError: One is of HTTP alone, and this is not.
    """
    if given := arguments.pop("draft", ()):
        from toolfold_adapters.mcp.extensions.drafts import DRAFTS, drafts, values_of

        if not over_http and (alone := [name for name in values_of(given) if DRAFTS[name].only_http]):
            raise ConfigError(f"--draft {alone[0]} is for HTTP: add --http, or leave it out.")

        arguments["extend"] = drafts(given, arguments.get("extend"))
    return arguments


def _offers_read_tool(opened: OpenTarget, server: Mapping[str, Any]) -> bool:
    """Return whether there is `read_tool`, as a gateway offers it unless the user says otherwise (SPEC CTL-9)."""
    return opened.gateway is not None if server["read_tool"] is None else bool(server["read_tool"])


def summarise(opened: OpenTarget, server: Mapping[str, Any]) -> str:
    """Return a line on what is served, how much of it is listed at first, and about how many tokens that saves."""
    if opened.gateway is not None and (unknown := opened.gateway.unknown):
        return f"{plural(len(unknown), 'server')} will be asked for tools, which come as they start"
    view = initial_view(opened.tools, server["profile"], opened.groups_of(server["active"]))
    costs, _ = wire_costs(view, read_tool=_offers_read_tool(opened, server), call_tools=server["call_tools"])
    return in_brief(costs)


def _announce(text: str) -> None:
    click.echo(f"toolfold: {text}", err=True)
