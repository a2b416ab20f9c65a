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

    The server is not asked to revoke anything: do that there, if somebody else may have got the token.
    """
    run(partial(_log_out, server, principal, issuer, store))


async def _log_out(server: str, principal: str | None, issuer: str | None, store: Store | None) -> None:
    if principal is None:
        ended = forget_own(server)
    else:
        ended = 0
        async with open_credentials(store) as credentials:
            for key, one in await credentials.listed():
                if one.server == server and called(one.principal, issuer) == principal:
                    ended += await credentials.remove(key)
    if not ended:
        raise Failed(f"There is no login at {server}; `toolfold logins` shows all.")
    show(f"{plural(ended, 'login')} at {server} ended.")
