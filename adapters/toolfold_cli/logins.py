"""`toolfold logins`: who is logged in at which servers (SPEC GWY-19)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from toolfold import Store

from .credentials import called, open_credentials, own_logins, store_option
from .failures import run
from .options import examples, parse_store
from .printing import show, show_json, table


@click.command("logins", epilog=examples("toolfold logins", "toolfold logins --store redis://localhost:6379/0"))
@store_option(parse_store)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--new-key", is_flag=True, help="Print a new key for TOOLFOLD_CREDENTIALS_KEY, and do nothing else.")
def logins_command(store: Store | None, as_json: bool, new_key: bool) -> None:
    """Show who is logged in at which servers, since when, and until when without being renewed.

    No secret is shown. What an older key of TOOLFOLD_CREDENTIALS_KEY has encrypted is encrypted with the first one.
    """
    if new_key:
        from toolfold_adapters.gateway.callers.keys import new_key as made

        click.echo(made())
        return
    rows: list[dict[str, Any]] = run(partial(_listed, store))
    if as_json:
        show_json(rows)
    elif not rows:
        show("Nobody is logged in.")
    else:
        shown = table("who", "server", "by", "since", "until")
        for row in rows:
            who = "you" if row["principal"] is None else called(row["principal"])
            shown.add_row(who, row["server"], row["form"], _time(row["since"]), _time(row["expires_at"]))
        show(shown)


async def _listed(store: Store | None) -> list[dict[str, Any]]:
    from toolfold_adapters.gateway.callers.credentials import described

    async with open_credentials(store) as credentials:
        return [*own_logins(), *described(await credentials.listed())]


def _time(given: float | None) -> str:
    return "" if given is None else datetime.fromtimestamp(given, UTC).strftime("%Y-%m-%d %H:%M UTC")
