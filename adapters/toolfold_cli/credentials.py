"""What commands share that use the credentials of a gateway's callers, or of the user (SPEC GWY-19)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolfold import ConfigError, Store

if TYPE_CHECKING:
    from toolfold_adapters.gateway.callers.credentials import Credentials
    from toolfold_adapters.gateway.callers.keys import Keys
    from toolfold_adapters.gateway.upstream.tokens import Stored


F = TypeVar("F", bound=Callable[..., Any])


def as_option(command: F) -> F:
    """Add the options that name a caller of a gateway."""
    principal = click.option(
        "--as", "principal", metavar="PRINCIPAL", help="A caller of the gateway: the name of a token, or a subject."
    )
    issuer = click.option("--issuer", metavar="URL", help="The OAuth issuer of that subject.")
    return principal(issuer(command))


def store_option(parse: Callable[..., Any]) -> Callable[[F], F]:
    """Return what adds the option that says where the credentials are."""
    return click.option(
        "--store",
        callback=parse,
        metavar="URL",
        envvar="TOOLFOLD_STORE",
        help="The store that the gateway is served with; without one, credentials are in a file of this machine.",
    )


def called(identity: str, issuer: str | None = None) -> str:
    """Return what people call a principal, by its identity: with its issuer, unless that is the one that is given.

    That of an exchanged token has its client and its scopes, too (see `whose`).
    """
    at, *names = json.loads(identity)
    if names and isinstance(names[0], list):
        _, at, *names = json.loads(at)
    name = str(names[-1])
    return name if at in (None, issuer) else f"{name} of {at}"


def own_logins() -> list[dict[str, Any]]:
    """Return the logins of the user of this machine, as data without secrets."""
    from toolfold_adapters.gateway.stored import stored_folder
    from toolfold_adapters.gateway.upstream.logins import own_logins as found

    return found(stored_folder("tokens"))


def forget_own(server: str) -> list[Stored]:
    """End the logins of the user at a server, and return what these were."""
    from toolfold_adapters.gateway.stored import stored_folder
    from toolfold_adapters.gateway.upstream.logins import forget_own as forget

    return forget(stored_folder("tokens"), server)


@asynccontextmanager
async def open_credentials(store: Store | None) -> AsyncGenerator[Credentials]:
    """Yield the credentials of callers: in the store of the sessions, or else in a file of this machine.

    Args:
        store: The store of the sessions, if they have one; it is not closed.
    """
    from toolfold_adapters.gateway.stored import stored_folder
    from toolfold_adapters.stores import MemoryStore, SQLiteStore

    folder = stored_folder("tokens")
    if store is not None:
        here = isinstance(store, SQLiteStore | MemoryStore)
        yield await _with_keys(store, folder if here else None, "the store")
        return
    path = folder / "credentials.db"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with SQLiteStore(path) as own:
        yield await _with_keys(own, folder, str(path))


async def _with_keys(store: Store, folder: Path | None, place: str) -> Credentials:
    """Return the credentials in a store; a key is made for them only if there are none that another has encrypted."""
    from toolfold_adapters.gateway.callers.credentials import Credentials
    from toolfold_adapters.gateway.callers.keys import OWN_FILE, VARIABLE, keys_of

    found = Credentials(store, partial(keys_of, os.environ, folder))
    if folder is None or os.environ.get(VARIABLE, "").strip() or (folder / OWN_FILE).exists():
        return found
    if not await found.has_any():
        return found
    lost = (
        f"the key in {folder / OWN_FILE} is gone, and {place} has credentials that it has encrypted: put it back or "
        f"set {VARIABLE}; without it, remove {place}, and everybody logs in anew"
    )

    def refused() -> Keys:
        raise ConfigError(lost)

    return Credentials(store, refused)
