"""`toolfold login`: a credential for a server, of the user or of a caller of a gateway (SPEC GWY-8, GWY-19)."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from toolfold import Store

from .credentials import as_option, open_credentials, store_option
from .failures import Failed, run
from .options import chosen_target, parse_store, target_command
from .printing import show
from .targets import GatewayOptions, Target, configuration

if TYPE_CHECKING:
    from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig

MOST_CHARACTERS = 16 * 1024


@target_command(
    "login",
    "toolfold login gateway.toml --server board",
    "toolfold login gateway.toml --server board --token - < token.txt",
    "toolfold login gateway.toml --server wiki --as alice --token -",
)
@click.option("--server", metavar="NAME", help="The server, as the configuration calls it; it needs none if it is one.")
@click.option("--token", metavar="-", help="A token instead of a login: - reads it from standard input.")
@as_option
@store_option(parse_store)
def login_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    server: str | None,
    token: str | None,
    principal: str | None,
    issuer: str | None,
    store: Store | None,
    **given: Any,
) -> None:
    """Log in at a server of a TARGET, and store what it takes to use it.

    Without --as that is for you, on this machine: the browser opens, unless --token gives a token or the server has one
    of each caller. With --as it is for a caller of a gateway that is served with --auth, in its --store: a token alone.
    What is typed is not shown, and a token on the command line is refused, since others can read that.
    """
    target, options = chosen_target(ctx, targets, **given)
    if not target.is_gateway:
        raise click.UsageError(f"{target.text} has tools of its own; there is nowhere to log in.", ctx)
    if token not in (None, "-"):
        raise click.UsageError("A token on the command line can be read by others: give --token - and its text.", ctx)
    run(partial(_log_in, target, options, server, token == "-", principal, issuer, store))


async def _log_in(
    target: Target,
    options: GatewayOptions,
    server: str | None,
    from_input: bool,
    principal: str | None,
    issuer: str | None,
    store: Store | None,
) -> None:
    config = configuration(target, options)
    name = _server(config, server)
    upstream = config.upstreams[name]
    if upstream.url is None:
        raise Failed(f"{name} is started by a command; it has no login.")
    by_token = from_input or principal is not None or upstream.token is not None
    if not by_token:
        await _in_browser(config, name)
    elif principal is None:
        _store_own(name, upstream, _token(from_input))
    else:
        _check_known(config, principal, issuer)
        await _store_for(name, upstream, _token(from_input), principal, issuer, store)
    show(f"Logged in at {name}{'' if principal is None else f' as {principal}'}.")


def _check_known(config: GatewayConfig, principal: str, issuer: str | None) -> None:
    """Raise `Failed` for a caller who has no rights, as far as that can be told without a token."""
    from toolfold_adapters.gateway.config.settings import CLAIM, EVERYBODY

    rows = config.rights
    if rows and principal not in rows and EVERYBODY not in rows and not any(key.startswith(CLAIM) for key in rows):
        who = principal if issuer is None else f"{principal} of {issuer}"
        raise Failed(
            f"{who} has no row of rights in {config.source}, which has those of {', '.join(rows)}: check the name."
        )


def _server(config: GatewayConfig, server: str | None) -> str:
    names = [*config.upstreams]
    if server in names:
        return server
    if server is None and len(names) == 1:
        return names[0]
    raise Failed(f"Say which server by --server: there are {', '.join(names)}.")


def _token(from_input: bool) -> str:
    """Return the token that is given, which nobody sees."""
    if from_input:
        given = sys.stdin.read(MOST_CHARACTERS).strip()
    else:
        given = str(click.prompt("Token", hide_input=True, err=True)).strip()
    if not given or not given.isascii() or not given.isprintable():
        raise Failed("That is no token: it has to be printable, on one line.")
    return given


async def _in_browser(config: GatewayConfig, name: str) -> None:
    from toolfold_adapters.clock import elapsed
    from toolfold_adapters.gateway import Runtime, open_gateway
    from toolfold_adapters.gateway.stored import stored_folder
    from toolfold_adapters.gateway.upstream.transports import Transports

    runtime = Runtime(clock=elapsed, transport=Transports(stored_folder("tokens")))
    async with open_gateway(config.alone([name]), runtime=runtime):
        pass


def _store_own(name: str, upstream: UpstreamConfig, token: str) -> None:
    from toolfold_adapters.gateway.stored import stored_folder
    from toolfold_adapters.gateway.upstream.logins import own_tokens

    if problem := own_tokens(name, upstream, stored_folder("tokens")).give(token):
        raise Failed(f"The token can't be stored: {problem}.")


async def _store_for(
    name: str, upstream: UpstreamConfig, token: str, principal: str, issuer: str | None, store: Store | None
) -> None:
    from toolfold_adapters.gateway.callers.acting import whose
    from toolfold_adapters.gateway.callers.credentials import Credential
    from toolfold_adapters.gateway.upstream.logins import login_key
    from toolfold_adapters.mcp.principal import Principal

    if upstream.token is None:
        raise Failed(
            f"{name} has a login of each caller: who calls is told the page. Tokens are for servers with token."
        )
    identity = whose(upstream, Principal(principal, issuer))
    given = Credential(principal=identity, server=name, url=upstream.url or "", form="token", secret={"token": token})
    async with open_credentials(store) as credentials:
        await credentials.write(login_key(name, upstream, identity), given)
