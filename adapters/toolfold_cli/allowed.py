"""What a caller of a gateway may do, for `toolfold check --as` (SPEC GWY-19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import click

from toolfold import Component
from toolfold_adapters.gateway.callers.rights import Rights
from toolfold_adapters.gateway.config.settings import EVERYBODY, Access, RightsConfig
from toolfold_adapters.mcp.principal import Principal

from .costs import Inspected
from .printing import show, show_json, table

KINDS: tuple[Access, ...] = ("read", "write", "destructive")


def principal_called(name: str, claims: Iterable[str]) -> Principal:
    """Return a caller of a name, whose token has claims that are written NAME=VALUE; raises `click.UsageError`."""
    given: dict[str, list[str]] = {}
    for claim in claims:
        key, sign, value = claim.partition("=")
        if not key or not sign:
            raise click.UsageError(f"--claim {claim!r} is not NAME=VALUE, such as role=admin.")
        given.setdefault(key, []).append(value)
    return Principal(name, None, name, given)


def show_allowed(found: Inspected, rights: Rights, principal: Principal, *, as_json: bool) -> None:
    """Print how many tools of each server a caller may call, by what they say of themselves, and its limits."""
    catalog = found.view.snapshot.catalog
    every = {one.name: one for one in (catalog.whole or catalog).tools.values() if one.name in found.servers}
    has, may = (
        Counter((found.servers[name], kind_of(tool)) for name, tool in every.items() if name in own)
        for own in (every, catalog.tools)
    )
    servers = list(dict.fromkeys(found.servers[name] for name in every))
    key = rights.key(principal) if rights.rows else None
    if as_json:
        tools = [{"name": name, "server": found.servers[name], "does": kind_of(one)} for name, one in every.items()]
        show_json({"row": key, "tools": [{**one, "may": one["name"] in catalog.tools} for one in tools]})
        return
    rows = table("SERVER", *(kind.upper() for kind in KINDS))
    for server in servers:
        rows.add_row(server, *(_share(may[server, kind], has[server, kind]) for kind in KINDS))
    show(rows)
    show(_said(key, rights.rows))


def kind_of(tool: Component) -> Access:
    """Return what a tool does, by what it says of itself: without hints it may destroy."""
    hints: Mapping[str, Any] = tool.definition.get("annotations") or {}
    if hints.get("readOnlyHint") is True:
        return "read"
    return "write" if hints.get("destructiveHint") is False else "destructive"


def _share(may: int, has: int) -> str:
    return f"{may} of {has}" if has else "-"


def _said(key: str | None, rows: Mapping[str, RightsConfig]) -> str:
    """Return the row that says so, and the limits in it."""
    if key is None:
        return "There are no rows of rights, so every caller may do everything."
    row = rows[key]
    limits = {
        "sessions at a time": row.sessions,
        "calls a minute": row.calls_per_minute,
        "tokens a day": row.tokens_per_day,
    }
    said: list[Any] = [f"{number:,} {what}" for what, number in limits.items() if number is not None]
    more = [f"within the profile {row.profile}"] if row.profile else []
    more += [f"at most {', '.join(said)}"] if said else []
    which = "the row of all others" if key == EVERYBODY else f"the row {key}"
    return f"By {which}: {'; '.join([row.access, *more])}."
