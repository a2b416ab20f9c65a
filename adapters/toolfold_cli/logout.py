"""`toolfold logout`: the end of logins at a server (SPEC GWY-19)."""

from __future__ import annotations

from functools import partial

import click

from toolfold import Store
from toolfold_adapters.tokens import plural

from .credentials import as_option, called, forget_own, open_credentials, store_option
from .failures import Failed, run
from .options import examples, parse_store
from .printing import show


@click.command("logout", epilog=examples("toolfold logout board", "toolfold logout board --as alice"))
@click.argument("server")
@as_option
@store_option(parse_store)
def logout_command(server: str, principal: str | None, issuer: str | None, store: Store | None) -> None:
    """End your login at SERVER, or with --as that of a caller of a gateway, which ends his connections there.

    Its authorization server is asked to end the grant, too, where it says how; otherwise what is printed says so. A
    token that somebody has made himself still counts: revoke that at SERVER.
    """
    run(partial(_log_out, server, principal, issuer, store))


async def _log_out(server: str, principal: str | None, issuer: str | None, store: Store | None) -> None:
    from toolfold_adapters.gateway.upstream.logins import revoke
    from toolfold_adapters.gateway.upstream.tokens import STORED

    ended = [] if principal is not None else forget_own(server)
    if principal is not None:
        async with open_credentials(store) as credentials:
            for key, one in await credentials.listed():
                if one.server == server and called(one.principal, issuer) == principal:
                    whole = await credentials.read(key)
                    if await credentials.remove(key):
                        oauth = whole is not None and whole.form == "oauth"
                        ended.append(STORED.validate_python(whole.secret) if whole and oauth else {})
    if not ended:
        raise Failed(f"There is no login at {server}; `toolfold logins` shows all.")
    show(f"{plural(len(ended), 'login')} at {server} ended.")
    for stored in ended:
        if "tokens" in stored and (why := await revoke(stored)):
            where = stored.get("issuer", "its authorization server")
            show(f"The grant may still count at {where}, since {why}: end it there.")
